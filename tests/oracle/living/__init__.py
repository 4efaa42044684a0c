"""A slow oracle of Pastry with arriving, leaving, failing and recovering nodes.

Written from the definitions in docs/rules.md, JSAC 2002 II.A-B, NGC 2001 Section 2 and Pastry 2001
Section 3 alone, by someone who has not seen the code of
``scribe_spark``; plain Python, numpy only for rows of delays and measures.

Use: an `Overlay` (nodeIds, delay, draw, `Rules`), `arrival.arrive_all` or `arrival.arrive` (one
wave given explicitly), then `world.run` or `world.step`, which give a `Snapshot` after each round.

Every draw is asked of one callable, ``draw(purpose, *key, among=k)`` -> integer in [0, k), or with
``among=None`` any integer, to sort by.  Purposes and keys:
``("arrival order", round, node)`` sorts; ``("contact", round, node)`` indexes the live nodes by
nodeId; ``("wave maintenance", wave, time, node, row)`` and ``("round maintenance", round, node,
row)`` index a row's entries by column; ``("lookup source", round, i)`` indexes the live nodes by
nodeId; ``("lookup key", round, i)`` is the key.

What the texts leave open is settled by the rules P1 to P30 of docs/rules.md, each behind one small
function: P1 `oracle.ring.closeness`; P2 `NodeState.in_span`; P3 `NodeState.take_leaves`; P4
`Overlay.alive_of`; P5 `routing.drop_and_repair`; P7 `routing.hop`; P9 `Overlay.offer`; P10
`arrival.discover`; P11 `arrival.told_of_leaves`; P12 `arrival.exchange`, P33 as well; P13
`arrival.wave_size`; P15 `arrival.first_state`; P16 `departure.leave`; P19
`routing.find_all_dead`; P21 `departure.repair_leaf_sets`; P22 `departure.beyond`,
`departure.ask`, `departure.checked`; P23 `departure.recover`; P25 `world.play_events`; P27
`routing.maintain`; P29 `arrival.introduce`; P30 `arrival.latest_of_nearest`.
"""
