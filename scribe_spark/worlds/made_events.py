"""The events of a config: a user's table, or the events of generators, combined.

Generators run in steps: nodes, failures, the start of groups, members, publications.  A generator
sees the events of the earlier steps, so the order of the names in a config has no effect.

Making the events of many memberships takes some hundred bytes for each, so the driver does not hold
them: they are made in a task, and checked in a separate process before there is a session
(``python -m scribe_spark.worlds.made_events``, with the config as JSON on stdin).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.config import WorldConfig
from scribe_spark.config.groups import refuse_missing_roots
from scribe_spark.errors import InputError, named
from scribe_spark.inputs import is_local
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.worlds.events import check_events, check_rows, read_events, sorted_events
from scribe_spark.worlds.group_generators import joined_again
from scribe_spark.worlds.groups import GroupStart, WorldGroups, rejoins, world_groups
from scribe_spark.worlds.registry import STEPS, Generator, generators
from scribe_spark.worlds.rows import ALIVE_AFTER, FAIL, EventRows, Extent
from scribe_spark.worlds.setting import Setting

#: The number of memberships above which the driver does not hold the events.
MANY = 500_000

_ROWS = 2**17  # rows of a batch


def check_world(config: WorldConfig) -> None:
    """Refuse impossible groups and events, as far as that is possible without Spark."""
    if not (_is_large(config) and _check_beside(config)):
        _check_here(config)


def _check_here(config: WorldConfig) -> None:
    """Do the check of :func:`check_world` in this process."""
    extent, path = extent_of(config), config.world.events
    groups = world_groups(config, extent)
    if config.groups.has_groups and groups is None:
        return  # only Spark can read the table of groups
    _check_roots(config, groups)
    if path is None:
        generated(config, extent, groups)
    elif is_local(path):
        check_events(path, extent, start_of(config, extent, groups))


def world_events(nodes: DataFrame, config: WorldConfig) -> DataFrame:
    """Return the events of a world, checked: `schemas.EVENTS`; `nodes` is `schemas.NODES`."""
    spark, extent, path = nodes.sparkSession, extent_of(config), config.world.events
    groups = world_groups(config, extent, spark)
    _check_roots(config, groups)
    if path is not None:
        return read_events(spark, path, extent, start_of(config, extent, groups))
    if _is_large(config) and not any(g.needs_spark(config) for g in _chosen(config)):
        return _made_in_a_task(spark, config)
    made = generated(config, extent, groups, nodes)
    return spark.createDataFrame(sorted_events(made), schemas.EVENTS)


def extent_of(config: WorldConfig) -> Extent:
    """Return the numbers of nodes and rounds, and of nodes that are alive at the start."""
    initial, nodes = config.world.initial, config.overlay.nodes
    for one in _chosen(config):  # at most one decides
        if one.initial is not None and initial is None:
            initial = one.initial(config)
        elif one.initial is not None and one.sets_initial:
            remedy = f"contradicts share of {one.name}, which decides it; leave it out"
            raise InputError("initial", initial, remedy)
    return Extent(nodes, config.world.rounds, nodes if initial is None else initial)


def start_of(config: WorldConfig, extent: Extent, groups: WorldGroups | None) -> GroupStart | None:
    """Return the start of a world's groups, None without groups."""
    if groups is None:
        return None
    return GroupStart(groups, extent, config.seed, config.scribe.access)


def _chosen(config: WorldConfig) -> list[Generator]:
    """Return the generators that a config names, in the order in which they run."""
    known, names, given = generators(), config.world.generators, config.world.generator
    chosen = [named(known, name, "generator") for name in names]
    for name in names:
        if names.count(name) > 1:
            raise InputError("generator", given, f"names {name} twice; name it once")
    saying = [generator.name for generator in chosen if generator.initial is not None]
    if len(saying) > 1:
        remedy = f"{saying[0]} and {saying[1]} both decide which nodes live at the start; name one"
        raise InputError("generator", given, remedy)
    of_groups = [generator.name for generator in chosen if generator.needs_groups]
    if of_groups and not config.groups.has_groups:
        remedy = f"{of_groups[0]} needs groups; give groups or members"
        raise InputError("generator", given, remedy)
    order = list(known)
    return sorted(chosen, key=lambda one: (STEPS.index(one.step), order.index(one.name)))


def generated(
    config: WorldConfig,
    extent: Extent,
    groups: WorldGroups | None,
    nodes: DataFrame | None = None,
) -> EventRows:
    """Return all events of a world without a table of events, checked.

    Without `groups` or `nodes` (`schemas.NODES`), the generators that need them are skipped.
    """
    asked = _chosen(config)
    for one in asked:
        if one.check is not None:
            one.check(config, extent)
    chosen = [
        one
        for one in asked
        if (nodes is not None or not one.needs_spark(config))
        and (groups is not None or not one.needs_groups)
    ]
    rows, checked = EventRows.none(), ("generator", config.world.generator)
    for step in STEPS:
        if step == "members" and (start := start_of(config, extent, groups)):
            check_rows(rows.take(rows.of_node), extent, *checked)
            rows = EventRows.join(rows, start.rows(rows))
        for generator in (one for one in chosen if one.step == step):
            made = generator.events(config, Setting(rows, extent, groups, nodes))
            rows = _with(rows, made)
        if step == "members" and groups is not None and rejoins(config):
            rows = EventRows.join(rows, joined_again(Setting(rows, extent, groups)))
    check_rows(rows, extent, *checked, groups=groups)
    return rows


def _with(rows: EventRows, more: EventRows) -> EventRows:
    """Combine events with the failures of another generator, so that no node dies twice.

    If the next event of a failing node in `rows` is a death, it is removed.
    """
    fails = more.take(more.events == FAIL)
    of_node = rows.take(rows.of_node)
    if not len(fails) or not len(of_node):
        return EventRows.join(rows, more)
    most = int(max(of_node.rounds.max(), fails.rounds.max())) + 1
    keys = of_node.nodes * np.int64(most) + of_node.rounds
    order = np.argsort(keys, kind="stable")
    after = np.searchsorted(keys[order], fails.nodes * np.int64(most) + fails.rounds, "right")
    there = after < len(order)
    following = order[after[there]]
    is_next = of_node.nodes[following] == fails.nodes[there]
    is_death = is_next & ~ALIVE_AFTER[of_node.events[following]]
    kept = np.ones(len(rows), dtype=bool)
    kept[np.flatnonzero(rows.of_node)[following[is_death]]] = False
    return EventRows.join(rows.take(kept), more)


def _check_roots(config: WorldConfig, groups: WorldGroups | None) -> None:
    if groups is not None and "root-failure" in config.world.generators:
        refuse_missing_roots(config.world.roots, len(groups.numbers))


# --- many events


def _is_large(config: WorldConfig) -> bool:
    """Return True if built-in generators make events of drawn groups with many members."""
    members = config.groups.memberships(config.overlay.nodes, config.classes)
    ours = all(g.generate.__module__.startswith("scribe_spark.") for g in _chosen(config))
    is_drawn = (config.world.events or config.groups.members or config.scribe.access) is None
    return members >= MANY and is_drawn and ours


def _check_beside(config: WorldConfig) -> bool:
    """Check events in a separate process; return False if that failed."""
    path = os.pathsep.join(part or os.getcwd() for part in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", "scribe_spark.worlds.made_events"],
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
            yield from sorted_events(rows).to_batches(_ROWS)

    with_one_row = local_frame(spark, pa.table({"task": [0]})).coalesce(1)
    try:
        return materialise(with_one_row.mapInArrow(make, schemas.EVENTS))[0]
    except Exception:
        check_world(config)  # raises a one-line error if the events are refused
        raise


def _print_check() -> None:
    """Check the config on stdin; print null, or field, value and remedy of an error, as JSON."""
    refused = None
    try:
        _check_here(WorldConfig(**json.load(sys.stdin)))
    except InputError as error:
        refused = [error.field, error.value, error.remedy]
    print(json.dumps(refused))


if __name__ == "__main__":
    _print_check()
