"""The events of a world: a user's table, or the events of generators, combined and checked.

An event has a round, a node, a name and perhaps a group; publications may have times and sizes.

Generators run in steps: nodes, failures, the start of groups, members, publications.  A generator
sees the events of the earlier steps, so the order of the names in a config has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.bandwidth.schedule import Schedule, amounts, check_schedule
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import WorldConfig
from scribe_spark.config.bandwidth import MOST_PUBLICATIONS
from scribe_spark.config.groups import refuse_missing_roots
from scribe_spark.core import draws
from scribe_spark.core.arrays import NO_GROUP, NONE, Rows, expand, index_sorted, run_starts
from scribe_spark.core.errors import InputError, in_series, in_words, named
from scribe_spark.core.inputs import Kind, first_rows, is_local
from scribe_spark.core.key_limits import most_turns
from scribe_spark.core.units import MICROSECONDS, canonical
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
from scribe_spark.rounds.group_events import Publishing, RoundTimes
from scribe_spark.runtime.remote_inputs import read_input
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.worlds.generators import (
    STEPS,
    Generator,
    Pool,
    generators,
    joined_again,
    member_sources,
    root_sources,
)
from scribe_spark.worlds.groups import WorldGroups, rejoins, start_rows, world_groups
from scribe_spark.worlds.setting import Setting, round_us


def check_world(config: WorldConfig, times: bool = True) -> pa.Table | None:
    """Refuse impossible groups and events of a config, as far as that is possible without Spark.

    Return the events, as :func:`written_events`, if they were made for the check.  With `times`, a
    table of events may have times and sizes; see :func:`check_events`.
    """
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
    frame = local_frame(nodes.sparkSession, written_events(nodes, config, times))
    return schemas.conform(frame, schemas.events_of(schemas.EVENTS, frame.columns))


def written_events(nodes: DataFrame, config: WorldConfig, times: bool = True) -> pa.Table:
    """Return the events of a world, checked, as its table: `schemas.WORLD_EVENTS`."""
    extent = extent_of(config)
    groups = world_groups(config, extent, nodes.sparkSession)
    _check_roots(config, groups)
    return sorted_events(*made_events(config, extent, groups, nodes, times=times))


def _needs_nodes(config: WorldConfig) -> bool:
    """Return True if events depend on nodeIds, which only Spark knows."""
    return _roots_publish(config) or any(one.needs_spark(config) for one in _chosen(config))


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
    times: bool = True,
) -> tuple[EventRows, TimedRows | None]:
    """Return all events of a world, checked, and its publications with times and sizes, or None.

    Events that need `groups` or `nodes` (`schemas.NODES`) are left out where these are None.
    See :func:`check_events` for `times`.
    """
    sizes, timed = config.bandwidth, None
    if config.world.events is not None:
        spark = None if nodes is None else nodes.sparkSession
        rows, timed = check_events(config, extent, groups, spark, times=times)
    else:
        rows = generated(config, extent, groups, nodes)
    if groups is None or not sizes.several:
        return rows, timed
    more = TimedRows.none()
    if sizes.schedule is not None:
        given = known_schedule(config, nodes)
        if given is not None:
            more = of_schedule(config, given)
            _check_timed(config, more, rows, extent, groups, "schedule", sizes.schedule)
    elif sizes.publications is not None:
        check_interval(config)
        if nodes is not None or not _roots_publish(config):
            more = drawn_publications(config, extent, Setting(rows, extent, groups, nodes))
            limits = round_times(config, len(groups.numbers))
            refuse_many(limits, more, groups, "publications", sizes.publications)
    return rows, more if timed is None else TimedRows.join(timed, more)


def known_schedule(config: WorldConfig, nodes: DataFrame | None) -> Schedule | None:
    """Return the config's schedule; None if there is none, or if only Spark can read the table."""
    path = config.bandwidth.schedule
    if path is None or (nodes is None and not is_local(path)):
        return None
    spark = None if nodes is None else nodes.sparkSession
    return check_schedule(path, config.overlay.nodes, config.bandwidth.size, spark)


def _check_timed(
    config: WorldConfig,
    timed: TimedRows,
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
    refuse_many(round_times(config, len(groups.numbers)), timed, groups, field, value)
    largest = field, value, int(timed.sizes.max(initial=0))
    config.bandwidth.refuse_slow(config.classes, table=largest)


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
        if step == "members" and groups is not None:
            check_rows(rows.take(rows.of_node), extent, *checked)
            rows = EventRows.join(rows, start_rows(config, extent, groups, rows))
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
    known: WorldGroups | None = None,
    spark: SparkSession | None = None,
    times: bool = True,
) -> tuple[EventRows, TimedRows | None]:
    """Read and check the table of events of a config; add the start of the `known` groups.

    Without a session, the table must be on this machine.  The second result is None if the table
    has no column of times or sizes; without `times`, as in a run, these columns are not read.
    """
    path = config.world.events
    assert path is not None
    columns = {name: kind for name, kind in _COLUMNS.items() if times or name not in TIMES}
    frame = read_input(spark, path, "events", columns, _OPTIONAL)
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
    timed = None
    if first_bad_cell(rows, names, extent, None if known is None else known.numbers) is None:
        if not set(TIMES).isdisjoint(frame):
            limits = round_times(config, 0 if known is None else len(known.numbers))
            timed, mask = of_events(limits, path, frame, rows.events == PUBLISH)
            rows, names = rows.take(~mask), names[~mask]
        if known is not None:
            starts = start_rows(config, extent, known, rows)
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


def sorted_events(rows: EventRows, timed: TimedRows | None = None) -> pa.Table:
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


# --- publications with times and sizes (docs/rules.md, W9, W10, W12): from tables, or drawn


@dataclass(frozen=True)
class TimedRows(Rows):
    """Publications of a world with times since the beginning of their rounds: int64, shape (p,)."""

    rounds: np.ndarray
    at_us: np.ndarray
    nodes: np.ndarray
    groups: np.ndarray
    sizes: np.ndarray  # in bytes; 0: no size

    @classmethod
    def none(cls) -> Self:
        """Return a table without publications."""
        return cls(*(np.empty(0, dtype=np.int64) for _ in fields(cls)))

    def events(self) -> EventRows:
        """Return an event for each round, node and group with publications."""
        order = np.lexsort((self.groups, self.nodes, self.rounds))
        columns = [column[order] for column in (self.rounds, self.nodes, self.groups)]
        rounds, nodes, groups = (column[run_starts(*columns)] for column in columns)
        return EventRows.of_groups(rounds, nodes, PUBLISH, groups)


def round_times(config: WorldConfig, groups: int) -> RoundTimes:
    """Return the limits of times (us) and sizes (bytes) of publications in a config's world."""
    turns = most_turns(groups, config.overlay.nodes, config.scribe.deadline)
    given = config.bandwidth
    return RoundTimes(round_us(config), given.size, given.has_sizes, turns, Parts.of(given))


def of_schedule(config: WorldConfig, schedule: Schedule) -> TimedRows:
    """Return the publications of a schedule, by round; refuse those after the last round."""
    length, rounds = round_us(config), config.world.rounds
    number, at_us = np.divmod(schedule.at_us, length)
    late = np.flatnonzero(number >= rounds)
    if len(late):
        at, end = (canonical("time", int(us)) for us in (schedule.at_us[late[0]], rounds * length))
        row = f"group={schedule.group[late[0]]}, node={schedule.source[late[0]]}"
        remedy = f"has a publication at {at} ({row}), but the last round ends at {end}"
        raise InputError("schedule", config.bandwidth.schedule, f"{remedy}; give more rounds")
    return TimedRows(number, at_us, schedule.source, schedule.group, schedule.size)


def of_events(
    times: RoundTimes, path: str, frame: pd.DataFrame, publishes: np.ndarray
) -> tuple[TimedRows, np.ndarray]:
    """Return the publications with a time or a size in a table of events, and their mask."""
    none = np.full(len(frame), NONE)
    at_us, size = (
        amounts(frame, "events", path, name, optional=True) if name in frame else none
        for name in ("time", "size")
    )
    fault = times.first_fault(publishes, at_us, size)
    if fault is not None:
        row, words = fault
        names = "round", "node", "event"
        given = [in_words(f"{name}={frame[name].iloc[row]}") for name in names]
        cells = in_series(given, len(given))
        raise InputError("events", path, f"row {cells} {words}")
    timed = (at_us != NONE) | (size != NONE)
    number, node = (frame[name].to_numpy(np.int64) for name in ("round", "node"))
    group = np.full(len(frame), NO_GROUP)
    if "group" in frame:
        group = frame["group"].to_numpy(np.int64, na_value=NO_GROUP)
    at_us, size = times.timed(at_us, size)
    return TimedRows(number, at_us, node, group, size).take(timed), timed


def refuse_many(
    times: RoundTimes, rows: TimedRows, groups: WorldGroups, field: str, value: object
) -> None:
    """Refuse too many publications: in all, or of one node and group in a round."""
    if len(rows) > MOST_PUBLICATIONS:
        remedy = f"makes {len(rows):,} publications; must be at most {MOST_PUBLICATIONS:,}"
        raise InputError(field, value, f"{remedy}; give fewer")
    room = rows.rounds * len(groups.numbers) + index_sorted(groups.numbers, rows.groups)
    made = Publishing.numbered(room, rows.nodes, rows.at_us, rows.sizes, rows.nodes)
    fault = times.too_many(made)
    if fault is not None:
        number, group = divmod(int(made.group[fault[0]]), len(groups.numbers))
        has = f"has in round {number} and group {groups.numbers[group]} {fault[1]}"
        raise InputError(field, value, has)


def _roots_publish(config: WorldConfig) -> bool:
    """Return True if publications depend on nodeIds, because roots publish."""
    sizes = config.bandwidth
    at_root = config.groups.source == "root" and sizes.published_by == "source"
    return sizes.publications is not None and at_root


def check_interval(config: WorldConfig) -> None:
    """Refuse publications that would begin after the end of their round."""
    sizes, length = config.bandwidth, round_us(config)
    last_us = ((sizes.publications or 1) - 1) * sizes.interval_us
    if last_us >= length:
        last, end = canonical("time", last_us), canonical("time", length)
        remedy = f"begins the last of {sizes.publications} publications at {last}, but a round "
        raise InputError("interval", sizes.interval, f"{remedy}lasts {end}; give less")


def drawn_publications(config: WorldConfig, extent: Extent, setting: Setting) -> TimedRows:
    """Return the publications that a config describes for each round.

    Publication n of a group happens in round n // N, at n % N times the interval, with N of
    ``publications``.  Its source is the group's source of the round, or the member with index
    draw(``publisher``, group, n) modulo the number of members, or each member.  Access lists are
    ignored; the group refuses sources that are not on its list.
    """
    sizes, numbers = config.bandwidth, setting.known_groups.numbers
    each, who = sizes.publications or 1, sizes.published_by
    sources = _sources(config, setting)
    made = []
    for at, alive in enumerate(setting.lifetimes.by_round()):
        nodes, counts, first = sources(at, alive)
        group = np.repeat(np.arange(len(numbers)), each)
        nth = np.tile(np.arange(each), len(numbers))
        some = counts[group] > 0
        group, nth = group[some], nth[some]
        if who == "members":
            bits = draws.bits_np(config.seed, "publisher", numbers[group], at * each + nth)
            row = first[group] + (bits % counts[group].astype(np.uint64)).astype(np.int64)
        else:
            which, row = expand(first[group], (first + counts)[group])
            group, nth = group[which], nth[which]
        of_round = np.full(len(row), at), nth * sizes.interval_us, nodes[row], numbers[group]
        made.append(TimedRows(*of_round, np.full(len(row), sizes.size)))
        refuse_total(config, sum(map(len, made)))
    return TimedRows.join(*made)


def refuse_total(config: WorldConfig, total: int) -> None:
    """Refuse more publications of all rounds than a world can have."""
    if total > MOST_PUBLICATIONS:
        remedy = f"makes more than {MOST_PUBLICATIONS:,} publications; give fewer, or fewer rounds"
        raise InputError("publications", config.bandwidth.publications, remedy)


def _sources(config: WorldConfig, setting: Setting) -> Pool:
    """Return a function of a round and of live nodes: the possible sources."""
    if _roots_publish(config):
        return root_sources(setting, config)
    by_source = config.bandwidth.published_by == "source"
    return member_sources(setting, config.seed, "source" if by_source else "", int(by_source))
