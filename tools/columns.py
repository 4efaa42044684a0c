"""The meaning of a row of each table, and of each column, for the page of the tables."""

from __future__ import annotations

#: Table -> the meaning of a row.
ROWS: dict[str, str] = {
    "routers": "a router",
    "links": "a directed link between routers",
    "nodes": "an overlay node and its router",
    "routing_table": "an entry of a routing table",
    "groups": "a group, its key and its root",
    "members": "a member of a group",
    "tree_edges": "an edge of a multicast tree",
    "deliveries": "a member, other than the source, that gets the message",
    "node_stress": "the forwarding state of a node",
    "link_stress": "a directed link; `kind` is `core`, `lan_up` (node to router) or `lan_down`",
    "group_delay": "the delay penalties of a group",
    "latency": "the latencies of a publication",
    "latency_counts": "a latency",
    "copies": "a copy from node to node, in a system without trees",
    "system_state": "the entries of a kind at a node; `group` is NULL if they belong to none",
    "control": "the control messages of a kind between two nodes",
    "control_stress": "a directed link, as in `link_stress`",
    "bytes": "the bytes of a node",
    "schedule": "a publication",
    "link_bytes": "the payload on a directed link",
    "by_part": "a measure over the nodes of a class or region",
    "rounds_by_part": "a measure over the nodes of a class or region in a round",
    "part_latencies": "a latency of a class or region, as in `latency_counts`",
    "events": "an event of a node",
    "rounds": "a measure of a round",
    "publications": "the deliveries of a round's publications in a group",
    "memberships": "a node in a tree",
    "watched_trees": "a node of a watched tree",
    "reference_tree": "a value of a measure",
}

#: Meanings of several columns.
_HALF_OF_ID = "upper and lower 64 bits of a nodeId, as signed numbers"
_HALF_OF_KEY = "upper and lower 64 bits of a key, as signed numbers"
_PERCENTILE = "percentile of that rank"
_ENDS = "end and beginning of a directed link: a router or a node"
_SENDER_RECEIVER = "nodes that receive and send a copy or a message"
_PARENT_CHILD = "nodes that receive and send a message in a tree"
_PAYLOAD = "payload that the node receives and sends"
_CONTROL = "control messages that the node receives and sends"
_RATIO = "mean (rad) or maximum (rmd) delay of a group, divided by that with IP multicast"
_TIME_TO = "time until that percentage of the expected members is reached"

#: Column -> unit (empty: a number of something, a name, true or false), and meaning.
COLUMNS: dict[str, tuple[str, str]] = {
    "router": ("", "number of a router"),
    "kind": ("", "kind of router, link, copy, entry or message"),
    "domain": ("", "number of a router's domain"),
    "x": ("", "coordinate of a router, in the topology's own unit"),
    "y": ("", "coordinate of a router, in the topology's own unit"),
    "src": ("", _ENDS),
    "dst": ("", _ENDS),
    "delay_ms": ("ms", "delay of a link, or of a delivery since the message was sent"),
    "weight": ("", "policy weight of a link: routes have the least sum"),
    "node": ("", "number of a node, from 0"),
    "id_hi": ("", _HALF_OF_ID),
    "id_lo": ("", _HALF_OF_ID),
    "row": ("", "row of a routing table, from 0: digits that are shared"),
    "col": ("", "column of a routing table, from 0: the next digit"),
    "entry": ("", "number of the node in a cell of a routing table"),
    "group": ("", "number of a group, from 1; NULL where there is none"),
    "key_hi": ("", _HALF_OF_KEY),
    "key_lo": ("", _HALF_OF_KEY),
    "size": ("members", "members of a group"),
    "root": ("", "number of the root; in memberships and trees: the node is the root"),
    "system": ("", "name of a multicast system"),
    "parent": ("", _PARENT_CHILD),
    "child": ("", _PARENT_CHILD),
    "hops": ("hops", "hops of the overlay from the source"),
    "children_tables": ("groups", "groups for which a node has children"),
    "children_entries": ("entries", "entries of all children tables of a node"),
    "packets": ("packets", "packets on a directed link"),
    "rad": ("times", _RATIO),
    "rmd": ("times", _RATIO),
    "sender": ("", _SENDER_RECEIVER),
    "receiver": ("", _SENDER_RECEIVER),
    "hop": ("hops", "number of a copy on its path from the source, from 1"),
    "sent_ms": ("ms", "time from the publication to the sending of a copy"),
    "entries": ("entries", "entries that a node stores"),
    "messages": ("messages", "messages from one node to another"),
    "round": ("rounds", "number of a round, from 0"),
    "event": ("", "arrive, leave, fail, recover; create, join, quit, publish"),
    "measure": ("", "name of a measure"),
    "value": ("", "value of the measure, in the measure's unit"),
    "expected": ("deliveries", "members that should get a publication"),
    "in_time": ("deliveries", "deliveries in the round of the publication"),
    "late": ("deliveries", "deliveries in later rounds"),
    "lost": ("deliveries", "deliveries that are missing at the deadline"),
    "duplicates": ("copies", "copies at members that had the publication"),
    "member": ("", "the node is a member, not only a forwarder"),
    "moment": ("", "before or after the events of the round"),
    "orphan": ("", "the node is no root and no live node has it as a child"),
    "alive": ("", "the node is alive"),
    "experiment": ("", "events (hosts come and go) or scaling (a large tree)"),
    "by": ("", "class or region"),
    "part": ("", "name of the class or region"),
    "payload_up": ("bytes", _PAYLOAD),
    "payload_down": ("bytes", _PAYLOAD),
    "control_up": ("bytes", _CONTROL),
    "control_down": ("bytes", _CONTROL),
    "hosts": ("hosts", "hosts in the tree"),
    "bits": ("bits", "bits of a key"),
    "children": ("children", "most children of a key"),
    "assignment": ("", "rule by which hosts have keys: chord or pastry"),
    "count": ("", "number of values"),
    "publication": (
        "",
        "number of a publication: 0, the number in `schedule`, or the round of a world",
    ),
    "time_ms": ("ms", "time of a publication since the start of the run"),
    "bytes": ("bytes", "bytes of a publication, or on a link"),
    "unit": ("", "ms or hops: the unit of latencies"),
    "reached": ("deliveries", "members that get a publication"),
    "mean": ("ms or hops", "mean over the members reached"),
    **{f"p{q}": ("ms or hops", _PERCENTILE) for q in (50, 90, 95, 99)},
    "max": ("ms or hops", "greatest value"),
    **{f"t{x}": ("ms or hops", _TIME_TO) for x in (50, 90, 95, 99, 100)},
}
