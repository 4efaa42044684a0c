"""Bayeux in a run: all members join, and each group's source multicasts one message.

Rules: docs/rules.md, B1 to B10.  JSAC 2002, Section V.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.bayeux.protocol import (
    BEGUN,
    COPIES,
    DELIVERED,
    JOIN,
    LISTS,
    MEMBER,
    MEMBERS,
    SENT,
    TREE,
    Deliver,
    Join,
    Lists,
    NextHops,
    Record,
    SessionProgram,
    Tree,
    Ways,
    flood,
    take_tables,
)
from scribe_spark.bayeux.sessions import TABLE, Sessions, Settled
from scribe_spark.core.arrays import NONE, read_table
from scribe_spark.core.keys import key_of, key_parts
from scribe_spark.dissemination import EDGES, START
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.ring import Keys
from scribe_spark.engine.views import Names, read_view
from scribe_spark.multicast import CONTROL, DELIVERIES, PAYLOAD, STATE, Multicast
from scribe_spark.multicast import COPIES as COPY_ROWS
from scribe_spark.multicast import EDGES as EDGE_ROWS
from scribe_spark.overlay import Application
from scribe_spark.pastry.overlay import PastryOverlay, as_pastry
from scribe_spark.progress import Progress
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.sessions import local_frame

_Make = Callable[[Columns], Mapping[str, Any]]

SYSTEM = "bayeux"

#: The table with the number of entries of each node.
ENTRIES = "entries"


@dataclass(frozen=True)
class Sums(SessionProgram):
    """Count the entries that nodes keep and the messages that they sent; the rows are deleted."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the counts; no message is sent."""
        size = self.sessions.size
        if LISTS in tables:
            session, node = np.divmod(read_table(Lists, tables, LISTS).key // size, size)
            del tables[LISTS]
            place = key_of([session // self.sessions.partitions, node], size)
            kept, entries = np.unique(place, return_counts=True)
            tables[ENTRIES] = {**key_parts(kept, ("group", "node"), size), "entries": entries}
        for kind in (JOIN, TREE):
            if rows := take_tables(tables, f"{SENT} {kind}"):
                ends, sent = ("session", "sender", "receiver"), concatenate(rows)
                kept, messages = np.unique(
                    key_of([sent[name] for name in ends], size), return_counts=True
                )
                tables[f"{SENT} {kind}"] = {**key_parts(kept, ends, size), "messages": messages}
        return {}


def build(stages: Any) -> Multicast:
    """Build the trees, multicast, and return the resulting tables (`System.build`)."""
    overlay, config, groups = as_pastry(stages.overlay), stages.config, stages.multicast_groups
    options, progress = config.bayeux, stages.progress
    listed = groups.select("group", "key_hi", "key_lo").toArrow().sort_by("group")
    number, hi, lo = (column.to_numpy() for column in listed.columns)
    sessions = Sessions.of(
        *(overlay.ring.bounds, overlay.ring.facts, overlay.underlay.kernel),
        *(overlay.underlay.lan_us, Keys(hi.view(np.uint64), lo.view(np.uint64)), overlay.rule),
        b=overlay.b,
        partitions=options.partitions,
        root=options.root,
        hops=options.hops,
    )
    tables = stages.own(_join_all(overlay, sessions, number, stages.memberships, progress))
    names, partitions = Names(sessions.facts, sessions.kernel, number), sessions.partitions
    sent: list[BucketTables] = []

    def view(some: BucketTables, name: str, schema: str, make: _Make = dict) -> Batches:
        return read_view(some.rows(name), names, schema, make)

    def deliver() -> Batches:
        begun = view(tables, BEGUN, "session bigint").frame.toArrow().column("session").to_numpy()
        ways = _ways(overlay, sessions, groups, config.groups.source, progress)
        sent.append(stages.own(_multicast(overlay, sessions, tables, ways, begun, progress)))
        return view(sent[0], DELIVERED, DELIVERIES, deliveries)

    def deliveries(some: Columns) -> dict[str, Any]:
        return {**some, "delay_us": some["at_us"]}

    def copies(some: Columns) -> dict[str, Any]:
        return {**some, "receiver": some["node"], "hop": some["hops"], "kind": PAYLOAD}

    def edges(some: Columns) -> dict[str, Any]:
        # in the tables of the flood, the column `group` contains sessions
        group = some["group"] // partitions
        return {"group": group, "parent": some["node"], "child": some["peer"]}

    def control(kind: str) -> Batches:
        def rows(some: Columns) -> dict[str, Any]:
            return {**some, "group": some["session"] // partitions, "kind": kind}

        return view(tables, f"{SENT} {kind}", CONTROL, rows)

    tree = options.hops == TABLE and partitions == 1
    return Multicast(
        SYSTEM,
        view(tables, EDGES, EDGE_ROWS, edges) if tree else None,
        deliver,
        copies=None if tree else lambda: view(sent[0], COPIES, COPY_ROWS, copies),
        state=view(tables, ENTRIES, STATE, lambda some: {**some, "kind": "member list"}),
        control=Batches.union(control(kind) for kind in (JOIN, TREE)),
    )


def _join_all(
    overlay: PastryOverlay,
    sessions: Sessions,
    number: np.ndarray,
    members: Table,
    progress: Progress | None,
) -> BucketTables:
    """Let the members of groups join; return the tables from which multicasts continue."""
    first = overlay.ring.messages(members, MEMBER, "node", groups=number)
    tables = BucketTables(overlay.ring.layout, first, overlay.known)
    tables.play(Join(sessions), "Bayeux JOIN", progress)
    tables.play(Tree(sessions), "Bayeux TREE", progress)
    lists = (Record(sessions), NextHops(sessions), Sums(sessions))
    tables.play_in_turn(lists, "Bayeux lists", progress)
    return tables


def _multicast(
    overlay: PastryOverlay,
    sessions: Sessions,
    tables: BucketTables,
    ways: Ways,
    begun: np.ndarray,
    progress: Progress | None,
) -> BucketTables:
    """Let sources multicast, of sessions with JOINs; return tables with copies and deliveries."""
    ring, session = overlay.ring, ways.started(begun, sessions.partitions)
    root = ring.facts.ring.node[sessions.root_of[session]]
    start = local_frame(ring.layout.spark, pa.table({"session": session, "root": root}))

    def at_root(facts: Facts, batch: pa.RecordBatch) -> Columns:
        return {"group": batch.column("session").to_numpy()}

    first = ring.messages(start, START, "root", at_root)
    sent = BucketTables(ring.layout, first, [tables.constant(EDGES, MEMBERS)])
    sent.play(flood(sessions), "Bayeux MULTICAST", progress)
    sent.play(Deliver(sessions, ways), "Bayeux deliveries", progress)
    return sent


def _ways(
    overlay: PastryOverlay,
    sessions: Sessions,
    groups: DataFrame,
    source: str,
    progress: Progress | None,
) -> Ways:
    """Return the ways of messages, routed or sent directly, from sources to roots: rule B8."""
    listed = groups.select("group", "source").toArrow().sort_by("group")
    at = overlay.ring.facts.positions(listed.column("source").to_numpy())
    main = sessions.roots[:, 0]
    if source != "routed":
        return Ways.of(sessions, at, (at != main).astype(np.int64), sessions.delays(at, main))
    assert isinstance(sessions.to_root, Settled)
    sent = groups.select(F.col("source").alias("node"), "key_hi", "key_lo", "group")
    routed = overlay.route(
        *(Application(), sent),
        rule=sessions.to_root.rule,
        name="Bayeux source",
        progress=progress,
    )
    way = routed.outcomes().select("group", "node", "hops", "delay_us").toArrow().sort_by("group")
    routed.release()
    node, hops, delay_us = (way.column(name).to_numpy() for name in ("node", "hops", "delay_us"))
    hops = np.where(overlay.ring.facts.positions(node) == main, hops, NONE).astype(np.int64)
    return Ways.of(sessions, at, hops, delay_us)
