"""Pastry: nodes, routing tables, leaf sets, and the next hop of a message.

`round` plays the round of a world, `arrivals.arrival` a wave of arriving nodes.  Messages between
nodes, and the programs that handle them:

====================  =====================================================
message               program
====================  =====================================================
message to a key      `route.LiveRoute`, `next_hop.hop`
join                  `arrivals.join_messages`
announcement          `arrivals.announcements`, `recovery`
leaf set              `arrivals.exchange`
introduction          `arrivals.introductions`
search for a contact  `arrivals.nearby_search`
maintenance           `arrivals.maintenance`
goodbye               `events.play_events`
keep-alive            `leaf_repair.repair_leaf_sets`
repair of a leaf set  `leaf_repair.repair_leaf_sets`
repair, check         `table_repair.RepairTables`
====================  =====================================================
"""

from scribe_spark.pastry.knowledge import routing_table, table_entries
from scribe_spark.pastry.nodes import draw_nodes, node_vertices
from scribe_spark.pastry.overlay import PastryOverlay

__all__ = [
    "PastryOverlay",
    "draw_nodes",
    "node_vertices",
    "routing_table",
    "table_entries",
]
