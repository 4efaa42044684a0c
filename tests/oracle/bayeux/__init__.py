"""A slow oracle of Bayeux on Pastry, in runs and in worlds: rules B1 to B20 of docs/rules.md.

Written from the rules alone, by someone who has not seen the code of ``scribe_spark``. It stands
on `tests.oracle.pastry` (perfect tables) or `tests.oracle.knowledge` (any tables). Nothing is
drawn.

Use: ``session = Session(overlay, key, Options(...))``, ``session.join(member)`` for each member,
then ``session.publish(source, way)``. By concept: `session` (B1 to B9), `cases` (seeded random
cases, with perfect and damaged tables). Worlds: `world.Bayeux` on `tests.oracle.living` (B11 to
B20).
"""
