"""The events of a world: a user's table, or the events of generators, combined and checked.

An event has a round, a node, a name and perhaps a group; publications may have times and sizes.

Generators run in steps: nodes, failures, the start of groups, members, publications.  A generator
sees the events of the earlier steps, so the order of the names in a config has no effect.

Making the events of many memberships takes some hundred bytes for each, so the driver does not hold
them: they are made in a task, and checked in a separate process before there is a session
(``python -m scribe_spark.worlds.events``, with the config as JSON on stdin).
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
from scribe_spark.bandwidth.schedule import Schedule, check_schedule, read_schedule
from scribe_spark.config import WorldConfig
from scribe_spark.config.groups import refuse_missing_roots
from scribe_spark.core.arrays import NO_GROUP, NONE
from scribe_spark.core.errors import InputError, named
from scribe_spark.core.inputs import Kind, first_rows, is_local, read_table
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.rounds.event_rows import (
    ALIVE_AFTER,
    EVENT_NAMES,
    FAIL,
    PUBLISH,
    TIMES,
    EventRows,
    Extent,
    event_codes,
    first_bad_cell,
    first_impossible,
    first_impossible_in_groups,
    live_after,
)
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.remote_inputs import collect_remote
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.worlds import schedules
from scribe_spark.worlds.generators import STEPS, Generator, generators, joined_again
from scribe_spark.worlds.groups import GroupStart, WorldGroups, rejoins, world_groups
from scribe_spark.worlds.setting import Setting

#: The number of memberships above which the driver does not hold the events.
MANY = 500_000

_ROWS = 2**17  # rows of a batch


def check_world(config: WorldConfig, times: bool = True) -> pa.Table | None:
    """Refuse impossible groups and events of a config, as far as that is possible without Spark.

    Return the events, as :func:`written_events`, if they were made for the check.  With `times`, a
    table of events may have times and sizes; see :func:`check_events`.
    """
    if _is_large(config) and _check_beside(config):
        return None
    return _check_here(config, times)


def _check_here(config: WorldConfig, times: bool = True) -> pa.Table | None:
    """Refuse impossible groups and events in this process; see :func:`check_world`."""
    extent, path = extent_of(config), config.world.events
    groups = world_groups(config, extent)
    if config.groups.has_groups and groups is None:
        return None  # only Spark can read the table of groups
    _check_roots(config, groups)
    if path is not None and not is_local(path):
        return None
    made = made_events(config, extent, groups, times=times)
    return None if _needs_nodes(config) else sorted_events(*made)


def world_events(nodes: DataFrame, config: WorldConfig, times: bool = True) -> DataFrame:
    """Return the events of a world, checked: `schemas.EVENTS`, and ``time, size`` of a schedule."""
    made = written_events(nodes, config, times)
    if isinstance(made, Batches):
        frame, _ = materialise(made.frame)
    else:
        frame = local_frame(nodes.sparkSession, made)
    return schemas.conform(frame, schemas.events_of(schemas.EVENTS, frame.columns))


def written_events(nodes: DataFrame, config: WorldConfig, times: bool = True) -> pa.Table | Batches:
    """Return the events of a world, checked, as its table: `schemas.WORLD_EVENTS`.

    A task makes many events when they are read.
    """
    spark, extent = nodes.sparkSession, extent_of(config)
    groups = world_groups(config, extent, spark)
    _check_roots(config, groups)
    if _is_large(config) and not _needs_nodes(config):
        return _made_in_a_task(spark, config)
    return sorted_events(*made_events(config, extent, groups, nodes, times=times))


def _needs_nodes(config: WorldConfig) -> bool:
    """Return True if events depend on nodeIds, which only Spark knows."""
    return schedules.needs_nodes(config) or any(one.needs_spark(config) for one in _chosen(config))


def extent_of(config: WorldConfig) -> Extent:
    """Return the numbers of nodes, of rounds, and of nodes that are alive at the start."""
    initial, nodes = config.world.initial, config.overlay.nodes
    for one in _chosen(config):  # at most one decides
        if one.initial is not None and initial is None:
            initial = one.initial(config)
        elif one.initial is not None and one.sets_initial:
            remedy = f"contradicts share of {one.name}, which decides it; leave it out"
            raise InputError("initial", initial, remedy)
    return Extent(nodes, config.world.rounds, nodes if initial is None else initial)


def start_of(config: WorldConfig, extent: Extent, groups: WorldGroups | None) -> GroupStart | None:
    """Return the start of a world's groups; None without groups."""
    if groups is None:
        return None
    return GroupStart(groups, extent, config.seed, config.scribe.access)


def _chosen(config: WorldConfig) -> list[Generator]:
    """Return the generators that a config names, in the order of their steps."""
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


def made_events(
    config: WorldConfig,
    extent: Extent,
    groups: WorldGroups | None,
    nodes: DataFrame | None = None,
    schedule: Schedule | None = None,
    times: bool = True,
) -> tuple[EventRows, schedules.TimedRows | None]:
    """Return all events of a world, checked, and its publications with times and sizes, or None.

    Events that need `groups` or `nodes` (`schemas.NODES`) are left out where these are None.
    `schedule` is the config's table, if it has been read; see :func:`check_events` for `times`.
    """
    sizes, timed = config.bandwidth, None
    if config.world.events is not None:
        spark = None if nodes is None else nodes.sparkSession
        start = start_of(config, extent, groups)
        rows, timed = check_events(config, extent, start, spark, times=times)
    else:
        rows = generated(config, extent, groups, nodes)
    if groups is None or not sizes.several:
        return rows, timed
    more = schedules.TimedRows.none()
    if sizes.schedule is not None:
        given = schedule or known_schedule(config, nodes)
        if given is not None:
            more = schedules.of_schedule(config, given)
            _check_timed(config, more, rows, extent, groups, "schedule", sizes.schedule)
    elif sizes.publications is not None:
        schedules.check_interval(config)
        if nodes is not None or not schedules.needs_nodes(config):
            more = schedules.drawn(config, extent, Setting(rows, extent, groups, nodes))
            limits = schedules.round_times(config, len(groups.numbers))
            schedules.refuse_many(limits, more, groups, "publications", sizes.publications)
    return rows, more if timed is None else schedules.TimedRows.join(timed, more)


def known_schedule(config: WorldConfig, nodes: DataFrame | None) -> Schedule | None:
    """Return the config's schedule; None if there is none, or if only Spark can read the table."""
    path, of = config.bandwidth.schedule, (config.overlay.nodes, config.bandwidth.size)
    if path is None:
        return None
    if is_local(path):
        return check_schedule(path, *of)
    return None if nodes is None else read_schedule(nodes.sparkSession, path, *of)


def _check_timed(
    config: WorldConfig,
    timed: schedules.TimedRows,
    rows: EventRows,
    extent: Extent,
    groups: WorldGroups,
    field: str,
    value: str,
) -> None:
    """Refuse publications of unknown groups, of dead nodes, too many, or too large ones."""
    published = timed.events()
    checked = EventRows.join(rows.take(rows.of_node), published)
    bad = first_bad_cell(published, None, extent, groups.numbers)
    if bad is None:
        bad = first_impossible_in_groups(checked, extent, groups.access.may_join)
    if bad is not None:
        raise InputError(field, value, bad)
    schedules.refuse_many(
        schedules.round_times(config, len(groups.numbers)), timed, groups, field, value
    )
    most, sizes = int(timed.sizes.max(initial=0)), config.bandwidth
    sizes.refuse_slow_sizes(field, value, most, sizes.rates(config.classes))


def generated(
    config: WorldConfig,
    extent: Extent,
    groups: WorldGroups | None,
    nodes: DataFrame | None = None,
) -> EventRows:
    """Return the events of a config's generators, checked."""
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
    """Return the events `rows` with the failures `more` of another generator.

    No node dies twice: if the next event of a failing node in `rows` is a death, it is removed.
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


# --- checks of tables

#: The columns of a table of events; in events of nodes the group is empty, and only publications
#: have times and sizes.
_COLUMNS: dict[str, Kind] = {
    **{"round": "int", "node": "int", "event": "str", "group": "optional int"},
    **dict.fromkeys(TIMES, "optional quantity"),
}
_OPTIONAL = ("group", *TIMES)


def check_events(
    config: WorldConfig,
    extent: Extent,
    start: GroupStart | None = None,
    spark: SparkSession | None = None,
    times: bool = True,
) -> tuple[EventRows, schedules.TimedRows | None]:
    """Read and check the table of events of a config; add those of the start of groups.

    Without a session, the table must be on this machine.  The second result is None if the table
    has no column of times or sizes; without `times`, as in a run, these columns are not read.
    """
    path = config.world.events
    assert path is not None
    columns = {name: kind for name, kind in _COLUMNS.items() if times or name not in TIMES}
    of_table = path, "events", columns, _OPTIONAL
    if spark is None or is_local(path):
        frame = read_table(*of_table)
    else:
        frame = collect_remote(spark, *of_table)
    rounds, nodes = (frame[name].to_numpy(np.int64) for name in ("round", "node"))
    names = frame["event"].to_numpy(dtype=object)
    groups = np.full(len(frame), NO_GROUP, dtype=np.int64)
    if "group" in frame:
        reserved = (frame["group"] == NO_GROUP).fillna(False).to_numpy()
        if reserved.any():
            row = first_rows(frame, reserved)
            raise InputError("events", path, f"a group must be above {NO_GROUP}: {row}")
        groups = frame["group"].to_numpy(np.int64, na_value=NO_GROUP)
    rows, starts = EventRows(rounds, nodes, event_codes(names), groups), EventRows.none()
    known, timed = None if start is None else start.groups, None
    if first_bad_cell(rows, names, extent, None if known is None else known.numbers) is None:
        if not set(TIMES).isdisjoint(frame):
            limits = schedules.round_times(config, 0 if known is None else len(known.numbers))
            timed, mask = schedules.of_events(limits, path, frame, rows.events == PUBLISH)
            rows, names = rows.take(~mask), names[~mask]
        if start is not None:
            starts = start.rows(rows)
    check_rows(rows, extent, "events", path, names, known, starts)
    if timed is not None and known is not None:
        _check_timed(config, timed, rows, extent, known, "events", path)
    return EventRows.join(rows, starts), timed


def check_rows(
    rows: EventRows,
    extent: Extent,
    field: str,
    value: object,
    names: np.ndarray | None = None,
    groups: WorldGroups | None = None,
    starts: EventRows | None = None,
) -> None:
    """Refuse impossible events, and events that leave no live node.

    `field` and `value` are the input that an error names; `names` are the events' names in the
    table; `starts` are creations and joins at the start.
    """
    bad = first_bad_cell(rows, names, extent, None if groups is None else groups.numbers)
    if bad is None:
        bad = first_impossible(rows, extent)
    if bad is None and (empty := live_after(rows, extent) < 1).any():
        bad = f"leaves no node alive after round {np.argmax(empty)}; keep at least one"
    if bad is None and groups is not None:
        bad = first_impossible_in_groups(rows, extent, groups.access.may_join, starts)
    if bad is not None:
        raise InputError(field, value, bad)


def sorted_events(rows: EventRows, timed: schedules.TimedRows | None = None) -> pa.Table:
    """Return events as `schemas.WORLD_EVENTS`, sorted; with `timed` ones, also ``time, size``."""
    at_us = size = np.full(len(rows), NONE)
    if timed is not None:
        at_us, size = np.r_[at_us, timed.at_us], np.r_[size, timed.sizes]
        published = timed.rounds, timed.nodes, PUBLISH, timed.groups
        rows = EventRows.join(rows, EventRows.of_groups(*published))
    order = np.lexsort((at_us, rows.groups, rows.events, rows.nodes, rows.rounds))
    rows, at_us, size = rows.take(order), at_us[order], size[order]
    names = pa.DictionaryArray.from_arrays(pa.array(rows.events), pa.array(EVENT_NAMES))
    columns = {
        "round": pa.array(rows.rounds),
        "node": pa.array(rows.nodes),
        "event": names.cast(pa.string()),
        "group": pa.array(rows.groups, mask=rows.groups == NO_GROUP),
    }
    if timed is not None:
        columns["time"] = pa.array(at_us / MICROSECONDS, mask=at_us < 0)
        columns["size"] = pa.array(size, mask=size < 1)
    return pa.table(columns)


# --- many events


def _is_large(config: WorldConfig) -> bool:
    """Return True if a config's built-in generators make events of many drawn memberships."""
    members = config.groups.memberships(config.overlay.nodes, config.classes)
    ours = all(g.generate.__module__.startswith("scribe_spark.") for g in _chosen(config))
    is_drawn = (config.world.events or config.groups.members or config.scribe.access) is None
    return members >= MANY and is_drawn and ours


def _check_beside(config: WorldConfig) -> bool:
    """Check the events of a config in a separate process; return False if that failed."""
    path = os.pathsep.join(part or os.getcwd() for part in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", "scribe_spark.worlds.events"],
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


def _made_in_a_task(spark: SparkSession, config: WorldConfig) -> Batches:
    """Return the events of a config as a table that a task makes when it is read."""

    with_one_row = spark.range(0, 1, 1, 1)
    schedule = known_schedule(config, with_one_row)

    def make(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            extent = extent_of(config)
            groups = world_groups(config, extent)
            made = made_events(config, extent, groups, schedule=schedule)
            yield from sorted_events(*made).to_batches(_ROWS)

    schema = schemas.events_of(schemas.WORLD_EVENTS, TIMES if config.bandwidth.several else ())
    return Batches.made(with_one_row, make, schema)


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
