"""GossipSub as a multicast system of a run: copies, deliveries, state and control messages.

Rules: docs/rules.md, G1 to G15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import NONE, read_table
from scribe_spark.core.keys import key_parts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import Inbox, Outbox, Tables
from scribe_spark.engine.views import Names, read_view
from scribe_spark.gossipsub.mesh import (
    BACK_OFF,
    CONNECTIONS,
    GRAPH,
    MESH,
    TOLD,
    Directory,
    SharedArrays,
    Topics,
    TopicsProgram,
    building,
)
from scribe_spark.gossipsub.publication import (
    ANSWERS,
    ARRIVALS,
    COPIES,
    TOLD_OF,
    UNWANTED,
    Messages,
    publish,
)
from scribe_spark.gossipsub.router import WAS_DIALLED, BackOff, Links, Space, with_classes
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
from scribe_spark.runtime.distribute import distribute_arrays

#: Tables of a bucket.  JOINING: messages while joining, ``key, kind, messages`` (the link at the
#: receiving node, and an index of `JOINING_KINDS`).  KEPT: state of nodes, ``place, kind,
#: entries``.
JOINING, KEPT = "joining", "kept"
JOINING_KINDS = ("dial", "GRAFT", "PRUNE")
KEPT_KINDS = ("connections", "mesh", "back-off")


@dataclass(frozen=True)
class Account(TopicsProgram):
    """Count the messages and the state of a bucket's nodes; no message is sent."""

    heartbeat: int  # the number of the next heartbeat; back-off that ends before it is not counted

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`JOINING` and :data:`KEPT`."""
        tables[JOINING] = concatenate(list(self._joining(tables)))
        tables[KEPT] = concatenate(list(self._kept(bucket, tables)))
        return {}

    def _joining(self, tables: Tables) -> Iterator[dict[str, np.ndarray]]:
        dials = read_table(Links, tables, GRAPH if GRAPH in tables else CONNECTIONS)
        taken = dials.key[(dials.way & WAS_DIALLED) > 0]
        yield _counted(0, taken, np.ones(len(taken), dtype=np.int64), "key", "messages")
        for kind, name in enumerate(JOINING_KINDS[1:], start=1):
            told = [tables[one]["key"] for one in tables if one.startswith(f"{TOLD} {name} ")]
            key, messages = np.unique(
                np.concatenate([np.empty(0, dtype=np.int64), *told]), return_counts=True
            )
            yield _counted(kind, key, messages, "key", "messages")

    def _kept(self, bucket: int, tables: Tables) -> Iterator[dict[str, np.ndarray]]:
        """Yield the state by kind; of the mesh also for subscribers without a link."""
        size, subscriber = self.topics.space.size, self.topics.subscribers_of(bucket, tables).key
        back_off = read_table(BackOff, tables, BACK_OFF)
        back_off.keep(back_off.until > self.heartbeat)
        connections, mesh = (read_table(Links, tables, name) for name in (CONNECTIONS, MESH))
        for kind, table in enumerate((connections, mesh, back_off)):
            place, entries = np.unique(table.key // size, return_counts=True)
            if table is mesh:
                place, entries = subscriber, self.topics.space.count(mesh, subscriber)
            yield _counted(kind, place, entries, "place", "entries")


def _counted(
    kind: int, key: np.ndarray, count: np.ndarray, of: str, what: str
) -> dict[str, np.ndarray]:
    return {of: key, "kind": np.full(len(key), kind, dtype=np.int8), what: count.astype(np.int64)}


# --- multicast


def multicast(stages: Any) -> Multicast:
    """Build all meshes, publish to every topic, and return the tables for measures."""
    config, ring, underlay = stages.config.gossipsub, stages.overlay.ring, stages.overlay.underlay
    schedule, size = stages.publications, len(ring)
    number, topic = np.unique(schedule.group, return_inverse=True)
    source = ring.facts.positions(schedule.source)
    group, node = ring.members_of(number, stages.memberships)
    place = np.concatenate([group * size + node, topic * size + source])
    shared = Directory.of(place, len(number), size).shared
    names = distribute_arrays(stages.spark, **shared)
    arrays = stages.own(SharedArrays(dict(zip(shared, names, strict=True))))
    rules = with_classes(config, NodeClasses.of(stages.config))
    known = (ring.facts, number, Directory(arrays, size), rules, underlay.kernel, underlay.lan_us)
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
    by_publication = f", {PUBLICATION}" if scheduled else ""
    of_group = Names(ring.facts, underlay.kernel, number)

    def view(schema: str, rows: _Rows, *tables_of: str) -> Batches:
        return read_view(tables.rows(*tables_of), of_group, schema, rows)

    def copies(kind: str, *names: str) -> Batches:
        each = [f"{name} {k}" for name in names for k in range(lazy + 1)]
        rows = partial(_copies, kind, config.clock, topic, schedule.at_us)
        return view(COPY_ROWS + by_publication, rows, *each)

    told = (copies(kind, f"{TOLD_OF} {kind}") for kind in ("IHAVE", "IWANT"))
    parts = copies(PAYLOAD, COPIES, ANSWERS), copies("IDONTWANT", UNWANTED), *told
    deliveries = partial(_deliveries, config.clock, topic, size)
    control = partial(_control, topics.space, config.discovery != "graph")
    return Multicast(
        "gossipsub",
        None,
        view(DELIVERIES + by_publication, deliveries, ARRIVALS),
        copies=Batches(tuple(one for part in parts for one in part.parts), parts[0].schema),
        state=view(STATE, partial(_state, size), KEPT),
        control=view(CONTROL, control, JOINING),
        scheduled=scheduled,
    )


# --- the tables of buckets as typed rows

_Rows = Callable[[Columns], dict[str, Any]]


def _deliveries(clock: str, topic: np.ndarray, size: int, table: Columns) -> dict[str, Any]:
    heard = take(table, table["hops"] > 0)
    place = key_parts(heard["key"], ("publication", "node"), size)
    place["group"] = topic[place["publication"]]
    delay_us = heard["at" if clock == TIME else "way"]
    return {**place, "hops": heard["hops"], "delay_us": delay_us}


def _copies(
    kind: str, clock: str, topic: np.ndarray, at_us: np.ndarray, table: Columns
) -> dict[str, Any]:
    """Return copies of the messages with some topics and times of publication."""
    message = table["message"]
    count, sent = len(message), table.get("sent")
    nothing = np.zeros(count, dtype=np.int64)
    unknown = sent is None or clock != TIME
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


def _state(size: int, table: Columns) -> dict[str, Any]:
    place = key_parts(table["place"], ("group", "node"), size)
    return {**table, **place, "kind": np.array(KEPT_KINDS)[table["kind"]]}


def _control(space: Space, of_topics: bool, table: Columns) -> dict[str, Any]:
    """Return messages while joining; nodes dial for each topic, or once for all topics."""
    topic, node, peer = space.split(table["key"])
    dialled = table["kind"] == JOINING_KINDS.index("dial")
    return {
        "group": topic if of_topics else np.where(dialled, NONE, topic),
        "sender": peer,
        "receiver": node,
        "kind": np.array(JOINING_KINDS)[table["kind"]],
        "messages": table["messages"],
    }
