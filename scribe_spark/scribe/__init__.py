"""Scribe: groups, children tables, and multicast over Pastry."""

from scribe_spark.scribe.application import Scribe, children_table
from scribe_spark.scribe.capacities import check_capacities, read_capacities
from scribe_spark.scribe.groups import (
    check_members,
    draw_members,
    group_sizes,
    make_groups,
    read_members,
    senders,
)
from scribe_spark.scribe.operations import (
    Trees,
    build_trees,
    create,
    join,
    multicast,
    no_creates,
)
from scribe_spark.scribe.variants import Variant, VariantContext, timed_edges

__all__ = [
    "VariantContext",
    "Trees",
    "build_trees",
    "children_table",
    "Scribe",
    "Variant",
    "check_capacities",
    "check_members",
    "create",
    "draw_members",
    "group_sizes",
    "join",
    "make_groups",
    "multicast",
    "no_creates",
    "read_capacities",
    "read_members",
    "senders",
    "timed_edges",
]
