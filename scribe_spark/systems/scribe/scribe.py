"""The Scribe nodes of a bucket: their state, the messages that they send, and their programs.

JSAC 2002, Sections III and III.B.2 (upcalls).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core.arrays import (
    NONE,
    expand,
    index_in_run,
    search_sorted,
)
from scribe_spark.core.draws import more_bits
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.losses import Jitter, Losses, jitter_keys, publication_keys
from scribe_spark.engine.packing import count_rows, take
from scribe_spark.engine.player import Shared
from scribe_spark.engine.program import AT, append
from scribe_spark.overlay import NextHop
from scribe_spark.pastry.next_hop import (
    Met,
    count_hop,
    hop,
    randomised_hop,
    route_to_edge,
    unrouted,
)
from scribe_spark.pastry.states import BucketNodes, States
from scribe_spark.rounds.applications import Applications
from scribe_spark.rounds.group_events import SOURCE_BITS, Groups
from scribe_spark.rounds.player import Environment
from scribe_spark.systems.scribe.state import NOTHING, BucketState, ScribeState
from scribe_spark.systems.scribe.upcalls import Calls, ScribeApplication
from scribe_spark.underlay.protocol import node_delays

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.groups import TreesConfig
    from scribe_spark.config.scribe import ScribeConfig


#: The table with counts of refused messages; its ``kind`` is an index of `REFUSED_KINDS`.
REFUSED = "scribe refused"
REFUSED_KINDS = ("CREATE", "CREATE lost", "JOIN", "MULTICAST", "payload", "refresh", "no group")

#: The kinds of Scribe's messages.  ``payload`` and ``retransmission`` are MULTICASTs on tree edges,
#: ``MULTICAST`` those from sources to roots.  ``shed`` tells a child that its parent drops it, and
#: ``delay probe`` is a measurement by that child.  With ``collapse`` a node asks its parent, or
#: tells its child, that it leaves.
SCRIBE_KINDS = (
    *("CREATE", "JOIN", "MULTICAST", "address", "payload", "retransmission", "LEAVE"),
    *("tree goodbye", "heartbeat", "refresh", "replica", "replica goodbye", "acknowledgement"),
    *("drop child", "shed", "delay probe", "collapse"),
)

#: The kinds that are copies of publications, and all others.
PAYLOAD_KINDS = ("MULTICAST", "payload", "retransmission")
CONTROL_KINDS = tuple(kind for kind in SCRIBE_KINDS if kind not in PAYLOAD_KINDS)


#: The columns of JOINs: `number` is the round, `extra` the data of faultHandler or NOTHING.
_OF_JOINS = ("group", "source", "number", "cause", "extra")


def joins_of(
    group: np.ndarray,
    source: np.ndarray,
    number: np.ndarray | int,
    cause: np.ndarray | int,
    extra: np.ndarray | int = NOTHING,
) -> dict[str, np.ndarray]:
    """Return JOINs as columns; a number stands for a column of equal values."""
    values = {"number": (number, np.int64), "cause": (cause, np.int8), "extra": (extra, np.int64)}
    columns = {
        name: np.broadcast_to(np.asarray(value, dtype=kind), len(group))
        for name, (value, kind) in values.items()
    }
    return {"group": group, "source": source, **columns}


def joins_in(columns: Columns) -> dict[str, np.ndarray]:
    """Return the columns of JOINs, of messages or rows with further columns."""
    return {name: columns[name] for name in _OF_JOINS}


@dataclass(frozen=True)
class RoundOfGroups:
    """The parameters of a round that the programs of groups need.

    A round is settled if no node fails or arrives, all tables are right, and no round follows, as
    in a run.  Then no JOIN visits a node twice or closes a cycle, messages are not counted, and
    `roots` has the end of every path to a root; `rule` may be that of another overlay than Pastry.
    Without applications, delivery is best effort.  If the round is timed, payloads carry the delay
    since the source.  `lan_us` is the delay of a node's LAN link, each way.  `incarnation` has the
    round of each node's last arrival or recovery, as an array or as the shared array ``round``.
    `source` is the way from a source to the root, as in the section ``groups`` of configs.

    In a world with a schedule, `nodes` is the number that follows the greatest number of a node,
    `parts` are those of publications, and `sizes` are the sizes of the publications of the round:
    the arrays ``key``, ascending (the index of the group << 32 | the lower 32 bits of the id), and
    ``size``.
    """

    number: int
    groups: Groups
    rules: ScribeConfig
    trees: TreesConfig
    incarnation: np.ndarray | Shared
    applications: Applications | None = None
    timed: bool = False
    lan_us: int = 0
    limits: ChildLimits | None = None
    settled: bool = False
    rule: NextHop | None = None
    roots: np.ndarray | None = None
    source: str = "root"
    nodes: int = 0
    sizes: Shared | None = None
    parts: Parts = field(default_factory=Parts)

    @property
    def incarnations(self) -> np.ndarray:
        """The round of each node's last arrival or recovery: int64, shape (K,)."""
        found = self.incarnation
        return found if isinstance(found, np.ndarray) else found["round"]


class Scribe(BucketNodes):
    """The Scribe software of the nodes of a bucket, while they play a superstep.

    `notes` has the new rows of tables to which programs only append.
    """

    def __init__(
        self,
        environment: Environment,
        round: RoundOfGroups,
        bucket: int,
        tables: Tables,
        state: ScribeState,
    ) -> None:
        super().__init__(environment, bucket, tables)
        self.round, self.state, self.seed = round, state, environment.seed
        self.observer = None if round.settled else environment.observer
        self.number, self.groups, self.settled = round.number, round.groups, round.settled
        self.rules, self.trees, self.roots = round.rules, round.trees, round.roots
        self.limits, self.timed, self.lan_us = round.limits, round.timed, round.lan_us
        self.notes: dict[str, list[Columns]] = {}

    @property
    def acknowledged(self) -> bool:
        """True if sources keep publications until a root has acknowledged them."""
        return not self.best_effort and self.application.acknowledged

    @property
    def best_effort(self) -> bool:
        """True if there is no application."""
        return self.round.applications is None

    @functools.cached_property
    def application(self) -> ScribeApplication:
        """The application of the bucket's nodes."""
        assert self.round.applications is not None
        return self.round.applications.of(self.tables)

    # ---- keys

    def key(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the keys of (group, node), or of (pair, child) where `group` has keys of pairs."""
        return key_of([group, node], self.state.size)

    def edge(self, group: np.ndarray, node: np.ndarray, child: np.ndarray) -> np.ndarray:
        """Return the keys of (group, node, child)."""
        return key_of([group, node, child], self.state.size)

    def ends(self, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split keys into (group, node, child)."""
        pair, child = self.split(edge)
        return *self.split(pair), child

    def split(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split keys into (group, node), or into (pair, child)."""
        return np.divmod(key, self.state.size)

    def entry(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the row of each (group, node) in `Entries`, or NONE."""
        return self.state.entries.find(self.key(group, node))

    def under(
        self, group: np.ndarray, node: np.ndarray, parent: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return True for nodes whose parent is `parent`, and their rows in `Entries`."""
        row = self.entry(group, node)
        there = row >= 0
        there[there] = self.state.entries.parent[row[there]] == parent[there]
        return there, row[there]

    def children_of(self, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of `ChildrenTable` of nodes (keys `pair`): index in `pair`, and row."""
        children, size = self.state.children.key, self.state.size
        first = search_sorted(children, pair * size)
        return expand(first, search_sorted(children, (pair + 1) * size))

    def is_root(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for nodes that consider themselves the root of the group."""
        return self._are("root", group, node)

    def is_member(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for members of the group."""
        return self._are("member", group, node)

    def _are(self, flag: str, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for nodes in trees for which the column `flag` of `Entries` is True."""
        row = self.entry(group, node)
        found = row >= 0
        found[found] = getattr(self.state.entries, flag)[row[found]]
        return found

    # ---- notes

    def note(self, table: str, **columns: np.ndarray) -> None:
        """Append rows, given as columns, to a table of the bucket."""
        if count_rows(columns):
            self.notes.setdefault(table, []).append(columns)

    def refuse(self, kind: str, count: int | np.integer) -> None:
        """Count refused messages of a kind."""
        if count:
            kinds = np.array([REFUSED_KINDS.index(kind)])
            self.note(REFUSED, kind=kinds, count=np.array([int(count)]))

    # ---- messages

    @functools.cached_property
    def losses(self) -> Losses | None:
        """The losses of copies; None if all arrive at live nodes, as in a settled round."""
        return None if self.settled else Losses.of(self.environment.facts, self.kernel)

    def are_lost(
        self, group: np.ndarray, publication: np.ndarray, sender: np.ndarray, to: np.ndarray
    ) -> np.ndarray:
        """Return True for copies that the network loses: rule N1."""
        if self.losses is None:
            return np.zeros(len(to), dtype=bool)
        key = publication_keys(self.seed, self.groups.number[group], publication)
        is_late = publication >> SOURCE_BITS < self.number
        key = np.where(is_late, more_bits(key, np.full(len(to), self.number)), key)
        return self.losses.lost(key, sender, to)

    def post(
        self, kind: str, counted: str, sender: np.ndarray, to: np.ndarray, **columns: np.ndarray
    ) -> np.ndarray:
        """Send messages of a kind, counted as `counted`; return True for each that arrives."""
        arrives = self.send(counted, sender, to)
        columns = {AT: to, **columns}
        if not arrives.all():
            columns = take(columns, arrives)
        self.tell(kind, columns.pop(AT), **columns)
        return arrives

    def tell_all(self, kind: str, **columns: np.ndarray) -> None:
        """Send rows to every bucket, uncounted; only measures use this."""
        rows = count_rows(columns)
        for at in self.bounds[:-1][np.diff(self.bounds) > 0].tolist():
            self.tell(kind, np.full(rows, at), **columns)

    @functools.cached_property
    def known(self) -> States:
        """The leaf sets and routing tables of the bucket's nodes."""
        return self.states()

    def hop(
        self, kind: str, at: np.ndarray, group: np.ndarray, sizes: np.ndarray | None = None
    ) -> np.ndarray:
        """Return next hops of messages to groupIds; the node itself at the end, NONE if lost."""
        if not len(at):
            return at
        keys = self.groups.keys.take(group)
        if self.round.rule is not None:
            return self.round.rule(self.first, self.tables, at, keys.hi, keys.lo)
        onward, met = hop(self.known, self.is_alive, at, keys)
        self._count_hops(kind, at, onward, met, sizes)
        return onward

    def randomised_hop(
        self, kind: str, at: np.ndarray, group: np.ndarray, *drawn_by: np.ndarray
    ) -> np.ndarray:
        """Return the next hop as :meth:`hop` does, with randomised routing; draws by `drawn_by`."""
        if not len(at):
            return at
        keys = self.groups.keys.take(group)
        onward, met = randomised_hop(self.known, self.is_alive, at, keys, self.seed, *drawn_by)
        self._count_hops(kind, at, onward, met)
        return onward

    def _count_hops(
        self,
        kind: str,
        at: np.ndarray,
        onward: np.ndarray,
        met: Met,
        sizes: np.ndarray | None = None,
    ) -> None:
        if self.observer is not None:
            self.observer.meet(self.tables, at[met.message], met.dead)
            count = functools.partial(self.observer.count, self.tables, kind)
            count_hop(count, at, onward, met, sizes)

    def delay(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the delay D between pairs of different nodes, in microseconds: int64."""
        router = self.ring.router
        return node_delays(self.kernel, self.lan_us, router[a], router[b])

    def copy_delay(
        self, group: np.ndarray, publication: np.ndarray, sender: np.ndarray, to: np.ndarray
    ) -> np.ndarray:
        """Return the delays (us) of copies of publications, with their jitter (rule J4)."""
        delay_us, jitter = self.delay(sender, to), Jitter.of(self.environment.facts, self.kernel)
        if jitter is None:
            return delay_us
        name = np.zeros_like(publication) if self.settled else publication
        key = jitter_keys(self.kernel.seed, self.groups.number[group], name)
        return delay_us + jitter.late_us(key, sender, to, delay_us)


@dataclass(frozen=True)
class ChildLimits:
    """The maximal number of children of nodes over all groups, by node number with `capacities`."""

    limit: int
    capacities: np.ndarray | None = None

    def of(self, number: np.ndarray) -> np.ndarray:
        """Return the limits of nodes given by their numbers: int64."""
        if self.capacities is None:
            return np.full(len(number), self.limit)
        return self.capacities[number]


# --- messages that Pastry routes to groupIds until they end, while no table changes


@dataclass(frozen=True)
class Routing:
    """A kind of routed messages, and the name of the table with the ends of their routes.

    Messages have a column ``group``, and carry the ``hops`` and ``delay_us`` of their route; the
    table adds the last node (``at``), ``delivered`` and ``circled``, see `route_to_edge`.
    """

    kind: str
    ends: str

    def begin(self, scribe: Scribe, at: np.ndarray, **columns: np.ndarray) -> None:
        """Start routing messages at nodes of the bucket, with the hops and delays so far."""
        zero = np.zeros(len(at), dtype=np.int64)
        began = {"hops": zero, "delay_us": zero}
        self.receive(scribe, unrouted({**began, **columns, AT: at}))

    def receive(self, scribe: Scribe, moving: Columns) -> None:
        """Route messages to their end, or to the edge of the bucket; store those that ended."""

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            at, sizes = messages[AT], messages.get("size")
            onward = scribe.hop(self.kind, at, messages["group"], sizes)
            goes = (onward >= 0) & (onward != at)
            return onward, {**messages, **_ways(scribe, messages, onward, goes)}

        ended, leaving = route_to_edge(moving, hop_of, scribe.is_own)
        scribe.note(self.ends, **ended)
        if leaving:
            scribe.tell(self.kind, leaving.pop(AT), **leaving)


def one_hop_on(scribe: Scribe, messages: Columns, to: np.ndarray) -> dict[str, np.ndarray]:
    """Return the messages after one more hop, to the nodes `to`."""
    return {**messages, **_ways(scribe, messages, to), AT: to}


def _ways(
    scribe: Scribe, messages: Columns, to: np.ndarray, goes: np.ndarray | bool = True
) -> dict[str, np.ndarray]:
    """Return the hops and delays (us) of messages after those that `goes` marks moved to `to`."""
    delay_us = messages["delay_us"]
    if scribe.timed:
        delay_us = delay_us + np.where(goes, scribe.delay(messages[AT], to), 0)
    return {"hops": messages["hops"] + goes, "delay_us": delay_us}


# --- the programs of a round


#: Functions that handle messages, by the kind of the messages.
Handlers = tuple[tuple[str, Callable[[Scribe, Columns], None]], ...]


@dataclass(frozen=True)
class RoundProgram:
    """The base class of the programs of a round.

    `writes` are the parts of `ScribeState` that the program writes, `settled_writes` those in a
    settled round if they differ.  `handlers` are the functions ``handle(scribe, came)`` of
    kinds of messages, in the order of their calls.  All programs handle LEAVEs, too.
    """

    environment: Environment
    round: RoundOfGroups
    writes: ClassVar[tuple[str, ...]] = ()
    settled_writes: ClassVar[tuple[str, ...] | None] = None
    handlers: ClassVar[Handlers] = ()

    @property
    def silent(self) -> bool:
        """True if the program is known to send nothing."""
        return False

    @property
    def bounds(self) -> np.ndarray:
        return self.environment.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        round, writes, incarnation = self.round, self.writes, self.round.incarnations
        if round.settled:
            incarnation = np.broadcast_to(np.int64(NONE), round.groups.size)
            writes = self.writes if self.settled_writes is None else self.settled_writes
        state = BucketState(tables, writes, round.groups.size, incarnation, len(round.groups))
        scribe = Scribe(self.environment, round, bucket, tables, state)
        for kind, handle in ((LEAVE, deliver_leave), *self.handlers):
            if kind in inbox:
                handle(scribe, inbox[kind])
        self.handle(scribe, tables, inbox, superstep)
        state.put_back()
        for name, parts in scribe.notes.items():
            append(tables, name, *parts)
        if "application" in vars(scribe) and round.applications is not None:
            round.applications.put_back(scribe.application, tables)
        return scribe.outbox()

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Play a superstep after :attr:`handlers` were called."""
        if not superstep:
            self.begin(scribe, tables)

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        """Play superstep 0."""


#: The message to the parent: ``group, source, number`` (the join number).
LEAVE = "LEAVE"


def send_leave(
    scribe: Scribe, group: np.ndarray, node: np.ndarray, parent: np.ndarray, number: np.ndarray
) -> None:
    """Send LEAVEs to parents, with the senders' join numbers."""
    scribe.post(LEAVE, "LEAVE", node, parent, group=group, source=node, number=number)


def deliver_leave(scribe: Scribe, came: Columns) -> None:
    """Drop children that send a LEAVE (Figure 4, line 9) no older than their last JOIN."""
    children = scribe.state.children
    row = children.find(scribe.edge(came["group"], came[AT], came["source"]))
    row, number = row[row >= 0], came["number"][row >= 0]
    children.drop(row[children.number[row] <= number])  # (9) children - msg.source


# --- upcalls


#: The table of roots that are new or whose group state changed, and whose replicas are not updated
#: yet: ``pair``, the key of (group, root).
CHANGED = "scribe changed"


def calls_of(scribe: Scribe, pair: np.ndarray, row: np.ndarray) -> Calls:
    """Return what the application may see of tree nodes (rows of `Entries`), for an upcall."""
    entries, children, copies = scribe.state.entries, scribe.state.children, scribe.state.copies
    group, node = scribe.split(pair)
    root = entries.root[row]
    answered = (entries.parent[row] >= 0) & (entries.number[row] == scribe.number)
    copy = copies.find(pair[root])
    epoch = np.full(len(pair), -1)
    epoch[root] = copies.epoch[copy]
    here = {
        "group": group,
        "node": node,
        "root": root,
        "entered": entries.entered[row],
        "joined": np.where(entries.member[row], entries.joined[row], -1),
        "asked": np.where(answered, entries.extra[row], NOTHING),
        "epoch": epoch,
    }
    call, edge = scribe.children_of(pair)
    under = {"call": call, "child": children.key[edge] % scribe.state.size}
    lists = copies.values[copy]
    which, place = np.nonzero(np.arange(lists.shape[1]) < copies.length[copy][:, None])
    kept = {"call": np.flatnonzero(root)[which], "value": lists[which, place]}
    return Calls(scribe.number, here, under, kept)


def call_fault_handler(scribe: Scribe, joins: Columns) -> Columns:
    """Call the upcall faultHandler for repair JOINs; return the JOINs with its data."""
    if scribe.best_effort or not count_rows(joins):
        return joins
    pair = scribe.key(joins["group"], joins["source"])
    calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
    table = {name: joins[name] for name in ("number", "cause")}
    return {**joins, "extra": scribe.application.fault_handler(calls, table).astype(np.int64)}


def keep_values(scribe: Scribe, pair: np.ndarray, values: Columns) -> None:
    """Store new values of the application in the states at the roots ``pair[call]``."""
    call = values["call"]
    if not len(call):
        return
    order = np.argsort(call, kind="stable")
    changed, which = np.unique(call[order], return_inverse=True)
    length, place = np.bincount(which), index_in_run(which)
    lists = np.full((len(changed), length.max()), NONE)
    lists[which, place] = values["value"][order]
    copies = scribe.state.copies
    row = copies.find(pair[changed])
    lists = copies.widened(lists)
    copies.values[row], copies.length[row] = lists, length
    copies.version[row] += 1
    scribe.note(CHANGED, pair=pair[changed])
