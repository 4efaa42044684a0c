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
