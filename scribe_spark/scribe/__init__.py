"""Scribe: groups, children tables, and multicast over Pastry."""

from scribe_spark.scribe.capacities import check_capacities, limits_by_number, read_capacities
from scribe_spark.scribe.groups import (
    check_members,
    draw_members,
    group_sizes,
    make_groups,
    read_members,
    senders,
)
from scribe_spark.scribe.trees import SYSTEM, Trees, build_trees, multicast, plant_trees
from scribe_spark.scribe.variants import Variant, VariantContext, timed_edges

__all__ = [
    "SYSTEM",
    "plant_trees",
    "VariantContext",
    "Trees",
    "build_trees",
    "Variant",
    "check_capacities",
    "check_members",
    "draw_members",
    "group_sizes",
    "make_groups",
    "multicast",
    "limits_by_number",
    "read_capacities",
    "read_members",
    "senders",
    "timed_edges",
]
