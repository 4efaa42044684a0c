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
``experiment``       the paper's experiment (4), by hand
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

CHOICES: what the texts leave open, or where they are not followed.

 1. *Round 0* has also the hosts whose topmost key changed (a host knows its keys, property 3 of
    Section 3). With the new hosts and the neighbours of those that are gone alone, as
    the paper has it, some hosts are never reached, and the result is not the tree
    from nothing: for one event on the ring of pastry with three children or more, and for several
    events at once everywhere (``test_reconfiguration`` has such cases).
    ``Rules(topmost_changed=False)`` is the rule without it.
 2. *The two searches of a host share no answers*: what the search for the parent was told is not
    known to the search for the children.
 3. *Children*: a key in a keyset that an answer has named is not asked for again. If it were, as
    ``Rules(ask_again=True)`` has it, a subtree that has the border of two keysets would be asked
    for on every level down to it: 60 look-ups a host, not 2, with binary trees of 128-bit keys.
    The children are the same.
 4. *A host that was sent a notice computes anew* also if it has done so in an earlier round.
 5. *One event a host* among those that happen at once.
 6. *The area* of an event that changes no link (the first host comes, the last one goes) is empty.
"""
