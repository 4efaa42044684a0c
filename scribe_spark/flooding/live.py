"""Flooding over Pastry in worlds: over a ring of each group's members, built anew in each round.

References
----------
docs/rules.md, F1, F2, F5, O1 to O8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.engine.packing import Columns
from scribe_spark.engine.ring import Ring
from scribe_spark.flooding.group_rings import GroupRings, known_of_places
from scribe_spark.group_overlays import GroupOverlays, Network, Overlays


@dataclass(frozen=True)
class LiveFlooding(GroupOverlays):
    """Each group has a ring of perfect tables, whose entries get copies with their rows.

    Attributes
    ----------
    b, leaf_set : int
        As of the world's overlay.
    """

    b: int
    leaf_set: int
    carried: ClassVar[tuple[str, ...]] = ("row",)

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """See `GroupOverlays`."""
        nodes = len(network.ring)
        rings = GroupRings.of(overlays.group, overlays.node, len(overlays.number), nodes)
        position, count = rings.position, len(rings.position)
        known = network.ring.take(position)
        ring = Ring(known.hi, known.lo, np.arange(count), known.router)
        bounds = rings.begins, 0, count
        cells = known_of_places(ring, *bounds, network.kernel, self.b, self.leaf_set // 2).cells
        place, row, digit = np.nonzero(cells >= 0)
        entries = {
            "group": rings.group[place],
            "node": position[place],
            "peer": position[cells[place, row, digit]],
            "row": row,
        }
        return overlays.each_publication(entries)

    def forwards(self, first: Columns, edges: Columns) -> np.ndarray:
        """Rule F2: a copy that came with a row goes to entries of the rows below; see `edges`."""
        return edges["row"] > first["row"]
