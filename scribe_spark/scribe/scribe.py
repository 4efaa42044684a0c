"""A round's Scribe: the state, what carries its messages, and what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.core.arrays import codes, whole_numbers
from scribe_spark.pastry.arrivals.routes import Found, Routes, hop, route
from scribe_spark.pastry.one_bucket import drop_and_repair
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import MESSAGE_KINDS, Tally
from scribe_spark.scribe.deliveries import Deliveries
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.messages import MessageStore
from scribe_spark.scribe.rules import ScribeRules
from scribe_spark.scribe.state import NOTHING, Kept, ScribeState
from scribe_spark.scribe.upcalls import Application
from scribe_spark.underlay.protocol import Kernel

__all__ = ["SCRIBE_KINDS", "Answers", "Joins", "Rule", "Scribe"]

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
class Joins:
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

    def __len__(self) -> int:
        return len(self.group)

    @classmethod
    def of(
        cls, group: np.ndarray, source: np.ndarray, number: int, cause: np.ndarray | int
    ) -> Joins:
        """JOINs of one round that carry nothing."""
        n = len(group)
        causes = np.broadcast_to(np.asarray(cause, dtype=np.int8), n)
        return cls(group, source, np.full(n, number), causes, np.full(n, NOTHING))

    def take(self, index: np.ndarray) -> Joins:
        """Some of them."""
        return Joins(*[getattr(self, one.name)[index] for one in fields(self)])

    def with_extra(self, extra: np.ndarray) -> Joins:
        """The same with other extras."""
        return Joins(self.group, self.source, self.number, self.cause, extra)

    @staticmethod
    def join(*parts: Joins) -> Joins:
        """Return the rows of several together."""
        return Joins(
            *[np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Joins)]
        )


@dataclass(frozen=True)
class Answers:
    """Answers to JOINs: arrays of shape (m,).

    Attributes
    ----------
    group, source : ndarray of int64
        Whom they are for.
    parent : ndarray of int64
    """

    group: np.ndarray
    source: np.ndarray
    parent: np.ndarray


#: ``rule(at, key_hi, key_lo)``: where messages go next.
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Scribe:
    """What the kernels of one round share.

    Attributes
    ----------
    overlay : OverlayState
    world : WorldRules
    kernel : Kernel
    groups : Groups
    rules : ScribeRules
    state : ScribeState
    number : int
        The round.
    application : Application, optional
        Without one delivery is best effort.
    tally : Tally
    refused : Counter of str
        Messages that were refused, by kind.
    joins : list of Joins
        Sent in this round.
    at_root : list of Joins
        Answered by roots, whose children the sources have become.
    repairing : list of ndarray of int64
        Nodes that JOINs that repair have come to, their sources too; see `joining`.
    failures : ndarray of int64
        Nodes that died in this round and were the parents of others.
    died_with_source : Kept
        Publications whose sources kept them, and died in this round.
    added : list of (ndarray of int64, Joins)
        Parents and the JOINs of their new children, for joinHandler.
    changed : list of ndarray of int64
        (group, root) that are new or have a new state, not yet sent to the replicas.
    paid : list of ndarray of int64
        (group, parent, child) to which a payload was sent in this round.
    deliveries : Deliveries
    messages : MessageStore
        Those of the application.
    got : ndarray of int64, optional
        Who has had which publication, see `duplicates`.
    found : Found
        Dead nodes that the messages of this phase met.
    rule : callable, optional
        Another rule of routing than Pastry's.
    settled : bool
        Whether nodes neither come nor go and all know their tables to be right, as in a run: then
        no JOIN can come to a node twice or close a cycle, and nobody asks.
    timed : bool
        Whether payloads carry the delay of their way.
    payloads : list of (ndarray, ndarray, ndarray, ndarray)
        Group, publication, sender and receiver of each payload of a round; where `timed`.
    lan_us : int
        Delay of a node's LAN link, each way.
    answers : list of Answers
        To JOINs, to be sent; where nothing is settled an answer is there at once.
    """

    overlay: OverlayState
    world: WorldRules
    kernel: Kernel
    groups: Groups
    rules: ScribeRules
    state: ScribeState
    number: int
    application: Application | None = None
    tally: Tally = field(default_factory=lambda: Tally(MESSAGE_KINDS + SCRIBE_KINDS))
    refused: Counter[str] = field(default_factory=Counter)
    joins: list[Joins] = field(default_factory=list)
    at_root: list[Joins] = field(default_factory=list)
    repairing: list[np.ndarray] = field(default_factory=list)
    failures: np.ndarray = field(default_factory=whole_numbers)
    died_with_source: Kept = field(default_factory=Kept)
    added: list[tuple[np.ndarray, Joins]] = field(default_factory=list)
    changed: list[np.ndarray] = field(default_factory=list)
    paid: list[np.ndarray] = field(default_factory=list)
    deliveries: Deliveries = field(default_factory=Deliveries)
    messages: MessageStore = field(default_factory=MessageStore)
    got: np.ndarray | None = None
    found: Found = field(default_factory=Found.nothing)
    rule: Rule | None = None
    settled: bool = False
    timed: bool = False
    payloads: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    lan_us: int = 0
    answers: list[Answers] = field(default_factory=list)

    @property
    def acknowledged(self) -> bool:
        """Whether sources keep publications until a root has acknowledged them."""
        return self.application is not None and self.application.acknowledged

    # ---- keys

    def key(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """The keys of (group, node)."""
        return group * self.state.size + node

    def split(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first part of keys and the last node: group and node, or place and child."""
        return np.divmod(key, self.state.size)

    def entry(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """The row of each (group, node) in `Entries`, or NONE."""
        return self.state.entries.find(self.key(group, node))

    def is_root(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Whether nodes take themselves for the root."""
        row = self.entry(group, node)
        root = row >= 0
        root[root] = self.state.entries.root[row[root]]
        return root

    # ---- messages

    def send(self, kind: str, sender: np.ndarray, to: np.ndarray) -> np.ndarray:
        """Count a message to each node; whether it arrives."""
        arrives = self.overlay.alive[to]
        self.tally.send(kind, arrives, sender, to)
        return arrives

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
            onward = self.rule(at, keys.hi, keys.lo)
            goes = (onward >= 0) & (onward != at)
            self.tally.add(kind, np.count_nonzero(goes), between=lambda: (at[goes], onward[goes]))
            return onward
        onward, met = hop(self.overlay.states, self.overlay.is_alive, at, keys)
        self.found = self.found.and_also(at[met.message], met.dead)
        lost = len(met.message)
        goes = (onward >= 0) & (onward != at)
        self.tally.add(
            kind,
            np.count_nonzero(goes) + lost,
            lost,
            between=lambda: (np.r_[at[goes], at[met.message]], np.r_[onward[goes], met.dead]),
        )
        return onward

    def delay(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """D between two different nodes, in microseconds: int64."""
        router = self.overlay.states.known.router
        return self.kernel.delays(router[a], router[b]) + 2 * self.lan_us

    def route(self, kind: str, start: np.ndarray, group: np.ndarray) -> Routes:
        """All hops of Pastry with the groupIds as keys."""
        keys = self.groups.keys.take(group)
        routes = route(self.overlay.states, self.overlay.is_alive, start, keys)
        self.found = self.found.and_also(routes.found.node, routes.found.dead)
        self.tally.add_routes(kind, routes)
        return routes

    def close_phase(self) -> None:
        """What the messages of a phase have found dead is dropped from the tables and repaired."""
        drop_and_repair(self.overlay, self.found, self.world, self.kernel, self.tally)
        self.found = Found.nothing()
