"""Events of nodes and groups as arrays, lifetimes of nodes, and checks whether events are possible.

The checks do not loop over rows: rows of node events are sorted by node and round, rows of group
events by group, node and round, and compared with the previous row.  A node is a member from its
join to its quit or death, whichever comes first; a returning node needs another join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NO_GROUP, Rows, run_starts, whole_numbers, without
from scribe_spark.core.errors import listed, meant, shown

# --- rows


#: The names of events in a table, node events first; the code of an event is its index here.
EVENT_NAMES = ("arrive", "leave", "fail", "recover", "create", "join", "quit", "publish")
ARRIVE, LEAVE, FAIL, RECOVER, CREATE, JOIN, QUIT, PUBLISH = range(len(EVENT_NAMES))

#: The columns of publications with times and sizes, in a table of events.
TIMES = ("time", "size")

#: The number of node events; the other events belong to a node and a group.
NODE_EVENTS = 4

#: For each code of a node event: True if the node is alive after it.
ALIVE_AFTER = np.array([True, False, False, True])


@dataclass(frozen=True)
class Extent:
    """The numbers of nodes and rounds that a table of events must fit.

    Nodes and rounds are numbered from 0.  Nodes 0 to `initial` - 1 are alive at the start; the
    others have not arrived yet.
    """

    nodes: int
    rounds: int
    initial: int

    def is_alive(self, nodes: np.ndarray) -> np.ndarray:
        """Return True for each node (a number) that is alive at the start of the first round."""
        return nodes < self.initial

    def was_alive(self, nodes: np.ndarray) -> np.ndarray:
        """Return True for each node (a number) that is alive or was alive before."""
        return self.is_alive(nodes)


@dataclass(frozen=True)
class EventRows(Rows):
    """E rows of a table of events, in any order; `events` has codes (int8, -1: unknown), and
    `groups` is `NO_GROUP` for node events, the default.
    """

    rounds: np.ndarray
    nodes: np.ndarray
    events: np.ndarray
    groups: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.groups is None:
            none = np.full(len(self.rounds), NO_GROUP, dtype=np.int64)
            object.__setattr__(self, "groups", none)

    @classmethod
    def of_groups(
        cls, rounds: np.ndarray | int, nodes: np.ndarray, event: int, groups: np.ndarray | int
    ) -> EventRows:
        """Return one `event` (a code) for each node and its group; scalars are broadcast."""
        return cls(
            np.broadcast_to(rounds, len(nodes)).astype(np.int64),
            nodes.astype(np.int64),
            np.full(len(nodes), event, dtype=np.int8),
            np.broadcast_to(groups, len(nodes)).astype(np.int64),
        )

    @classmethod
    def at_once(cls, at: int, nodes: np.ndarray, event: int) -> EventRows:
        """Return an `event` (a code) of each node in round `at`; the event is no group event."""
        return cls.of_groups(at, nodes, event, NO_GROUP)

    @classmethod
    def none(cls) -> EventRows:
        """Return a table of events without rows."""
        return cls.at_once(0, whole_numbers(), FAIL)

    @property
    def of_node(self) -> np.ndarray:
        """True for node events: bool, shape (E,)."""
        return self.events < NODE_EVENTS


def event_codes(names: np.ndarray) -> np.ndarray:
    """Return the code of each event, given by name: int8; -1 for unknown names."""
    codes = np.full(len(names), -1, dtype=np.int8)
    for code, name in enumerate(EVENT_NAMES):
        codes[names == name] = code
    return codes


class Lifetimes:
    """The lives of all nodes over the rounds, from possible events; group events are ignored."""

    def __init__(self, rows: EventRows, before: Extent) -> None:
        rows = rows.take(rows.of_node)
        self._before = before
        key = self._keys(rows.nodes, rows.rounds)
        order = np.argsort(key, kind="stable")
        self._key, self._rows = key[order], rows.take(order)

    def at(self, nodes: np.ndarray, rounds: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each node is alive after its round's events, and the number of its life.

        Two results for a node have the same life if the node has no event between them.
        """
        after = np.searchsorted(self._key, self._keys(nodes, rounds), side="right")
        has_row = self._is_of(after - 1, nodes)
        life = np.where(has_row, after - 1, -1)
        alive = self._before.is_alive(nodes)
        alive[has_row] = ALIVE_AFTER[self._rows.events[life[has_row]]]
        return alive, life

    def ends(self, nodes: np.ndarray, rounds: np.ndarray) -> np.ndarray:
        """Return the round in which each node that is alive after `rounds` dies: int64; else R."""
        after = np.searchsorted(self._key, self._keys(nodes, rounds), side="right")
        found = self._is_of(after, nodes)
        ends = np.full(len(nodes), self._before.rounds, dtype=np.int64)
        ends[found] = self._rows.rounds[after[found]]
        return ends

    def live(self, at: int) -> np.ndarray:
        """Return the nodes alive after the events of round `at`, ascending; -1 is the start."""
        alive = self._before.is_alive(np.arange(self._before.nodes))
        self._play(alive, self._rows.rounds <= at)
        return np.flatnonzero(alive)

    def untouched(self, at: int) -> np.ndarray:
        """Return the nodes that are alive before round `at` and have no event in it, ascending."""
        return without(self.live(at - 1), self._rows.nodes[self._rows.rounds == at])

    def by_round(self) -> Iterator[np.ndarray]:
        """Yield one array, shape (N,), again and again: True for the live nodes of each round."""
        alive = self._before.is_alive(np.arange(self._before.nodes))
        order = np.argsort(self._rows.rounds, kind="stable")
        ends = np.searchsorted(self._rows.rounds[order], np.arange(self._before.rounds), "right")
        begin = 0
        for end in ends:
            self._play(alive, order[begin:end])
            begin = end
            yield alive

    def _play(self, alive: np.ndarray, which: np.ndarray) -> None:
        """Apply the events in the rows `which`, ascending for each node, to the mask `alive`."""
        alive[self._rows.nodes[which]] = ALIVE_AFTER[self._rows.events[which]]

    def _keys(self, nodes: np.ndarray, rounds: np.ndarray | int) -> np.ndarray:
        return nodes * np.int64(self._before.rounds) + rounds

    def _is_of(self, places: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return True if the row at each of some `places` exists and belongs to the node: bool."""
        there = (places >= 0) & (places < len(self._rows))
        found = np.zeros(len(nodes), dtype=bool)
        found[there] = self._rows.nodes[places[there]] == nodes[there]
        return found


# --- checks


#: Returns whether the access lists let nodes join their groups: bool.
MayJoin = Callable[[np.ndarray, np.ndarray], np.ndarray]


def first_bad_cell(
    rows: EventRows,
    names: np.ndarray | None,
    extent: Extent,
    groups: np.ndarray | None = None,
) -> str | None:
    """Describe the first row of events with an impossible value; None if all rows are good.

    `names` are the events' names in the table, to report unknown ones; `groups` are the numbers of
    the groups, ascending, or None in a world without groups.
    """
    no_event = (rows.events < 0) | (rows.events >= len(EVENT_NAMES))
    no_node = (rows.nodes < 0) | (rows.nodes >= extent.nodes)
    no_round = (rows.rounds < 0) | (rows.rounds >= extent.rounds)
    known = whole_numbers() if groups is None else groups
    no_group = np.where(rows.of_node, rows.groups != NO_GROUP, ~np.isin(rows.groups, known))
    bad = no_event | no_node | no_round | no_group
    if not bad.any():
        return None
    at = int(np.argmax(bad))
    if names is not None:
        name = names[at]
    else:
        name = f"code {rows.events[at]}" if no_event[at] else EVENT_NAMES[rows.events[at]]
    row = _row(rows, at, name)
    if no_event[at]:
        known_names = f"{listed(EVENT_NAMES)}{meant(name, EVENT_NAMES)}"
        return f"{row} has no known event; events are {known_names}"
    if no_node[at]:
        return f"{row} names no node; nodes are 0 to {extent.nodes - 1}"
    if no_round[at]:
        return f"{row} is in no round; rounds are 0 to {extent.rounds - 1}"
    if rows.of_node[at]:
        return f"{row} has a group, but is an event of a node; leave the group empty"
    if groups is None:
        return f"{row} is an event of a group, and the world has none; give groups or members"
    if rows.groups[at] == NO_GROUP:
        return f"{row} is an event of a group; give its number in the column group"
    return f"{row} names no group; {groups_are(groups)}"


def groups_are(groups: np.ndarray) -> str:
    """Return words for an error message: the numbers of all groups (ascending)."""
    first, last = int(groups[0]), int(groups[-1])
    if len(groups) == 1:
        return f"the only group is {first}"
    among = "groups are" if last - first + 1 == len(groups) else f"there are {len(groups)} from"
    return f"{among} {first} to {last}"


def live_after(rows: EventRows, extent: Extent) -> np.ndarray:
    """Return the number of live nodes after each round, from possible events: int64, (R,)."""
    rows = rows.take(rows.of_node)
    enters = ALIVE_AFTER[rows.events]
    come, gone = (
        np.bincount(rows.rounds[which], minlength=extent.rounds) for which in (enters, ~enters)
    )
    return extent.initial + np.cumsum(come - gone)


def _row(rows: EventRows, at: int, name: str | None = None) -> str:
    """Return words for the row `at` of an events table."""
    name = EVENT_NAMES[rows.events[at]] if name is None else name
    return f"row {_place(rows, at, f', event={shown(name)}')}"


def _place(rows: EventRows, at: int, event: str = "") -> str:
    group = "" if rows.groups[at] == NO_GROUP else f", group={rows.groups[at]}"
    return f"round={rows.rounds[at]}, node={rows.nodes[at]}{event}{group}"


def _not_so(rows: EventRows, at: int, state: str, remedy: str) -> str:
    return f"{_row(rows, at)} is impossible: the node {state}; let it {remedy} before"


def _two_events(rows: EventRows, at: int, *codes: int) -> str:
    first, second = (EVENT_NAMES[code] for code in sorted(codes))
    twice = f"has two events, {first} and {second}; keep one, or move one to another round"
    return f"{_place(rows, at)} {twice}"


def _same_as_before(*columns: np.ndarray) -> np.ndarray:
    """Return True for each row that is equal to the row before it in all columns: bool."""
    same = np.ones(len(columns[0]), dtype=bool)
    same[run_starts(*columns)] = False
    return same


def _first(bad: np.ndarray, *columns: np.ndarray) -> int | None:
    """Return the first of the rows marked in `bad`, sorted by the columns; None without any."""
    rows = np.flatnonzero(bad)
    return int(rows[np.lexsort([one[rows] for one in columns[::-1]])[0]]) if len(rows) else None


# --- node events


def first_impossible(rows: EventRows, before: Extent) -> str | None:
    """Describe the first impossible node event, by round and node; None if all are possible.

    A live node can leave or fail.  A dead node can arrive and, if it was alive before, recover: it
    keeps its nodeId and its last leaf set even after an announced departure.  A node has at most
    one event in a round.  `rows` are all events of the nodes; group events are ignored.
    """
    rows = rows.take(rows.of_node)
    rows = rows.take(np.argsort(rows.nodes * np.int64(before.rounds) + rows.rounds, kind="stable"))
    rounds, nodes, events = rows.rounds, rows.nodes, rows.events
    has_previous = _same_as_before(nodes)
    previous = np.arange(len(rows)) - has_previous
    alive = np.where(has_previous, ALIVE_AFTER[events[previous]], before.is_alive(nodes))
    known = has_previous | before.was_alive(nodes)
    twice = _same_as_before(nodes, rounds)
    wrong = twice | (ALIVE_AFTER[events] == alive) | ((events == RECOVER) & ~known)
    at = _first(wrong, rounds, nodes, ~twice)
    if at is None:
        return None
    if twice[at]:
        return _two_events(rows, at, events[at - 1], events[at])
    if alive[at]:
        return _not_so(rows, at, "is alive", "leave or fail")
    return _not_so(rows, at, "is not alive", "arrive or recover" if known[at] else "arrive")


# --- group events


def first_impossible_in_groups(
    rows: EventRows,
    before: Extent,
    may_join: MayJoin,
    starts: EventRows | None = None,
    members: np.ndarray | None = None,
) -> str | None:
    """Describe the first impossible group event, by round, node and group; None if there is none.

    An event is possible if its node is alive after the node events of the round; the node has each
    kind of event at most once per round and group; and it does not join and quit in the same round.
    A node that joins must not be a member; if the access list refuses it, it must not have tried
    before in this life.  A node that quits must be a member.

    `rows` are all events of the nodes, whose node events are possible.  `starts` are joins and
    creations of round 0 that are not in the table; those of nodes that are not alive after that
    round are ignored.  Without `starts`, `members` may tell for each group event whether the node
    is a member before the first round (or has tried to become one, for joins).
    """
    lifetimes = Lifetimes(rows, before)
    rows = rows.take(~rows.of_node)
    if starts is not None:
        rows = EventRows.join(rows, starts.take(lifetimes.at(starts.nodes, 0)[0]))
    order = np.lexsort((rows.events, rows.rounds, rows.nodes, rows.groups))
    rows = rows.take(order)
    alive, life = lifetimes.at(rows.nodes, rows.rounds)
    twice = _same_as_before(rows.groups, rows.nodes, rows.rounds, rows.events)
    # joins and quits follow the last one of the node in its life
    places = np.flatnonzero((rows.events == JOIN) | (rows.events == QUIT))
    few = rows.take(places)
    has_previous = _same_as_before(few.groups, few.nodes, life[places])
    is_member = np.zeros(len(few), dtype=bool) if members is None else members[order][places]
    joined = np.where(has_previous, np.roll(few.events, 1) == JOIN, is_member)
    permitted = may_join(few.groups, few.nodes)
    both, wrong, refused = np.zeros((3, len(rows)), dtype=bool)
    both[places] = _same_as_before(few.groups, few.nodes, few.rounds)
    wrong[places] = np.where(few.events == QUIT, ~(joined & permitted), joined)
    refused[places] = ~permitted
    at = _first(~alive | twice | both | wrong, rows.rounds, rows.nodes, rows.groups)
    if at is None:
        return None
    if not alive[at]:
        return _not_so(rows, at, "is not alive", "arrive or recover")
    if twice[at]:
        name = EVENT_NAMES[rows.events[at]]
        return f"{_place(rows, at)} has the event {name} twice, perhaps at the start; keep one"
    if both[at]:
        return _two_events(rows, at, JOIN, QUIT)
    if refused[at]:
        return f"{_row(rows, at)} is impossible: the access list does not let the node join"
    if rows.events[at] == QUIT:
        return _not_so(rows, at, "is no member", "join")
    return _not_so(rows, at, "is a member", "quit")
