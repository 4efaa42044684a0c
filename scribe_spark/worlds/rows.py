"""Events as arrays, for the numpy kernels of checks and generators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NO_GROUP, Rows, whole_numbers

#: The names of events in a table, node events first; the code of an event is its index here.
EVENT_NAMES = ("arrive", "leave", "fail", "recover", "create", "join", "quit", "publish")
ARRIVE, LEAVE, FAIL, RECOVER, CREATE, JOIN, QUIT, PUBLISH = range(len(EVENT_NAMES))

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
        """Return one event for each node and its group; scalars are broadcast."""
        return cls(
            np.broadcast_to(rounds, len(nodes)).astype(np.int64),
            nodes.astype(np.int64),
            np.full(len(nodes), event, dtype=np.int8),
            np.broadcast_to(groups, len(nodes)).astype(np.int64),
        )

    @classmethod
    def at_once(cls, at: int, nodes: np.ndarray, event: int) -> EventRows:
        """Return a node event for each node, in round `at`."""
        return cls.of_groups(at, nodes, event, NO_GROUP)

    @classmethod
    def none(cls) -> EventRows:
        """Return no rows."""
        return cls.at_once(0, whole_numbers(), FAIL)

    @property
    def of_node(self) -> np.ndarray:
        """True for node events: bool, shape (E,)."""
        return self.events < NODE_EVENTS


def event_codes(names: np.ndarray) -> np.ndarray:
    """Return the codes of events given by name: int8; -1 for unknown names."""
    codes = np.full(len(names), -1, dtype=np.int8)
    for code, name in enumerate(EVENT_NAMES):
        codes[names == name] = code
    return codes
