"""Facts that all nodes share: groups, partitions, roots, routing rules and the round.

A *session* is a partition of a group: session g * k + i is partition i of the group with index g.

Rules: docs/rules.md, B1 to B5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import NONE, whole_numbers
from scribe_spark.core.key_limits import refuse_groups
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.ring import Keys, Ring
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.pastry import closeness
from scribe_spark.pastry.next_hop import Met, hop, table_entry
from scribe_spark.pastry.states import CELLS, IsAlive, States
from scribe_spark.rounds.lives import KnowsLives, is_node
from scribe_spark.rounds.observer import Observer
from scribe_spark.underlay.protocol import Kernel

#: The rule that selects the root of a key by surrogate routing, not by Pastry.
SURROGATE = "surrogate"

#: How TREE messages are routed: by routing tables alone, or also by leaf sets.
TABLE, LEAF_SET = "table", "leaf_set"


def partition_keys(group_ids: Keys, partitions: int) -> Keys:
    """Return the keys of all partitions; partition i of group g has index g * partitions + i.

    The keys of a group are evenly spaced on the ring; the first is the groupId.
    """
    steps = [i * (2**128 // partitions) for i in range(partitions)]
    step_hi = np.array([step >> 64 for step in steps], dtype=np.uint64)
    step_lo = np.array([step % 2**64 for step in steps], dtype=np.uint64)
    lo = group_ids.lo[:, None] + step_lo
    hi = group_ids.hi[:, None] + step_hi + (lo < step_lo)
    return Keys(hi.ravel(), lo.ravel())


def find_roots(ring: Ring, keys: Keys, partitions: int, rule: str, b: int) -> np.ndarray:
    """Return roots: (G, partitions); NONE if an earlier partition has the same one."""
    if rule == SURROGATE:
        found = surrogate_roots(ring, keys, b)
    else:
        found = closeness.roots(ring, np.arange(len(ring)), keys)
    roots = found.reshape(-1, partitions)
    for i in range(1, partitions):
        again = (roots[:, :i] == roots[:, i, None]).any(axis=1)
        roots[again, i] = NONE
    return roots


def surrogate_roots(ring: Ring, keys: Keys, b: int) -> np.ndarray:
    """Return the node where surrogate routing ends for each key: positions, int64.

    The search narrows the set of nodes digit by digit: it keeps the nodes with the first next digit
    that occurs among them, starting at the key's digit, cyclically.
    """
    shared = ids.shared_digits_np(ring.hi[1:], ring.lo[1:], ring.hi[:-1], ring.lo[:-1], b)
    low = np.zeros(len(keys), dtype=np.int64)
    high = np.full(len(keys), len(ring))
    for row in range(int(shared.max(initial=-1)) + 1):
        # nodes that share the first `row` digits form a run; `number` combines run and next digit
        run = np.cumsum(np.r_[True, shared < row]) * 2**b
        number = run + ids.digit_np(ring.hi, ring.lo, row, b)
        wanted = run[low] + ids.digit_np(keys.hi, keys.lo, row, b)
        first = np.searchsorted(number, wanted)
        first = np.where(first < high, first, low)
        high = np.searchsorted(number, number[first], side="right")
        low = first
    return low


# --- next hop

#: ``rule(first, tables, at, keys)`` returns the next hops of messages in a bucket, and the dead
#: nodes that they met; `first` is the position of the bucket's first node.
Hop = Callable[[int, Tables, np.ndarray, Keys], tuple[np.ndarray, Met]]


def table_hop(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, Met]:
    """Return next hops by routing tables alone, and the dead nodes that messages met.

    If the cell is empty or its node is dead, the message takes Pastry's next hop.  That may try the
    same node again, which is then reported twice.  The arguments are those of `next_hop.hop`.
    """
    onward, _ = table_entry(states, at, keys)
    dead = np.flatnonzero((onward >= 0) & ~is_alive(onward))
    met = onward[dead]
    rest = np.flatnonzero(~is_alive(onward))
    onward[rest], more = hop(states, is_alive, at[rest], keys.take(rest))
    return onward, Met(np.r_[dead, rest[more.message]], np.r_[met, more.dead])


def by_knowledge(facts: KnowsRing, is_alive: IsAlive, hops: str) -> Hop:
    """Return the rule by the leaf sets and routing tables in a bucket, around dead nodes."""
    return partial(_hop_of_bucket, facts, is_alive, table_hop if hops == TABLE else hop)


def _hop_of_bucket(
    facts: KnowsRing,
    is_alive: IsAlive,
    rule: Callable[[States, IsAlive, np.ndarray, Keys], tuple[np.ndarray, Met]],
    first: int,
    tables: Tables,
    at: np.ndarray,
    keys: Keys,
) -> tuple[np.ndarray, Met]:
    return rule(States.of_tables(facts.ring, first, tables), is_alive, at, keys)


@dataclass(frozen=True)
class Settled:
    """Routing by an overlay's rule, when no node has died (`Hop`)."""

    rule: NextHop

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, keys: Keys
    ) -> tuple[np.ndarray, Met]:
        met = Met(whole_numbers(), whole_numbers())
        return self.rule(first, tables, at, keys.hi, keys.lo), met


@dataclass(frozen=True)
class SurrogateNextHop:
    """Surrogate routing to a key.

    In each row, the next digit is the first one with an entry, starting at the key's digit,
    cyclically.
    """

    facts: KnowsRing

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.next_hop.NextHop`."""
        ring, cells = self.facts.ring, tables[CELLS]["cells"]
        base, b = cells.shape[2], cells.shape[2].bit_length() - 1
        onward = at.copy()
        searching = np.arange(len(at))
        for row in range(cells.shape[1]):
            here = at[searching]
            own = ids.digit_np(ring.hi[here], ring.lo[here], row, b)
            wanted = ids.digit_np(key_hi[searching], key_lo[searching], row, b)
            entries = cells[here - first, row]
            # the entries of the row, beginning with the wanted digit
            order = (wanted[:, None] + np.arange(base)) % base
            filled = np.take_along_axis(entries, order, axis=1) >= 0
            filled |= order == own[:, None]
            place = filled.argmax(axis=1)
            digit = (wanted + place) % base
            goes = digit != own
            onward[searching[goes]] = entries[goes, digit[goes]]
            searching = searching[~goes]
        return onward


# --- sessions


@dataclass(frozen=True)
class Round:
    """A round of a world."""

    number: int
    lives: KnowsLives
    #: ``born``: the round of each node's last arrival or recovery; -1 if there is none.
    shared: Mapping[str, np.ndarray]
    lost: np.ndarray  # bool, (G,): True for sessions whose root has died


@dataclass(frozen=True)
class Sessions:
    """All sessions of a run, or of a round of a world; picklable."""

    bounds: np.ndarray  # (B + 1,)
    facts: KnowsRing
    kernel: Kernel
    lan_us: int
    keys: Keys
    roots: np.ndarray  # (G, k): the positions of the roots; -1 if a partition does not exist
    #: The routing rules of messages to roots, and of TREEs.
    to_root: Hop
    to_member: Hop
    round: Round | None = None  # the round of a world; None in a run, where all nodes are alive
    #: Counts the messages of a world; a run records them in tables (`protocol.SENT`).
    observer: Observer | None = None

    @classmethod
    def of(
        cls,
        bounds: np.ndarray,
        facts: KnowsRing,
        kernel: Kernel,
        lan_us: int,
        group_ids: Keys,
        usual: NextHop,
        *,
        b: int,
        partitions: int,
        root: str,
        hops: str,
    ) -> Sessions:
        """Return the sessions of a run, for groupIds in the order of the groups' numbers."""
        because = f"bayeux_partitions = {partitions}"
        refuse_groups(len(group_ids), len(facts.ring), times=partitions, because=because)
        keys = partition_keys(group_ids, partitions)
        roots = find_roots(facts.ring, keys, partitions, root, b)
        to_root = Settled(SurrogateNextHop(facts) if root == SURROGATE else usual)
        to_member = by_knowledge(facts, is_node, TABLE) if hops == TABLE else Settled(usual)
        return cls(bounds, facts, kernel, lan_us, keys, roots, to_root, to_member)

    @property
    def size(self) -> int:
        """K, the number of nodes; the keys of tables are built from it."""
        return len(self.facts.ring)

    @property
    def number(self) -> int:
        """The number of the round; 0 in a run."""
        return 0 if self.round is None else self.round.number

    def observe(
        self,
        tables: Tables,
        kind: str,
        sender: np.ndarray,
        to: np.ndarray,
        lost: np.ndarray | bool,
    ) -> None:
        """Count messages of a world in a bucket."""
        assert self.observer is not None
        self.observer.send(tables, kind, ~np.broadcast_to(lost, len(sender)), sender, to)

    def is_good(self, onward: np.ndarray, written: np.ndarray) -> np.ndarray:
        """Return True for entries whose next hop can be reached: rule B12."""
        if self.round is None:
            return np.ones(len(onward), dtype=bool)
        return self.round.lives.is_alive(onward) & (self.round.shared["born"][onward] <= written)

    @property
    def partitions(self) -> int:
        """k, the maximal number of partitions of a group."""
        return self.roots.shape[1]

    @property
    def root_of(self) -> np.ndarray:
        """The root of each session."""
        return self.roots.ravel()

    def delays(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return D between pairs of nodes, in microseconds: int64; 0 for equal nodes."""
        router = self.facts.ring.router
        delay_us = self.kernel.delays(router[one], router[other]) + 2 * self.lan_us
        return np.where(one == other, 0, delay_us)

    def nearest(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the session that each node joins in a group: that of the nearest root, rule B4."""
        if self.partitions == 1:
            return group
        roots, best = self.roots[group], np.zeros(len(group), dtype=np.int64)
        least = self.delays(node, roots[:, 0])
        for i in range(1, self.partitions):
            rows = np.flatnonzero(roots[:, i] >= 0)
            delay_us = self.delays(node[rows], roots[rows, i])
            before = roots[rows, best[rows]]
            nearer = delay_us < least[rows]
            nearer |= (delay_us == least[rows]) & (roots[rows, i] < before)
            best[rows[nearer]], least[rows[nearer]] = i, delay_us[nearer]
        return group * self.partitions + best
