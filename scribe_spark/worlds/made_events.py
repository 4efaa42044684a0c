"""The events of a config: a user's table, or the events of generators.

Making the events of many memberships takes some hundred bytes for each, so the driver does not hold
them: they are made in a task, and checked in a separate process before there is a session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.config.drawn_groups import refuse_missing_roots
from scribe_spark.errors import InputError
from scribe_spark.inputs import is_local
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.worlds.combined import chosen_generators, extent_of, generated, start_of
from scribe_spark.worlds.events import check_events, events_frame, events_of_frame, events_table
from scribe_spark.worlds.groups import WorldGroups, world_groups
from scribe_spark.worlds.remote_events import read_events

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig


#: The number of memberships above which the driver does not hold the events.
MANY = 500_000

_ROWS = 2**17  # rows of a batch


def check_world(config: WorldConfig) -> None:
    """Refuse impossible groups and events, as far as that is possible without Spark.

    Raises
    ------
    InputError
    """
    if not (_is_large(config) and _check_beside(config)):
        check_in_this_process(config)


def check_in_this_process(config: WorldConfig) -> None:
    """Do the check of :func:`check_world` in this process."""
    extent, path = extent_of(config), config.world.events
    groups = world_groups(config, extent)
    if config.scribe.has_groups and groups is None:
        return  # only Spark can read the table of groups
    _check_roots(config, groups)
    if path is None:
        generated(config, extent, groups)
    elif is_local(path):
        check_events(path, extent, start_of(config, extent, groups))


def world_events(nodes: DataFrame, config: WorldConfig) -> DataFrame:
    """Return the events of a world, checked: `schemas.EVENTS`.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.

    Raises
    ------
    InputError
        A group or event is impossible.
    """
    spark, extent, path = nodes.sparkSession, extent_of(config), config.world.events
    groups = world_groups(config, extent, spark)
    _check_roots(config, groups)
    if path is not None:
        return read_events(spark, path, extent, start_of(config, extent, groups))
    if _is_large(config) and not any(g.needs_spark(config) for g in chosen_generators(config)):
        return _made_in_a_task(spark, config)
    return events_table(spark, events_frame(generated(config, extent, groups, nodes)))


def _check_roots(config: WorldConfig, groups: WorldGroups | None) -> None:
    if groups is not None and "root-failure" in config.world.generators:
        refuse_missing_roots(config.world.roots, len(groups.numbers))


def _is_large(config: WorldConfig) -> bool:
    """Return True if built-in generators make events of drawn groups with many members."""
    scribe, nodes = config.scribe, config.overlay.nodes
    members = scribe.memberships(nodes, config.classes)
    ours = all(g.generate.__module__.startswith("scribe_spark.") for g in chosen_generators(config))
    is_drawn = (config.world.events or scribe.members or scribe.access) is None
    return members >= MANY and is_drawn and ours


def _check_beside(config: WorldConfig) -> bool:
    """Check events in a separate process; return False if that failed."""
    command = [sys.executable, "-m", "scribe_spark.worlds.check_beside"]
    path = os.pathsep.join(part or os.getcwd() for part in sys.path)
    done = subprocess.run(
        command,
        input=json.dumps(config.given()),
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return False
    refused = json.loads(done.stdout)
    if refused is not None:
        raise InputError(*refused)
    return True


def _made_in_a_task(spark: SparkSession, config: WorldConfig) -> DataFrame:
    """Make the events of a config in a task; the executors hold them."""

    def make(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            extent = extent_of(config)
            rows = generated(config, extent, world_groups(config, extent))
            yield from events_of_frame(events_frame(rows)).to_batches(_ROWS)

    with_one_row = local_frame(spark, pa.table({"task": [0]})).coalesce(1)
    try:
        return materialise(with_one_row.mapInArrow(make, schemas.EVENTS))[0]
    except Exception:
        check_world(config)  # raises a one-line error if the events are refused
        raise
