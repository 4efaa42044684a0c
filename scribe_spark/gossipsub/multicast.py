"""GossipSub as a multicast system of a run: copies, deliveries, state and control messages.

References
----------
docs/rules.md, G1 to G15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.core.keys import key_parts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.views import Names, read_view
from scribe_spark.gossipsub.account import (
    JOINING,
    JOINING_KINDS,
    KEPT,
    KEPT_KINDS,
    Account,
)
from scribe_spark.gossipsub.degrees import with_classes
from scribe_spark.gossipsub.mesh import Topics, TopicsProgram, building
from scribe_spark.gossipsub.publication import (
    ANSWERS,
    ARRIVALS,
    COPIES,
    TOLD_OF,
    UNWANTED,
    Messages,
    publish,
)
from scribe_spark.gossipsub.subscribers import Directory, SharedDirectory
from scribe_spark.gossipsub.with_bandwidth import publish_with_bandwidth
from scribe_spark.multicast import (
    CONTROL,
    DELIVERIES,
    PAYLOAD,
    PUBLICATION,
    STATE,
    TIME,
    Multicast,
)
from scribe_spark.multicast import COPIES as COPY_ROWS
from scribe_spark.node_classes import NodeClasses
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays
from scribe_spark.underlay.protocol import Kernel


def multicast(stages: Any) -> Multicast:
    """Build all meshes, publish to every topic, and return the tables for measures."""
    config, ring, underlay = stages.config.gossipsub, stages.overlay.ring, stages.overlay.underlay
    schedule, size = stages.publications, len(ring)
    number, topic = np.unique(schedule.group, return_inverse=True)
    source = ring.facts.positions(schedule.source)
    members = Batches.of(stages.memberships).frame.select("group", "node").toArrow()
    index = find_sorted(number, members.column("group").to_numpy())
    there = index >= 0  # keep groups with a source
    node = ring.facts.positions(members.column("node").to_numpy()[there])
    place = np.concatenate([index[there] * size + node, topic * size + source])
    directory = Directory.of(place, len(number), size)
    arrays = {"place": directory.place, "offsets": directory.offsets}
    shared = stages.own(_Shared(*distribute_arrays(stages.spark, **arrays)))
    rules = with_classes(config, NodeClasses.of(stages.config))
    subscribers = SharedDirectory((shared.place, shared.offsets), size)
    known = (ring.facts, number, subscribers, rules, underlay.kernel, underlay.lan_us)
    topics = Topics(ring.bounds, *known, stages.config.seed)
    tables = stages.own(BucketTables(ring.layout, ring.starts()))

    def play(program: TopicsProgram, name: str) -> list[int]:
        return tables.play(program, f"GossipSub {name}", stages.progress)

    heartbeat = 0
    for name, program in building(topics, config):
        play(program, name)
        heartbeat = getattr(program, "heartbeat", -1) + 1
    messages = Messages(topic, source, config.clock)
    if stages.config.bandwidth.on:
        lazy = publish_with_bandwidth(stages, play, tables, topics, messages)
    else:
        lazy = publish(play, topics, messages)
    play(Account(topics, heartbeat), "account")
    scheduled = stages.schedule is not None
    timed = config.clock == TIME
    of = topic, schedule.at_us
    read = _Read(topics, underlay.kernel, tables, lazy, timed, *of, scheduled)
    return Multicast(
        "gossipsub",
        None,
        read.deliveries(),
        copies=read.copies(),
        state=read.state(),
        control=read.control(of_topics=config.discovery != "graph"),
        scheduled=scheduled,
    )


@dataclass(frozen=True)
class _Shared:
    """The names of a directory's shared arrays."""

    place: str
    offsets: str

    def release(self) -> None:
        """Delete the shared arrays."""
        discard_arrays(self.place, self.offsets)


@dataclass(frozen=True)
class _Read:
    """The tables of the buckets as typed rows."""

    topics: Topics
    kernel: Kernel
    tables: BucketTables
    lazy: int  # the number of lazy heartbeats
    timed: bool  # True for the clock of time, False for the clock of hops
    #: (M,): the topic of each message, and its publication time in microseconds.
    topic: np.ndarray
    at_us: np.ndarray
    scheduled: bool  # True if rows have a column with the publication

    def deliveries(self) -> Batches:
        """Return `multicast.DELIVERIES`."""
        size, delay = self.topics.space.size, "at" if self.timed else "way"
        topic = self.topic

        def rows(table: Columns) -> dict[str, Any]:
            heard = take(table, table["hops"] > 0)
            place = key_parts(heard["key"], ("publication", "node"), size)
            place["group"] = topic[place["publication"]]
            return {**place, "hops": heard["hops"], "delay_us": heard[delay]}

        return self._view([ARRIVALS], rows, self._by_publication(DELIVERIES))

    def _by_publication(self, columns: str) -> str:
        return f"{columns}, {PUBLICATION}" if self.scheduled else columns

    def copies(self) -> Batches:
        """Return `multicast.COPIES`: payload, IDONTWANT, IHAVE, IWANT."""
        heartbeats = range(self.lazy + 1)
        parts = [self._copies(PAYLOAD, [f"{n} {k}" for n in (COPIES, ANSWERS) for k in heartbeats])]
        parts += [self._copies("IDONTWANT", [f"{UNWANTED} {k}" for k in heartbeats])]
        for kind in ("IHAVE", "IWANT"):
            parts += [self._copies(kind, [f"{TOLD_OF} {kind} {k}" for k in heartbeats])]
        return Batches(tuple(one for part in parts for one in part.parts), parts[0].schema)

    def _copies(self, kind: str, names: list[str]) -> Batches:
        timed, topic, at_us = self.timed, self.topic, self.at_us

        def rows(table: Columns) -> dict[str, Any]:
            message = table["message"]
            count, sent = len(message), table.get("sent")
            nothing = np.zeros(count, dtype=np.int64)
            unknown = sent is None or not timed
            return {
                "group": topic[message],
                "publication": message,
                "sender": table["sender"],
                "receiver": table["node"],
                "kind": kind,
                "hop": table.get("hops", nothing),
                "sent_us": pa.nulls(count, pa.int64()) if unknown else sent + at_us[message],
                "first": table.get("first", nothing > 0),
            }

        return self._view(names, rows, self._by_publication(COPY_ROWS))

    def state(self) -> Batches:
        """Return `multicast.STATE`."""
        size = self.topics.space.size

        def rows(table: Columns) -> dict[str, Any]:
            place = key_parts(table["place"], ("group", "node"), size)
            return {**table, **place, "kind": np.array(KEPT_KINDS)[table["kind"]]}

        return self._view([KEPT], rows, STATE)

    def control(self, of_topics: bool) -> Batches:
        """Return `multicast.CONTROL`; `of_topics`: nodes dial for each topic, not once for all."""
        space = self.topics.space

        def rows(table: Columns) -> dict[str, Any]:
            topic, node, peer = space.split(table["key"])
            dialled = table["kind"] == JOINING_KINDS.index("dial")
            return {
                "group": topic if of_topics else np.where(dialled, NONE, topic),
                "sender": peer,
                "receiver": node,
                "kind": np.array(JOINING_KINDS)[table["kind"]],
                "messages": table["messages"],
            }

        return self._view([JOINING], rows, CONTROL)

    def _view(
        self, tables: list[str], rows: Callable[[Columns], dict[str, Any]], schema: str
    ) -> Batches:
        names = Names(self.topics.facts, self.kernel, self.topics.number)
        return read_view(self.tables.rows(*tables), names, schema, rows)
