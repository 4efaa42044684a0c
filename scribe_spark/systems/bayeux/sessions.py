"""Facts that all nodes share: groups, partitions, roots, routing rules and the round.

A *session* is a partition of a group: session g * k + i is partition i of the group with index g.

Rules: docs/rules.md, B1 to B5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import Keys, KnowsRing, Ring
from scribe_spark.pastry import next_hop
from scribe_spark.pastry.next_hop import Met, hop, table_entry
from scribe_spark.pastry.states import IsAlive, States
from scribe_spark.rounds.events import KnowsLives
from scribe_spark.rounds.player import Observer
from scribe_spark.underlay.protocol import Kernel, node_delays

#: The rules that select the root of a key: the closest node, or the end of surrogate routing.
PASTRY, SURROGATE = "pastry", "surrogate"

#: How TREE messages are routed: by routing tables alone, or also by leaf sets.
TABLE, LEAF_SET = "table", "leaf_set"


def partition_keys(group_ids: Keys, partitions: int) -> Keys:
    """Return the keys g * k + i of partitions, evenly spaced; the first is the groupId."""
    steps = [i * (2**128 // partitions) for i in range(partitions)]
    step_hi = np.array([step >> 64 for step in steps], dtype=np.uint64)
    step_lo = np.array([step % 2**64 for step in steps], dtype=np.uint64)
    lo = group_ids.lo[:, None] + step_lo
    hi = group_ids.hi[:, None] + step_hi + (lo < step_lo)
    return Keys(hi.ravel(), lo.ravel())


def find_roots(ring: Ring, live: np.ndarray, keys: Keys, rule: str, b: int) -> np.ndarray:
    """Return the root of each key among the nodes `live` (ascending positions): int64."""
    if rule == SURROGATE:
        return live[surrogate_roots(ring.take(live), keys, b)]
    return next_hop.roots(ring, live, keys)


def have_root_of_another(roots: np.ndarray, anew: np.ndarray, stands: np.ndarray) -> np.ndarray:
    """Return True for new partitions whose root is another's of the group: shape (G, k)."""
    found = np.zeros_like(anew)
    for i in range(roots.shape[1]):
        earlier = np.arange(roots.shape[1]) < i
        other = stands | (anew & earlier)
        found[:, i] = anew[:, i] & (other & (roots == roots[:, i, None])).any(axis=1)
    return found


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


def table_hop(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, Met]:
    """Return next hops by routing tables alone, and the dead nodes that messages met.

    If the cell is empty or its node is dead, the message takes Pastry's next hop.  That may try the
    same node again, which is then reported twice.
    """
    onward = table_entry(states, at, keys)
    dead = np.flatnonzero((onward >= 0) & ~is_alive(onward))
    met = onward[dead]
    rest = np.flatnonzero(~is_alive(onward))
    onward[rest], more = hop(states, is_alive, at[rest], keys.take(rest))
    return onward, Met(np.r_[dead, rest[more.message]], np.r_[met, more.dead])


def surrogate_hop(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, Met]:
    """Return next hops of surrogate routing: in each row the first live digit from the key's on."""
    ring, cells = states.known, states.cells
    base, onward = cells.shape[2], at.copy()
    searching, message, dead = np.arange(len(at)), [whole_numbers()], [whole_numbers()]
    for row in range(cells.shape[1]):
        here = at[searching]
        mine = ids.digit_np(ring.hi[here], ring.lo[here], row, states.b)
        wanted = ids.digit_np(keys.hi[searching], keys.lo[searching], row, states.b)
        # the entries of the row, beginning with the wanted digit
        order = (wanted[:, None] + np.arange(base)) % base
        entries = np.take_along_axis(cells[here - states.first, row], order, axis=1)
        entries = np.where(order == mine[:, None], here[:, None], entries)
        there = entries >= 0
        lives = there & is_alive(entries)
        first = lives.argmax(axis=1)
        of, place = np.nonzero(there & (np.arange(base) < first[:, None]))
        message.append(searching[of])
        dead.append(entries[of, place])
        onward[searching] = entries[np.arange(len(here)), first]
        searching = searching[onward[searching] == here]
    return onward, Met(np.concatenate(message), np.concatenate(dead))


_RULES = {TABLE: table_hop, LEAF_SET: hop, PASTRY: hop, SURROGATE: surrogate_hop}


@dataclass(frozen=True)
class Hop:
    """A picklable routing rule around dead nodes, by a bucket's leaf sets and routing tables."""

    facts: KnowsRing
    is_alive: IsAlive
    rule: str  # a name in `_RULES`

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, keys: Keys
    ) -> tuple[np.ndarray, Met]:
        """Return the next hops of messages in a bucket, and the dead nodes that they met.

        `first` is the position of the bucket's first node.
        """
        states = States.of_tables(self.facts.ring, first, tables)
        return _RULES[self.rule](states, self.is_alive, at, keys)


# --- sessions


@dataclass(frozen=True)
class Sessions:
    """All sessions in a round, with roots and rules that every bucket knows; picklable."""

    bounds: np.ndarray  # (B + 1,)
    facts: KnowsRing
    kernel: Kernel
    lan_us: int
    keys: Keys
    roots: np.ndarray  # (G, k): the positions of the roots; -1 if a partition does not exist
    #: The routing rules of messages to roots, and of TREEs.
    to_root: Hop
    to_member: Hop
    number: int  # the number of the round
    lives: KnowsLives
    #: ``born``: the round of each node's last arrival or recovery; -1 if there is none.
    shared: Mapping[str, np.ndarray]
    lost: np.ndarray  # bool, (G k,): True for sessions whose root has died
    observer: Observer

    @property
    def size(self) -> int:
        """K, the number of nodes: a key of a table is a group times K, plus a node."""
        return len(self.facts.ring)

    def observe(
        self,
        tables: Tables,
        kind: str,
        session: np.ndarray,
        sender: np.ndarray,
        to: np.ndarray,
        lost: np.ndarray | bool,
        size: np.ndarray | None = None,
    ) -> None:
        """Count messages of a kind in a bucket; `lost` ones do not arrive."""
        arrives = ~np.broadcast_to(lost, len(sender))
        group = session // self.partitions
        self.observer.send(tables, kind, arrives, sender, to, group, size=size)

    def is_good(self, onward: np.ndarray, written: np.ndarray) -> np.ndarray:
        """Return True for entries whose next hop lives since they were written: B12."""
        return self.lives.is_alive(onward) & (self.shared["born"][onward] <= written)

    @property
    def partitions(self) -> int:
        """k, the maximal number of partitions of a group."""
        return self.roots.shape[1]

    @property
    def root_of(self) -> np.ndarray:
        """The root (a position) of each session."""
        return self.roots.ravel()

    @property
    def stands(self) -> np.ndarray:
        """True for partitions that have a root which is not lost: bool, (G, k)."""
        return (self.roots >= 0) & ~self.lost.reshape(self.roots.shape)

    @property
    def lead(self) -> np.ndarray:
        """The session of each group to whose root sources send: rule B8."""
        return np.arange(len(self.roots)) * self.partitions + self.stands.argmax(axis=1)

    def tree_of(self, session: np.ndarray) -> np.ndarray:
        """Return the number of a session's tree in its group, 0 for the lead (see `lead`)."""
        return (session - self.lead[session // self.partitions]) % self.partitions

    def delays(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the delays (us) between nodes `one` and `other`: int64; 0 for equal nodes."""
        router = self.facts.ring.router
        delay_us = node_delays(self.kernel, self.lan_us, router[one], router[other])
        return np.where(one == other, 0, delay_us)

    def nearest(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the session that each node joins: that of the nearest live root (B4)."""
        if self.partitions == 1:
            return group
        roots, stands = self.roots[group], self.stands[group]
        best = stands.argmax(axis=1)
        least = self.delays(node, roots[np.arange(len(group)), best])
        for i in range(1, self.partitions):
            rows = np.flatnonzero(stands[:, i])
            delay_us = self.delays(node[rows], roots[rows, i])
            before = roots[rows, best[rows]]
            nearer = delay_us < least[rows]
            nearer |= (delay_us == least[rows]) & (roots[rows, i] < before)
            best[rows[nearer]], least[rows[nearer]] = i, delay_us[nearer]
        return group * self.partitions + best

    def from_source_root(self, rows: Columns) -> dict[str, np.ndarray]:
        """Return arrivals in sessions as arrivals in groups, counted from the lead root: B8."""
        session = rows["group"]
        group, tree = session // self.partitions, self.tree_of(session)
        delay_us = self.delays(self.root_of[self.lead[group]], self.root_of[session])
        hops, at_us = rows["hops"] + (tree > 0), rows["at_us"] + delay_us
        named = {"session": session, "group": group, "tree": tree}
        return {**rows, **named, "hops": hops, "at_us": at_us}
