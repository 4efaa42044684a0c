"""CAN as the overlay: messages are routed greedily to the zone with the point of their key.

Rules: docs/rules.md, C12 and C17.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.can.zones import (
    Placement,
    SharedZones,
    Space,
    Zones,
    across_faces,
    next_zones,
    opposite,
    zones_of_all,
)
from scribe_spark.core.progress import Progress
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import read_typed
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.overlay import Overlay
from scribe_spark.runtime.batches import Table
from scribe_spark.underlay.protocol import Underlay

#: The table of the neighbours of a bucket's zones: ``zone, neighbour, face``, sorted by zone.
NEIGHBOURS = "neighbours"

# kinds of messages
_BEGIN, _FOUND = "begin", "found"


@dataclass(frozen=True)
class FindNeighbours:
    """The program by which zones find neighbours that are no deeper, and tell shallower ones."""

    bounds: np.ndarray  # (B + 1,)
    known: SharedZones

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write NEIGHBOURS: ``zone, neighbour, face``, sorted by zone."""
        zones = self.known.zones
        first, last = int(self.bounds[bucket]), int(self.bounds[bucket + 1])
        if superstep == 0:
            return self._look(zones, first, last, tables)
        if superstep == 1:
            self._write(tables, inbox)
        return {}

    def _look(self, zones: Zones, first: int, last: int, tables: Tables) -> Outbox:
        if first == last:
            return {}
        zone, neighbour, face = across_faces(zones, zones.of_bucket(first, last))
        tables[NEIGHBOURS] = _small(zone, neighbour, face)
        told = zones.depth[neighbour] < zones.depth[zone]
        zone, neighbour, face = zone[told], neighbour[told], face[told]
        seen = {"zone": neighbour, "neighbour": zone, "face": opposite(zones, zone, face)}
        # all buckets must be played in the next superstep, even without a message
        begin = {AT: np.array([first])}
        return {_FOUND: {AT: zones.node[neighbour], **seen}, _BEGIN: begin}

    def _write(self, tables: Tables, inbox: Inbox) -> None:
        known = [tables[NEIGHBOURS]]
        if _FOUND in inbox:
            known.append(_small(*(inbox[_FOUND][name] for name in known[0])))
        both = concatenate(known)
        tables[NEIGHBOURS] = take(both, np.argsort(both["zone"], kind="stable"))


def _small(zone: np.ndarray, neighbour: np.ndarray, face: np.ndarray) -> dict[str, np.ndarray]:
    """Return pairs of neighbours in small integer types, which tasks can map without a copy."""
    zones = {"zone": zone.astype(np.int32), "neighbour": neighbour.astype(np.int32)}
    return {**zones, "face": face.astype(np.int8)}


@dataclass(frozen=True)
class CanNextHop:
    """CAN's rule of routing: to the neighbour whose zone is nearest to the key's point."""

    known: SharedZones  # the zones of the CAN of all nodes

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.NextHop`."""
        zones, pairs = self.known.zones, tables[NEIGHBOURS]
        zone = zones.of_node(np.zeros(len(at), dtype=np.int64), at)
        point = zones.space.point(key_hi)
        onward = next_zones(zones, pairs, zone, point)
        return zones.node[onward]


class CanOverlay(Overlay):
    """The CAN of all nodes as an overlay; nodes know their neighbours."""

    def __init__(
        self,
        nodes: Table,
        underlay: Underlay,
        dimensions: int,
        seed: int,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(nodes, underlay)
        from scribe_spark.can.config import most_bits  # do not import the config on executors

        space = Space(dimensions, most_bits(dimensions))
        zones = zones_of_all(Placement(space, seed), self.ring.facts.ring, underlay.kernel)
        self.zones = SharedZones.distribute(self.ring.layout.spark, zones)
        tables = BucketTables(self.ring.layout, self.ring.starts())
        tables.play(FindNeighbours(self.ring.bounds, self.zones), "CAN", progress)
        self.known = [tables.constant(NEIGHBOURS)]

    @property
    def rule(self) -> CanNextHop:
        return CanNextHop(self.zones)

    def routing_table(self) -> DataFrame:
        """Return neighbours: ``row`` is the dimension, ``col`` 0 across the lower face, else 1."""
        facts, known = self.ring.facts, self.zones
        wanted = to_arrow_schema(schemas.ROUTING_TABLE)

        def rows(bucket: int, table: Columns) -> Iterator[pa.RecordBatch]:
            zones, number = known.zones, facts.ring.node
            columns = {
                "node": number[zones.node[table["zone"]]],
                "row": table["face"] >> 1,
                "col": table["face"] & 1,
                "entry": number[zones.node[table["neighbour"]]],
            }
            arrays = [pa.array(columns[field.name], field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

        return read_typed(self.known[0], rows, schemas.ROUTING_TABLE).frame

    def release(self) -> None:
        super().release()
        self.zones.release()
