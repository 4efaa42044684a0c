"""Publications with the clock with bandwidth, instead of `publication.Spread`.

References
----------
docs/rules.md, W1 to W7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scribe_spark.bandwidth import ARRIVALS as FIRST_COPIES
from scribe_spark.bandwidth import COPIES as ALL_COPIES
from scribe_spark.bandwidth import ROOMS
from scribe_spark.bandwidth.runs import Clock, clock_of
from scribe_spark.core.arrays import distinct, find_sorted, read_table
from scribe_spark.core.keys import key_of
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Inbox, Tables
from scribe_spark.gossipsub.links import Links
from scribe_spark.gossipsub.mesh import CONNECTIONS, MESH, Topics, TopicsProgram
from scribe_spark.gossipsub.publication import (
    ARRIVALS,
    COPIES,
    Arrivals,
    Copies,
    Messages,
    publish_lazily,
)

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
    """Returns the links of meshes and of sources' connections for the clock; picklable.

    Attributes
    ----------
    clock : Clock
    topics : Topics
    messages : Messages
    """

    clock: Clock
    topics: Topics
    messages: Messages

    def __call__(self, tables: Tables, inbox: Inbox) -> Columns:
        """See `bandwidth.runs.Read`."""
        space, key = self.topics.space, read_table(Links, tables, MESH).key
        mesh = np.broadcast_to(np.True_, key.shape)
        if self.topics.rules.flood_publish:
            source = distinct(key_of([self.messages.topic, self.messages.source], space.size))
            known = space.at(read_table(Links, tables, CONNECTIONS), source)
            known = known[find_sorted(key, known) < 0]
            key = np.concatenate([key, known])
            mesh = np.concatenate([mesh, np.zeros(len(known), dtype=bool)])
        topic, node, peer = space.split(key)
        room = topic * ROOMS
        delay_us = self.clock.delay(node, peer)
        order = np.broadcast_to(np.int64(0), key.shape)
        columns = {"room": room, "node": node, "to_room": room, "peer": peer}
        return {**columns, "delay_us": delay_us, "mesh": mesh, "order": order}


@dataclass(frozen=True)
class _Write:
    """Converts the clock's results to the tables of `publication`; picklable.

    Attributes
    ----------
    topics : Topics
    messages : Messages
    at_us : ndarray of int64, shape (M,)
        The publication time of each message, from which its times count, in microseconds.
    announced : ndarray of bool, shape (M,)
        True for messages that nodes announce by IDONTWANT.
    """

    topics: Topics
    messages: Messages
    at_us: np.ndarray
    announced: np.ndarray

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


def publish_with_bandwidth(
    stages: Any,
    play: Callable[[TopicsProgram, str], list[int]],
    tables: BucketTables,
    topics: Topics,
    messages: Messages,
) -> int:
    """Publish messages that have a size; return the number of lazy heartbeats.

    Parameters
    ----------
    stages : Simulation
        The stages of a run.
    play : callable
        See `publication.publish`.
    tables : BucketTables
        The tables with the meshes.
    """
    config, rules = stages.config.bandwidth, topics.rules
    schedule, flood = stages.publications, rules.flood_publish
    least = config.idontwant_bytes
    clock = clock_of(stages, idontwant=least if rules.idontwant else None)
    clock = replace(clock, validation_us=clock.validation_us or rules.processing_us)
    announced = (schedule.size >= least) & rules.idontwant
    published = clock.publications(schedule, messages.source, messages.topic, flood=flood)
    read = _Meshes(clock, topics, messages)
    write = _Write(topics, messages, schedule.at_us, announced)
    called = "GossipSub PUBLISH with bandwidth"
    clock.play(tables, published, read, write, called, kept=tuple(_KEPT.values()))
    return publish_lazily(play, topics, messages)
