"""A slow oracle of Costa and Frey's reference tree, in plain Python.

Written from "Publish-Subscribe Tree Maintenance over a DHT" (section numbers are its) and
``docs/reference_tree.md`` alone. It imports nothing but the standard library and shares no code
with ``scribe_spark``.

===================  ===========================================================================
``tree``             the reference tree of keys, by arithmetic and written out (3.2)
``dht``              keysets of hosts, chord and pastry (3, Definition 1)
``topmost``          the topmost key of a keyset (Definition 2)
``host_tree``        the tree of hosts, computed from nothing (Definition 3)
``search``           how a host finds its parent and its children, and its look-ups (3.4)
``reconfiguration``  hosts join, leave and fail: rounds of computing and notices (3.4)
``paths``            reconfiguration area (4.2.2), edges of a multicast
``cases``            ``random_case(seed)``
===================  ===========================================================================

Hosts are named by their ids. Keys and ids are Python ints.

Use::

    case = random_case(seed)
    dht = case.dht()
    tree = tree_from_nothing(dht)              # tree.topmost, tree.depth, tree.parent by host
    found = find_neighbours(dht, host)         # found.parent_asked, found.child_asked: look-ups
    neighbours = tree.neighbours()
    for events in case.events:
        dht, neighbours, rounds = reconfigure(dht, neighbours, events)
    for source, members in case.groups:        # of the hosts at the start
        multicast_edges(tree.neighbours(), source, members)

What the texts leave open, or where they are not followed, is settled by the rules T1 to T6 of
docs/rules.md.
"""
