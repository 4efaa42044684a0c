"""The publications of a world that have times and sizes: from tables, or drawn for each round.

A schedule counts time from the beginning of the world.  A table of events counts time from the
beginning of the event's round.

Rules: docs/rules.md, W9, W10 and W12.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from scribe_spark.bandwidth.schedule import Schedule, amounts
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config.bandwidth import MOST_PUBLICATIONS
from scribe_spark.core import draws
from scribe_spark.core.arrays import NO_GROUP, NONE, Rows, expand, index_sorted, run_starts
from scribe_spark.core.errors import InputError, in_series, in_words
from scribe_spark.core.key_limits import most_turns
from scribe_spark.core.units import canonical
from scribe_spark.rounds.event_rows import PUBLISH, EventRows, Extent
from scribe_spark.rounds.group_events import Publishing, RoundTimes
from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.setting import Pool, Setting, member_sources, root_sources, round_us

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig


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


# --- from tables


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


# --- drawn: `--publications`


def needs_nodes(config: WorldConfig) -> bool:
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


def drawn(config: WorldConfig, extent: Extent, setting: Setting) -> TimedRows:
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
    if needs_nodes(config):
        return root_sources(setting, config)
    members, by_source = setting.memberships, config.bandwidth.published_by == "source"
    drawn = None
    if by_source:  # as in a run, a member that is drawn; see `scribe.groups.senders`
        drawn = draws.bits_np(config.seed, "source", members.groups, members.nodes).view(np.int64)
    return member_sources(setting, drawn, int(by_source))
