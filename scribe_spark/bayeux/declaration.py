"""The declaration of Bayeux as a multicast system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.bayeux.live import LiveBayeux
    from scribe_spark.config.bayeux import LiveBayeuxConfig

    given = config.bayeux
    if isinstance(given, LiveBayeuxConfig):
        return LiveBayeux(given.hops, given.recreate)
    return LiveBayeux(
        given.hops, b=config.overlay.b, partitions=given.partitions, root_rule=given.root
    )


BAYEUX = System(
    "bayeux",
    "Bayeux",
    TREE,
    requested=True,
    section="bayeux",
    control=True,
    over_pastry=True,
    from_root=True,
    world=_live,
    world_measures={
        "entries.mean": "entries",
        "entries.max": "entries",
        "waiting": "members",
        "sessions.lost": "groups",
    },
)
