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

from scribe_spark.rounds.declaration import MESH, TIME, System, function_at

GOSSIPSUB = System(
    "gossipsub",
    "GossipSub",
    MESH,
    requested=True,
    config="scribe_spark.systems.gossipsub.config:GossipSubConfig",
    clock=lambda config: TIME if config is None else config.gossipsub.clock,
    control=True,
    names_parts=lambda config: config.gossipsub.announce == "publication",
    world=function_at("scribe_spark.systems.gossipsub.round:system_of"),
    round_seconds=lambda config: config.gossipsub.value("heartbeat_ms") / 1000,
    world_measures={
        "mesh": "links per membership",
        "connections": "links per membership",
        "by_iwant": "deliveries",
    },
)
