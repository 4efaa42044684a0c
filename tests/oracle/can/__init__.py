"""A slow oracle of CAN, CAN multicast and CAN as the overlay: rules C1 to C18 of docs/rules.md.

Written from the rules alone, by someone who has not seen the code of ``scribe_spark``.

Draws are asked of one callable, ``draw(purpose, *numbers)`` -> 64 bits, unsigned, for a run's seed:
``("can point", group, node)`` and ``("can order", group, node)``; the group of the CAN of all nodes
is -1. The landmarks (routers) are given.

Use: `zones` (C1 to C3, C5, C6: bits, points, landmarks, one join after the other),
`zones.Can` (one CAN: who is in it, C4; greedy routes, C12), `flood` (C7 to C11, C13 to C17),
`cases` (seeded random cases).
"""
