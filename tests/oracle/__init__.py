"""A slow oracle in plain Python, written from the papers, for testing the Spark code against.

It imports nothing but the standard library and shares no code with ``scribe_spark``.  Delays are
whole microseconds throughout.

===================  ===========================================================================
``routes``           IP unicast: least policy weight, ties broken by data
``pastry``           rings of nodeIds, perfect routing tables, leaf sets, routes
``scribe``           trees and deliveries of groups by definition: unions of routes (JSAC III.A)
``measures``         the two baselines, delay penalty, node stress and link stress (JSAC IV)
``publications``     what became of publications in worlds: expected, in time, late, lost, open
``random_cases``     small seeded cases, rich in ties and edges of the ring
``ring``             the ring of nodeIds: digits, distances, roots, leaf sets
``knowledge``        next hops from what one node knows; damaged routing tables
``dissemination``    one publication over directed edges, by hops or by time: event by event
``bandwidth``        publications over links with bandwidth, sizes and queues: event by event
``bayeux``           Bayeux on Pastry (a package, as all that follow)
``flooding``         flooding over Pastry, by rows
``can``              CAN, CAN multicast, CAN as the overlay
``gossipsub``        GossipSub, in runs and in worlds
``nice``             NICE: groups, a function for each rule (a module)
``plumtree``         HyParView and Plumtree: event by event, a handler for each message
``overcast``         Overcast: members that search, check in and evaluate, round by round
``reference_tree``   Costa and Frey: the tree of hosts over a DHT
``narada``           Narada: a mesh of members, and distance vectors (a module)
``anycast``          anycast in a Scribe tree (a module)
``period_events``    what happens before a period, in the cases of ``narada`` and ``nice``
===================  ===========================================================================
"""
