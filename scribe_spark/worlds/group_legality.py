"""Checks of group events: whether each `create`, `join`, `quit` and `publish` is possible.

The checks do not loop over rows: rows are sorted by group, node and round, and compared with the
previous row.  A node is a member from its join to its quit or death, whichever comes first; a
returning node needs another join.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.worlds.access import MAY_JOIN, AccessLists
from scribe_spark.worlds.legality import row_in_words
from scribe_spark.worlds.lifetimes import Lifetimes
from scribe_spark.worlds.rows import EVENT_NAMES, JOIN, QUIT, EventRows, Extent


def first_impossible_in_groups(
    rows: EventRows, extent: Extent, access: AccessLists, starts: EventRows | None = None
) -> tuple[int, int, str] | None:
    """Return the first impossible group event (by round, node, group), or None.

    An event is possible if its node is alive after the node events of the round; the node has each
    kind of event at most once per round and group; and it does not join and quit in the same round.
    A node that joins must not be a member; if the access list refuses it, it must not have tried
    before in this life.  A node that quits must be a member.

    Parameters
    ----------
    rows : EventRows
        All events of the nodes; the node events are possible.
    access : AccessLists
    starts : EventRows, optional
        Joins and creations of round 0 that are not in the table; those of nodes that are not alive
        after that round are ignored.

    Returns
    -------
    tuple of (int, int, str) or None
        The round, the node, and the fault in words.
    """
    lifetimes = Lifetimes(rows, extent)
    rows = rows.take(~rows.of_node)
    is_start = np.zeros(len(rows), dtype=bool)
    if starts is not None:
        starts = starts.take(lifetimes.at(starts.nodes, 0)[0])
        is_start = np.r_[is_start, np.ones(len(starts), dtype=bool)]
        rows = EventRows.join(rows, starts)
    if not len(rows):
        return None
    # of equal rows, an event of the start comes before one of the table
    order = np.lexsort((~is_start, rows.events, rows.rounds, rows.nodes, rows.groups))
    rows, is_start = rows.take(order), is_start[order]
    alive, life = lifetimes.at(rows.nodes, rows.rounds)
    is_twice = _same_as_before(rows, rows.events)
    faults = _MembershipFaults(rows, life, access)
    bad = np.flatnonzero(~alive | is_twice | faults.any)
    if not len(bad):
        return None
    first = np.lexsort((rows.groups[bad], rows.nodes[bad], rows.rounds[bad]))[0]
    at = int(bad[first])
    if not alive[at]:
        what = f"{row_in_words(rows, at)} is impossible: {_not_alive(rows, at, lifetimes, extent)}"
    elif is_twice[at]:
        what = _twice(rows, at, bool(is_start[at - 1]))
    else:
        what = faults.in_words(at, is_start)
    return int(rows.rounds[at]), int(rows.nodes[at]), what


def _same_as_before(rows: EventRows, *more: np.ndarray) -> np.ndarray:
    """Return True for rows with the group, node, round and `more` of the previous row."""
    same = np.zeros(len(rows), dtype=bool)
    columns = (rows.groups, rows.nodes, rows.rounds, *more)
    same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return same


class _MembershipFaults:
    """Joins of members and quits of non-members; rows are by group, node, round, event."""

    def __init__(self, rows: EventRows, life: np.ndarray, access: AccessLists) -> None:
        self._rows = rows
        places = np.flatnonzero((rows.events == JOIN) | (rows.events == QUIT))
        few = rows.take(places)
        self._both = np.zeros(len(rows), dtype=bool)
        self._both[places] = _same_as_before(few)
        has_previous = np.zeros(len(few), dtype=bool)
        has_previous[1:] = (
            (few.groups[1:] == few.groups[:-1])
            & (few.nodes[1:] == few.nodes[:-1])
            & (life[places[1:]] == life[places[:-1]])
        )
        before = np.arange(len(few)) - has_previous
        joined = has_previous & (few.events[before] == JOIN)
        may_join = access.permits(MAY_JOIN, few.groups, few.nodes)
        is_quit = few.events == QUIT
        self._previous = np.full(len(rows), -1)
        self._previous[places[has_previous]] = places[before[has_previous]]
        self._may_join = np.ones(len(rows), dtype=bool)
        self._may_join[places] = may_join
        self._wrong = np.zeros(len(rows), dtype=bool)
        self._wrong[places] = np.where(is_quit, ~(joined & may_join), joined)

    @property
    def any(self) -> np.ndarray:
        """True for impossible rows: bool, shape (E,)."""
        return self._both | self._wrong

    def in_words(self, at: int, is_start: np.ndarray) -> str:
        """Describe the fault of an impossible row."""
        rows = self._rows
        if self._both[at]:
            place = f"round={rows.rounds[at]}, node={rows.nodes[at]}, group={rows.groups[at]}"
            later = int(rows.rounds[at]) + 1
            remedy = f"only one is possible in a round: move the later one to round {later}"
            return f"{place} has two events, join and quit; {remedy}"
        row = f"{row_in_words(rows, at)} is impossible"
        previous = int(self._previous[at])
        if rows.events[at] == QUIT and not self._may_join[at]:
            return f"{row}: the access list does not let the node join"
        if rows.events[at] == QUIT:
            since = "" if previous < 0 else f" since its quit in round {rows.rounds[previous]}"
            return f"{row}: the node is no member{since}; let it join before"
        when, since = "at the start", "from the start"
        if not is_start[previous]:
            when = f"in round {rows.rounds[previous]}"
            since = f"since its join {when}"
        if not self._may_join[at]:
            return f"{row}: the access list does not let the node join, which it tried {when}"
        return f"{row}: the node is a member {since}; let it quit before"


def _twice(rows: EventRows, at: int, at_the_start: bool) -> str:
    name = EVENT_NAMES[rows.events[at]]
    if at_the_start:
        done = "joins it" if rows.events[at] == JOIN else "creates it"
        return f"{row_in_words(rows, at)} is superfluous: the node {done} at the start"
    place = f"round={rows.rounds[at]}, node={rows.nodes[at]}, group={rows.groups[at]}"
    return f"{place} has the event {name} twice; keep one"


def _not_alive(rows: EventRows, at: int, lifetimes: Lifetimes, extent: Extent) -> str:
    last = lifetimes.last_event(int(rows.nodes[at]), int(rows.rounds[at]))
    if last is None:
        start = f"alive at the start are nodes 0 to {extent.initial - 1}"
        return f"the node was never there ({start}); let it arrive before"
    since = f"since its {EVENT_NAMES[last[0]]} in round {last[1]}"
    return f"the node is not alive {since}; let it arrive or recover before"
