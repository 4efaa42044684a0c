"""A slow oracle of Scribe alive: leave, heartbeats, repair, roots, access lists, reliable delivery.

Written from docs/rules.md, JSAC 2002 III.A-B (Figures 3, 4) and NGC 2001 3.1-3.2 alone, by someone
who has not seen the code of ``scribe_spark``. It stands on `tests.oracle.living` (Pastry alive).

Use: `cases.random_world(seed)` gives a `cases.World` (plain data: nodes, rules, groups, settings,
events); ``world.play()`` or ``world.begin()`` and ``run.step(round, events)`` give a
`world.Snapshot` after each round; `world.differences` holds two of them against each other;
`measures` has publications, attachment and rounds until repaired. By concept: `figures` (forward
and deliver), `joining`, `upkeep` (LEAVE, refresh, expiry, suspicion, heartbeats), `roots`,
`multicast`, `state`, `reliable`.

Everything is bulk-synchronous: in a superstep all messages that are under way arrive at once, and
what a node does with several of them does not depend on their order. Nothing here is drawn.

What the texts leave open is settled by the rules S1 to S31 of docs/rules.md, each behind one small
function: S1 `world.Run.step`; S6 `upkeep.leave_up`; S11 `upkeep.heartbeats`; S23
`state.Settings`.
"""
