"""IP multicast and naive unicast in worlds: copies go from the source to every member.

References
----------
JSAC 2002, Section IV.A (IP multicast), IV.D (naive multicast); docs/rules.md, O1 to O7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import expand
from scribe_spark.engine.packing import Columns
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays


@dataclass(frozen=True)
class LiveUnicast(GroupOverlays):
    """Naive unicast in a world: each publication is sent along a star around its source."""

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """See `GroupOverlays`."""
        begin, end = (np.searchsorted(overlays.group, overlays.of + more) for more in (0, 1))
        publication, row = expand(begin, end)
        node, peer = overlays.source[publication], overlays.node[row]
        away = node != peer
        return {"publication": publication[away], "node": node[away], "peer": peer[away]}


@dataclass(frozen=True)
class LiveIpMulticast(LiveUnicast):
    """IP multicast in a world: a link carries one packet of a publication."""

    merged: ClassVar[bool] = True
