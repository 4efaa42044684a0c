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
from scribe_spark.can.multicast import NEIGHBOURS, FindNeighbours
from scribe_spark.can.zones import Placement, SharedZones, Space, next_zones, zones_of_all
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.buckets import read_typed
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.overlay import Overlay
from scribe_spark.progress import Progress
from scribe_spark.underlay.protocol import Underlay


@dataclass(frozen=True)
class CanNextHop:
    """CAN's routing rule: to the neighbour whose zone is nearest to the key's point."""

    known: SharedZones  # the zones of the CAN of all nodes

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.next_hop.NextHop`."""
        zones, pairs = self.known.zones, tables[NEIGHBOURS]
        zone = zones.of_node(np.zeros(len(at), dtype=np.int64), at)
        point = (key_hi >> np.uint64(64 - zones.space.bits)).astype(np.int64)
        onward = next_zones(zones, pairs, zone, point)
        return zones.node[onward]


class CanOverlay(Overlay):
    """A CAN of all nodes, which know their neighbours; raises like `zones.split_zones`."""

    def __init__(
        self,
        nodes: DataFrame,
        underlay: Underlay,
        dimensions: int,
        seed: int,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(nodes, underlay)
        from scribe_spark.can.config import most_bits  # do not import the config on executors

        space = Space(dimensions, most_bits(dimensions))
        zones = zones_of_all(Placement(space, seed), self.ring.facts.ring, underlay.kernel)
        self.zones = SharedZones.distribute(nodes.sparkSession, zones)
        tables = BucketTables(self.ring.layout, self.ring.starts())
        tables.play(FindNeighbours(self.ring.bounds, self.zones), "CAN", progress)
        self.known = [tables.constant(NEIGHBOURS)]

    @property
    def rule(self) -> CanNextHop:
        """See :attr:`Overlay.rule`."""
        return CanNextHop(self.zones)

    def routing_table(self) -> DataFrame:
        """See :meth:`Overlay.routing_table`; there is a row for each neighbour.

        ``row`` is the dimension; ``col`` is 0 across the lower face, 1 across the upper face.
        """
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
        """See :meth:`Overlay.release`."""
        super().release()
        self.zones.release()
