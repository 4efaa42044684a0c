"""Scribe: groups, children tables, and multicast over Pastry.

`round.play_groups` plays the programs of a round in order; `figures` has Figures 3 and 4 line by
line.  Messages between nodes, and the functions that handle them:

====================  ================================================================
message               handler
====================  ================================================================
CREATE                `root.receive_creates`, `figures.deliver_create`
JOIN                  `join.receive_joins`, `figures.forward`, `figures.deliver_join`
answer                `figures.take_answers`
LEAVE                 `scribe.deliver_leave`, `figures.left_trees`
tree goodbye          `round.hear_goodbyes`
MULTICAST             `sources.FindRoots`, `sources.receive_publications`
fate                  `sources.hear_fates`
payload               `multicast.Disseminate`, `multicast.Emitter.deliver`
retransmission        `multicast.Emitter.deliver`
drop child            `multicast.drop_children`
JOIN (ask)            `multicast.Emitter.asked`
refresh               `heartbeat.receive_refreshes`, `heartbeat.was_refused`
heartbeat             `heartbeat.hear_parents`
path                  `figures.take_paths`
replica               `root.receive_replicas`
replica goodbye       `root.receive_goodbyes`
state                 `root.HandOver`, `root.receive_states`
JOIN, unknown member  `join.RefuseUnknownMembers`
shed, JOIN to a node  `bottleneck.RemoveBottlenecks`
JOIN, randomised      `bottleneck.rejoin`
collapse              `small_groups.collapse`
lazy JOIN             `small_groups.grow_lazily`
ANYCAST               `anycast.Anycast`
====================  ================================================================
"""
