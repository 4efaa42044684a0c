"""A slow oracle of Costa and Frey's reference tree, in plain Python.

Written from "Publish-Subscribe Tree Maintenance over a DHT" (section numbers are its) and
``docs/reference_tree.md`` alone. It imports nothing but the standard library and shares no code
with ``scribe_spark``.

===================  ===========================================================================
``tree``             the reference tree of keys (3.2), keysets of hosts and the tree of hosts (3,
                     Definitions 1 to 3), searches and look-ups (3.4), paths (4.2.2)
``reconfiguration``  hosts join, leave and fail: rounds of computing and notices (3.4)
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

What the texts leave open, or where they are not followed, is settled by the rules T1 to T4 of
docs/rules.md.
"""
