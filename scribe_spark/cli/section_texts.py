"""The text that ``--help`` shows above the flags of each section: the terms that they use."""

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
    "Without these flags, each group has one publication, and a copy takes the delay of its "
    "route. Rates, links and --control-size have an effect only on publications with a size.",
    "trees": "Multicast systems, and variants of Scribe's trees. A node in the tree of a group "
    "has a children table with its children in that tree. --limit and --capacities are for "
    "the variants bottleneck and lazy, --shed-... for bottleneck. The reference tree is a tree of "
    "keys by Costa and Frey; a node has the positions of the keys that it holds.",
    "bayeux": "Bayeux sends a copy for each member from the root, along the overlay's routing "
    "tables, and merges equal hops. For runs and worlds with bayeux in --systems.",
    "flooding": "Nodes of a Pastry ring pass each message on to the nodes in their routing "
    "tables. For runs with flooding in --systems.",
    "can": "In a CAN (content-addressable network), each node has a zone of a space with d "
    "dimensions and passes messages on to the neighbouring zones. Each group has its own CAN. For "
    "runs and worlds with can in --systems.",
    "gossipsub": "In GossipSub, each subscriber of a topic (here: a member of a group) connects "
    "to peers and selects some as its mesh, along which copies travel. GRAFT adds a peer to the "
    "mesh, PRUNE removes one; IHAVE announces publications to other peers, which can request "
    "them; IDONTWANT tells peers not to send a publication. At each heartbeat, nodes repair their "
    "meshes and send IHAVE. For runs and worlds with gossipsub in --systems.",
    "world": "A world is divided into rounds. In each round, events happen: nodes arrive, leave, "
    "fail or recover, and members join or quit. Then Pastry and Scribe repair themselves. Events "
    "are your own table (--events) or come from --generator; the name of a generator before a "
    "text tells for which one the flag is.",
    "reference_tree": "A tree of keys by Costa and Frey. A node, or host, has the positions of "
    "the keys that it holds; its parent and children are the nodes with the next positions.",
    "scribe": "Scribe repairs its trees in rounds: a child that no longer hears of its parent "
    "joins again by a JOIN message to the groupId.",
    "paper": "The experiments of Section IV of the Scribe paper (JSAC 2002).",
    "execution": "Where and how the command runs; these flags change no result. The simulation "
    "divides the ring of nodeIds into intervals, called buckets, and proceeds in supersteps: in "
    "each, all buckets read messages and send new ones.",
}
