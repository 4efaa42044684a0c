"""The declaration of Plumtree as a multicast system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import MESH, System

if TYPE_CHECKING:
    from scribe_spark.config.section import Section
    from scribe_spark.rounds.system import SystemOnBuckets


def _config() -> type[Section]:
    from scribe_spark.plumtree.config import PlumtreeConfig

    return PlumtreeConfig


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.plumtree.round import LivePlumtree

    return LivePlumtree(config.plumtree.for_tasks())


_LINKS = "links per membership"

PLUMTREE = System(
    "plumtree",
    "Plumtree",
    MESH,
    requested=True,
    config=_config,
    control=True,
    world=_live,
    world_measures={"active": _LINKS, "eager": _LINKS, "passive": "entries per membership"},
)
