"""Scribe: groups, children tables, and multicast over Pastry."""

from scribe_spark.scribe.application import Scribe, create, join, multicast
from scribe_spark.scribe.groups import (
    check_members,
    draw_members,
    group_sizes,
    make_groups,
    read_members,
    senders,
)

__all__ = [
    "Scribe",
    "check_members",
    "create",
    "draw_members",
    "group_sizes",
    "join",
    "make_groups",
    "multicast",
    "read_members",
    "senders",
]
