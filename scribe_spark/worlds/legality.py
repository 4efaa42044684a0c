"""Checks of node events: whether each is possible; numpy kernels for a table of events.

The checks do not loop over rows: rows are sorted by node and round, and compared with the previous
row.  Group events are checked in :mod:`.group_legality`.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.errors import listed, meant, shown
from scribe_spark.worlds.access import groups_are
from scribe_spark.worlds.rows import (
    ALIVE_AFTER,
    EVENT_NAMES,
    RECOVER,
    EventRows,
    Extent,
)


def first_bad_cell(
    rows: EventRows,
    names: np.ndarray | None,
    extent: Extent,
    groups: np.ndarray | None = None,
) -> str | None:
    """Describe the first row with a value that does not exist or fit; None if all rows are good.

    Parameters
    ----------
    names : ndarray of object, shape (E,), optional
        The names of the events in the table, to report unknown ones.
    groups : ndarray of int64, optional
        The numbers of the groups, ascending; None in a world without groups.
    """
    no_event = (rows.events < 0) | (rows.events >= len(EVENT_NAMES))
    no_node = (rows.nodes < 0) | (rows.nodes >= extent.nodes)
    no_round = (rows.rounds < 0) | (rows.rounds >= extent.rounds)
    known = np.empty(0, dtype=np.int64) if groups is None else groups
    no_group = np.where(rows.of_node, rows.groups != NO_GROUP, ~np.isin(rows.groups, known))
    bad = no_event | no_node | no_round | no_group
    if not bad.any():
        return None
    at = int(np.argmax(bad))
    if names is not None:
        name = names[at]
    else:
        name = f"code {rows.events[at]}" if no_event[at] else EVENT_NAMES[rows.events[at]]
    row = row_in_words(rows, at, name)
    if no_event[at]:
        return (
            f"{row} has no known event; events are {listed(EVENT_NAMES)}{meant(name, EVENT_NAMES)}"
        )
    if no_node[at]:
        return f"{row} names no node; nodes are 0 to {extent.nodes - 1}"
    if no_round[at]:
        return f"{row} is in no round; rounds are 0 to {extent.rounds - 1}"
    return f"{row} {_no_group(bool(rows.of_node[at]), rows.groups[at] == NO_GROUP, groups)}"


def _no_group(of_node: bool, is_empty: bool, groups: np.ndarray | None) -> str:
    if of_node:
        return "has a group, but is an event of a node; leave the group empty"
    if groups is None:
        return "is an event of a group, and the world has none; give groups or members"
    if is_empty:
        return "is an event of a group; give its number in the column group"
    return f"names no group; {groups_are(groups)}"


def first_impossible(rows: EventRows, extent: Extent) -> tuple[int, int, str] | None:
    """Return the first impossible node event (by round, then node), or None.

    A live node can leave or fail.  A dead node can arrive and, if it was alive before, recover: it
    keeps its nodeId and its last leaf set even after an announced departure.  A node has at most
    one event in a round.

    Parameters
    ----------
    rows : EventRows
        All events of the nodes, accepted by :func:`first_bad_cell`.  Group events are ignored.

    Returns
    -------
    tuple of (int, int, str) or None
        The round, the node, and the fault in words.
    """
    rows = rows.take(rows.of_node)
    if not len(rows):
        return None
    rows = rows.take(np.argsort(rows.nodes * np.int64(extent.rounds) + rows.rounds, kind="stable"))
    rounds, nodes, events = rows.rounds, rows.nodes, rows.events
    has_previous = np.concatenate([[False], nodes[1:] == nodes[:-1]])
    previous = np.arange(len(rows)) - has_previous
    initially = nodes < extent.initial
    alive = np.where(has_previous, ALIVE_AFTER[events[previous]], initially)
    known = has_previous | initially
    twice = has_previous & (rounds == rounds[previous])
    bad = np.flatnonzero(twice | (ALIVE_AFTER[events] == alive) | ((events == RECOVER) & ~known))
    if not len(bad):
        return None
    at = int(bad[np.lexsort((~twice[bad], nodes[bad], rounds[bad]))[0]])
    before = int(previous[at]) if has_previous[at] else None
    if twice[at]:
        what = _two_events(rows, int(previous[at]), at)
    else:
        reason = _why_not(rows, before, bool(alive[at]), bool(known[at]), extent)
        what = f"{row_in_words(rows, at)} is impossible: {reason}"
    return int(rounds[at]), int(nodes[at]), what


def _two_events(rows: EventRows, one: int, other: int) -> str:
    codes = sorted(rows.events[[one, other]])
    first, second = (EVENT_NAMES[code] for code in codes)
    remedy = "keep one"
    if ALIVE_AFTER[codes[0]] != ALIVE_AFTER[codes[1]]:
        remedy = (
            f"only one is possible in a round: move the later one to round {rows.rounds[one] + 1}"
        )
    both = f"round={rows.rounds[one]}, node={rows.nodes[one]} has two events, {first} and {second}"
    return f"{both}; {remedy}"


def _why_not(rows: EventRows, before: int | None, alive: bool, known: bool, extent: Extent) -> str:
    """Explain why a node cannot have an event, given its previous event, with a remedy."""
    if not known:
        start = f"alive at the start are nodes 0 to {extent.initial - 1}"
        return f"the node was never there ({start}); let it arrive before"
    since = "from the start"
    if before is not None:
        since = f"since its {EVENT_NAMES[rows.events[before]]} in round {rows.rounds[before]}"
    if alive:
        return f"the node is alive {since}; let it leave or fail before"
    return f"the node is not alive {since}; let it arrive or recover before"


def live_after(rows: EventRows, extent: Extent) -> np.ndarray:
    """Return the number of live nodes after each round: int64, shape (R,); events are possible."""
    rows = rows.take(rows.of_node)
    enters = ALIVE_AFTER[rows.events]
    come, gone = (
        np.bincount(rows.rounds[which], minlength=extent.rounds) for which in (enters, ~enters)
    )
    return extent.initial + np.cumsum(come - gone)


def row_in_words(rows: EventRows, at: int, name: str | None = None) -> str:
    """Describe a row of an events table for an error message."""
    name = EVENT_NAMES[rows.events[at]] if name is None else name
    group = "" if rows.groups[at] == NO_GROUP else f", group={rows.groups[at]}"
    return f"row round={rows.rounds[at]}, node={rows.nodes[at]}, event={shown(name)}{group}"
