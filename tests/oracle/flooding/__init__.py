"""A slow oracle of flooding over Pastry: rules F1 to F7 of docs/rules.md.

Written from the rules alone, by someone who has not seen the code of ``scribe_spark``. It stands
on `tests.oracle.pastry` (perfect tables) or `tests.oracle.knowledge` (any tables). Nothing is
drawn.

Use: ``flood(overlay, source)`` on a group's ring (`ring_of`) or on the run's overlay; `deliveries`,
`state` and `announcements` of it. `flood` has seeded random cases.
"""
