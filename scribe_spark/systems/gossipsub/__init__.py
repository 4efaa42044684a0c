"""GossipSub, the mesh of libp2p: discovery, JOIN, heartbeats, publication, gossip.

References
----------
libp2p/specs, pubsub/gossipsub: gossipsub-v1.0.md, gossipsub-v1.1.md, gossipsub-v1.2.md.
docs/rules.md, "GossipSub".
"""
