"""The declaration of Plumtree as a multicast system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import MESH, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.rounds.clocked import ClockedSystem
    from scribe_spark.systems.plumtree import STATIC, WAVES
    from scribe_spark.systems.plumtree.overlay import PlumtreeKernel

    rules = config.plumtree.for_tasks()
    return ClockedSystem(
        PlumtreeKernel,
        rules,
        least_wait_us=min(rules.us[name] for name in ("first_wait", "next_wait", "request")),
        growth=rules.growth if rules.views == WAVES else None,
        refresh_us=0 if rules.views == STATIC else rules.us["shuffle"],
        links=rules.active if rules.views == STATIC else 0,
        state={"active": "active view", "passive": "passive view"},
    )


_LINKS = "links per membership"

PLUMTREE = System(
    "plumtree",
    "Plumtree",
    MESH,
    requested=True,
    config="scribe_spark.systems.plumtree.config:PlumtreeConfig",
    control=True,
    world=_live,
    world_measures={"active": _LINKS, "eager": _LINKS, "passive": "entries per membership"},
)
