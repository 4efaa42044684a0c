"""Worlds: overlays whose nodes arrive, leave, fail and recover, in rounds."""

from scribe_spark.worlds.events import check_events, read_events
from scribe_spark.worlds.live_tree import LiveTree
from scribe_spark.worlds.registry import (
    Generator,
    check_world,
    extent_of,
    generators,
    register_generator,
    unregister_generator,
    world_events,
)
from scribe_spark.worlds.rows import EVENT_NAMES, EventRows, Extent
from scribe_spark.worlds.world import World

__all__ = [
    "EVENT_NAMES",
    "EventRows",
    "Extent",
    "Generator",
    "LiveTree",
    "World",
    "check_events",
    "check_world",
    "extent_of",
    "generators",
    "read_events",
    "register_generator",
    "unregister_generator",
    "world_events",
]
