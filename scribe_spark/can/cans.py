"""The CANs of a run: one for each group, and one of all nodes (docs/rules.md, C2 to C5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.can.points import ALL_NODES, Landmarks, draw_points, join_order
from scribe_spark.can.space import Space
from scribe_spark.can.zones import Zones
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.engine.ring import Ring
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Placement:
    """The rule that gives nodes their points."""

    space: Space
    seed: int
    landmarks: Landmarks | None = None  # None for uniform points

    def points(
        self, number: np.ndarray | int, position: np.ndarray, ring: Ring, kernel: Kernel
    ) -> np.ndarray:
        """Return the points of nodes (positions) in the CANs of groups (numbers): int64."""
        bins = None
        if self.landmarks is not None:
            order = self.landmarks.bins(kernel, ring.router)[position]
            bins = order, len(self.landmarks.routers)
        return draw_points(self.seed, number, ring.node[position], self.space.bits, bins)


def zones_of_all(placement: Placement, ring: Ring, kernel: Kernel) -> Zones:
    """Return the zones of the CAN of all nodes, which is CAN 0; raises like `split_zones`."""
    none = np.empty(0, dtype=np.int64)
    return zones_of_groups(placement, ring, kernel, none, none, none, none)


def zones_of_groups(
    placement: Placement,
    ring: Ring,
    kernel: Kernel,
    number: np.ndarray,
    source: np.ndarray,
    group: np.ndarray,
    member: np.ndarray,
) -> Zones:
    """Return the zones of the CANs of groups, followed by the CAN of all nodes.

    Members are given by the index of the group and the position of the node; sources may be among
    them.  Raises like `split_zones`.
    """
    groups, others = len(number), member != source[group]
    can = np.concatenate([group[others], np.full(len(ring), groups)])
    position = np.concatenate([member[others], np.arange(len(ring))])
    # the number ALL_NODES is reserved; a group with that number uses NO_GROUP in draws
    named = np.append(np.where(number == ALL_NODES, NO_GROUP, number), ALL_NODES)
    order = join_order(placement.seed, can, named[can], ring.node[position], position)
    can, position = can[order], position[order]
    # the source of a group joins before the members
    first = np.searchsorted(can, np.arange(groups))
    can, position = np.insert(can, first, np.arange(groups)), np.insert(position, first, source)
    named = named[can]
    point = placement.points(named, position, ring, kernel)
    return Zones.of(placement.space, can, position, point, len(ring))
