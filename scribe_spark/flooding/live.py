"""Flooding in worlds: over a ring of each group's members, rebuilt in each round.

Rules: docs/rules.md, F1, F2, F5, O1 to O9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core.arrays import NONE, expand
from scribe_spark.engine.packing import Columns, concatenate
from scribe_spark.engine.ring import Ring
from scribe_spark.flooding.flood import GroupRings, known_of_places
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays

if TYPE_CHECKING:  # not on executors
    pass


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
