"""Connections and meshes of all topics, as programs on buckets of nodes.

First, subscribers dial (:class:`Dial`); then they JOIN, and heartbeats follow (:class:`Maintain`).
If dials are spread over heartbeats, subscribers continue to dial before each heartbeat.  `Maintain`
has three supersteps: send GRAFT and PRUNE; receive them, and answer refused GRAFTs with PRUNE;
receive these.  The rounds of :mod:`.round` play the programs.

Rules: docs/rules.md, G2 to G9, G19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core import arrays, draws
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import AT, Inbox, Outbox, SilentProgram, Tables, append
from scribe_spark.rounds.system import LivingRound
from scribe_spark.systems.gossipsub.router import (
    DIALLED,
    WAS_DIALLED,
    BackOff,
    Links,
    LinkSpace,
    Router,
    least,
    turned_way,
)
from scribe_spark.underlay.protocol import node_delays

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.gossipsub.config import GossipSubConfig

#: The table of a bucket with the subscribers among its nodes.
SUBSCRIBERS = "members"


@dataclass
class Subscribers(arrays.SortedTable):
    """The live subscribers in a bucket, by topic and node, with the heartbeat of their join."""

    #: The heartbeat in which the subscriber joins the group; with waves, it may JOIN later.
    joined: np.ndarray = field(default_factory=arrays.whole_numbers)


@dataclass(frozen=True)
class Directory:
    """The subscribers of all topics, ascending by topic and position.

    Discovery is not part of GossipSub's specification; all buckets share the directory (G1 to G3).
    """

    shared: Mapping[str, np.ndarray]  # ``place`` and ``offsets``
    size: int

    @classmethod
    def of(cls, place: np.ndarray, topics: int, size: int) -> Directory:
        """Return the directory of subscribers (places, in any order, also repeated)."""
        place = arrays.distinct(place)
        counts = np.bincount(place // size, minlength=topics)
        return cls({"place": place, "offsets": arrays.offsets_of(counts)}, size)

    @property
    def place(self) -> np.ndarray:
        """The sorted keys ``topic * size + node``."""
        return self.shared["place"]

    @property
    def offsets(self) -> np.ndarray:
        """The index of the first key of each topic, and the number of keys."""
        return self.shared["offsets"]

    def others(self, place: np.ndarray) -> np.ndarray:
        """Return how many other subscribers each place's topic has: int64."""
        return np.diff(self.offsets)[place // self.size] - 1

    def has(self, place: np.ndarray) -> np.ndarray:
        """Return True for places (keys of topic and node) in the directory."""
        return arrays.find_sorted(self.place, place) >= 0


# --- mesh

#: Tables of a bucket: connections and meshes of its nodes (`Links`), and their back-off
#: (`BackOff`); the connections of the graph that all topics share, stored as those of topic 0.
CONNECTIONS, MESH, BACK_OFF, GRAPH = "connections", "mesh", "back-off", "graph"

#: The table of peers that nodes have yet to dial (`SortedTable`, by link); only if
#: `dials_per_heartbeat` spreads dials over heartbeats.
TO_DIAL = "to dial"

#: The table with the row ranges of places in the connections (`Runs`); valid until a connection
#: changes.
CONNECTED = "connected"

#: Tables of a bucket between heartbeats of a round: places that the last heartbeat could change,
#: and places that have joined or received GRAFT or PRUNE since that heartbeat began.
UNSETTLED, TOUCHED = "unsettled", "touched"

_DIAL, _GRAFT, _PRUNE, _REFUSE = "dial", "GRAFT", "PRUNE", "refuse"


@dataclass(frozen=True)
class Topics:
    """The topics of a round, and the parameters that all programs share; picklable."""

    bounds: np.ndarray  # (B + 1,)
    facts: KnowsRing
    directory: Directory
    rules: GossipSubConfig  # the section of the config with defaults filled in
    now: LivingRound  # the heartbeat (`LivingRound.for_buckets`)

    @property
    def space(self) -> LinkSpace:
        """The conversion between topics, nodes, peers and keys of tables, and draws of links."""
        node = self.facts.ring.node
        return LinkSpace(len(node), self.now.group, node, self.now.seed)

    @property
    def all_live(self) -> bool:
        """True if no node is dead."""
        return bool(self.now.alive.all())

    def is_alive(self, position: np.ndarray) -> np.ndarray:
        """Return True for live nodes."""
        return np.ones(len(position), bool) if self.all_live else self.now.alive[position]

    def observe(
        self,
        tables: Tables,
        kind: str,
        sender: np.ndarray,
        to: np.ndarray,
        arrives: np.ndarray | None = None,
        topic: np.ndarray | None = None,
        size: np.ndarray | None = None,
    ) -> None:
        """Count messages of a kind; without `arrives`, those to live nodes arrive."""
        arrives = self.is_alive(to) if arrives is None else arrives
        self.now.tally.observer.send(tables, kind, arrives, sender, to, topic, size=size)

    def delay(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the delays between the nodes `a` and `b` (us): int64."""
        router = self.facts.ring.router
        return node_delays(self.now.kernel, self.now.lan_us, router[a], router[b])

    def wave(self, place: np.ndarray) -> np.ndarray:
        """Return the first heartbeat in which each subscriber (a place) may JOIN: int64."""
        topic, node = arrays.divided(place, self.space.size)
        of_node = self.facts.ring.node[node]
        drawn = draws.bits_np(self.now.seed, "gossipsub wave", self.now.group[topic], of_node)
        return (drawn % np.uint64(self.rules.waves)).astype(np.int64)


@dataclass(frozen=True)
class TopicsProgram:
    """The base class of programs on topics."""

    topics: Topics

    @property
    def bounds(self) -> np.ndarray:
        """The first position of each bucket, and the number of nodes."""
        return self.topics.bounds

    @property
    def number(self) -> int:
        """The number of the heartbeat."""
        return self.topics.now.number

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        raise NotImplementedError

    def router(self, tables: Tables) -> Router:
        """Return the connections, meshes and back-off of a bucket's nodes as a `Router`."""
        topics = self.topics
        connections, mesh = (arrays.read_table(Links, tables, name) for name in (CONNECTIONS, MESH))
        back_off = arrays.read_table(BackOff, tables, BACK_OFF)
        return Router(topics.rules, topics.space, connections, mesh, back_off)

    def send(
        self, tables: Tables, kind: str, key: np.ndarray, **columns: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Count messages along links (keys), and return those that arrive, to be sent."""
        topics = self.topics
        topic, node, peer = topics.space.split(key)
        messages = {AT: peer, "topic": topic, "sender": node, **columns}
        arrives = topics.is_alive(peer)
        topics.observe(tables, kind, node, peer, arrives, self.group_of(topic))
        return messages if topics.all_live else take(messages, arrives)

    def group_of(self, topic: np.ndarray) -> np.ndarray | None:
        """Return the groups to which messages of topics are counted; None: no group."""
        return topic

    def keys(self, came: Columns) -> np.ndarray:
        """Return the links on which messages came, as keys (topic, receiving node, sender)."""
        space = self.topics.space
        return space.key(came["topic"] * space.size + came[AT], came["sender"])


# --- connections


@dataclass(frozen=True)
class Dial(TopicsProgram):
    """Subscribers with too few connections dial other subscribers; rules G2 and G19."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Dial; then accept the dials of other nodes."""
        if superstep:
            _connect(tables, CONNECTIONS, self.keys(inbox[_DIAL]), WAS_DIALLED)
            return {}
        connections = arrays.read_table(Links, tables, CONNECTIONS)
        # in later heartbeats of a round, subscribers dial peers drawn before (:data:`TO_DIAL`)
        anew = self.topics.now.begins_round
        key = self._drawn(tables, connections) if anew else arrays.whole_numbers()
        if self.topics.rules.dialled_each:
            key = self._next(tables, connections, key)
        else:
            key = key[~connections.has(key)]
        _connect(tables, CONNECTIONS, key, DIALLED)
        return {_DIAL: self.send(tables, _DIAL, key)}

    def _drawn(self, tables: Tables, connections: Links) -> np.ndarray:
        """Return links (topic, node, peer) that subscribers with few connections draw."""
        space, topics = self.topics.space, self.topics
        directory, place = topics.directory, arrays.read_table(Subscribers, tables, SUBSCRIBERS).key
        wanted = np.minimum(topics.rules.dials, directory.others(place))
        few = space.count(connections, place) < wanted
        if TO_DIAL in tables:
            few &= space.count(arrays.read_table(arrays.SortedTable, tables, TO_DIAL), place) == 0
        place = place[few]
        topic, node = arrays.divided(place, directory.size)
        first = directory.offsets[topic]
        own = arrays.find_sorted(directory.place, place) - first
        shared = space.bits("gossipsub dial", self.number, topic, node)
        of, chosen = draws.sample_others(shared, directory.others(place), topics.rules.dials)
        chosen = chosen + (chosen >= own[of])
        return space.key(place[of], directory.place[first[of] + chosen] % directory.size)

    def _next(self, tables: Tables, connections: Links, drawn: np.ndarray) -> np.ndarray:
        """Return the links (keys) to dial in this heartbeat; store the others for later ones."""
        space, topics = self.topics.space, self.topics
        to_dial = arrays.read_table(arrays.SortedTable, tables, TO_DIAL)
        to_dial.insert(drawn)
        topic, node, peer = space.split(to_dial.key)
        subscribes = topics.directory.has(topic * space.size + peer)
        to_dial.keep(subscribes & ~connections.has(to_dial.key))
        topic, node, peer = space.split(to_dial.key)
        bits = space.bits("gossipsub dial order", self.number, topic, node, peer)
        places, of = np.unique(topic * space.size + node, return_inverse=True)
        row = least(of, bits, np.full(len(places), topics.rules.dialled_each))
        key = to_dial.key[row]
        to_dial.drop(row)
        tables.pop(TO_DIAL, None)
        if len(to_dial):
            tables[TO_DIAL] = to_dial.to_columns()
        return key


@dataclass(frozen=True)
class DialGraph(TopicsProgram):
    """All nodes dial others, once for all topics; rule G3. :class:`Meet` follows.

    Two ends dial again when one arrives and the other one lives.
    """

    enter: np.ndarray | None = None  # the nodes that enter in the round; None: the first round

    def group_of(self, topic: np.ndarray) -> None:
        """See `TopicsProgram.group_of`."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Dial; then accept the dials of other nodes."""
        space = self.topics.space
        if superstep:
            _connect(tables, GRAPH, self.keys(inbox[_DIAL]), WAS_DIALLED)
            return {}
        if self.enter is not None:
            graph = arrays.read_table(Links, tables, GRAPH)
            ends = graph.key[graph.way & DIALLED > 0]
            node, peer = ends // space.size % space.size, ends % space.size
            enters = np.zeros(space.size, dtype=bool)
            enters[self.enter] = True
            self._count(tables, ends[enters[node] | enters[peer]])
            return {}
        node = np.arange(*self.bounds[bucket : bucket + 2])
        shared = draws.bits_np(space.seed, "gossipsub graph", space.number[node])
        others = np.full(len(node), space.size - 1)
        of, chosen = draws.sample_others(shared, others, self.topics.rules.dials)
        peer = chosen + (chosen >= node[of])
        key = space.key(node[of], peer)
        _connect(tables, GRAPH, key, DIALLED)
        self._count(tables, key)
        topic, node, peer = space.split(key)
        return {_DIAL: {AT: peer, "topic": topic, "sender": node}}

    def _count(self, tables: Tables, key: np.ndarray) -> None:
        """Count the dials on links whose ends live."""
        _, node, peer = self.topics.space.split(key)
        both = self.topics.is_alive(node) & self.topics.is_alive(peer)
        self.topics.observe(tables, _DIAL, node[both], peer[both])


#: The number of subscriptions whose peers are looked up in one step; 70 peers each take 37 MB a
#: column.
_MEET_AT_ONCE = 2**16


@dataclass(frozen=True)
class Meet(SilentProgram, TopicsProgram):
    """Connect nodes of the graph that subscribe to the same topic; rule G3."""

    def change(self, bucket: int, tables: Tables) -> None:
        """Write the connections."""
        space, directory = self.topics.space, self.topics.directory
        graph = arrays.read_table(Links, tables, GRAPH)
        place = arrays.read_table(Subscribers, tables, SUBSCRIBERS).key
        first, last = space.rows(graph, place % space.size)
        found = []
        for start in range(0, max(len(place), 1), _MEET_AT_ONCE):
            some = slice(start, start + _MEET_AT_ONCE)
            of, row = arrays.expand(first[some], last[some])
            own, peer = place[some][of], graph.key[row] % space.size
            both = np.flatnonzero(directory.has(own - own % space.size + peer))
            key = space.key(own[both], peer[both])
            found.append({"key": key, "way": graph.way[row[both]]})
        if self.topics.now.in_run:
            tables[CONNECTIONS] = concatenate(found)
            return
        connections, met = arrays.read_table(Links, tables, CONNECTIONS), concatenate(found)
        new = ~connections.has(met["key"])
        connections.insert(met["key"][new], way=met["way"][new])
        tables[CONNECTIONS] = connections.to_columns()
        tables.pop(CONNECTED, None)


def _connect(tables: Tables, name: str, key: np.ndarray, way: int) -> None:
    """Add connections to a table; a connection that exists already gets the additional `way`."""
    key, links = np.sort(key), arrays.read_table(Links, tables, name)
    row = links.find(key)
    links.way = links.way.copy()
    links.way[row[row >= 0]] |= way
    links.insert(key[row < 0], way=way)
    tables[name] = links.to_columns()
    tables.pop(CONNECTED, None)


# --- meshes


@dataclass(frozen=True)
class Maintain(TopicsProgram):
    """Subscribers JOIN, or play a phase of a heartbeat: they send GRAFT and PRUNE.

    A mesh is *settled* if its size is within the bounds and it has enough outbound links; a
    heartbeat does not change a settled mesh. So, without events since the previous heartbeat, a
    heartbeat only looks at the places (keys of topic and node) that the previous heartbeat left
    unsettled (:data:`UNSETTLED`) or whose meshes its messages changed (:data:`TOUCHED`).
    """

    #: If True, subscribers JOIN in this heartbeat; otherwise all that have joined maintain meshes.
    joins: bool = False
    phase: int = 0  # the phase of the heartbeat: nodes with this phase act
    all_places: bool = False  # If True, no place is known to be settled

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Send GRAFT and PRUNE; receive them and refuse; receive the refusals (rule G8)."""
        router = self.router(tables)
        if self.number < self.topics.rules.waves - 1:
            router.has_joined = self._has_joined
        if superstep == 0:
            grafted, pruned = self._decide(tables, router)
            way = turned_way(router.mesh.way[router.mesh.find(grafted)])
            out: Outbox = {
                _GRAFT: self.send(tables, _GRAFT, grafted, way=way),
                _PRUNE: self.send(tables, _PRUNE, pruned),
            }
            changed = len(grafted) + len(pruned) > 0
        else:
            out, changed = self._receive(tables, router, inbox), True
        if changed:
            tables[MESH], tables[BACK_OFF] = router.mesh.to_columns(), router.back_off.to_columns()
        return out

    def _receive(self, tables: Tables, router: Router, inbox: Inbox) -> Outbox:
        size = self.topics.space.size
        for came in inbox.values():
            append(tables, TOUCHED, {"key": came["topic"] * size + came[AT]})
        for kind in (_PRUNE, _REFUSE):
            if kind in inbox:
                key = self.keys(inbox[kind])
                router.mesh.discard(key)
                router.take_back_off(key, self.number + self.topics.rules.prune_backoff)
        if _GRAFT not in inbox:
            return {}
        came = inbox[_GRAFT]
        refused = router.take_grafts(self.keys(came), came["way"], self.number)
        return {_REFUSE: self.send(tables, _PRUNE, refused)}

    def _has_joined(self, topic: np.ndarray, node: np.ndarray) -> np.ndarray:
        return self.topics.wave(topic * self.topics.space.size + node) <= self.number

    def _decide(self, tables: Tables, router: Router) -> tuple[np.ndarray, np.ndarray]:
        """Return the links (keys) on which nodes send GRAFT, and those on which they send PRUNE."""
        if self.joins:
            members = arrays.read_table(Subscribers, tables, SUBSCRIBERS)
            place = members.key[self._joined(members) == self.number]
            append(tables, TOUCHED, {"key": place})
            return router.join(place, self.number), arrays.whole_numbers()
        place = router.unsettled(self._changed(tables))
        tables[UNSETTLED] = {"key": place}
        tables.pop(TOUCHED, None)
        phases = self.topics.rules.heartbeat_phases
        if phases > 1:
            node = self.topics.facts.ring.node[place % self.topics.space.size]
            drawn = draws.bits_np(self.topics.now.seed, "gossipsub phase", node)
            place = place[drawn % np.uint64(phases) == self.phase]
        return router.heartbeat(place, self.number)

    def _joined(self, members: Subscribers) -> np.ndarray:
        """Return the heartbeat in which each subscriber JOINs, or has joined: int64."""
        if self.number >= self.topics.rules.waves:
            return members.joined
        return np.maximum(members.joined, self.topics.wave(members.key))

    def _changed(self, tables: Tables) -> np.ndarray:
        """Return the places (topic, node) whose meshes may not be settled, ascending."""
        if self.all_places:
            members = arrays.read_table(Subscribers, tables, SUBSCRIBERS)
            return members.key[self._joined(members) <= self.number]
        there = [tables[name]["key"] for name in (UNSETTLED, TOUCHED) if name in tables]
        return arrays.distinct(np.concatenate([arrays.whole_numbers(), *there]))
