"""Pastry: nodes, routing tables, leaf sets, and the next hop of a message.

`round` plays the round of a world, and a wave of arriving nodes.  Messages between nodes, and the
programs whose `handlers` receive them:

====================  =============================================================
message               handler
====================  =============================================================
lookup                `next_hop.LiveRoute`
probe                 `arrivals.Discover`
join, rows            `arrivals.JoinMessages`
leaf set              `arrivals.JoinMessages`
exchange              `arrivals.ExchangeLeafSets`
announcement          `arrivals.Announce`
introduction          `arrivals.Introduce`
maintenance           `repair.AskRows`, `repair.TakeRows`
goodbye               `round.play_events`
recovery              `round.recover`
keep-alive            `repair.repair_leaf_sets`
repair                `repair.repair_leaf_sets`, `repair.RepairTables`
check                 `repair.RepairTables`
====================  =============================================================
"""
