"""The events that a config asks for: a table of the user's, or what generators make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from scribe_spark.config.drawn_groups import refuse_missing_roots
from scribe_spark.inputs import is_local
from scribe_spark.worlds.combined import extent_of, generated, start_of
from scribe_spark.worlds.events import check_events, events_frame, events_table
from scribe_spark.worlds.groups import WorldGroups, world_groups
from scribe_spark.worlds.remote_events import read_events

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig

__all__ = ["check_world", "world_events"]


def check_world(config: WorldConfig) -> None:
    """Refuse groups and events that cannot be, as far as it can be found without Spark.

    Raises
    ------
    InputError
    """
    extent, path = extent_of(config), config.world.events
    groups = world_groups(config, extent)
    if config.scribe.has_groups and groups is None:
        return  # a table of them is elsewhere
    _check_roots(config, groups)
    if path is None:
        generated(config, extent, groups)
    elif is_local(path):
        check_events(path, extent, start_of(config, extent, groups))


def world_events(nodes: DataFrame, config: WorldConfig) -> DataFrame:
    """`schemas.EVENTS` of a world, checked.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.

    Raises
    ------
    InputError
        Groups or events that cannot be.
    """
    spark, extent, path = nodes.sparkSession, extent_of(config), config.world.events
    groups = world_groups(config, extent, spark)
    _check_roots(config, groups)
    if path is not None:
        return read_events(spark, path, extent, start_of(config, extent, groups))
    return events_table(spark, events_frame(generated(config, extent, groups, nodes)))


def _check_roots(config: WorldConfig, groups: WorldGroups | None) -> None:
    if groups is not None and "root-failure" in config.world.generators:
        refuse_missing_roots(config.world.roots, len(groups.numbers))
