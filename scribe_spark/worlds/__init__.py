"""Worlds: overlays whose nodes arrive, leave, fail and recover, in rounds; and their groups."""

from scribe_spark.worlds.combined import extent_of
from scribe_spark.worlds.events import check_events
from scribe_spark.worlds.groups import WorldGroups, group_keys, world_groups
from scribe_spark.worlds.live_groups import LiveGroups
from scribe_spark.worlds.live_tree import LiveTree
from scribe_spark.worlds.played import Played
from scribe_spark.worlds.registry import (
    Generator,
    generators,
    register_generator,
    unregister_generator,
)
from scribe_spark.worlds.remote_events import read_events
from scribe_spark.worlds.rows import EVENT_NAMES, EventRows, Extent
from scribe_spark.worlds.setting import Setting
from scribe_spark.worlds.starts import check_start
from scribe_spark.worlds.world import World
from scribe_spark.worlds.world_events import check_world, world_events

__all__ = [
    "EVENT_NAMES",
    "EventRows",
    "Extent",
    "Generator",
    "LiveGroups",
    "LiveTree",
    "Played",
    "Setting",
    "World",
    "WorldGroups",
    "check_events",
    "check_start",
    "check_world",
    "extent_of",
    "generators",
    "group_keys",
    "read_events",
    "register_generator",
    "unregister_generator",
    "world_events",
    "world_groups",
]
