"""The declaration of Bayeux as a multicast system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, System

if TYPE_CHECKING:
    from scribe_spark.multicast import Multicast
    from scribe_spark.rounds.system import SystemOnBuckets


def _build(stages: Any) -> Multicast:
    from scribe_spark.bayeux.bayeux import build

    return build(stages)


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.bayeux.live import LiveBayeux

    return LiveBayeux(config.bayeux.hops, config.bayeux.recreate)


BAYEUX = System(
    "bayeux",
    "Bayeux",
    TREE,
    _build,
    requested=True,
    config="scribe_spark.bayeux.config:BayeuxConfig",
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
