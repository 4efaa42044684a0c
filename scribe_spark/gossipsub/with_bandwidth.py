"""Publications with the clock with bandwidth, instead of `publication.Spread`.

References
----------
docs/rules.md, W1 to W7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from scribe_spark.bandwidth import ARRIVALS as FIRST_COPIES
from scribe_spark.bandwidth import COPIES as ALL_COPIES
from scribe_spark.bandwidth import ROOMS
from scribe_spark.bandwidth.runs import Clock, clock_of, play_clock
from scribe_spark.core.arrays import distinct, find_sorted, read_table
from scribe_spark.core.keys import key_of
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import Inbox, Tables
from scribe_spark.gossipsub.links import Links
from scribe_spark.gossipsub.mesh import CONNECTIONS, MESH, Topics, TopicsProgram
from scribe_spark.gossipsub.publication import (
    ARRIVALS,
    COPIES,
    FANOUT,
    Arrivals,
    Copies,
    Messages,
    publish_lazily,
)
from scribe_spark.living import LivingRound, SystemPlayer

#: The columns of `publication.COPIES` -> the columns of the clock's copies.
_KEPT = {
    "message": "publication",
    "node": "node",
    "sender": "sender",
    "sent": "sent_us",
    "hops": "hops",
    "first": "first",
}


@dataclass(frozen=True)
class _Meshes:
    """Returns the links of meshes and of sources' connections for the clock; picklable."""

    clock: Clock
    topics: Topics
    messages: Messages
    new: np.ndarray  # the messages that are published now

    def __call__(self, tables: Tables, inbox: Inbox) -> Columns:
        """See `bandwidth.runs.Read`."""
        space, key = self.topics.space, read_table(Links, tables, MESH).key
        key = key[self._published(key)]
        more = [known[find_sorted(key, known) < 0] for known in self._of_sources(tables)]
        mesh = np.arange(len(key) + sum(map(len, more))) < len(key)
        topic, node, peer = space.split(np.concatenate([key, *more]))
        room = topic * ROOMS
        delay_us = self.clock.delay(node, peer)
        order = np.broadcast_to(np.int64(0), node.shape)
        columns = {"room": room, "node": node, "to_room": room, "peer": peer}
        return {**columns, "delay_us": delay_us, "mesh": mesh, "order": order}

    def _published(self, key: np.ndarray) -> np.ndarray:
        """Return True for links of topics with new messages."""
        has = np.zeros(len(self.topics.number), dtype=bool)
        has[self.messages.topic[self.new]] = True
        return np.ones(len(key), dtype=bool) if has.all() else has[self.topics.space.split(key)[0]]

    def _of_sources(self, tables: Tables) -> Iterator[np.ndarray]:
        """Yield the links outside the meshes on which sources send."""
        space, topic, source = self.topics.space, self.messages.topic, self.messages.source
        if self.topics.rules.flood_publish:
            place = distinct(key_of([topic[self.new], source[self.new]], space.size))
            yield space.at(read_table(Links, tables, CONNECTIONS), place)
        if FANOUT in tables:  # the peers of sources that do not subscribe
            message, peer = tables[FANOUT]["message"], tables[FANOUT]["peer"]
            yield space.key(key_of([topic[message], source[message]], space.size), peer)


@dataclass(frozen=True)
class _Write:
    """Converts the clock's results to the tables of `publication`; picklable."""

    topics: Topics
    messages: Messages
    #: (M,): the publication time of each message, from which its times count, in microseconds.
    at_us: np.ndarray
    announced: np.ndarray  # bool, (M,): True for messages that nodes announce by IDONTWANT

    def __call__(self, tables: Tables) -> None:
        """See `bandwidth.runs.Write`."""
        size = self.topics.space.size
        came, copies = tables.pop(FIRST_COPIES), tables.pop(ALL_COPIES)
        none = np.zeros(len(came["node"]), dtype=np.int64)
        key = key_of([came["publication"], came["node"]], size)
        at_us = came["at_us"] - self.at_us[came["publication"]]
        arrivals = Arrivals(key, at_us, came["hops"], came["sender"], none, none)
        tables[ARRIVALS] = arrivals.to_columns()
        if self.announced.any():
            told = np.flatnonzero((arrivals.hops > 0) & self.announced[came["publication"]])
            Copies(self.topics, self.messages, 0).note_idontwant(arrivals, told, tables)
        kept = {name: copies[ours] for name, ours in _KEPT.items()}
        kept["sent"] = kept["sent"] - self.at_us[kept["message"]]
        lost = np.broadcast_to(np.False_, kept["node"].shape)
        tables[f"{COPIES} 0"] = {**kept, "lost": lost}


@dataclass(frozen=True)
class _WriteHeartbeat:
    """Adds the clock's results to the tables of a heartbeat in a world; picklable.

    Copies to dead nodes are lost.
    """

    copies: Copies  # the program of the heartbeat
    new: np.ndarray  # the messages that are published now
    announced: bool  # True if nodes announce the messages by IDONTWANT

    def __call__(self, tables: Tables) -> None:
        """See `bandwidth.runs.Write`."""
        topics, heartbeat = self.copies.topics, self.copies.heartbeat
        came, sent = tables.pop(FIRST_COPIES), tables.pop(ALL_COPIES)
        came = take(came, topics.is_alive(came["node"]))
        key = key_of([self.new[came["publication"]], came["node"]], topics.space.size)
        arrivals = read_table(Arrivals, tables, ARRIVALS)
        first = {"at": came["at_us"], "hops": came["hops"], "sender": came["sender"]}
        arrivals.insert(key, **first, heartbeat=heartbeat, way=0)
        tables[ARRIVALS] = arrivals.to_columns()
        if self.announced:
            told = arrivals.find(key[came["hops"] > 0])
            self.copies.note_idontwant(arrivals, told, tables)
        kept = {name: sent[ours].astype(np.int64) for name, ours in _KEPT.items()}
        lost = ~topics.is_alive(kept["node"])
        kept |= {"message": self.new[kept["message"]], "lost": lost}
        kept["first"] = kept["first"].astype(bool) & ~lost
        name = f"{COPIES} {heartbeat}"
        tables[name] = concatenate([tables[name], kept]) if name in tables else kept


def publish_in_round(
    player: SystemPlayer, topics: Topics, messages: Messages, new: np.ndarray, now: LivingRound
) -> None:
    """Publish messages that have a size in a heartbeat of a world."""
    assert now.links is not None
    links, rules = now.links, topics.rules
    announced = rules.idontwant and links.size >= links.idontwant
    idontwant = links.idontwant if rules.idontwant else None
    clock = links.clock(player.facts, player.bounds, now.kernel, idontwant=idontwant)
    clock = replace(clock, validation_us=clock.validation_us or rules.processing_us)
    topic, source = messages.topic[new], messages.source[new]
    # a source that does not subscribe has no mesh, and sends to all peers that it has dialled
    place = key_of([topic, source], topics.space.size)
    flood = ~topics.subscribers.directory.has(place) | rules.flood_publish
    published = links.publications(topic, source, flood=flood)
    read = _Meshes(clock, topics, messages, new)
    write = _WriteHeartbeat(Copies(topics, messages, now.number), new, announced)
    of_clock = clock, published, read, write, None, (), tuple(_KEPT.values())
    player.keep(partial(play_clock, *of_clock), "clock with bandwidth")


def publish_with_bandwidth(
    stages: Any,
    play: Callable[[TopicsProgram, str], list[int]],
    tables: BucketTables,
    topics: Topics,
    messages: Messages,
) -> int:
    """Publish messages that have a size in a run; return the number of lazy heartbeats."""
    config, rules = stages.config.bandwidth, topics.rules
    schedule, flood = stages.publications, rules.flood_publish
    least = config.idontwant_bytes
    clock = clock_of(stages, idontwant=least if rules.idontwant else None)
    clock = replace(clock, validation_us=clock.validation_us or rules.processing_us)
    announced = (schedule.size >= least) & rules.idontwant
    published = clock.publications(schedule, messages.source, messages.topic, flood=flood)
    read = _Meshes(clock, topics, messages, np.arange(len(messages.topic)))
    write = _Write(topics, messages, schedule.at_us, announced)
    called = "GossipSub PUBLISH with bandwidth"
    clock.play(tables, published, read, write, called, kept=tuple(_KEPT.values()))
    return publish_lazily(play, topics, messages)
