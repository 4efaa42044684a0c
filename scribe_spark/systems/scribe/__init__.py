"""Scribe: groups, children tables, and multicast over Pastry.

`round.play_groups` plays the programs of a round in order; `figures` has Figures 3 and 4 line by
line.  The `handlers` of a program name the messages that it receives, and the functions for them.
"""
