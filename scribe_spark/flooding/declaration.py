"""The declaration of flooding over Pastry as a multicast system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, System

if TYPE_CHECKING:
    from scribe_spark.multicast import Multicast
    from scribe_spark.rounds.system import SystemOnBuckets


def _build(stages: Any) -> Multicast:
    from scribe_spark.flooding.flooding import build

    return build(stages)


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.flooding.live import LiveFlooding

    return LiveFlooding(config.overlay.b, config.overlay.leaf_set)


FLOODING = System(
    "flooding",
    "Flooding over Pastry",
    TREE,
    _build,
    requested=True,
    config="scribe_spark.flooding.config:FloodingConfig",
    control=True,
    over_pastry=True,
    world=_live,
)
