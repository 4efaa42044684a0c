"""CAN multicast in worlds: over a CAN of each group's members, rebuilt in each round.

Rules: docs/rules.md, C1 to C11, O1 to O9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.can.multicast import goes_on, may_cross
from scribe_spark.can.zones import ALL_NODES, Placement, Space, Zones, across_faces, opposite
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.multicast import TIME
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.schemas import MICROSECONDS

if TYPE_CHECKING:  # not on executors
    from scribe_spark.can.config import CanConfig


@dataclass(frozen=True)
class LiveCan(GroupOverlays):
    """The members of each group own the zones of a CAN."""

    placement: Placement  # the rule that gives nodes their points
    flooding: str
    clock: str = TIME
    processing_us: int = 0
    carried: ClassVar[tuple[str, ...]] = ("face",)

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        zones = self._zones(overlays, network)
        zone, neighbour, face = across_faces(zones, np.arange(len(zones)))
        deeper = zones.depth[neighbour] < zones.depth[zone]
        back = opposite(zones, zone[deeper], face[deeper])
        known = concatenate(
            [
                {"zone": zone, "neighbour": neighbour, "face": face},
                {"zone": neighbour[deeper], "neighbour": zone[deeper], "face": back},
            ]
        )
        pairs = overlays.each_publication({**known, "group": zones.can[known["zone"]]})
        source = zones.of_node(overlays.of, overlays.source)[pairs["publication"]]
        pairs = take(pairs, may_cross(zones, self.flooding, pairs, source))
        return {
            "publication": pairs["publication"],
            "node": zones.node[pairs["zone"]],
            "peer": zones.node[pairs["neighbour"]],
            "face": pairs["face"],
        }

    def _zones(self, overlays: Overlays, network: Network) -> Zones:
        """Return the zones of the members, which join in the order of C4."""
        ring, kernel = network.ring, network.kernel
        named = np.where(overlays.number == ALL_NODES, NO_GROUP, overlays.number)  # C2
        group, node, number = overlays.group, overlays.node, named[overlays.group]
        order = self.placement.order(group, number, node, ring)
        group, node, number = group[order], node[order], number[order]
        point = self.placement.points(number, node, ring, kernel)
        return Zones.of(self.placement.space, group, node, point, len(ring))

    def forwards(self, first: Columns, edges: Columns) -> np.ndarray:
        return goes_on(first, edges)


def live_can(config: CanConfig, seed: int) -> LiveCan:
    """Return the system for a world with this config."""
    placement = Placement(Space(config.dimensions, config.halvings), seed)
    processing_us = round(config.processing_ms * MICROSECONDS)
    return LiveCan(placement, config.flooding, config.clock, processing_us)
