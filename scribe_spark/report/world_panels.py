"""The drawings of a world's page over its rounds, as panels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from scribe_spark.measures.incomplete import systems_of_world
from scribe_spark.report.catalogue import label_of
from scribe_spark.report.style import in_order
from scribe_spark.systems import SCRIBE


@dataclass(frozen=True)
class RoundMeasures:
    """Measures over the rounds in one figure."""

    name: str  # of its files
    title: str
    unit: str
    measures: Mapping[str, str]  # measure -> the name of its line
    #: True if a round without a value is a gap; else lines join the rounds with a value.
    every_round: bool = True
    #: If it is set, the panel is a distribution over all rounds together, by the number at the end
    #: of the measures' names (``repaired.3``), whose meaning it is; `measures` lacks the number.
    across: str = ""
    systems: Mapping[str, str] = field(default_factory=dict)  # name of a line -> its system


PANELS = (
    RoundMeasures("live", "Live nodes", "nodes", {"nodes.live": "live"}),
    RoundMeasures(
        "leaf-sets", "Leaf sets that match the ring", "share", {"leaf_sets.right": "right"}
    ),
    RoundMeasures(
        "cells",
        "Cells of routing tables",
        "per live node",
        {"cells.dead": "dead entry", "cells.missing": "empty, although a live node fits"},
    ),
    RoundMeasures(
        "delay",
        "Delay to the entries of routing tables",
        "ms, between routers",
        {"cells.delay": "entry", "cells.nearest_delay": "nearest live node"},
    ),
    RoundMeasures(
        "delivered",
        "Lookups",
        "share",
        {"lookups.delivered": "delivered", "lookups.right": "at the right root"},
    ),
    RoundMeasures("hops", "Hops of delivered lookups", "mean", {"lookups.hops": "hops"}),
    RoundMeasures("lost", "Lost transmissions", "per lookup", {"lookups.lost": "lost"}),
)

#: Measure of every system of a world that is drawn -> title and unit.
_OF_SYSTEMS = {
    "publications.in_time": ("Delivered in time", "deliveries"),
    "publications.late": ("Delivered late", "deliveries"),
    "publications.lost": ("Lost", "deliveries"),
    "publications.duplicates.mean": ("Duplicates per delivery", "copies"),
    "multicasts.reached": ("Members that multicasts reach", "share"),
    "latency.p50": ("Latency, median over all deliveries", "ms"),
    "latency.p99": ("Latency, 99th percentile over all deliveries", "ms"),
    "time_to_99.median": ("Time to 99 % of the members, median over the groups", "ms"),
    "bytes.up.mean": ("Payload that a node sends, mean", "B per live node and round"),
    "bytes.up.max": ("Payload that a node sends, maximum", "B per round"),
    "control_bytes.up.mean": ("Control bytes that a node sends", "B per live node and round"),
    "rad.median": ("RAD, median over the groups", "times"),
    "rad.largest": ("RAD of the largest group", "times"),
    "rmd.median": ("RMD, median over the groups", "times"),
    "rmd.largest": ("RMD of the largest group", "times"),
    "rdp.mean": ("RDP of the largest group, mean", "times"),
    "children_entries.max": ("Copies or children of the busiest node, over all groups", "copies"),
    "link_stress.max": (
        "Packets on a link, maximum: one multicast of each group",
        "packets",
    ),
    "control": ("Control messages", "per live node and second"),
    "link_stress.payload.max": (
        "Link stress of payload, maximum",
        "messages on a directed link, in rounds in which it is measured",
    ),
    "publications.duplicates": ("Duplicates", "copies"),
    "publications.open": ("Open deliveries at the end of the world", "deliveries"),
}


def system_panels(measures: Collection[str]) -> tuple[RoundMeasures, ...]:
    """Return the panels of several systems side by side; empty if Scribe is the only system."""
    systems = in_order(systems_of_world(measures))
    if set(systems) <= {SCRIBE}:  # Scribe's trees have panels of their own
        return ()

    def measure(system: str, name: str) -> str:
        of_all = name.startswith("link_stress.payload") and system == SCRIBE
        return name if of_all else f"{system}.{name}"

    return tuple(
        RoundMeasures(
            f"systems-{name.replace('.', '-').replace('_', '-')}",
            title,
            unit,
            {measure(system, name): label_of(system) for system in systems},
            every_round=False,
            systems={label_of(system): system for system in systems},
        )
        for name, (title, unit) in _OF_SYSTEMS.items()
    )


#: The panels of a world whose publications have a size.
BYTES_PANELS = (
    RoundMeasures(
        "payload-bytes",
        "Payload that a node sends in a round",
        "B",
        {f"scribe.bytes.up.{end}": end for end in ("mean", "p95", "max")},
        every_round=False,
    ),
)

#: The systems whose links are compared in a world.
_MULTICASTS = ("scribe", "ip_multicast", "naive_unicast")

#: The panels of a world with groups.
GROUP_PANELS = (
    RoundMeasures(
        "publications",
        "Deliveries, by the round of the publication",
        "deliveries",
        {
            f"scribe.publications.{name}": label
            for name, label in (
                ("expected", "expected"),
                ("in_time", "in time"),
                ("late", "late"),
                ("lost", "lost"),
                ("open", "open at the end of the world"),
                ("duplicates", "duplicates"),
            )
        },
    ),
    RoundMeasures("late", "Late deliveries", "deliveries", {"scribe.deliveries.late": "late"}),
    RoundMeasures(
        "order",
        "Deliveries out of order",
        "deliveries",
        {"scribe.deliveries.out_of_order": "deliveries"},
    ),
    RoundMeasures("members", "Members of all groups", "members", {"scribe.members": "members"}),
    RoundMeasures("orphans", "Orphans", "nodes in trees", {"scribe.orphans": "orphans"}),
    RoundMeasures(
        "joins",
        "JOINs by cause",
        "JOINs",
        {
            f"scribe.joins.{cause}": cause
            for cause in (
                *("own", "forwarder", "parent failed", "root failed"),
                *("parent left", "refused", "hand-over"),
            )
        }
        | {"scribe.joins.at_root": "answered by a root"},
    ),
    RoundMeasures(
        "repaired",
        "Failures and repair",
        "nodes",
        {
            "scribe.failures": "failed nodes with children",
            "scribe.repaired": "failed nodes whose children are all reached again",
            "scribe.repair.nodes": "nodes that took part in JOINs after failures",
        },
    ),
    RoundMeasures(
        "repair-rounds",
        "Rounds until a failure is repaired",
        "failures, of all rounds",
        {"scribe.repaired": "failures"},
        across="rounds from the failure until the last child is reached",
    ),
    RoundMeasures(
        "lateness",
        "Delay of late deliveries in rounds",
        "late deliveries, of all rounds",
        {"scribe.deliveries.late": "deliveries"},
        across="rounds from the publication to the delivery",
    ),
    RoundMeasures(
        "groups-lost",
        "Groups whose state is lost",
        "groups",
        {"scribe.groups.lost": "lost"},
    ),
    RoundMeasures(
        "link-stress-mean",
        "Link stress, mean over all directed links",
        "messages per link, in rounds in which it is measured",
        {
            "link_stress.payload.mean_existing": "payload",
            "link_stress.maintenance.mean_existing": "maintenance",
        },
        every_round=False,
    ),
    RoundMeasures(
        "link-stress-max",
        "Link stress, maximum",
        "messages on a directed link, in rounds in which it is measured",
        {"link_stress.payload.max": "payload", "link_stress.maintenance.max": "maintenance"},
        every_round=False,
    ),
    RoundMeasures(
        "multicast-latency",
        "Latency of multicasts, over all deliveries",
        "ms",
        {f"scribe.latency.{name}": name for name in ("p50", "p90", "p95", "p99", "max")},
    ),
    RoundMeasures(
        "multicast-delay",
        "Delay of multicasts, relative to IP multicast",
        "times",
        {
            "scribe.rad.median": "RAD, median",
            "scribe.rad.largest": "RAD of the largest group",
            "scribe.rmd.median": "RMD, median",
            "scribe.rmd.largest": "RMD of the largest group",
            "scribe.rdp.mean": "RDP of the largest group, mean",
        },
    ),
    RoundMeasures(
        "multicast-reached",
        "Members that multicasts reach",
        "share",
        {"scribe.multicasts.reached": "reached"},
    ),
    RoundMeasures(
        "node-stress",
        "Entries of children tables, per node",
        "entries",
        {"scribe.children_entries.mean": "mean", "scribe.children_entries.max": "most"},
    ),
    *(
        RoundMeasures(
            f"multicast-links-{end}",
            f"Packets on a link, {title}: one multicast of each group",
            "packets",
            {f"{system}.link_stress.{end}": label_of(system) for system in _MULTICASTS},
            systems={label_of(system): system for system in _MULTICASTS},
        )
        for end, title in (("mean_existing", "mean"), ("max", "maximum"))
    ),
)

#: The panels of a world with a reference tree.
TREE_PANELS = (
    RoundMeasures(
        "tree-links",
        "Links of the reference tree",
        "links",
        {"reference_tree.links.removed": "removed", "reference_tree.links.created": "created"},
    ),
    RoundMeasures(
        "tree-hosts",
        "Hosts that search for new neighbours",
        "hosts",
        {"reference_tree.hosts": "hosts"},
    ),
    RoundMeasures(
        "tree-messages",
        "Messages of the reconfiguration",
        "messages",
        {
            "reference_tree.parent_lookups": "look-ups for a parent",
            "reference_tree.child_lookups": "look-ups for children",
            "reference_tree.notices": "notices",
        },
    ),
    RoundMeasures(
        "tree-rounds",
        "Rounds of the reconfiguration",
        "rounds",
        {"reference_tree.rounds": "rounds"},
    ),
    RoundMeasures(
        "tree-depth",
        "Depth of hosts in the reference tree",
        "hops",
        {"reference_tree.depth.largest": "largest", "reference_tree.depth.mean": "mean"},
    ),
    RoundMeasures(
        "tree-degree",
        "Neighbours of a host in the reference tree",
        "neighbours",
        {"reference_tree.degree.largest": "most"},
    ),
    RoundMeasures(
        "tree-faults",
        "Trees that differ from a new computation",
        "trees",
        {"reference_tree.faults": "wrong"},
    ),
)
