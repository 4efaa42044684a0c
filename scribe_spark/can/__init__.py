"""CAN, a content-addressable network: nodes own zones of a torus; multicast floods the zones.

Messages between nodes, and what handles them:

================  ================================
message           handler
================  ================================
message to a key  `overlay.CanNextHop`
CONTACT, JOIN     `multicast.count_routes`
payload           `multicast.goes_on`
================  ================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import MESH, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.can.multicast import live_can

    return live_can(config.can, config.seed)


CAN = System(
    "can",
    "CAN multicast",
    MESH,
    requested=True,
    config="scribe_spark.can.config:CanConfig",
    clock=lambda config: config.can.clock,
    control=True,
    world=_live,
)
