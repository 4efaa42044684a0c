"""A slow oracle of Pastry with arriving, leaving, failing and recovering nodes.

Written from `dynamics.md`, `measures.md`, JSAC 2002 II.A-B, NGC 2001 Section 2 and Pastry 2001
Section 3 (as `dynamics.md` quotes it) alone, by someone who has not seen the code of
``scribe_spark``; plain Python, numpy only for rows of delays and measures.

Use: an `Overlay` (nodeIds, delay, draw, `Rules`), `arrival.arrive_all` or `arrival.arrive` (one
wave given explicitly), then `world.run` or `world.step`, which give a `Snapshot` after each round.

Every draw is asked of one callable, ``draw(purpose, *key, among=k)`` -> integer in [0, k), or with
``among=None`` any integer, to sort by.  Purposes and keys:
``("arrival order", round, node)`` sorts; ``("contact", round, node)`` indexes the live nodes by
nodeId; ``("wave maintenance", wave, time, node, row)`` and ``("round maintenance", round, node,
row)`` index a row's entries by column; ``("lookup source", round, i)`` indexes the live nodes by
nodeId; ``("lookup key", round, i)`` is the key.

CHOICES: what the texts leave open, each behind one small function or a field of `Rules`.

 1. *Closer.* "Numerically closest" and "closer than this node" are one order: distance on the
    ring, then the smaller nodeId (`ring.closeness`).
 2. *Span* of a leaf set: the arc from the farthest smaller through the node to the farthest larger
    leaf, by the leaf set as it is held, dead ones included. Where both sides share a leaf (fewer
    than l other nodes) the arcs meet and the span is the whole ring; with exactly l others the
    gap between the two ends is outside. An empty side ends at the node (`NodeState.in_span`).
 3. *Sides.* A leaf set is two lists. Candidates are offered to both sides; a side never takes
    from the other. In a small ring a node stands on both (`NodeState.take_leaves`).
 4. *Taken means alive.* Nobody takes a dead node into a leaf set or cell, whoever named it: its
    delay cannot be measured. Not counted as messages, except in repair (`Overlay.alive_of`).
 5. *Repair of cells is simultaneous*: all found entries are dropped, then all repairs read the
    tables as they are then, then all are written (`table_repair.drop_and_repair`).
 6. *Who sees a drop.* A lookup's finds are dropped (and repaired) after all lookups of the round
    (`drops_seen = round`), after each hop that all lookups make together (`hop`), or at once, the
    lookups going one after the other in the order of their rows (`message`). Join messages of a
    wave: after all of them were routed and have got their rows, before the announcements.
 7. *Circles.* A message that reaches a node of its own path again is undeliverable
    (`routing.hop`); that transmission counts as a hop.
 8. *Z's leaf set fills cells*: Z's leaves are candidates for X's cells too
    (`leaves_fill_cells`; False: only the rows and the nodes on the route). It is the place of the
    sentence "X's cells take the nearest candidate" that decides. X's leaf set starts from Z and
    Z's leaf set only.
 9. *A cell* keeps the least (delay, nodeId), its present entry among them, which counts with its
    delay also if it is dead and nobody has found that (`Overlay.offer`). A candidate goes into
    the cell where it belongs, from whatever row it was told.
10. *Discovered contact*: s is drawn of the live nodes before the wave, by nodeId. "Its last row"
    is the deepest non-empty row of the nearest of s and its leaf set; row i is that of the node
    reached by then. Each node is probed and counted once; a dead one is a lost probe
    (`contact.discover`).
11. *Who starts the exchange*: the nodes that were told by an arrived (or recovered) node and now
    have it in their leaf set, also if it was there before (dead, not yet detected), and the
    arrived nodes themselves (but not the first node of all). Without "also if" two nodes of a
    small ring that come back together before their detection never know each other
    (`arrival.told_of_leaves`).
12. *Exchange answers.* A node that is sent a leaf set by one that it does not hold after taking
    answers with its own leaf set, in the same round of the exchange. Otherwise those of more than
    l/2 nodes of a wave between two old neighbours never hear of each other, and "every leaf set
    is exactly the ring's" fails. It never happens in waves of one on a right ring
    (`leaf_exchange.exchange`). The exchange fills no cells.
13. *Waves.* floor(n (growth - 1)) is exact for the decimal given (20 x 0.15 = 3); n counts the
    live nodes. Arrivals of a round of a world are ordered by a draw and split by the same rule;
    `growth = None`: one node a wave (`arrival.wave_size`).
14. *Counting.* `join`: X's request to its contact and each transmission of the join message, lost
    ones too. `rows`: one a node of the route that supplies rows. `leaf set`: Z's. `announcement`:
    one a distinct node told. `exchange`, `maintenance`, `repair`: question and answer each one.
    `check`: each candidate whose life a repair looks at. `probe`, `goodbye`, `recovery` (question
    and answer), `keep-alive` (one a leaf, live node and round, before detection), `lookup`.
    `lost <kind>` are those of them that met a dead node. dynamics.md's "join" is `join` + `rows`
    + `leaf set`.
15. *Join messages.* X is not alive before its wave's announcements: a stale entry that leads the
    join message to X itself is a dead one. Where the message is undeliverable, the node that it
    has reached acts as Z (`arrival.first_state`).
16. *Departure* is a failure whose detection takes 0 rounds: goodbyes go out (counted) in step 1,
    and leaf sets drop it in step 2 of the same round (`departure.leave`).
17. *Detection concerns leaf sets.* A cell with the same node stays until a message uses it
    (`detection_clears_cells = True`: it is emptied, without repair).
18. *A dead entry is found* when a routed message (lookup, join) or a maintenance question is lost
    at it, whether it was used as leaf or as entry: the cell that holds it is dropped, and
    repaired unless `none`. The leaf set does not change: the leaf is passed over for that hop
    only, and the next node of the route may lose a transmission to it again. Probes, exchange,
    announcements and repair questions that are lost drop nothing.
19. *Eager* (step 2, after leaf set repair): every entry is dropped and repaired whose node has
    been dead for its detection time and one round more (`table_repair.find_all_dead`); this also
    finds what a recovered node brings back. Messages find dead entries too, as with lazy.
20. *Lazy repair* asks all live entries of the row (dead ones are passed over, uncounted), and
    takes the nearest live answer; only if there is none, all of the next row, and no further
    (`repair_asks = all`). `first`: one after the other, nearest first, until one helps.
21. *Leaf set repair* goes by rounds: each side that lost leaves asks, all answers are leaf sets
    from before the round; a side whose question changed nothing stops
    (`departure.repair_leaf_sets`). A question to a leaf that is dead but not detected is lost,
    and the next farthest is asked.
22. *What a repair takes*: of the leaf asked on the same side what lies beyond it on that side, or
    between it and the asker; of one asked on the other side (no leaf of this one is left) its
    whole leaf set, which may put far nodes there (`departure.beyond`, `departure.ask`). Checked
    nearest first until the side is full (`departure.checked`).
23. *Recovery keeps the old routing table*, stale entries and all. All of a round's recoveries see
    the state before; each takes what its live last known leaves and their leaf sets offer, tells
    its new leaf set (which takes it as leaf and entry), and the exchange follows. It takes no
    entries for its own table (`departure.recover`).
24. *Recovery without a live last known leaf* is an arrival with an empty state, one node a wave,
    by nodeId, after the other recoveries.
25. *Events of a round*: failures, departures, recoveries, arrivals (in waves); one event a node
    and round (`world.play_events`). Rounds count from 0. `arrive` of a node that was there before
    starts from an empty state; its old nodeId stays.
26. *Detection looks at who is dead in step 2*: one that is back before its detection is never
    dropped. All live nodes that have the dead node in their leaf set detect it.
27. *Periodic maintenance* is the end of step 2, in rounds > 0 divisible by the period; all answers
    are tables from before it, and finds are dropped and repaired before they are taken
    (`table_repair.maintain`).
28. *Lookups* leave live nodes in step 4. Hops are transmissions that arrived. Where no node is
    nearer and alive the holder delivers; `right` compares with all live nodes.
29. *Introductions* (ours, not the papers'; `introduce = True`): after a wave's leaf set exchange,
    before maintenance. Each X of the wave is sent, by the nodes of its route and from the rows that
    these sent it at first, the nodes of the same wave that came earlier than X, by the tables as
    they are now; X's leaves among those are candidates, too. X's cells take them. Then X tells each
    node that is new in its table, and each earlier leaf, of itself; with `announce = row` also the
    row of X in which it is new. All X do either step at once. `introduction` is counted once for
    each node of a route that sends X at least one node, and once for each distinct node that X
    tells (`arrival.introduce`).
30. *Latest contact* (ours: the papers only say "a nearby node"; `contact = latest`, for arrivals
    without failures): of the equally near live nodes not the smallest nodeId, but the one that
    arrived last, by the order in which nodes entered (`contact.latest_of_nearest`).
"""
