"""Gossip: nodes announce publications by IHAVE, and nodes that lack them ask by IWANT.

In a run, nodes announce the publications that some live subscriber lacks (:class:`Lacking`).  In a
world, nodes announce all that they hold (:class:`Recall`); most IHAVEs reach a live node that lacks
nothing and change nothing, so they are counted at the sender and not sent.  The draws of rule G13
are needed only for connections to dead nodes and to nodes that lack a publication, unless senders
and receivers of all messages are recorded.

References
----------
docs/rules.md, G13, G20, G21, W16.
libp2p/specs, gossipsub-v1.0.md, "Gossip Emission".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core import arrays, draws
from scribe_spark.core.keys import key_of
from scribe_spark.engine.exchange import distinct_rows
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables
from scribe_spark.multicast import TIME
from scribe_spark.rounds.system import DELIVERED
from scribe_spark.systems.gossipsub import publication
from scribe_spark.systems.gossipsub.mesh import (
    CONNECTED,
    CONNECTIONS,
    MESH,
    SUBSCRIBERS,
    Subscribers,
)
from scribe_spark.systems.gossipsub.router import Links, Runs, least

#: The table of a bucket with the publications that nodes hold (`Held`).
HELD = "held"

#: Tables of a heartbeat: connections to dead nodes, and those to nodes that lack a publication.
DEAD_ENDS, LACKING_ENDS = "dead ends", "lacking ends"

# the table of publications that some live subscriber lacks; kinds of messages
_LACKING, _LACKS, _ANSWER = "lacking", "lacks", "answer"

#: The number of places whose connections fit into the processor's cache.
PLACES_AT_ONCE = 2**13


@dataclass
class Held(arrays.SortedTable):
    """Publications that nodes hold, by (index, node), with heartbeat and hops of the first copy."""

    round: np.ndarray = field(default_factory=arrays.whole_numbers)
    hops: np.ndarray = field(default_factory=arrays.whole_numbers)

    def rows_of(self, message: np.ndarray, size: int) -> np.ndarray:
        """Return True for the rows of the publications `message`; `size` is the number of nodes."""
        return np.isin(self.key // size, message)


# --- who lacks what


@dataclass(frozen=True)
class Lacking(publication.PublicationProgram):
    """Tell all buckets which messages some live subscriber lacks.

    If there are none, no message is sent.  The simulator asks this question, not a node.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Tell all buckets which messages are lacking here."""
        if superstep:
            tables[_LACKING] = {"message": arrays.distinct(inbox[_LACKING]["message"])}
            return {}
        arrivals = arrays.read_table(publication.Arrivals, tables, publication.ARRIVALS)
        everything = np.arange(len(self.messages.topic))
        lacks = self.lacking(tables, arrivals, everything)
        message = arrays.distinct(lacks // self._size)
        first = arrays.distinct(self.bounds[:-1][np.diff(self.bounds) > 0])
        return {
            _LACKING: {AT: np.repeat(first, len(message)), "message": np.tile(message, len(first))}
        }

    def lacking(
        self, tables: Tables, arrivals: publication.Arrivals, message: np.ndarray
    ) -> np.ndarray:
        """Return the sorted keys (message, node) of live subscribers that lack a message: int64."""
        if not len(message):
            return message
        topic, node = arrays.divided(
            arrays.read_table(Subscribers, tables, SUBSCRIBERS).key, self._size
        )
        alive = self.topics.is_alive(node)
        topic, node = topic[alive], node[alive]
        order = message[np.argsort(self.messages.topic[message], kind="stable")]
        wanted = self.messages.topic[order]
        of, nth = arrays.expand(
            np.searchsorted(wanted, topic), np.searchsorted(wanted, topic, side="right")
        )
        key = order[nth] * self._size + node[of]
        if (key[1:] < key[:-1]).any():  # true only if a topic has several messages
            key = np.sort(key)
        return key[~arrivals.has(key)]


@dataclass(frozen=True)
class Recall(Lacking):
    """Load the publications that nodes announce; sources that do not subscribe dial (rule G21).

    The peers of a node that lacks one of these publications record their connection to it; the
    simulator tells them, not the node.
    """

    new: np.ndarray  # the messages that are published now
    told: np.ndarray  # the messages that some node announces

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write `publication.ARRIVALS` and `publication.FANOUT`; record lacking nodes."""
        if superstep:
            tables[LACKING_ENDS] = {"key": np.sort(self.keys(inbox[_LACKS]))}
            return {}
        held = arrays.read_table(Held, tables, HELD)
        rows = held.rows_of(self.told, self._size)
        held, rest = held.take(rows), held.take(~rows)
        tables[HELD] = rest.to_columns()
        nothing = np.zeros(len(held), dtype=np.int64)
        timed = self.messages.clock == TIME
        way = nothing if timed else known_ways(tables, held.key, self._size)
        arrivals = publication.Arrivals(
            held.key, nothing, held.hops, nothing + arrays.NONE, held.round, way
        )
        tables[publication.ARRIVALS] = arrivals.to_columns()
        message, source = arrays.divided(self.sources(bucket, self.new), self._size)
        guest = ~self.subscribes(message, source)
        tables[publication.FANOUT] = self._dial(tables, message[guest])
        tables.pop(LACKING_ENDS, None)
        return {_LACKS: self._lacks(tables, arrivals)}

    def _lacks(self, tables: Tables, arrivals: publication.Arrivals) -> Columns:
        """Return messages of subscribers that tell live peers which publications they lack."""
        message, node = arrays.divided(self.lacking(tables, arrivals, self.told), self._size)
        space = self.topics.space
        place = arrays.distinct(self.messages.topic[message] * self._size + node)
        connections = arrays.read_table(Links, tables, CONNECTIONS)
        _, row = arrays.expand(*space.rows(connections, place))
        topic, node, peer = space.split(connections.key[row])
        alive = self.topics.is_alive(peer)
        return {AT: peer[alive], "topic": topic[alive], "sender": node[alive]}

    def _dial(self, tables: Tables, message: np.ndarray) -> Columns:
        """Dial for the sources of some messages; return the peers to which the sources send."""
        space, rules, directory = self.topics.space, self.topics.rules, self.topics.directory
        topic, source = self.messages.topic[message], self.messages.source[message]
        shared = space.bits("gossipsub fanout", self.heartbeat, topic, source)
        first, last = directory.offsets[topic], directory.offsets[topic + 1]
        of, chosen = draws.sample_others(shared, last - first, rules.dials)
        peer = directory.place[first[of] + chosen] % self._size
        self.topics.observe(tables, "dial", source[of], peer)
        if not rules.flood_publish:
            order = np.lexsort((peer, of))
            of, peer = of[order], peer[order]
            named = "gossipsub fanout peers", self.heartbeat
            place = key_of([topic, source], self._size)
            bits = space.bits_of_peers(*named, place, of, peer)
            some = least(of, bits, np.full(len(message), rules.d))
            of, peer = of[some], peer[some]
        return {"message": message[of], "peer": peer}


def known_ways(tables: Mapping[str, Columns], key: np.ndarray, size: int) -> np.ndarray:
    """Return `Arrivals.way` (us) of earlier first copies, by key (publication, node), or 0."""
    way = np.zeros(len(key), dtype=np.int64)
    if DELIVERED in tables:
        noted = tables[DELIVERED]
        known = noted["publication"] * size + noted["node"]
        order = np.argsort(known)
        row = arrays.find_sorted(known[order], key)
        way[row >= 0] = noted["delay_us"][order[row[row >= 0]]]
    return way


# --- IHAVE, IWANT and answers


@dataclass(frozen=True)
class Gossip(Lacking):
    """The IHAVEs, IWANTs and answers of one heartbeat.

    In a world, all IHAVEs are counted, but only those to nodes that lack something are sent.
    """

    parts: Parts = field(default_factory=Parts)  # those that an IHAVE or IWANT of a run names; W16

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Send IHAVE; ask by IWANT; answer; store the answers for `publication.SpreadMessages`."""
        if superstep == 0:
            return {publication.IHAVE: self._tell(tables)}
        out: dict[str, Columns] = {}
        if publication.IHAVE in inbox:
            self._note(tables, publication.IHAVE, inbox[publication.IHAVE])
            out = {publication.IWANT: self._ask(tables, inbox[publication.IHAVE])}
        if publication.IWANT in inbox:
            self._note(tables, publication.IWANT, inbox[publication.IWANT])
            out = {_ANSWER: self._answer(tables, inbox[publication.IWANT])}
        if _ANSWER in inbox:
            answers = dict(inbox[_ANSWER])
            tables[f"{publication.ANSWERS} {self.heartbeat}"] = {"node": answers.pop(AT), **answers}
        return out

    def _note(self, tables: Tables, kind: str, came: Columns) -> None:
        """Record IHAVEs or IWANTs that came, in a run; in a world, note what an IWANT asks for."""
        if self.topics.now.in_run:
            message = self.parts.publication(came["message"])
            told = {"message": message, "node": came[AT], "sender": came["sender"]}
            if self.parts.sent > 1:
                told = take(told, distinct_rows(*told.values())[0])
            tables[f"{kind} {self.heartbeat}"] = told
        elif kind == publication.IWANT:
            space = self.topics.space
            place = self.messages.topic[came["message"]] * self._size + came[AT]
            _, node, sender = space.split(arrays.distinct(space.key(place, came["sender"])))
            self.topics.observe(tables, kind, sender, node)

    def _tell(self, tables: Tables) -> dict[str, np.ndarray]:
        """Return the IHAVEs of nodes that got their first copy in the last heartbeats."""
        arrivals = arrays.read_table(publication.Arrivals, tables, publication.ARRIVALS)
        message, node = arrays.divided(self.announced(arrivals, self.heartbeat), self._size)
        if self.topics.now.in_run:
            lacking = tables[_LACKING]["message"] if _LACKING in tables else arrays.whole_numbers()
            wanted = np.isin(message, lacking)
            message, node = message[wanted], node[wanted]
        place = self.messages.topic[message] * self._size + node
        order = np.argsort(place, kind="stable")
        places, first, count = np.unique(place[order], return_index=True, return_counts=True)
        # peers are drawn once for all messages of a topic that a node holds
        find = self._told if self.topics.now.in_run else self._told_that_matter
        of, peer = find(tables, places)
        told, nth = arrays.expand(first[of], first[of] + count[of])
        node = places[of[told]] % self._size
        return {AT: peer[told], "message": message[order[nth]], "sender": node}

    def _told(self, tables: Tables, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the peers to which nodes send IHAVE: row in `places`, and position of the peer."""
        connections, mesh = (arrays.read_table(Links, tables, name) for name in (CONNECTIONS, MESH))
        told = [(arrays.whole_numbers(), arrays.whole_numbers())]
        for start in range(0, len(places), PLACES_AT_ONCE):
            some = places[start : start + PLACES_AT_ONCE]
            rows = self.topics.space.rows(connections, some)
            of, key, bits, most = self.draws(connections, rows, mesh, some)
            chosen = least(of, bits, most)
            told.append((start + of[chosen], key[chosen] % self._size))
        of, peer = (np.concatenate(column) for column in zip(*told, strict=True))
        return of, peer

    def _told_that_matter(
        self, tables: Tables, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Count the IHAVEs of places; return those to nodes that live and lack a publication."""
        space, size = self.topics.space, self._size
        connections, mesh = (arrays.read_table(Links, tables, name) for name in (CONNECTIONS, MESH))
        first, last = self._connected(tables, connections).rows(places)
        others = last - first - space.count(mesh, places)
        told = np.minimum(others, self.most_told(others)).sum()

        def between() -> tuple[np.ndarray, np.ndarray]:
            of, peer = self._told(tables, places)
            return places[of] % size, peer

        key = self._links_that_matter(tables, connections, mesh, places)
        place, peer = arrays.divided(key, size)
        alive = self.topics.is_alive(peer)
        lost = np.count_nonzero(~alive)
        self.topics.now.tally.observer.count(tables, publication.IHAVE, told, lost, between=between)
        return arrays.find_sorted(places, place[alive]), peer[alive]

    def _connected(self, tables: Tables, connections: Links) -> Runs:
        """Return the row ranges of places in the table of connections."""
        if CONNECTED not in tables:  # found once, because only `mesh.Dial` changes connections
            tables[CONNECTED] = self.topics.space.runs(connections).to_columns()
        return arrays.read_table(Runs, tables, CONNECTED)

    def _links_that_matter(
        self, tables: Tables, connections: Links, mesh: Links, places: np.ndarray
    ) -> np.ndarray:
        """Return the links of IHAVEs to dead nodes, or to nodes that lack a message.

        They are drawn as all others, and none is in a mesh.
        """
        ends = [tables[name]["key"] for name in (DEAD_ENDS, LACKING_ENDS) if name in tables]
        key = arrays.distinct(np.concatenate([arrays.whole_numbers(), *ends]))
        key = key[(arrays.find_sorted(places, key // self._size) >= 0) & ~mesh.has(key)]
        place = arrays.distinct(key // self._size)
        told, runs = [arrays.whole_numbers()], self._connected(tables, connections)
        for start in range(0, len(place), PLACES_AT_ONCE):
            some = place[start : start + PLACES_AT_ONCE]
            first, last = np.searchsorted(key, (some[[0, -1]] + [0, 1]) * self._size)
            drawn = self.draws(connections, runs.rows(some), mesh, some)
            told.append(_of_least(key[first:last], *drawn))
        return np.concatenate(told)

    def draws(
        self,
        connections: Links,
        rows: tuple[np.ndarray, np.ndarray],
        mesh: Links,
        places: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the peers outside of meshes, and how many of each place get IHAVE.

        The arrays are the index in `places`, the link and the draw of each peer, and the number of
        each place; those with the smallest draws get IHAVE. `rows` are rows of `connections`.
        """
        of, row = arrays.expand(*rows)
        key = connections.key[row]
        first, last = np.searchsorted(mesh.key, (places[[0, -1]] + [0, 1]) * self._size)
        in_mesh = arrays.find_sorted(key, mesh.key[first:last])
        outside = np.ones(len(key), dtype=bool)
        outside[in_mesh[in_mesh >= 0]] = False
        of, key = of[outside], key[outside]
        named, peer = ("gossipsub ihave", self.heartbeat), key % self._size
        bits = self.topics.space.bits_of_peers(*named, places, of, peer)
        return of, key, bits, self.most_told(np.bincount(of, minlength=len(places)))

    def most_told(self, others: np.ndarray) -> np.ndarray:
        """Return how many of `others` peers outside of a mesh get IHAVE at most."""
        rules = self.topics.rules
        return np.maximum(rules.d_lazy, (rules.gossip_factor * others).astype(np.int64))

    def _ask(self, tables: Tables, came: Columns) -> dict[str, np.ndarray]:
        """Return an IWANT for each message that a subscriber lacks, to a drawn sender of IHAVE."""
        arrivals = arrays.read_table(publication.Arrivals, tables, publication.ARRIVALS)
        without = ~arrivals.has(came["message"] * self._size + came[AT])
        message, node, sender = (came[name][without] for name in ("message", AT, "sender"))
        asks = self.subscribes(message, node)
        message, node, sender = message[asks], node[asks], sender[asks]
        _, of = np.unique(message * self._size + node, return_inverse=True)
        topic = self.messages.topic[message]
        bits = self.topics.space.bits("gossipsub iwant", self.heartbeat, topic, node, sender)
        # of equal draws the smaller nodeId first
        by_sender = np.argsort(sender, kind="stable")
        order = by_sender[draws.order_of_draws(of[by_sender], bits[by_sender])]
        chosen = order[arrays.index_in_run(of[order]) == 0]
        return {AT: sender[chosen], "message": message[chosen], "sender": node[chosen]}

    def _answer(self, tables: Tables, came: Columns) -> dict[str, np.ndarray]:
        arrivals = arrays.read_table(publication.Arrivals, tables, publication.ARRIVALS)
        row = arrivals.find(came["message"] * self._size + came[AT])
        answers = ~self.withholds(came["message"], came[AT])
        came, row = take(came, answers), row[answers]
        message, node, asker = came["message"], came[AT], came["sender"]
        hops, rules = arrivals.hops[row], self.topics.rules
        sent = np.zeros(len(node), dtype=np.int64)
        if self.messages.clock == TIME:
            sent += (self.heartbeat - self.messages.published[message]) * rules.heartbeat_us
            sent += self.delay(node, asker) + self.delay(asker, node)
        copies = {AT: asker, "message": message, "sender": node, "sent": sent, "hops": hops + 1}
        copies["way"] = self.way(arrivals.way[row], hops, node, asker)
        return copies | {"lost": self.lost(message, node, asker)}


def _of_least(
    key: np.ndarray, of: np.ndarray, outside: np.ndarray, bits: np.ndarray, most: np.ndarray
) -> np.ndarray:
    """Return the links in `key` whose draws are among the smallest ones of their nodes."""
    own = arrays.find_sorted(outside, key)
    offsets = arrays.offsets_of(np.bincount(of, minlength=len(most)))
    pair, other = arrays.expand(offsets[of[own]], offsets[of[own] + 1])
    drawn, wanted = bits[other], bits[own][pair]
    # ties go to the smaller nodeId
    before = (drawn < wanted) | ((drawn == wanted) & (other < own[pair]))
    rank = np.bincount(pair[before], minlength=len(key))
    return key[rank < most[of[own]]]
