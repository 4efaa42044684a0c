"""Systems that build an overlay of each group's members in every round, and flood it.

Such a system defines the edges of a group's overlay (`GroupOverlays.edges`), and the edges on which
a node forwards its first copy (`GroupOverlays.forwards`).  A round is a sequence of programs on
buckets:

1. buckets note their nodes that are members (:class:`Remember`; O1);
2. one bucket for each group builds the overlay, and sends the edges to their nodes
   (:class:`Build`; O2);
3. publications spread over the edges (`dissemination.Dissemination`; O3);
4. buckets count copies, receivers and publications that are due (:class:`CountOverlayCopies`,
   :class:`CountDue`; O4 and O5).

Rules: docs/rules.md, O1 to O6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from scribe_spark import dissemination
from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.bandwidth.runs import flood_along
from scribe_spark.bandwidth.setting import TimedPublications
from scribe_spark.core import arrays, draws
from scribe_spark.core.keys import key_of, mixed_key
from scribe_spark.engine import Columns, Inbox, Outbox, Tables, losses, packing, program
from scribe_spark.engine.facts import KnowsRing, Ring
from scribe_spark.multicast import PAYLOAD, TIME
from scribe_spark.rounds import pending
from scribe_spark.rounds.group_events import keys_in, keys_sent, to_nodes
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Multicasts,
    Publications,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
    notes_copies,
)
from scribe_spark.underlay.protocol import Kernel, node_delays

#: Tables of a bucket: keys (group, node) of members, and of dead members whose death the others do
#: not know yet.
MEMBERS, SILENT = "members", "silent"

#: The table of a run with the edges of pictures: `GroupOverlays.picture`.
PICTURE = "picture"

#: The table of a round with the edges of nodes, as keys (group, node).
_NEIGHBOURS = "neighbours"

# kinds of messages
QUITS, JOINS, _MEMBER, _EDGE = "quits", "joins", "member", "edge"


@dataclass(frozen=True)
class Overlays:
    """The members of the overlays that one bucket builds, and the publications that flood them.

    Attributes
    ----------
    number : ndarray of int64, shape (g,)
        The numbers of the groups, which key draws.
    group, node : ndarray of int64, shape (m,)
        The members of the overlays: the index of the group and the position of the node, ascending
        by both.  Sources are included, and also dead nodes whose death is not known.
    of, source : ndarray of int64, shape (p,)
        The publications with different sources, or in different trees of a source: the index of the
        group and the position of the source, ascending.
    key_hi : ndarray of uint64, shape (g,), or None
        The first halves of the groupIds, in a run.
    is_member : ndarray of bool, shape (m,), or None
        False for sources that are no members; None if all are members.
    is_first : bool
        True in one of the buckets that build.
    state : mapping of str to Columns
        The tables of `grown_overlays.GrownOverlays`; the column ``group`` has the indices of these
        overlays.
    tree : ndarray of int64, shape (p,)
        The tree of each publication: `SystemOnBuckets.trees_of`.
    """

    number: np.ndarray
    group: np.ndarray
    node: np.ndarray
    of: np.ndarray
    source: np.ndarray
    key_hi: np.ndarray | None = None
    is_member: np.ndarray | None = None
    is_first: bool = False
    state: Mapping[str, Columns] = field(default_factory=dict)
    tree: np.ndarray = field(default_factory=arrays.whole_numbers)

    def each_publication(self, edges: Columns) -> dict[str, np.ndarray]:
        """Return the edges of groups' overlays, repeated for each publication of their group.

        `edges` has ``group`` (an index), ``node, peer`` and others; the result also has
        ``publication`` (an index).
        """
        order = np.argsort(edges["group"], kind="stable")
        begin, end = (np.searchsorted(edges["group"][order], self.of + more) for more in (0, 1))
        publication, row = arrays.expand(begin, end)
        return {"publication": publication, **packing.take(edges, order[row])}

    def random_peers(
        self, network: Network, count: int, purpose: str = "random peers"
    ) -> dict[str, np.ndarray]:
        """Return edges from each node of an overlay to random other nodes, its peers.

        A node has `count` peers, or all others if these are fewer.  The columns are ``group`` (an
        index), ``node, peer, rank`` and ``delay_us``; ranks number the peers of a
        node from 0 in random order.
        """
        ring = network.ring
        order = np.lexsort((ring.node[self.node], self.group))
        group, node = self.group[order], self.node[order]
        begin, end = (np.searchsorted(group, group, side) for side in ("left", "right"))
        shared = draws.bits_np(network.seed, purpose, self.number[group], ring.node[node])
        of, other = draws.sample_others(shared, end - begin - 1, count)
        at = begin[of] + other
        at += at >= of
        order = np.lexsort((draws.more_bits(shared[of], ring.node[node[at]]), of))
        of, at = of[order], at[order]
        routers = ring.router[node[of]], ring.router[node[at]]
        delay_us = node_delays(network.kernel, network.lan_us, *routers)
        ends = {"group": group[of], "node": node[of], "peer": node[at]}
        return {**ends, "rank": arrays.index_in_run(of), "delay_us": delay_us}

    def from_sources(self, down: Columns, root: np.ndarray) -> dict[str, np.ndarray]:
        """Return edges down trees, without those to sources, and edges from sources to roots.

        `down` has ``publication`` (an index), ``node, peer``; `root` (p,) has the root of each
        publication's tree, NONE without a tree.
        """
        other = np.flatnonzero(down["peer"] != self.source[down["publication"]])
        up = np.flatnonzero((root >= 0) & (root != self.source))
        first = {"publication": up, "node": self.source[up], "peer": root[up]}
        return {name: np.r_[down[name][other], one] for name, one in first.items()}


@dataclass(frozen=True)
class Built:
    """The overlays that a bucket has built: their edges, entries and messages.

    `kept` has the entries that nodes keep, by a name of `SystemOnBuckets.state`: ``group`` (an
    index, or NONE), ``node, entries``; perhaps ``layer``, a number that follows the name.  `told`
    has the messages that build the overlay, by a kind of `SystemOnBuckets.building`: ``group,
    sender, to``; perhaps ``messages``, the numbers of equal ones.
    """

    edges: Columns
    kept: Mapping[str, Columns] = field(default_factory=dict)
    told: Mapping[str, Columns] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """The data from which overlays are built.

    Attributes
    ----------
    ring : Ring
        All K nodes, whose positions are used everywhere; routers are indices.
    kernel : Kernel
        Queries of the network, such as delays between routers.
    lan_us : int
        The delay of a node's LAN link in each direction, in microseconds.
    seed : int
        The key of every draw.
    capacity : ndarray of int64, shape (K,), or None
        The user's limits of children, by position.
    in_run : bool
        True in a run, in which building is counted: `Built.kept`, `Built.told`.
    routers : int
        The number of routers.
    shared : mapping of str to ndarray
        The arrays of `GroupOverlays.shared_in_run`.
    """

    ring: Ring
    kernel: Kernel
    lan_us: int
    seed: int
    capacity: np.ndarray | None = None
    in_run: bool = False
    routers: int = 0
    shared: Mapping[str, np.ndarray] = field(default_factory=dict)

    def round_trips(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the round trips between pairs of nodes (positions), in microseconds: int64."""
        ends = self.ring.router[a], self.ring.router[b]
        there, back = (node_delays(self.kernel, self.lan_us, *way) for way in (ends, ends[::-1]))
        return np.where(a == b, 0, there + back)


def network_of(
    facts: KnowsRing, now: LivingRound, shared: Mapping[str, np.ndarray] = MappingProxyType({})
) -> Network:
    """Return the data from which overlays are built in a round."""
    of_round = now.kernel, now.lan_us, now.seed, now.capacity, now.in_run, now.routers
    return Network(facts.ring, *of_round, shared)


class GroupOverlays(SystemOnBuckets):
    """A system that floods an overlay of each group's members; rules O1 to O6.

    Subclasses are picklable, and define :meth:`edges`.

    Attributes
    ----------
    carried : tuple of str
        Columns of edges, whole numbers, that copies carry to their receivers.
    in_drawn_order : bool
        True if a node's uplink sends copies in drawn order, False if by nodeId (rule W2).
    clock : str
        The clock of copies: `multicast.TIME` or `multicast.HOPS`.
    processing_us : int
        The time between a node's first copy and its own copies, in microseconds.
    """

    kept_in_buckets: ClassVar[Mapping[str, int]] = {MEMBERS: 0, SILENT: 0, pending.EXPECTED: 0}
    kept: ClassVar[tuple[str, ...]] = (pending.PUBLISHED,)
    member_table: ClassVar[str] = MEMBERS
    recodes: ClassVar[tuple[str, ...]] = ("run", "world")
    state: ClassVar[Mapping[str, str]] = {"neighbours": _NEIGHBOURS}
    payload: ClassVar[tuple[str, ...]] = (PAYLOAD,)
    carried: ClassVar[tuple[str, ...]] = ()
    in_drawn_order: ClassVar[bool] = True
    clock: str = TIME
    processing_us: int = 0

    @property
    def control(self) -> tuple[str, ...]:
        """The kinds of control messages: none, as worlds build overlays without messages (O6)."""
        return ()

    def build(self, overlays: Overlays, network: Network) -> Built:
        """Return overlays with entries and messages; by default only with their :meth:`edges`."""
        return Built(self.edges(overlays, network))

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of the pictures of groups in a run; by default none.

        The columns are ``group`` (an index), ``parent`` and ``child`` (positions), which form a
        tree of each group, ``rank``, and perhaps ``value`` as in `multicast.PICTURE`.  Rows with
        equal ends are left out.
        """
        return {}

    def shared_in_run(self, network: Network, player: SystemPlayer) -> dict[str, np.ndarray]:
        """Return arrays by name, which all buckets can read while they build; by default none."""
        return {}

    def state_of(self, tables: Tables, groups: np.ndarray) -> Mapping[str, Columns]:
        """Return the state of some `groups` (indices, ascending) as tables; by default none."""
        return {}

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges over which each publication may go: ``publication, node, peer``,
        :attr:`carried`.

        The result must depend on a group's own members and publications only.
        """
        raise NotImplementedError

    def forwards(self, first: Columns, edges: Columns) -> np.ndarray:
        """Return True for edges on which a node forwards its first copy; by default all edges."""
        return dissemination.to_all(first, edges)

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        """See `SystemOnBuckets.play_round`."""
        round = self.begin_round(player, now)
        changes = {QUITS: to_nodes(now.quit), JOINS: to_nodes(now.join)}
        player.play(Remember(round), changes)
        return self.publish(player, kept, round, now)

    def begin_round(self, player: SystemPlayer, now: LivingRound) -> OverlayRound:
        """Return the data that all programs of a round share."""
        made = self.shared_in_run(network_of(player.facts, now), player) if now.in_run else {}
        shared = player.share("facts of overlays", lambda: made) if made else {}
        ends = now.publish.group, now.publish.node
        tree = self.trees_of(now.number, *ends)
        trees = 1 + int(tree.max(initial=0))
        topic = mixed_key([*ends, tree], [len(now.ring), trees])
        topic, first, of = np.unique(topic, return_index=True, return_inverse=True)
        of_source, tree = arrays.divided(topic, trees)
        published, source = arrays.divided(of_source, len(now.ring))
        late = None if self.merged else now.late_copies(player.facts, first)
        topics = published, source, of, tree
        return OverlayRound(
            self, player.bounds, player.facts, now.for_buckets(), *topics, late, shared
        )

    def publish(
        self, player: SystemPlayer, kept: Tables, round: OverlayRound, now: LivingRound
    ) -> SystemRound:
        """Let publications spread; in a world, also count messages and due publications."""
        measured = round.multicasts if now.measures else None
        if len(now.publish):
            self.spread(player, round, now)
            player.play(CountOverlayCopies(round))
        if now.in_run:  # which reads no counts
            return SystemRound({}, Publications(), multicasts=measured, begun=self.begun)
        due, _ = pending.play_account(player, kept, now, partial(CountDue, round))
        return SystemRound({}, due, multicasts=measured, begun=self.begun)

    @property
    def begun(self) -> Begun | None:
        """The publications that the world still has to time by a clock with bandwidth: none."""
        return Begun()

    def spread(self, player: SystemPlayer, round: OverlayRound, now: LivingRound) -> None:
        """Let publications spread over edges: write `dissemination.ARRIVALS`, `ARRIVED_COPIES`."""
        player.play(Build(round))
        topic, network = np.arange(len(round.source)), (round.facts, round.bounds, now.kernel)
        if now.links is None or self.merged:
            spread = dissemination.Dissemination(
                *(round.bounds, round.facts, now.kernel, now.lan_us, self.forwards),
                *(self.carried, self.clock, self.processing_us, self.lost_on_topics(round, now)),
                late=round.late,
            )
            player.play(spread, {dissemination.START: {program.AT: round.source, "group": topic}})
        else:
            seed = now.links.seed if self.in_drawn_order else None
            rules: dict[str, Any] = {"held_back": False, "spares": False, "seed": seed}
            clock = now.links.clock(*network, self.processing_us, **rules)
            publish = now.publish
            published = TimedPublications(publish.at_us, round.of, publish.node, publish.size)
            names = dissemination.EDGES, dissemination.ARRIVALS, dissemination.ARRIVED_COPIES
            lost = now.lost_copies(round.facts)
            late = now.late_copies(round.facts)
            played = flood_along(clock, published, names, self.forwards, self.carried, lost, late)
            player.keep(played, "clock with bandwidth")

    def lost_on_topics(self, round: OverlayRound, now: LivingRound) -> losses.Lost | None:
        """Return the losses of copies, by the index of the topic; None if no copies are lost."""
        first = np.unique(round.of, return_index=True)[1]  # each topic has one publication
        return None if self.merged else now.lost_copies(round.facts, first)


@dataclass(frozen=True)
class OverlayRound:
    """The data that all programs of a round share: nodes, groups, publications; picklable."""

    system: GroupOverlays
    bounds: np.ndarray
    facts: KnowsRing
    now: LivingRound  # `LivingRound.for_buckets`
    #: The topics, which are the different sources of each group, and the trees of their
    #: publications: the index of the group and the position of the source, ascending; the topic of
    #: each publication; and the tree of each topic.
    published: np.ndarray
    source: np.ndarray
    of: np.ndarray
    tree: np.ndarray
    late: losses.Late | None  # the jitter of copies, by the index of the topic
    shared: Mapping[str, np.ndarray]  # `Network.shared`

    @property
    def multicasts(self) -> Multicasts:
        """The measured publications."""
        return Multicasts.of_round(self.now)

    @property
    def size(self) -> int:
        """The number of nodes, K."""
        return len(self.facts.ring)

    def delays(self, topic: np.ndarray, sender: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the delays (us) of copies, with jitter, where no clock has timed them."""
        router = self.facts.ring.router
        delay_us = node_delays(self.now.kernel, self.now.lan_us, router[sender], router[node])
        if self.late is None:
            return delay_us
        return delay_us + self.late(topic, {"node": sender, "peer": node}, delay_us)

    def builders(self, group: np.ndarray) -> np.ndarray:
        """Return a position in each group's builder, the bucket that builds its overlay: int64."""
        buckets = self.bounds[:-1][np.diff(self.bounds) > 0]
        return buckets[group % len(buckets)]


@dataclass(frozen=True)
class OverlayProgram:
    """A program of a round of a system that floods overlays; `round` has the common data."""

    round: OverlayRound

    @property
    def bounds(self) -> np.ndarray:
        """The positions at which the buckets begin, and the number of nodes."""
        return self.round.bounds

    @property
    def network(self) -> Network:
        """The data from which overlays are built."""
        return network_of(self.round.facts, self.round.now, self.round.shared)


class Remember(OverlayProgram):
    """Buckets note which of their nodes are members: rule O1."""

    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`MEMBERS` and :data:`SILENT`; nothing is sent."""
        round, size = self.round, self.round.size
        alive, known = round.now.alive, round.now.overlay.known_dead(round.now.number)
        members = keys_in(tables, MEMBERS)
        lives = alive[members % size]
        silent = arrays.distinct(np.concatenate([keys_in(tables, SILENT), members[~lives]]))
        silent = silent[~alive[silent % size] & ~known[silent % size]]
        quits, joins = (keys_sent(inbox, kind, size) for kind in (QUITS, JOINS))
        stay = members[lives & (arrays.find_sorted(quits, members) < 0)]
        tables[MEMBERS] = {"key": arrays.distinct(np.concatenate([stay, joins]))}
        tables[SILENT] = {"key": silent}
        return {}


class Build(OverlayProgram):
    """Each group's builder (a bucket) builds its overlay: rule O2."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Send members to builders, send edges to their nodes, and write `dissemination.EDGES`."""
        if not superstep:
            return self._tell_members(tables)
        if _MEMBER in inbox:
            return {_EDGE: self._build(tables, inbox[_MEMBER]["key"])}
        if _EDGE in inbox:
            edges = dict(inbox[_EDGE])
            tables[dissemination.EDGES] = {"node": edges.pop(program.AT), **edges}
            if _NEIGHBOURS in self.round.system.state.values():
                self._note_neighbours(tables)
        return {}

    def _note_neighbours(self, tables: Tables) -> None:
        """Write the key (group, node) of a node for each neighbour in the group's first topic."""
        round, edges = self.round, tables[dissemination.EDGES]
        first = np.sort(np.unique(round.published, return_index=True)[1])
        mine = arrays.find_sorted(first, edges["group"]) >= 0
        group = round.published[edges["group"][mine]]
        tables[_NEIGHBOURS] = {"key": key_of([group, edges["node"][mine]], round.size)}

    def _tell_members(self, tables: Tables) -> Outbox:
        round = self.round
        key = np.concatenate([keys_in(tables, name) for name in (MEMBERS, SILENT)])
        key = key[arrays.find_sorted(arrays.distinct(round.published), key // round.size) >= 0]
        if not len(key):
            return {}
        return {_MEMBER: {program.AT: round.builders(key // round.size), "key": key}}

    def _build(self, tables: Tables, members: np.ndarray) -> Columns:
        """Build the overlays of `members` (keys); return the edges of live nodes as messages."""
        round, size = self.round, self.round.size
        groups = arrays.distinct(members // size)
        mine = np.flatnonzero(arrays.find_sorted(groups, round.published) >= 0)
        published, source = round.published[mine], round.source[mine]
        place = arrays.distinct(np.concatenate([members, key_of([published, source], size)]))
        overlays = Overlays(
            round.now.group[groups],
            arrays.index_sorted(groups, place // size),
            place % size,
            arrays.index_sorted(groups, published),
            source,
            None if round.now.key_hi is None else round.now.key_hi[groups],
            arrays.find_sorted(np.sort(members), place) >= 0,
            bool(mine[0] == 0),
            round.system.state_of(tables, groups),
            round.tree[mine],
        )
        network = self.network
        built = round.system.build(overlays, network)
        self._count(tables, groups, built)
        if network.in_run:
            self._note_picture(tables, groups, round.system.picture(overlays, network))
        made = built.edges
        names = ("peer", *round.system.carried)
        sent = {program.AT: made["node"], "group": mine[made["publication"]]}
        sent |= {name: made[name] for name in names}
        return packing.take(sent, round.now.alive[sent[program.AT]])

    def _note_picture(self, tables: Tables, groups: np.ndarray, edges: Columns) -> None:
        """Keep the edges of the watched group, which the page of the run draws, in `PICTURE`."""
        if edges:
            none = np.full(len(edges["group"]), np.nan)
            edges = {"value": none, **edges, "group": groups[edges["group"]]}
            some = arrays.find_sorted(self.round.now.watched, edges["group"]) >= 0
            tables[PICTURE] = packing.take(edges, some & (edges["parent"] != edges["child"]))

    def _count(self, tables: Tables, groups: np.ndarray, built: Built) -> None:
        """Count entries of nodes, and messages by which overlays were built (`Built`)."""
        round = self.round
        for name, kept in built.kept.items():
            group = np.where(kept["group"] < 0, arrays.NONE, groups[kept["group"]])
            key = key_of([group, kept["node"]], round.size)
            more = {one: kept[one] for one in ("entries", "layer") if one in kept}
            tables[round.system.state[name]] = {"key": key, **more}
        for kind, told in built.told.items():
            arrives = np.ones(len(told["to"]), dtype=bool)
            ends = told["sender"], told["to"], groups[told["group"]]
            round.now.tally.observer.send(tables, kind, arrives, *ends, told.get("messages"))


@dataclass(frozen=True)
class CountOverlayCopies(program.SilentProgram, OverlayProgram):
    """Buckets count copies and expected receivers (O4, O5), and note copies for measures."""

    def change(self, bucket: int, tables: Tables) -> None:
        """Write a table of counts, and `rounds.pending.EXPECTED`."""
        now = self.round.now
        tables.pop(dissemination.EDGES, None)
        came, copies = (
            self._pop(tables, name)
            for name in (dissemination.ARRIVALS, dissemination.ARRIVED_COPIES)
        )
        came = packing.take(came, now.alive[came["node"]])
        came["delay_us"] = came.pop("at_us")
        if not now.in_run:
            arrived = copies["publication"][self._arrive(tables, copies)]
            size, members = self.round.size, keys_in(tables, MEMBERS)
            pending.count_copies(tables, now, size, members, came, arrived)
        if now.measures:
            self._note(tables, came, copies)

    def _pop(self, tables: Tables, name: str) -> dict[str, np.ndarray]:
        """Remove and return a table of copies, by ``publication``."""
        rows = dict(tables.pop(name, {}))
        if not rows:
            names = "publication", "sender", "node", "hops", "at_us"
            return dict.fromkeys(names, arrays.whole_numbers())
        if "publication" in rows:
            return rows
        topic = rows.pop("group")  # all publications of a topic go the same way
        of_topic = np.argsort(self.round.of, kind="stable")
        first, end = (
            np.searchsorted(self.round.of[of_topic], topic, side) for side in ("left", "right")
        )
        row, place = arrays.expand(first, end)
        rows, parts = packing.take(rows, row), self.round.now.parts
        rows["publication"] = of_topic[place]
        if not self.round.system.merged:
            return rows
        # IP multicast sends as many parts as are needed (rule W14)
        return packing.take(rows, rows["publication"] % parts.sent < parts.needed)

    def _arrive(self, tables: Tables, copies: Columns) -> np.ndarray:
        """Count copies as messages; return True for those that arrive."""
        now = self.round.now
        arrives = now.alive[copies["node"]]
        if "lost" in copies:
            arrives &= ~copies["lost"]
        ends = copies["sender"], copies["node"], now.publish.group[copies["publication"]]
        size = now.publish.size[copies["publication"]] if now.scheduled else None
        now.tally.observer.send(tables, PAYLOAD, arrives, *ends, size=size)
        return arrives

    def _note(self, tables: Tables, came: Columns, copies: Columns) -> None:
        """Write the tables of copies and deliveries of the publications that are measured."""
        round = self.round
        if packing.count_rows(came):
            rows = pending.measured_rows(round.now, packing.take(came, came["hops"] > 0))
            of_deliveries = "group", "publication", "node", "hops", "delay_us"
            tables[DELIVERED] = {name: rows[name] for name in of_deliveries}
        if packing.count_rows(copies) and notes_copies(round.now.measures):
            rows = pending.measured_rows(round.now, copies)
            if "sent_us" not in rows:
                ends = round.of[rows["publication"]], rows["sender"], rows["node"]
                rows["sent_us"] = rows["at_us"] - round.delays(*ends)
            names = "group", "publication", "sender", "hops", "sent_us", "first", "lost"
            kept = {name: rows[name] for name in names if name in rows}
            tables[CARRIED] = {"to": rows["node"], **kept}


@dataclass(frozen=True)
class CountDue(program.SilentProgram, OverlayProgram):
    """Buckets count the publications that are due: rule O5."""

    last: int  # the last round whose publications are due

    def change(self, bucket: int, tables: Tables) -> None:
        """Write `rounds.pending.DUE`."""
        groups = len(self.round.now.group), self.round.size
        pending.count_due(tables, self.last, *groups, keys_in(tables, MEMBERS))
