"""GossipSub, the mesh of libp2p: discovery, JOIN, heartbeats, publication, gossip.

Messages between nodes, and the programs that handle them:

=====================  ===============================================================
message                handler
=====================  ===============================================================
dial                   `mesh.Dial`, `mesh.DialGraph`
GRAFT                  `mesh.Maintain`
PRUNE                  `mesh.Maintain`, `round.Go`
goodbye, unsubscribe   `round.Go`
IHAVE, IWANT           `gossip.Gossip`
IDONTWANT              `publication.SendCopies`
payload                `publication.SpreadMessages`, `publication.publish_with_bandwidth`
=====================  ===============================================================

References
----------
libp2p/specs, pubsub/gossipsub: gossipsub-v1.0.md, gossipsub-v1.1.md, gossipsub-v1.2.md.
docs/rules.md, "GossipSub".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.rounds.declaration import MESH, TIME, System

if TYPE_CHECKING:
    from scribe_spark.rounds.system import SystemOnBuckets


def _live(config: Any) -> SystemOnBuckets:
    from scribe_spark.core.node_classes import NodeClasses
    from scribe_spark.systems.gossipsub.round import live_gossipsub

    return live_gossipsub(config.gossipsub, NodeClasses.of(config))


def _heartbeat(config: Any) -> float:
    return config.gossipsub.value("heartbeat_ms") / 1000


def _clock(config: Any) -> str:
    return TIME if config is None else config.gossipsub.clock


GOSSIPSUB = System(
    "gossipsub",
    "GossipSub",
    MESH,
    requested=True,
    config="scribe_spark.systems.gossipsub.config:GossipSubConfig",
    clock=_clock,
    control=True,
    world=_live,
    round_seconds=_heartbeat,
    world_measures={
        "mesh": "links per membership",
        "connections": "links per membership",
        "by_iwant": "deliveries",
    },
)
