"""HyParView and Plumtree, event by event, from the rules.

=================  ==============================================================================
``event_queue``    the heap: order of events, delays, the dead, draws
``hyparview``      the views of one node: a handler for each message
``plumtree``       the tree of one node: a handler for each message
``play``           networks of nodes, commands, results
``draws``          keyed draws in plain Python
``cases``          seeded random cases, and waves of newcomers
=================  ==============================================================================
"""
