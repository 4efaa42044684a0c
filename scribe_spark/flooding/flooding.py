"""Flooding over Pastry in a run: over a ring for each group, or over the overlay of all nodes.

Rules: docs/rules.md, F1 to F7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import CONSTANT, ROWS, BucketTables, Layout, pack_rows
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.engine.views import Names, read_view, view_together
from scribe_spark.flooding.flood import (
    COPIES,
    COPY,
    Flood,
    GroupRings,
    kept_of,
    known_of_places,
    place_bounds,
    starting,
    told,
)
from scribe_spark.multicast import CONTROL, DELIVERIES, EDGES, STATE, Multicast
from scribe_spark.pastry.overlay import PastryOverlay, as_pastry
from scribe_spark.pastry.states import States
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.underlay.protocol import Kernel

SYSTEM = "flooding"

#: The message by which a node announces itself to the nodes in its tables.
ANNOUNCEMENT = "announcement"

_NODES_AT_ONCE = 2**12


def build(stages: Any) -> Multicast:
    """Flood, and return the resulting tables (`System.build`)."""
    overlay, config = as_pastry(stages.overlay), stages.config
    listed = stages.multicast_groups.select("group", "source").toArrow().sort_by("group")
    number, source = (column.to_numpy() for column in listed.columns)
    members = Batches.of(stages.memberships, ["group", "node"]).frame.select("group", "node")
    facts, kernel = overlay.ring.facts, overlay.underlay.kernel
    of_overlay = config.flooding.over == "overlay"
    if of_overlay:
        ring, (known,) = overlay.ring, overlay.known
        views = _Views(facts, ring.bounds, number, kernel)
        perfect = config.overlay.kind == "perfect" and config.knowledge is None
    else:
        rings = _rings_of(overlay.ring, members, number, source)
        own = stages.own(_OwnRings.build(overlay, rings))
        ring, known, perfect = own.ring, own.known, True
        views = _Views(ring.facts, ring.bounds, number, kernel, rings.begins, facts, own.places)
        of_sources = np.arange(len(number)), facts.positions(source)
        source = rings.find(*of_sources, len(overlay.ring))
    tables, supersteps = _flood(stages, overlay, ring, known, source, perfect)

    def deliver() -> DataFrame:
        found = views.copies(tables, supersteps, views.deliveries, DELIVERIES).frame
        return found.join(members, ["group", "node"], "left_semi")

    return Multicast(
        SYSTEM,
        views.copies(tables, supersteps, views.edges, EDGES),
        deliver if of_overlay else views.copies(tables, supersteps, views.deliveries, DELIVERIES),
        state=views.of_nodes(known, views.state, STATE),
        control=None if of_overlay else views.of_nodes(known, views.announcements, CONTROL),
    )


def _rings_of(
    ring: BucketRing, members: DataFrame, number: np.ndarray, source: np.ndarray
) -> GroupRings:
    """Return the rings of groups, whose sources take part."""
    of_members, position = ring.members_of(number, members)
    group = np.r_[of_members, np.arange(len(number))]
    position = np.r_[position, ring.facts.positions(source)]
    return GroupRings.of(group, position, len(number), len(ring))


@dataclass(frozen=True)
class _OwnRings:
    """The rings of all groups, as one ring of buckets; a place is its own number."""

    ring: BucketRing
    known: DataFrame  # the tables `LEAVES` and `CELLS` of all places, materialised
    places: str  # the name of the shared array with the overlay position of each place

    @classmethod
    def build(cls, overlay: PastryOverlay, rings: GroupRings) -> _OwnRings:
        """Distribute the places, and build their leaf sets and routing tables."""
        spark, place = overlay.ring.layout.spark, np.arange(len(rings.position))
        node = overlay.ring.facts.ring.take(rings.position)
        names = distribute_arrays(
            spark,
            **{"hi": node.hi, "lo": node.lo, "node": place, "router": node.router},
            by_number=place.astype(np.int32),
        )
        buckets = bucket_count(spark, len(node))
        facts, bounds = Facts(tuple(names), True), place_bounds(rings.begins, buckets)
        ring = BucketRing(facts, bounds, Layout(spark, buckets, buckets))
        begins, folder, kernel = rings.begins, ring.layout.folder, overlay.underlay.kernel
        b, half = overlay.b, overlay.leaf_set // 2

        def known(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for bucket in batch.column("bucket").to_pylist():
                    first, last = int(bounds[bucket]), int(bounds[bucket + 1])
                    states = known_of_places(facts.ring, begins, first, last, kernel, b, half)
                    for name, columns in states.tables().items():
                        yield from pack_rows(bucket, CONSTANT, True, name, columns, folder)

        made, _ = materialise(ring.each_bucket().mapInArrow(known, ROWS))
        (places,) = distribute_arrays(spark, position=rings.position)
        return cls(ring, made, places)

    def release(self) -> None:
        """Free the memory."""
        release(self.known)
        self.ring.release()
        discard_arrays(self.places)


def _flood(
    stages: Any,
    overlay: PastryOverlay,
    ring: BucketRing,
    known: DataFrame,
    source: np.ndarray,
    perfect: bool,
) -> tuple[BucketTables, int]:
    """Flood a ring from each group's source, which is a number in it; return tables, supersteps."""

    def start(facts: Facts, batch: pa.RecordBatch) -> Columns:
        return starting(batch.column("group").to_numpy())

    spark, underlay = ring.layout.spark, overlay.underlay
    sources = pa.table({"source": source, "group": np.arange(len(source))})
    first = ring.messages(local_frame(spark, sources), COPY, "source", start)
    tables = stages.own(BucketTables(ring.layout, first, [known]))
    program = Flood(ring.bounds, ring.facts, underlay.kernel, underlay.lan_us, perfect)
    return tables, len(tables.play(program, "flooding", stages.progress))


@dataclass(frozen=True)
class _Views:
    """Converts the tables of a ring's buckets to rows for measures; picklable."""

    facts: Facts  # the nodes of the flooded ring
    bounds: np.ndarray  # (B + 1,)
    number: np.ndarray  # (G,): the numbers of the groups, ascending
    kernel: Kernel
    #: (G + 1,): the first place of each group's ring, if each group has a ring.
    begins: np.ndarray | None = None
    overlay: Facts | None = None  # the nodes of the overlay, if each group has a ring
    #: The name of the shared array with the overlay position of each place.
    position: str | None = None

    def copies(
        self,
        tables: BucketTables,
        supersteps: int,
        make: Callable[[Columns], Mapping[str, Any]],
        schema: str,
    ) -> Batches:
        """Return a row for each copy."""
        names = [f"{COPIES} {superstep}" for superstep in range(supersteps)]
        return read_view(tables.rows(*names), self._names, schema, make)

    def edges(self, some: Columns) -> dict[str, Any]:
        """Return the columns of `multicast.EDGES`."""
        parent, child = self._position(some["sender"]), self._position(some[AT])
        return {"group": some["group"], "parent": parent, "child": child}

    def deliveries(self, some: Columns) -> dict[str, Any]:
        """Return the columns of `multicast.DELIVERIES`."""
        return {**some, "node": self._position(some[AT]), "delay_us": some["at_us"]}

    def of_nodes(
        self, known: DataFrame, make: Callable[[States], Mapping[str, Any]], schema: str
    ) -> Batches:
        """Return rows about the leaf sets and routing tables of nodes."""
        ring, bounds = self.facts, self.bounds

        def rows(bucket: int, tables: Mapping[str, Columns]) -> Iterator[Mapping[str, Any]]:
            states = States.of_tables(ring.ring, int(bounds[bucket]), tables)
            for start in range(0, len(states.own), _NODES_AT_ONCE):
                yield make(states.of(slice(start, start + _NODES_AT_ONCE)))

        return view_together(known, self._names, schema, rows)

    def state(self, states: States) -> dict[str, Any]:
        """Return the columns of `multicast.STATE`: rule F6."""
        kept = kept_of(states)
        place = np.tile(states.own, len(kept))
        kind = np.repeat(list(kept), len(states.own))
        entries = np.concatenate(list(kept.values()))
        rows = {"group": self._group(place), "node": self._position(place)}
        return take({**rows, "kind": kind, "entries": entries}, entries > 0)

    def announcements(self, states: States) -> dict[str, Any]:
        """Return the columns of `multicast.CONTROL`: rule F7."""
        teller, place = told(states)
        return {
            "group": self._group(place),
            "sender": self._position(teller),
            "receiver": self._position(place),
            "kind": ANNOUNCEMENT,
            "messages": np.ones(len(place), dtype=np.int64),
        }

    @property
    def _names(self) -> Names:
        return Names(self.overlay or self.facts, self.kernel, self.number)

    def _group(self, place: np.ndarray) -> np.ndarray:
        """Return the index of each place's group; NONE if the overlay itself is flooded."""
        if self.begins is None:
            return np.full(len(place), NONE)
        return np.searchsorted(self.begins, place, side="right") - 1

    def _position(self, place: np.ndarray) -> np.ndarray:
        """Return the overlay positions of places."""
        return place if self.position is None else open_array(self.position)[place]
