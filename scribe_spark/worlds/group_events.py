"""Joins of groups: a flash crowd into one group; returning nodes join their groups again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import NONE, distinct, expand, find_sorted, without
from scribe_spark.errors import InputError
from scribe_spark.worlds.access import groups_are
from scribe_spark.worlds.churn import MOST_EVENTS
from scribe_spark.worlds.lengths import event_round
from scribe_spark.worlds.rows import ALIVE_AFTER, JOIN, QUIT, EventRows, Extent
from scribe_spark.worlds.setting import Setting

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig


def group_crowd(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let randomly drawn non-members join one group in the round of the event.

    The draw ignores the access list; the group refuses nodes that are not on it.  By default the
    group is the smallest one at the start (of equal ones, that with the largest number), and all
    live nodes that are not members join.

    Raises
    ------
    InputError
        The round or group does not exist, or there are fewer nodes.
    """
    groups, rows, at = setting.known_groups, setting.rows, event_round(config)
    group, count = config.world.crowd_group, config.world.crowd
    if group is None:
        group = int(groups.numbers[groups.largest(extent.initial)[-1]])
    if group not in groups.numbers:
        raise InputError("crowd_group", group, f"is not a group; {groups_are(groups.numbers)}")
    tried = rows.take((rows.events == JOIN) & (rows.groups == group) & (rows.rounds <= at))
    _, life = setting.lifetimes.at(tried.nodes, tried.rounds)
    still = life == setting.lifetimes.at(tried.nodes, at)[1]
    others = without(setting.lifetimes.live(at), tried.nodes[still])
    count = len(others) if count is None else count
    if not 0 < count <= len(others):
        remedy = (
            f"is more than the {len(others)} live nodes outside group {group} in round "
            f"{at}; give less, or another crowd_group"
        )
        raise InputError("crowd", count, remedy)
    drawn = others[draws.distinct_below(len(others), count, config.seed, "group crowd", group)]
    return EventRows.of_groups(at, drawn, JOIN, group)


def joined_again(setting: Setting) -> EventRows:
    """Let nodes that arrive or recover join the groups that they joined before, in that round.

    Members at the start that are not alive at the start join when they arrive.  A node that has
    quit a group does not join it again automatically.

    Raises
    ------
    InputError
        There are too many events.
    """
    rows, groups, extent = setting.rows, setting.known_groups, setting.extent
    of_start, nodes = groups.members
    at_start = EventRows.of_groups(0, nodes, JOIN, of_start)
    later = rows.take((rows.events == JOIN) & (rows.rounds > 0))
    joins = EventRows.join(at_start, later)
    joins = joins.take(~_have_quit(joins, rows))
    enters = rows.take(rows.of_node)
    enters = enters.take(ALIVE_AFTER[enters.events])
    key = np.sort(enters.nodes * np.int64(extent.rounds) + enters.rounds)
    first = np.searchsorted(key, joins.nodes * np.int64(extent.rounds) + joins.rounds, "right")
    last = np.searchsorted(key, (joins.nodes + 1) * np.int64(extent.rounds))
    count = int((last - first).sum())
    if count > MOST_EVENTS:
        remedy = (
            f"makes {count:,} joins of nodes that come back, more than {MOST_EVENTS:,}; "
            "give fewer members, or no rejoin"
        )
        raise InputError("rejoin", True, remedy)
    of, row = expand(first, last)
    return EventRows.of_groups(key[row] % extent.rounds, joins.nodes[of], JOIN, joins.groups[of])


def _have_quit(joins: EventRows, rows: EventRows) -> np.ndarray:
    """Return True for joins whose node quits the group in some round."""
    quits = rows.take(rows.events == QUIT)
    numbers = distinct(quits.groups)
    place = find_sorted(numbers, joins.groups)
    gone = np.isin(
        place * 2**31 + joins.nodes, find_sorted(numbers, quits.groups) * 2**31 + quits.nodes
    )
    return gone & (place != NONE)
