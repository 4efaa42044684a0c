"""Flooding in worlds: over a ring or a CAN of each group's members, rebuilt in each round.

Rules: docs/rules.md, F1, F2, F5, C1 to C11, O1 to O9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.can.multicast import goes_on, may_cross
from scribe_spark.can.zones import ALL_NODES, Placement, Space, Zones, across_faces, opposite
from scribe_spark.core.arrays import NO_GROUP, NONE, expand
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.ring import Ring
from scribe_spark.flooding.flood import GroupRings, known_of_places
from scribe_spark.multicast import TIME
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.schemas import MICROSECONDS

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.can import LiveCanConfig


@dataclass(frozen=True)
class LiveFlooding(GroupOverlays):
    """Each group has a ring with perfect tables; publications are flooded, each along a tree."""

    b: int
    leaf_set: int

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the copies of each publication, level by level: rule F2."""
        nodes = len(network.ring)
        rings = GroupRings.of(overlays.group, overlays.node, len(overlays.number), nodes)
        cells = self._cells(rings, network)
        place, row, digit = np.nonzero(cells >= 0)
        entry, rows = cells[place, row, digit].astype(np.int64), cells.shape[1]
        row_of_place = place * rows + row
        publication = np.arange(len(overlays.of))
        at = rings.find(overlays.of, overlays.source, nodes)
        came = np.full(len(at), NONE)
        levels = []
        while len(at):
            # the entries of rows after the one by which the copy arrived
            begin = np.searchsorted(row_of_place, at * rows + came + 1)
            which, chosen = expand(begin, np.searchsorted(row_of_place, (at + 1) * rows))
            publication, sender = publication[which], at[which]
            at, came = entry[chosen], row[chosen]
            ends = {"node": rings.position[sender], "peer": rings.position[at]}
            levels.append({"publication": publication, **ends})
        return concatenate(levels)

    def _cells(self, rings: GroupRings, network: Network) -> np.ndarray:
        """Return the routing tables of all places in the groups' rings: F1."""
        count, known = len(rings.position), network.ring.take(rings.position)
        ring = Ring(known.hi, known.lo, np.arange(count), known.router)
        bounds = rings.begins, 0, count
        return known_of_places(ring, *bounds, network.kernel, self.b, self.leaf_set // 2).cells


# --- over can


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


def live_can(config: LiveCanConfig, seed: int) -> LiveCan:
    """Return the system for a world with this config."""
    placement = Placement(Space(config.dimensions, config.halvings), seed)
    processing_us = round(config.processing_ms * MICROSECONDS)
    return LiveCan(placement, config.flooding, config.clock, processing_us)
