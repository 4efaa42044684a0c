"""Joins: a flash crowd into one group; who comes back joins its groups again."""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import NONE, distinct, expand, find_sorted, without
from scribe_spark.errors import InputError
from scribe_spark.worlds.churn import MOST_EVENTS
from scribe_spark.worlds.node_generators import refuse_no_round
from scribe_spark.worlds.rows import ALIVE_AFTER, JOIN, QUIT, EventRows
from scribe_spark.worlds.setting import Setting


def group_crowd(
    setting: Setting, at: int, group: int | None, count: int | None, seed: int
) -> EventRows:
    """Nodes that are no members, drawn uniformly, join one group in round `at`.

    Whether the access list permits them is for the group to say.

    Parameters
    ----------
    group : int, optional
        Else the smallest at the start; of equals that of the largest number.
    count : int, optional
        Else all live nodes that are no members.

    Raises
    ------
    InputError
        There is no such round or group, or not so many nodes.
    """
    extent, groups = setting.extent, setting.known_groups
    refuse_no_round(at, extent)
    if group is None:
        group = int(groups.numbers[groups.largest(extent.initial)[-1]])
    if not groups.has(np.array([group])).all():
        raise InputError("crowd_group", group, f"is not a group; {groups.named()}")
    rows = setting.rows
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
    drawn = others[draws.distinct_below(len(others), count, seed, "group crowd", group)]
    return EventRows.of_groups(at, drawn, JOIN, group)


def joined_again(setting: Setting) -> EventRows:
    """Whoever arrives or recovers joins, in that round, the groups that it has joined before.

    Members at the start that are not alive then join when they arrive.  Who has quit a group does
    not join it again by itself.

    Raises
    ------
    InputError
        More events than memory takes.
    """
    rows, groups, extent = setting.rows, setting.known_groups, setting.extent
    of_start, nodes = groups.members.pairs
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
    """Mark the joins of a node and group that has a quit: bool."""
    quits = rows.take(rows.events == QUIT)
    numbers = distinct(quits.groups)
    place = find_sorted(numbers, joins.groups)
    gone = np.isin(
        place * 2**31 + joins.nodes, find_sorted(numbers, quits.groups) * 2**31 + quits.nodes
    )
    return gone & (place != NONE)
