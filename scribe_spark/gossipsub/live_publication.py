"""Publications in a world: messages that nodes hold, announce and count in a heartbeat.

Most IHAVEs reach a live node that lacks nothing and change nothing; they are counted at the sender
and not sent.  The draws of rule G13 are needed only for connections to dead nodes and to nodes that
lack a publication, unless senders and receivers of all messages are recorded.

Rules: docs/rules.md, G13, G20 to G22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import (
    NONE,
    SortedTable,
    distinct,
    divided,
    expand,
    find_sorted,
    offsets_of,
    read_table,
    whole_numbers,
)
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables, append
from scribe_spark.gossipsub.mesh import CONNECTED, CONNECTIONS, MESH
from scribe_spark.gossipsub.publication import (
    ANSWERS,
    ARRIVALS,
    COPIES,
    FANOUT,
    PLACES_AT_ONCE,
    Arrivals,
    Gossip,
    Lacking,
    PublicationProgram,
)
from scribe_spark.gossipsub.router import Links, Runs, least
from scribe_spark.living import CARRIED, DELIVERED, Multicasts
from scribe_spark.multicast import TIME

#: Tables of a bucket: publications that nodes hold (`Held`); a round's connections to dead nodes;
#: counts of a heartbeat, by message and for the bucket.
HELD, DEAD_ENDS = "held", "dead ends"
BY_MESSAGE, COUNTED = "counted by message", "counted"

#: The table of connections to nodes that lack a publication, and the message that fills it.
_LACKING, _LACKS = "lacking", "lacks"


@dataclass
class Held(SortedTable):
    """Publications that nodes hold, by (index, node): heartbeat of the first copy, and its hops."""

    round: np.ndarray = field(default_factory=whole_numbers)
    hops: np.ndarray = field(default_factory=whole_numbers)

    def rows_of(self, message: np.ndarray, size: int) -> np.ndarray:
        """Return True for rows of some publications."""
        return np.isin(self.key // size, message)


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
            tables[_LACKING] = {"key": np.sort(self.keys(inbox[_LACKS]))}
            return {}
        held = read_table(Held, tables, HELD)
        rows = held.rows_of(self.told, self._size)
        held, rest = held.take(rows), held.take(~rows)
        tables[HELD] = rest.to_columns()
        nothing = np.zeros(len(held), dtype=np.int64)
        timed = self.messages.clock == TIME
        way = nothing if timed else known_ways(tables, held.key, self._size)
        arrivals = Arrivals(held.key, nothing, held.hops, nothing + NONE, held.round, way)
        tables[ARRIVALS] = arrivals.to_columns()
        message, source = divided(self.sources(bucket, self.new), self._size)
        guest = ~self.subscribes(message, source)
        tables[FANOUT] = self._dial(tables, message[guest])
        tables.pop(_LACKING, None)
        return {_LACKS: self._lacks(bucket, tables, arrivals)}

    def _lacks(self, bucket: int, tables: Tables, arrivals: Arrivals) -> Columns:
        """Return messages to the live peers of subscribers that lack a publication."""
        message, node = divided(self.lacking(bucket, tables, arrivals, self.told), self._size)
        space = self.topics.space
        place = distinct(self.messages.topic[message] * self._size + node)
        connections = read_table(Links, tables, CONNECTIONS)
        _, row = expand(*space.rows(connections, place))
        topic, node, peer = space.split(connections.key[row])
        alive = self.topics.is_alive(peer)
        return {AT: peer[alive], "topic": topic[alive], "sender": node[alive]}

    def _dial(self, tables: Tables, message: np.ndarray) -> Columns:
        """Dial for the sources of some messages; return the peers to which they send."""
        names, rules = self.topics.names, self.topics.rules
        directory = self.topics.directory
        topic, source = self.messages.topic[message], self.messages.source[message]
        shared = names.bits("gossipsub fanout", self.heartbeat, topic, source)
        first, last = directory.offsets[topic], directory.offsets[topic + 1]
        of, chosen = draws.sample_others(shared, last - first, rules.dials)
        peer = directory.place[first[of] + chosen] % self._size
        self.topics.observe(tables, "dial", source[of], peer)
        if not rules.flood_publish:
            order = np.lexsort((peer, of))
            of, peer = of[order], peer[order]
            named = "gossipsub fanout peers", self.heartbeat
            bits = names.bits_of_peers(*named, topic, source, of, peer)
            some = least(of, bits, np.full(len(message), rules.d))
            of, peer = of[some], peer[some]
        return {"message": message[of], "peer": peer}


@dataclass(frozen=True)
class LiveGossip(Gossip):
    """The IHAVEs, IWANTs and answers in a heartbeat of a world.

    All IHAVEs are counted; only those to nodes that lack a publication are sent.
    """

    def _note(self, tables: Tables, kind: str, came: Columns) -> None:
        """Count IWANTs; one IWANT asks for all publications of a topic."""
        if kind == "IWANT":
            space = self.topics.space
            place = self.messages.topic[came["message"]] * self._size + came[AT]
            _, node, sender = space.split(distinct(space.key(place, came["sender"])))
            self.topics.observe(tables, kind, sender, node)

    def _told(self, tables: Tables, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        space, all_told = self.topics.space, super()._told
        connections, mesh = (read_table(Links, tables, name) for name in (CONNECTIONS, MESH))
        first, last = self._connected(tables, connections).rows(places)
        others = last - first - space.count(mesh, places)
        told = np.minimum(others, self.most_told(others)).sum()

        def between() -> tuple[np.ndarray, np.ndarray]:
            of, peer = all_told(tables, places)
            return places[of] % self._size, peer

        key = self._told_that_matter(tables, connections, mesh, places)
        place, peer = divided(key, self._size)
        alive = self.topics.is_alive(peer)
        assert self.topics.observer is not None
        lost = np.count_nonzero(~alive)
        self.topics.observer.count(tables, "IHAVE", told, lost, between=between)
        return find_sorted(places, place[alive]), peer[alive]

    def _connected(self, tables: Tables, connections: Links) -> Runs:
        """Return the row ranges of places in the connections; only `mesh.Dial` changes these."""
        if CONNECTED not in tables:
            tables[CONNECTED] = self.topics.space.runs(connections).to_columns()
        return read_table(Runs, tables, CONNECTED)

    def _told_that_matter(
        self, tables: Tables, connections: Links, mesh: Links, places: np.ndarray
    ) -> np.ndarray:
        """Return the links of IHAVEs to dead nodes, and to nodes that lack something."""
        ends = [tables[name]["key"] for name in (DEAD_ENDS, _LACKING) if name in tables]
        key = distinct(np.concatenate([whole_numbers(), *ends]))
        key = key[(find_sorted(places, key // self._size) >= 0) & ~mesh.has(key)]
        place = distinct(key // self._size)
        told, runs = [whole_numbers()], self._connected(tables, connections)
        for start in range(0, len(place), PLACES_AT_ONCE):
            some = place[start : start + PLACES_AT_ONCE]
            first, last = np.searchsorted(key, (some[[0, -1]] + [0, 1]) * self._size)
            drawn = self.draws(connections, runs.rows(some), mesh, some)
            told.append(_of_least(key[first:last], *drawn))
        return np.concatenate(told)


def _of_least(
    key: np.ndarray, of: np.ndarray, outside: np.ndarray, bits: np.ndarray, most: np.ndarray
) -> np.ndarray:
    """Return the links among those with the smallest draws; see `Gossip.draws`."""
    own = find_sorted(outside, key)
    offsets = offsets_of(np.bincount(of, minlength=len(most)))
    pair, other = expand(offsets[of[own]], offsets[of[own] + 1])
    drawn, wanted = bits[other], bits[own][pair]
    # ties go to the smaller nodeId
    before = (drawn < wanted) | ((drawn == wanted) & (other < own[pair]))
    rank = np.bincount(pair[before], minlength=len(key))
    return key[rank < most[of[own]]]


@dataclass(frozen=True)
class CountCopies(PublicationProgram):
    """Record the messages that nodes hold; count payloads and duplicates (rule G22).

    Measured multicasts are recorded in the tables `living.DELIVERED` and `living.CARRIED`.
    """

    measured: Multicasts | None = None  # publications are indices of messages
    elapsed_us: int = 0  # from the publications to the start of the heartbeat
    notes_copies: bool = False  # True if copies are recorded, too

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the counts; no message is sent."""
        got = Arrivals.from_columns(tables.pop(ARRIVALS))
        tables.pop(FANOUT)
        again, by_iwant = self._count_copies(tables)
        told = got.key[self.heartbeat + 1 - got.heartbeat <= self.topics.rules.mcache_gossip]
        tables[BY_MESSAGE] = {"duplicates": again, "told": self._by_message(told // self._size)}
        tables[COUNTED] = {"by_iwant": np.array([by_iwant])}
        self._note_arrivals(tables, got)
        held = read_table(Held, tables, HELD)
        held.insert(got.key, round=got.heartbeat, hops=got.hops)
        tables[HELD] = held.to_columns()
        return {}

    def _by_message(self, message: np.ndarray) -> np.ndarray:
        return np.bincount(message, minlength=len(self.messages.topic))

    def _count_copies(self, tables: Tables) -> tuple[np.ndarray, int]:
        """Count payloads; return duplicates by message, and the number of first copies by IWANT."""
        again, by_iwant = self._by_message(whole_numbers()), 0
        for name in (COPIES, ANSWERS):
            one = tables.pop(f"{name} {self.heartbeat}", {})
            if one:
                self._note_copies(tables, one)
                lost, first = one["lost"], one["first"]
                self.topics.observe(tables, "payload", one["sender"], one["node"], ~lost)
                again += self._by_message(one["message"][~(lost | first)])
                by_iwant += int(np.count_nonzero(first)) if name == ANSWERS else 0
        return again, by_iwant

    def _note_arrivals(self, tables: Tables, got: Arrivals) -> None:
        """Record the first copies of the heartbeat."""
        message, node = np.divmod(got.key, self._size)
        new = (got.heartbeat == self.heartbeat) & (got.hops > 0) & self._is_measured(message)
        if new.any():
            delay_us = got.at + self.elapsed_us if self.messages.clock == TIME else got.way
            group = self.messages.topic[message]
            rows = {"group": group, "publication": message, "node": node, "hops": got.hops}
            append(tables, DELIVERED, take({**rows, "delay_us": delay_us}, new))

    def _note_copies(self, tables: Tables, sent: Columns) -> None:
        """Record copies that were sent in the heartbeat."""
        own = self._is_measured(sent["message"])
        if self.notes_copies and own.any():
            message = sent["message"]
            rows = {"group": self.messages.topic[message], "publication": message}
            rows |= {"sender": sent["sender"], "to": sent["node"], "lost": sent["lost"]}
            append(tables, CARRIED, take(rows, own))

    def _is_measured(self, message: np.ndarray) -> np.ndarray:
        measured = whole_numbers() if self.measured is None else self.measured.publication
        return find_sorted(measured, message) >= 0


def known_ways(tables: Mapping[str, Columns], key: np.ndarray, size: int) -> np.ndarray:
    """Return `Arrivals.way` of first copies of earlier heartbeats, by the clock of hops.

    The value is 0 if nothing is recorded.
    """
    way = np.zeros(len(key), dtype=np.int64)
    if DELIVERED in tables:
        noted = tables[DELIVERED]
        known = noted["publication"] * size + noted["node"]
        order = np.argsort(known)
        row = find_sorted(known[order], key)
        way[row >= 0] = noted["delay_us"][order[row[row >= 0]]]
    return way
