"""The Scribe software of some nodes: what they know, what they are told, and what they send."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core.arrays import Rows, codes, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import concatenate, count_rows
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.observer import Between, Observer
from scribe_spark.pastry.next_hop import Met, hop
from scribe_spark.pastry.randomised import randomised_hop
from scribe_spark.pastry.route import count_hop
from scribe_spark.pastry.states import IsAlive, States
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.state import NOTHING, ScribeState
from scribe_spark.scribe.upcalls import Application
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.scribe import ScribeConfig
    from scribe_spark.config.trees import LiveTreesConfig

#: The table of counts of what was refused, and the kinds: ``kind`` is an index of them.
REFUSED = "scribe refused"
REFUSED_KINDS = ("CREATE", "CREATE lost", "JOIN", "MULTICAST", "payload", "refresh", "no group")

#: The kinds of messages of Scribe.  ``payload`` and ``retransmission`` are MULTICASTs on edges of
#: trees, ``MULTICAST`` those from sources to roots; ``shed``
#: tells a child that its parent drops it, and ``delay probe`` is its measurement of a delay;
#: ``collapse`` asks a parent, or tells a child, that a node leaves between the two.
SCRIBE_KINDS = (
    "CREATE",
    "JOIN",
    "MULTICAST",
    "address",
    "payload",
    "retransmission",
    "LEAVE",
    "tree goodbye",
    "heartbeat",
    "refresh",
    "replica",
    "replica goodbye",
    "acknowledgement",
    "drop child",
    "shed",
    "delay probe",
    "collapse",
)


@dataclass(frozen=True)
class Joins(Rows):
    """JOIN messages: arrays of shape (m,).

    Attributes
    ----------
    group, source : ndarray of int64
    number : ndarray of int64
        The join number: the round in which it was sent.
    cause : ndarray of int8
        An index of `state.CAUSES`.
    extra : ndarray of int64
        What faultHandler has added, or :data:`NOTHING`.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    source: np.ndarray = field(default_factory=whole_numbers)
    number: np.ndarray = field(default_factory=whole_numbers)
    cause: np.ndarray = field(default_factory=codes)
    extra: np.ndarray = field(default_factory=whole_numbers)

    @classmethod
    def of(
        cls, group: np.ndarray, source: np.ndarray, number: int, cause: np.ndarray | int
    ) -> Joins:
        """JOINs of one round that carry nothing."""
        n = len(group)
        causes = np.broadcast_to(np.asarray(cause, dtype=np.int8), n)
        return cls(group, source, np.full(n, number), causes, np.full(n, NOTHING))

    def with_extra(self, extra: np.ndarray) -> Joins:
        """The same with other extras."""
        return Joins(self.group, self.source, self.number, self.cause, extra)


#: ``rule(at, key_hi, key_lo)``: where messages go next.
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Scribe:
    """The Scribe software of the nodes of a bucket, while they play a superstep.

    Attributes
    ----------
    ring : Ring
        All nodes.
    find_states : callable
        Returns what Pastry knows in these nodes.
    is_alive : callable
    kernel : Kernel
        Of the underlay.
    groups : Groups
    rules : ScribeConfig
    trees : LiveTreesConfig
        Variants of the trees, and the child that an overloaded node drops.
    state : ScribeState
    number : int
        The round.
    make_application : callable, optional
        Returns the application of these nodes; without one delivery is best effort.
    observer : Observer, optional
        Counts messages in `tables`; without one nobody asks, as in runs.
    tables : Tables
        Of the bucket.
    bounds : ndarray of int64, shape (B + 1,)
        Of all buckets.
    bucket : int
    seed : int
        Of draws.
    limits : ChildLimits, optional
        Of the bottleneck remover or of lazy growth.
    rule : callable, optional
        Another rule of routing than Pastry's around dead nodes.
    settled : bool
        Whether nodes neither come nor go and all know their tables to be right, as in a run: then
        no JOIN can come to a node twice or close a cycle, and nobody asks.
    roots : ndarray of int64, shape (G,), optional
        The roots of all groups, where all is settled: the ends of the paths that nodes know.
    timed : bool
        Whether payloads carry the delay of their way.
    lan_us : int
        Delay of a node's LAN link, each way.
    sent : dict of str to list of Columns
        Messages to nodes, by kind.
    notes : dict of str to list of Columns
        Rows of tables that are only added to.
    """

    ring: Ring
    find_states: Callable[[], States]
    is_alive: IsAlive
    kernel: Kernel
    groups: Groups
    rules: ScribeConfig
    trees: LiveTreesConfig
    state: ScribeState
    number: int
    make_application: Callable[[], Application] | None = None
    observer: Observer | None = None
    tables: Tables = field(default_factory=Tables)
    bounds: np.ndarray = field(default_factory=whole_numbers)
    bucket: int = 0
    seed: int = 0
    limits: ChildLimits | None = None
    rule: Rule | None = None
    settled: bool = False
    roots: np.ndarray | None = None
    timed: bool = False
    lan_us: int = 0
    sent: dict[str, list[Columns]] = field(default_factory=dict)
    notes: dict[str, list[Columns]] = field(default_factory=dict)

    @property
    def acknowledged(self) -> bool:
        """Test for sources that keep publications until a root has acknowledged them."""
        return self.make_application is not None and self.application.acknowledged

    @functools.cached_property
    def first(self) -> int:
        """The position of the bucket's first node."""
        return int(self.bounds[self.bucket])

    @functools.cached_property
    def last(self) -> int:
        """The position of the next bucket's first node."""
        return int(self.bounds[self.bucket + 1])

    def is_own(self, node: np.ndarray) -> np.ndarray:
        """Test for nodes in the bucket."""
        return (node >= self.first) & (node < self.last)

    @property
    def best_effort(self) -> bool:
        """Test for groups without an application."""
        return self.make_application is None

    @functools.cached_property
    def application(self) -> Application:
        """The application of these nodes."""
        assert self.make_application is not None
        return self.make_application()

    @functools.cached_property
    def states(self) -> States:
        """The leaf sets and routing tables of these nodes."""
        return self.find_states()

    # ---- keys

    def key(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the keys of (group, node), or those of (pair, child)."""
        return key_of([group, node], self.state.size)

    def split(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first part of keys and the last node: group and node, or pair and child."""
        return np.divmod(key, self.state.size)

    def entry(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """The row of each (group, node) in `Entries`, or NONE."""
        return self.state.entries.find(self.key(group, node))

    def is_root(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Test for nodes that take themselves for the root."""
        return self._are("root", group, node)

    def is_member(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Test for members."""
        return self._are("member", group, node)

    def _are(self, flag: str, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Test for nodes of the tree with a flag in `Entries`."""
        row = self.entry(group, node)
        found = row >= 0
        found[found] = getattr(self.state.entries, flag)[row[found]]
        return found

    # ---- notes

    def note(self, table: str, **columns: np.ndarray) -> None:
        """Add rows to a table of the bucket."""
        if count_rows(columns):
            self.notes.setdefault(table, []).append(columns)

    def refuse(self, kind: str, count: int | np.integer) -> None:
        """Count messages that were refused."""
        if count:
            kinds = np.array([REFUSED_KINDS.index(kind)])
            self.note(REFUSED, kind=kinds, count=np.array([int(count)]))

    # ---- messages

    def count(
        self,
        kind: str,
        messages: int | np.integer,
        lost: int | np.integer = 0,
        *,
        between: Between,
    ) -> None:
        """Count messages that these nodes send, of which some are lost; see `Observer.count`."""
        if self.observer is not None:
            self.observer.count(self.tables, kind, messages, lost, between=between)

    def send(self, kind: str, sender: np.ndarray, to: np.ndarray) -> np.ndarray:
        """Count a message to each node; whether it arrives."""
        arrives = self.is_alive(to)
        lost = arrives.size - np.count_nonzero(arrives)
        self.count(kind, arrives.size, lost, between=lambda: (sender, to))
        return arrives

    def tell(self, kind: str, at: np.ndarray, **columns: np.ndarray) -> None:
        """Hand over messages to live nodes; they arrive in the next superstep."""
        if len(at):
            self.sent.setdefault(kind, []).append({AT: at, **columns})

    def tell_all(self, kind: str, **columns: np.ndarray) -> None:
        """Tell every bucket something; only measures do so."""
        rows = count_rows(columns)
        for at in self.bounds[:-1][np.diff(self.bounds) > 0].tolist():
            self.tell(kind, np.full(rows, at), **columns)

    def outbox(self) -> dict[str, Columns]:
        """Return all messages."""
        return {kind: concatenate(parts) for kind, parts in self.sent.items()}

    def hop(self, kind: str, at: np.ndarray, group: np.ndarray) -> np.ndarray:
        """One hop of Pastry with the groupIds as keys, by the tables as they are.

        Returns
        -------
        ndarray of int64
            The next nodes; the node itself delivers, NONE: no candidate is left.
        """
        if not len(at):
            return at
        keys = self.groups.keys.take(group)
        if self.rule is not None:
            return self.rule(at, keys.hi, keys.lo)
        onward, met = hop(self.states, self.is_alive, at, keys)
        self._count_hops(kind, at, onward, met)
        return onward

    def randomised_hop(
        self, kind: str, at: np.ndarray, group: np.ndarray, *drawn_by: np.ndarray
    ) -> np.ndarray:
        """One hop with randomisation, as :meth:`hop`.

        Parameters
        ----------
        *drawn_by : ndarray of int64
            Key the draws.
        """
        if not len(at):
            return at
        keys = self.groups.keys.take(group)
        onward, met = randomised_hop(self.states, self.is_alive, at, keys, self.seed, *drawn_by)
        self._count_hops(kind, at, onward, met)
        return onward

    def _count_hops(self, kind: str, at: np.ndarray, onward: np.ndarray, met: Met) -> None:
        if self.observer is not None:
            self.observer.meet(self.tables, at[met.message], met.dead)
        count_hop(functools.partial(self.count, kind), at, onward, met)

    def delay(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """D between two different nodes, in microseconds: int64."""
        router = self.ring.router
        return self.kernel.delays(router[a], router[b]) + 2 * self.lan_us
