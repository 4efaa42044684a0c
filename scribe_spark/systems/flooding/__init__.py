"""Flooding over Pastry: a message is sent to all entries of routing tables, row by row.

Messages between nodes, and what handles them:

============  ================================
message       handler
============  ================================
payload       `flood.LiveFlooding`, `flood.Flood`
announcement  `flood.told`
============  ================================

References
----------
M. Castro et al.: An evaluation of scalable application-level multicast built using peer-to-peer
overlays, INFOCOM 2003 (the rule is recalled).  Rules: docs/rules.md, F1 to F7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.systems.flooding.flood import FloodedOverlay, LiveFlooding

    if config.flooding.over == "overlay":
        return FloodedOverlay()
    return LiveFlooding(config.overlay.b, config.overlay.leaf_set)


FLOODING = System(
    "flooding",
    "Flooding over Pastry",
    TREE,
    requested=True,
    config="scribe_spark.systems.flooding.config:FloodingConfig",
    control=True,
    over_pastry=True,
    world=_live,
)
