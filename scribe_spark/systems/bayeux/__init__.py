"""Bayeux: JOINs are routed to the root, and the routes from the root to the members are the tree.

Messages between nodes, and the programs that handle them:

=========  ===================================
message    handler
=========  ===================================
JOIN       `live.Join`
TREE       `live.SendTree`
LEAVE      `live.Leave`
PRUNE      `live.Prune`
MULTICAST  `live.Publish`
payload    `live.NextHops`, `live.Repair`
=========  ===================================

JSAC 2002, Section V; NGC 2001, Section 4.  Rules: docs/rules.md, B1 to B10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import TREE, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.systems.bayeux.live import LiveBayeux

    rules = config.bayeux
    more = {"partitions": rules.partitions, "root_rule": rules.root}
    return LiveBayeux(rules.hops, rules.recreate, b=config.overlay.b, **more)


BAYEUX = System(
    "bayeux",
    "Bayeux",
    TREE,
    requested=True,
    config="scribe_spark.systems.bayeux.config:BayeuxConfig",
    control=True,
    over_pastry=True,
    world=_live,
    world_measures={
        "entries.mean": "entries",
        "entries.max": "entries",
        "waiting": "members",
        "sessions.lost": "groups",
    },
)
