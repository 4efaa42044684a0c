"""CAN as the overlay: messages are routed greedily to the zone with the point of their key.

Rules: docs/rules.md, C12 and C17.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.can.zones import Placement, SharedZones, Space, next_zones, zones_of_all
from scribe_spark.core.arrays import expand
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring
from scribe_spark.overlay import Overlay
from scribe_spark.runtime.batches import Table
from scribe_spark.underlay.protocol import Underlay


@dataclass(frozen=True)
class CanNextHop:
    """CAN's rule of routing: to the neighbour whose zone is nearest to the key's point."""

    known: SharedZones  # the zones of the CAN of all nodes

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.NextHop`."""
        zones, near = self.known.read()
        zone = zones.of_node(np.zeros(len(at), dtype=np.int64), at)
        return zones.node[next_zones(zones, near, zone, zones.space.point(key_hi))]


class CanOverlay(Overlay):
    """The CAN of all nodes as an overlay; nodes know their neighbours."""

    def __init__(self, nodes: Table, underlay: Underlay, dimensions: int, seed: int) -> None:
        super().__init__(nodes, underlay)
        from scribe_spark.can.config import most_bits  # do not import the config on executors

        space = Space(dimensions, most_bits(dimensions))
        zones = zones_of_all(Placement(space, seed), self.ring.facts.ring, underlay.kernel)
        self.zones = SharedZones.distribute(self.ring.layout.spark, zones)

    @property
    def rule(self) -> CanNextHop:
        return CanNextHop(self.zones)

    def routing_table(self) -> DataFrame:
        """Return neighbours: ``row`` is the dimension, ``col`` 0 across the lower face, else 1."""
        known = self.zones

        def entries(ring: Ring, own: np.ndarray) -> dict[str, np.ndarray]:
            zones, near = known.read()
            zone = zones.of_node(np.zeros(len(own), dtype=np.int64), own)
            of, pair = expand(near.offsets[zone], near.offsets[zone + 1])
            face, entry = near.face[pair], ring.node[zones.node[near.neighbour[pair]]]
            return {"node": ring.node[own[of]], "row": face >> 1, "col": face & 1, "entry": entry}

        return self.ring.rows(entries, schemas.ROUTING_TABLE)

    def release(self) -> None:
        super().release()
        self.zones.release()
