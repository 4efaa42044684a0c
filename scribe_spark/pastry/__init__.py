"""Pastry: nodes, routing tables, leaf sets, and the next hop of a message.

`round` plays the round of a world, and a wave of arriving nodes.  Messages between nodes, and the
programs that handle them:

====================  =============================================================
message               handler
====================  =============================================================
lookup                `route.LiveRoute`
probe                 `arrivals.join_messages.Discover`
join, rows            `arrivals.join_messages.JoinMessages`
leaf set              `arrivals.join_messages.JoinMessages`
exchange              `arrivals.announcements.ExchangeLeafSets`
announcement          `arrivals.announcements.Announce`
introduction          `arrivals.announcements.Introduce`
maintenance           `repair.AskRows`, `repair.TakeRows`
goodbye               `round.play_events`
recovery              `round.recover`
keep-alive            `repair.repair_leaf_sets`
repair                `repair.repair_leaf_sets`, `repair.RepairTables`
check                 `repair.RepairTables`
====================  =============================================================
"""
