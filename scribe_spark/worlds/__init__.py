"""Worlds: overlays whose nodes arrive, leave, fail and recover in rounds, with their groups.

The public names are imported when they are first used, so that the tasks of a world do not import
the modules of the config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.core.registry import load

if TYPE_CHECKING:
    from scribe_spark.rounds.event_rows import EVENT_NAMES, EventRows, Extent
    from scribe_spark.worlds.events import check_world, extent_of, world_events
    from scribe_spark.worlds.groups import group_keys, world_groups
    from scribe_spark.worlds.live_systems import LiveGroups
    from scribe_spark.worlds.played import Played
    from scribe_spark.worlds.registry import (
        Generator,
        generators,
        register_generator,
        unregister_generator,
    )
    from scribe_spark.worlds.save import check_start
    from scribe_spark.worlds.setting import Setting
    from scribe_spark.worlds.world import World

__all__ = [
    "EVENT_NAMES",
    "EventRows",
    "Extent",
    "Generator",
    "LiveGroups",
    "Played",
    "Setting",
    "World",
    "check_start",
    "check_world",
    "extent_of",
    "generators",
    "group_keys",
    "register_generator",
    "unregister_generator",
    "world_events",
    "world_groups",
]

#: The module that defines each public name, below `scribe_spark`.
_HOMES = {
    "EVENT_NAMES": "rounds.event_rows",
    "EventRows": "rounds.event_rows",
    "Extent": "rounds.event_rows",
    "Generator": "worlds.registry",
    "LiveGroups": "worlds.live_systems",
    "Played": "worlds.played",
    "Setting": "worlds.setting",
    "World": "worlds.world",
    "check_start": "worlds.save",
    "check_world": "worlds.events",
    "extent_of": "worlds.events",
    "generators": "worlds.registry",
    "group_keys": "worlds.groups",
    "register_generator": "worlds.registry",
    "unregister_generator": "worlds.registry",
    "world_events": "worlds.events",
    "world_groups": "worlds.groups",
}


def __getattr__(name: str) -> Any:
    """Import a name of :data:`__all__` when it is first used."""
    value = load("scribe_spark", name, _HOMES)
    globals()[name] = value
    return value
