"""Connections and meshes of all topics, as programs on buckets of nodes.

First everybody dials (:class:`Dial`); then subscribers JOIN, and heartbeats follow
(:class:`Maintain`).  One superstep of each sends GRAFT and PRUNE, the next takes them and sends
PRUNE to those that are refused, the last takes these.

References
----------
docs/rules.md, G2 to G9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scribe_spark import draws
from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.core.arrays import expand, read_table
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables
from scribe_spark.gossipsub.choosing import Names, sample_others
from scribe_spark.gossipsub.links import DIALLED, WAS_DIALLED, BackOff, Links, Space, turned_way
from scribe_spark.gossipsub.router import Router
from scribe_spark.gossipsub.rules import GossipRules
from scribe_spark.gossipsub.subscribers import KnowsSubscribers, dialled

__all__ = [
    "BACK_OFF",
    "CONNECTIONS",
    "GRAPH",
    "KnowsDelays",
    "MESH",
    "TOLD",
    "Topics",
    "TopicsProgram",
    "building",
]

#: Tables of a bucket: its nodes' connections and meshes (`Links`), their back-off (`BackOff`), and
#: the GRAFTs and PRUNEs that they have taken (one table for each play); and, where there is one
#: graph for all topics, its connections, as those of a topic 0.
CONNECTIONS, MESH, BACK_OFF, TOLD, GRAPH = "connections", "mesh", "back-off", "told", "graph"

_DIAL, _GRAFT, _PRUNE, _REFUSE = "dial", "GRAFT", "PRUNE", "refuse"


class KnowsDelays(Protocol):
    """Knows the delays between routers, in microseconds; see `underlay.Kernel`."""

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Topics:
    """What the programs of a run share; picklable.

    Attributes
    ----------
    bounds : ndarray of int64, shape (B + 1,)
    facts : KnowsRing
    number : ndarray of int64, shape (T,)
        The numbers of the topics, ascending.
    subscribers : KnowsSubscribers
    rules : GossipRules
    kernel : KnowsDelays
    lan_us : int
    """

    bounds: np.ndarray
    facts: KnowsRing
    number: np.ndarray
    subscribers: KnowsSubscribers
    rules: GossipRules
    kernel: KnowsDelays
    lan_us: int

    @property
    def names(self) -> Names:
        """The numbers by which draws are keyed."""
        return Names(self.number, self.facts.ring.node, self.rules.seed)

    @property
    def space(self) -> Space:
        """How keys are made."""
        return Space(len(self.facts.ring))

    def places(self, bucket: int) -> np.ndarray:
        """Return the subscribers among a bucket's nodes: int64, ascending."""
        first, last = self.bounds[bucket : bucket + 2]
        return self.subscribers.directory.between(first, last)


@dataclass(frozen=True)
class TopicsProgram:
    """A program over topics."""

    topics: Topics

    @property
    def bounds(self) -> np.ndarray:
        """The first position of each bucket, and the number of nodes."""
        return self.topics.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        raise NotImplementedError


# --- connections


@dataclass(frozen=True)
class Dial(TopicsProgram):
    """Subscribers dial others of their topics; rule G2."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Dial; then take what others have dialled."""
        space, topics = self.topics.space, self.topics
        if superstep:
            came = inbox[_DIAL]
            place = came["topic"] * space.size + came[AT]
            _take_dials(tables, CONNECTIONS, space.key(place, came["sender"]))
            return {}
        directory, place = topics.subscribers.directory, topics.places(bucket)
        of, peer = dialled(topics.names, directory, place, topics.rules.dials, heartbeat=0)
        topic, node = np.divmod(place[of], space.size)
        _own_dials(tables, CONNECTIONS, space.key(place[of], peer))
        return {_DIAL: {AT: peer, "topic": topic, "sender": node}}


@dataclass(frozen=True)
class DialGraph(TopicsProgram):
    """All nodes dial others, once for all topics; rule G3.  :class:`Meet` follows."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Dial; then take what others have dialled."""
        space, names = self.topics.space, self.topics.names
        if superstep:
            came = inbox[_DIAL]
            _take_dials(tables, GRAPH, space.key(came[AT], came["sender"]))
            return {}
        node = np.arange(*self.bounds[bucket : bucket + 2])
        shared = draws.bits_np(names.seed, "gossipsub graph", names.node[node])
        others = np.full(len(node), space.size - 1)
        of, chosen = sample_others(shared, others, self.topics.rules.dials)
        peer = chosen + (chosen >= node[of])
        _own_dials(tables, GRAPH, space.key(node[of], peer))
        return {_DIAL: {AT: peer, "sender": node[of]}}


@dataclass(frozen=True)
class Meet(TopicsProgram):
    """Nodes of the graph that subscribe to the same topic are connected in it; rule G3."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the connections; nothing is sent."""
        space, directory = self.topics.space, self.topics.subscribers.directory
        graph, place = read_table(Links, tables, GRAPH), self.topics.places(bucket)
        topic, node = np.divmod(place, space.size)
        of, row = expand(*space.rows(graph, node))
        peer = graph.key[row] % space.size
        both = directory.has(topic[of] * space.size + peer)
        of, row, peer = of[both], row[both], peer[both]
        tables[CONNECTIONS] = {"key": space.key(place[of], peer), "way": graph.way[row]}
        return {}


def _own_dials(tables: Tables, name: str, key: np.ndarray) -> None:
    key = np.sort(key)
    tables[name] = {"key": key, "way": np.full(len(key), DIALLED, dtype=np.int8)}


def _take_dials(tables: Tables, name: str, key: np.ndarray) -> None:
    """Connections that this end has not dialled, or that both have."""
    own = tables[name]["key"]
    # key and way in one number: sorting it brings both dials of a connection together
    both = np.sort(np.concatenate([own * 4 + DIALLED, key * 4 + WAS_DIALLED]))
    key, way = both >> 2, (both & 3).astype(np.int8)
    again = np.r_[False, key[1:] == key[:-1]]
    way[:-1][again[1:]] = DIALLED + WAS_DIALLED
    tables[name] = {"key": key[~again], "way": way[~again]}


# --- meshes


@dataclass(frozen=True)
class Maintain(TopicsProgram):
    """A wave of JOINs, or a phase of a heartbeat.

    Attributes
    ----------
    heartbeat : int
        Its number.
    waves : int
        In how many waves subscribers JOIN.
    joined : int
        The last wave that has joined, or joins now.
    joins : bool
        Whether the wave JOINs; else it is a heartbeat of all who have joined.
    phase : int
        Whose heartbeat it is.
    """

    heartbeat: int
    waves: int = 1
    joined: int = 0
    joins: bool = False
    phase: int = 0

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Decide; take GRAFT and PRUNE, and refuse; take the refusals."""
        router = self._router(tables)
        until = self.heartbeat + self.topics.rules.prune_backoff
        out: dict[str, Columns] = {}
        if superstep == 0:
            out = self._decide(bucket, router)
        else:
            self._note(tables, inbox)
            for kind in (_PRUNE, _REFUSE):
                if kind in inbox:
                    router.take_prunes(self._keys(inbox[kind]), until)
            if _GRAFT in inbox:
                key = self._keys(inbox[_GRAFT])
                refused = router.take_grafts(key, inbox[_GRAFT]["way"], self.heartbeat)
                out = {_REFUSE: self._messages(refused)}
        if superstep or any(len(sent[AT]) for sent in out.values()):
            tables[MESH], tables[BACK_OFF] = router.mesh.to_columns(), router.back_off.to_columns()
        return out

    def _router(self, tables: Tables) -> Router:
        topics = self.topics
        mesh, back_off = read_table(Links, tables, MESH), read_table(BackOff, tables, BACK_OFF)
        connections = read_table(Links, tables, CONNECTIONS)
        has_joined = self._has_joined if self.waves > 1 else None
        named = (topics.rules, topics.names, topics.space)
        return Router(*named, connections, mesh, back_off, has_joined)

    def _wave(self, topic: np.ndarray, node: np.ndarray) -> np.ndarray:
        names = self.topics.names
        drawn = draws.bits_np(names.seed, "gossipsub wave", names.topic[topic], names.node[node])
        return (drawn % np.uint64(self.waves)).astype(np.int64)

    def _has_joined(self, topic: np.ndarray, node: np.ndarray) -> np.ndarray:
        return self._wave(topic, node) <= self.joined

    def _decide(self, bucket: int, router: Router) -> dict[str, Columns]:
        """Return what the nodes that act send."""
        names, place = self.topics.names, self.topics.places(bucket)
        topic, node = np.divmod(place, self.topics.space.size)
        if self.waves > 1:
            wave = self._wave(topic, node)
            place = place[wave == self.joined if self.joins else wave <= self.joined]
        if self.joins:
            grafted = router.join(place, self.heartbeat)
            return {_GRAFT: self._grafts(router, grafted)}
        phases = self.topics.rules.heartbeat_phases
        if phases > 1:
            drawn = draws.bits_np(
                names.seed, "gossipsub phase", names.node[place % self.topics.space.size]
            )
            place = place[drawn % np.uint64(phases) == self.phase]
        grafted, pruned = router.heartbeat(place, self.heartbeat)
        return {_GRAFT: self._grafts(router, grafted), _PRUNE: self._messages(pruned)}

    def _messages(self, key: np.ndarray) -> dict[str, np.ndarray]:
        """Messages along links, to their other ends."""
        topic, node, peer = self.topics.space.split(key)
        return {AT: peer, "topic": topic, "sender": node}

    def _grafts(self, router: Router, key: np.ndarray) -> dict[str, np.ndarray]:
        way = router.mesh.way[router.mesh.find(key)]
        return {**self._messages(key), "way": turned_way(way)}

    def _keys(self, came: Columns) -> np.ndarray:
        space = self.topics.space
        return space.key(came["topic"] * space.size + came[AT], came["sender"])

    def _note(self, tables: Tables, inbox: Inbox) -> None:
        """GRAFTs and PRUNEs are counted at whom takes them."""
        for kind, name in ((_GRAFT, "GRAFT"), (_PRUNE, "PRUNE"), (_REFUSE, "PRUNE")):
            if kind in inbox:
                play = f"{self.heartbeat}.{int(not self.joins)}.{self.phase}"
                tables[f"{TOLD} {name} {kind} {play}"] = {"key": self._keys(inbox[kind])}


def building(topics: Topics, config: GossipSubConfig) -> Iterator[tuple[str, TopicsProgram]]:
    """Yield the programs that connect subscribers and make their meshes, and what each is called.

    Connections come first, then waves of JOINs with heartbeats between them, then the heartbeats
    (rule G4).
    """
    if config.discovery == "graph":
        yield "dial", DialGraph(topics)
        yield "meet", Meet(topics)
    else:
        yield "dial", Dial(topics)
    waves = config.join_waves if config.joins == "waves" else 1
    for wave in range(waves):
        if config.joins != "unconnected":
            yield "JOIN", Maintain(topics, wave, waves, wave, joins=True)
        if wave < waves - 1:
            yield from _heartbeat(topics, wave, waves, wave)
    for heartbeat in range(waves - 1, waves - 1 + config.heartbeats):
        yield from _heartbeat(topics, heartbeat, waves, waves - 1)


def _heartbeat(
    topics: Topics, heartbeat: int, waves: int, joined: int
) -> Iterator[tuple[str, TopicsProgram]]:
    for phase in range(topics.rules.heartbeat_phases):
        yield f"heartbeat {heartbeat}", Maintain(topics, heartbeat, waves, joined, phase=phase)
