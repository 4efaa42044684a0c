"""Pastry: nodes, routing tables, leaf sets, and the next hop of a message.

`round` plays the round of a world, and a wave of arriving nodes.  The `handlers` of a program name
the messages that it receives, and the functions for them.
"""
