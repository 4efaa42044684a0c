"""The declaration of flooding over Pastry as a multicast system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, System

if TYPE_CHECKING:
    from scribe_spark.config.section import Section
    from scribe_spark.rounds.system import SystemOnBuckets


def _config() -> type[Section]:
    from scribe_spark.flooding.config import FloodingConfig

    return FloodingConfig


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.flooding.live import FloodedOverlay, LiveFlooding

    if getattr(config.flooding, "over", "group") == "overlay":
        return FloodedOverlay(config.overlay.kind == "perfect" and config.knowledge is None)
    return LiveFlooding(config.overlay.b, config.overlay.leaf_set)


FLOODING = System(
    "flooding",
    "Flooding over Pastry",
    TREE,
    requested=True,
    config=_config,
    control=True,
    over_pastry=True,
    world=_live,
)
