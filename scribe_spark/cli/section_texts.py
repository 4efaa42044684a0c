"""The text above the flags of each section in ``--help``; it explains the terms of the section."""

from __future__ import annotations

#: Section of a config -> its text.
SECTION_TEXTS: dict[str, str] = {
    "run": "Settings of the whole simulation.",
    "overlay": "An overlay routes messages from node to node to the root of a key, the node whose "
    "nodeId is closest to the key. In Pastry, each node has a 128-bit nodeId, a leaf set (the "
    "nodes with the nearest nodeIds) and a routing table (nodes by the first digits of their "
    "nodeIds). With --overlay perfect, flags about arrivals have an effect only on nodes that "
    "arrive in rounds.",
    "groups": "A group has members, which receive the publications (messages) of the group, and "
    "a key, its groupId. In Scribe, the root of this key is the root of the group's tree.",
    "topology": "The network below the overlay: routers and links. Each node is attached to a "
    "router by its own LAN link. A transit-stub network has domains of transit routers (the "
    "backbone) and smaller domains, stubs, at each transit router; the flags from "
    "--transit-domains to --gtitm-quirk describe it.",
    "bandwidth": "Sizes, times and rates of publications; nodes forward copies of a publication. "
    "Without these flags, publications have no size, copies take the delay of their routes, and a "
    "group of a run has one publication. Rates, links and --control-size have an effect only on "
    "publications with a size.",
    "trees": "Multicast systems. By ip_multicast, routers copy packets; by naive_unicast, the "
    "source sends a copy to each member; the sections below explain other systems. Variants "
    "change Scribe's trees: in bottleneck, overloaded nodes hand children over to siblings; in "
    "collapse, non-members with one child leave the tree; in lazy, JOINs add few non-members. A "
    "children table has a node's children in one tree. --limit and --capacities have an effect "
    "with bottleneck and lazy, --shed-... with bottleneck. The reference tree of Costa and Frey "
    "is one tree for all groups; each node computes its position from the keys that it holds.",
    "bayeux": "Bayeux sends publications from a group's root to its members along the overlay's "
    "routing tables. These flags have an effect with bayeux in --systems.",
    "flooding": "Each node of a Pastry ring forwards a message to the nodes in its routing table. "
    "This flag has an effect with flooding in --systems.",
    "can": "In a CAN (content-addressable network), each node has a zone of a space with d "
    "dimensions and forwards messages to the nodes of neighbouring zones. Each group has its own "
    "CAN. These flags have an effect with can in --systems.",
    "gossipsub": "In GossipSub, each subscriber of a topic (here: a member of a group) connects "
    "to peers and selects some as its mesh, along which copies travel. GRAFT adds a peer to the "
    "mesh, PRUNE removes one; IHAVE announces publications to other peers, which can request "
    "them; IDONTWANT tells peers not to send a publication. At each heartbeat, nodes repair their "
    "meshes and send IHAVE. These flags have an effect with gossipsub in --systems; in worlds, "
    "events decide when members publish, not --gossipsub-heartbeats.",
    "world": "A world is divided into rounds. In each round, events happen: nodes arrive, leave, "
    "fail or recover, and members join or quit. Then Pastry and Scribe repair themselves. Events "
    "are in your own table (--events), or --generator makes them. A flag whose text begins with "
    "the name of a generator has an effect with that generator only.",
    "reference_tree": "The reference tree of Costa and Frey is one tree over all nodes (hosts) of "
    "a DHT: each node computes its position from the keys that it holds.",
    "scribe": "A node joins a group's tree by a JOIN message to the groupId; its parent adds it to "
    "a children table. Scribe repairs the trees in rounds: a child that no longer hears of its "
    "parent joins again.",
    "paper": "The experiments of Section IV of the Scribe paper (JSAC 2002).",
    "execution": "Where and how the command runs; these flags change no result. The simulation "
    "divides the ring of nodeIds into intervals, called buckets, and proceeds in supersteps: in "
    "each, all buckets read messages and send new ones.",
}
