"""Events of nodes and groups as arrays, and the lifetimes of nodes that follow from events.

Checks and generators of events use both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scribe_spark.core.arrays import NO_GROUP, Rows, whole_numbers, without

#: The names of events in a table, node events first; the code of an event is its index here.
EVENT_NAMES = ("arrive", "leave", "fail", "recover", "create", "join", "quit", "publish")
ARRIVE, LEAVE, FAIL, RECOVER, CREATE, JOIN, QUIT, PUBLISH = range(len(EVENT_NAMES))

#: The columns of publications with times and sizes, in a table of events.
TIMES = ("time", "size")

#: The number of node events; the other events belong to a node and a group.
NODE_EVENTS = 4

#: For each code of a node event: True if the node is alive after it.
ALIVE_AFTER = np.array([True, False, False, True])


class Before(Protocol):
    """The type of objects that know the nodes before the first round of some events."""

    @property
    def nodes(self) -> int: ...  # nodes are 0 to this number - 1

    @property
    def rounds(self) -> int: ...  # the events' rounds are below this number

    def is_alive(self, nodes: np.ndarray) -> np.ndarray:
        """Return True for each node (a number) that is alive at the start of the first round."""
        ...

    def was_alive(self, nodes: np.ndarray) -> np.ndarray:
        """Return True for each node (a number) that is alive or was alive before."""
        ...

    def state(self, node: int) -> str:
        """Return words for an error message: whether a node is alive, and since when."""
        ...


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
        """See `Before`."""
        return nodes < self.initial

    was_alive = is_alive

    def state(self, node: int) -> str:
        """See `Before`."""
        if node < self.initial:
            return "is alive from the start"
        return f"was never there (alive at the start are nodes 0 to {self.initial - 1})"


@dataclass(frozen=True)
class EventRows(Rows):
    """E rows of a table of events, in any order.

    Attributes
    ----------
    rounds, nodes : ndarray of int64, shape (E,)
    events : ndarray of int8, shape (E,)
        The codes of events; -1 for an unknown name.
    groups : ndarray of int64, shape (E,)
        The groups; `NO_GROUP` for node events.  By default all are `NO_GROUP`.
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

    def __init__(self, rows: EventRows, before: Before) -> None:
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

    def last_event(self, node: int, at: int) -> tuple[int, int] | None:
        """Return code and round of a node's last event up to round `at`; None if there is none."""
        life = self.at(np.array([node]), at)[1][0]
        return None if life < 0 else (int(self._rows.events[life]), int(self._rows.rounds[life]))

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
        """Yield an array that marks the live nodes after each round: bool, shape (N,).

        The same array is changed and yielded again.
        """
        alive = self._before.is_alive(np.arange(self._before.nodes))
        order = np.argsort(self._rows.rounds, kind="stable")
        ends = np.searchsorted(self._rows.rounds[order], np.arange(self._before.rounds), "right")
        begin = 0
        for end in ends:
            self._play(alive, order[begin:end])
            begin = end
            yield alive

    def _play(self, alive: np.ndarray, which: np.ndarray) -> None:
        """Apply the events in the rows `which` to the mask `alive`; later rounds win.

        The rows of a node are sorted by round, and numpy writes in order.
        """
        alive[self._rows.nodes[which]] = ALIVE_AFTER[self._rows.events[which]]

    def _keys(self, nodes: np.ndarray, rounds: np.ndarray | int) -> np.ndarray:
        return nodes * np.int64(self._before.rounds) + rounds

    def _is_of(self, places: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return True if the row at each of some `places` exists and belongs to the node: bool."""
        there = (places >= 0) & (places < len(self._rows))
        found = np.zeros(len(nodes), dtype=bool)
        found[there] = self._rows.nodes[places[there]] == nodes[there]
        return found
