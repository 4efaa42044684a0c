"""Bayeux in a run: all members join, and each group's source multicasts one message.

References
----------
docs/rules.md, B1 to B10.  JSAC 2002, Section V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.bayeux.joining import MEMBER, Join, Tree
from scribe_spark.bayeux.member_lists import MEMBERS, NextHops, Record
from scribe_spark.bayeux.multicast import Deliver, Ways, flood
from scribe_spark.bayeux.next_hop import Settled
from scribe_spark.bayeux.sessions import TABLE, Sessions
from scribe_spark.bayeux.table_views import Sums, TableViews
from scribe_spark.core.arrays import NONE
from scribe_spark.dissemination import EDGES, START
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.multicast import Multicast
from scribe_spark.overlay import Application
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.overlay import PastryOverlay, as_pastry
from scribe_spark.progress import Progress
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.sessions import local_frame

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.bayeux import BayeuxConfig

SYSTEM = "bayeux"


def build(stages: Any) -> Multicast:
    """Build the trees, multicast, and return the resulting tables (`System.build`)."""
    overlay, config, groups = as_pastry(stages.overlay), stages.config, stages.multicast_groups
    joined = join_all(overlay, groups, stages.memberships, config.bayeux, stages.progress)
    tables, rows = stages.own(joined).tables, joined.rows
    sent: list[BucketTables] = []

    def deliver() -> Batches:
        sent.append(multicast(joined, groups, config.groups.source, stages.progress))
        return rows.deliveries(stages.own(sent[0]))

    tree = config.bayeux.hops == TABLE and config.bayeux.partitions == 1
    return Multicast(
        SYSTEM,
        rows.edges(tables) if tree else None,
        deliver,
        copies=None if tree else lambda: rows.copies(sent[0]),
        state=rows.state(tables),
        control=rows.control(tables),
    )


@dataclass
class Joined:
    """The results of the JOINs and TREEs, from which multicasts continue."""

    overlay: PastryOverlay
    tables: BucketTables
    rows: TableViews  # Converts the tables to rows for measures

    def release(self) -> None:
        """Free the tables."""
        self.tables.release()


def join_all(
    overlay: PastryOverlay,
    groups: DataFrame,
    members: Table,
    config: BayeuxConfig,
    progress: Progress | None = None,
) -> Joined:
    """Let every member join."""
    listed = groups.select("group", "key_hi", "key_lo").toArrow().sort_by("group")
    number, hi, lo = (column.to_numpy() for column in listed.columns)
    ring, underlay = overlay.ring, overlay.underlay
    sessions = Sessions.of(
        *(ring.bounds, ring.facts, underlay.kernel, underlay.lan_us),
        *(Keys(hi.view(np.uint64), lo.view(np.uint64)), overlay.rule),
        b=overlay.b,
        partitions=config.partitions,
        root=config.root,
        hops=config.hops,
    )

    def group(facts: Facts, batch: pa.RecordBatch) -> Columns:
        return {"group": np.searchsorted(number, batch.column("group").to_numpy())}

    first = ring.messages(members, MEMBER, "node", group)
    tables = BucketTables(ring.layout, first, overlay.known)
    tables.play(Join(sessions), "Bayeux JOIN", progress)
    tables.play(Tree(sessions), "Bayeux TREE", progress)
    lists = (Record(sessions), NextHops(sessions), Sums(sessions))
    tables.play_in_turn(lists, "Bayeux lists", progress)
    return Joined(overlay, tables, TableViews(sessions, number))


def multicast(
    joined: Joined, groups: DataFrame, source: str, progress: Progress | None = None
) -> BucketTables:
    """Let each group's source multicast a message; return buckets with copies and deliveries.

    `source` is how a source reaches the root: ``routed`` or directly.
    """
    tables, sessions, overlay = joined.tables, joined.rows.sessions, joined.overlay
    ways = _ways(overlay, sessions, groups, source, progress)
    begun = joined.rows.begun(tables).frame.toArrow().column("session").to_numpy()
    session = ways.started(begun, sessions.partitions)
    root = overlay.ring.facts.ring.node[sessions.root_of[session]]
    start = local_frame(groups.sparkSession, pa.table({"session": session, "root": root}))
    first = overlay.ring.messages(start, START, "root", _session)
    sent = BucketTables(overlay.ring.layout, first, [tables.constant(EDGES, MEMBERS)])
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
    """Return the ways of the messages from their sources to the roots: rule B8."""
    listed = groups.select("group", "source").toArrow().sort_by("group")
    at, main = (
        overlay.ring.facts.positions(listed.column("source").to_numpy()),
        sessions.roots[:, 0],
    )
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


def _session(facts: Facts, batch: pa.RecordBatch) -> Columns:
    return {"group": batch.column("session").to_numpy()}
