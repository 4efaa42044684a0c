"""Flooding over Pastry in a run: over a ring for each group, or over the overlay of all nodes.

References
----------
docs/rules.md, F1 to F7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import CONSTANT, ROWS, BucketTables, Layout, pack_rows
from scribe_spark.flooding.flood import COPY, Flood, starting
from scribe_spark.flooding.group_rings import GroupRings, known_of_places, place_bounds
from scribe_spark.flooding.table_views import TableViews
from scribe_spark.multicast import Multicast
from scribe_spark.pastry.overlay import PastryOverlay, as_pastry
from scribe_spark.progress import Progress
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.settings import bucket_count

SYSTEM = "flooding"


def build(stages: Any) -> Multicast:
    """Flood, and return the resulting tables (`System.build`)."""
    overlay, config, groups = as_pastry(stages.overlay), stages.config, stages.multicast_groups
    if config.flooding.over == "overlay":
        perfect = config.overlay.kind == "perfect" and config.knowledge is None
        flooded = stages.own(flood_overlay(overlay, groups, perfect, stages.progress))
        members = Batches.of(stages.memberships).frame.select("group", "node")

        def deliver() -> DataFrame:
            return flooded.deliveries().frame.join(members, ["group", "node"], "left_semi")

        return Multicast(SYSTEM, flooded.edges(), deliver, state=flooded.state())
    flooded = stages.own(flood_groups(overlay, groups, stages.memberships, stages.progress))
    return Multicast(
        SYSTEM,
        flooded.edges(),
        flooded.deliveries(),
        state=flooded.state(),
        control=flooded.announcements(),
    )


@dataclass
class Flooded:
    """The results of a flood."""

    tables: BucketTables  # the copies, each in the bucket of its receiver
    known: DataFrame  # the tables `LEAVES` and `CELLS` of the nodes
    supersteps: int
    rows: TableViews
    owned: list[Callable[[], None]]  # Functions that free resources of this flood

    def edges(self) -> Batches:
        """Return `multicast.EDGES`: a row for each copy."""
        return self.rows.edges(self.tables, self.supersteps)

    def deliveries(self) -> Batches:
        """Return `multicast.DELIVERIES` of all nodes that received a copy."""
        return self.rows.deliveries(self.tables, self.supersteps)

    def state(self) -> Batches:
        """Return `multicast.STATE`: rule F6."""
        return self.rows.state(self.known)

    def announcements(self) -> Batches:
        """Return `multicast.CONTROL`: rule F7."""
        return self.rows.announcements(self.known)

    def release(self) -> None:
        """Free the memory."""
        self.tables.release()
        for free in self.owned:
            free()


def flood_overlay(
    overlay: PastryOverlay, groups: DataFrame, perfect: bool, progress: Progress | None = None
) -> Flooded:
    """Let each group's source flood the overlay; `groups` has ``group, source``."""
    number, source = _sources(groups)
    ring, (known,) = overlay.ring, overlay.known
    rows = TableViews(ring.facts, ring.bounds, number, overlay.underlay.kernel)
    return _flood(overlay, ring, known, source, rows, perfect, progress)


def flood_groups(
    overlay: PastryOverlay, groups: DataFrame, members: Table, progress: Progress | None = None
) -> Flooded:
    """Let each group's source flood the group's own ring; `members` has ``group, node``."""
    number, source = _sources(groups)
    joined = Batches.of(members, ["group", "node"]).frame.select("group", "node").toArrow()
    facts, size = overlay.ring.facts, len(overlay.ring)
    group = np.r_[
        np.searchsorted(number, joined.column("group").to_numpy()), np.arange(len(number))
    ]
    node = np.r_[joined.column("node").to_numpy(), source]
    rings = GroupRings.of(group, facts.positions(node), len(number), size)
    ring = _distribute(overlay, rings)
    known = _known(overlay, ring, rings.begins)
    start = rings.find(np.arange(len(number)), facts.positions(source), size)
    places = distribute_arrays(ring.layout.spark, position=rings.position)
    rows = TableViews(
        *(ring.facts, ring.bounds, number, overlay.underlay.kernel),
        *(rings.begins, facts, places[0]),
    )
    flooded = _flood(overlay, ring, known, start, rows, True, progress)
    flooded.owned += [partial(release, known), ring.release, partial(discard_arrays, *places)]
    return flooded


def _sources(groups: DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the groups, ascending, and their sources."""
    listed = groups.select("group", "source").toArrow().sort_by("group")
    number, source = (column.to_numpy() for column in listed.columns)
    return number, source


def _distribute(overlay: PastryOverlay, rings: GroupRings) -> BucketRing:
    """Distribute the places of all rings as one ring of buckets; a place is its own number."""
    spark = overlay.ring.layout.spark
    node = overlay.ring.facts.ring.take(rings.position)
    place = np.arange(len(node))
    names = distribute_arrays(
        spark,
        **{"hi": node.hi, "lo": node.lo, "node": place, "router": node.router},
        by_number=place.astype(np.int32),
    )
    buckets = bucket_count(spark, len(node))
    layout = Layout(spark, buckets, buckets)
    return BucketRing(Facts(tuple(names), True), place_bounds(rings.begins, buckets), layout)


def _known(overlay: PastryOverlay, ring: BucketRing, begins: np.ndarray) -> DataFrame:
    """Return the leaf sets and routing tables of all places, materialised."""
    facts, bounds, folder = ring.facts, ring.bounds, ring.layout.folder
    kernel, b, half = overlay.underlay.kernel, overlay.b, overlay.leaf_set // 2

    def known(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket in batch.column("bucket").to_pylist():
                first, last = int(bounds[bucket]), int(bounds[bucket + 1])
                states = known_of_places(facts.ring, begins, first, last, kernel, b, half)
                for name, columns in states.tables().items():
                    yield from pack_rows(bucket, CONSTANT, True, name, columns, folder)

    return materialise(ring.each_bucket().mapInArrow(known, ROWS))[0]


def _flood(
    overlay: PastryOverlay,
    ring: BucketRing,
    known: DataFrame,
    source: np.ndarray,
    rows: TableViews,
    perfect: bool,
    progress: Progress | None,
) -> Flooded:
    """Flood a ring; `source` has the number of each group's source in it."""

    def start(facts: Facts, batch: pa.RecordBatch) -> Columns:
        return starting(batch.column("group").to_numpy())

    spark, underlay = ring.layout.spark, overlay.underlay
    sources = pa.table({"source": source, "group": np.arange(len(source))})
    first = ring.messages(local_frame(spark, sources), COPY, "source", start)
    tables = BucketTables(ring.layout, first, [known])
    program = Flood(ring.bounds, ring.facts, underlay.kernel, underlay.lan_us, perfect)
    counts = tables.play(program, "flooding", progress)
    return Flooded(tables, known, len(counts), rows, [])
