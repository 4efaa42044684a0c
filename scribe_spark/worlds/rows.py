"""Events as arrays: what the numpy kernels of checks and generators work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NO_GROUP, Rows

#: Events by their names in a table, those of Pastry's nodes first; the place of a name is its code
#: in the kernels.
EVENT_NAMES = ("arrive", "leave", "fail", "recover", "create", "join", "quit", "publish")
ARRIVE, LEAVE, FAIL, RECOVER, CREATE, JOIN, QUIT, PUBLISH = range(len(EVENT_NAMES))

#: The first so many are events of a node, the others of a node and a group.
NODE_EVENTS = 4

#: Code of an event of a node -> whether the node is alive afterwards.
ALIVE_AFTER = np.array([True, False, False, True])


@dataclass(frozen=True)
class Extent:
    """The nodes, rounds and groups that a table of events has to fit into.

    Attributes
    ----------
    nodes : int
        Nodes that there are, N; numbered from 0.
    rounds : int
        Rounds, R; numbered from 0.
    initial : int
        Nodes 0 to `initial` - 1 are alive at the start, the others have not arrived yet.
    """

    nodes: int
    rounds: int
    initial: int


@dataclass(frozen=True)
class EventRows(Rows):
    """Rows of an events table, E of them, in any order.

    Attributes
    ----------
    rounds, nodes : ndarray of int64, shape (E,)
    events : ndarray of int8, shape (E,)
        Codes of events; -1 is unknown.
    groups : ndarray of int64, shape (E,)
        `NO_GROUP` where an event has none; left out where none has one.
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
    def at_once(cls, at: int, nodes: np.ndarray, event: int) -> EventRows:
        """Return one event for each of `nodes`, in round `at`."""
        return cls.of_groups(at, nodes, event, NO_GROUP)

    @classmethod
    def of_groups(
        cls,
        rounds: np.ndarray | int,
        nodes: np.ndarray,
        event: int,
        groups: np.ndarray | int,
    ) -> EventRows:
        """Return an event for each of `nodes` in its group; one round or group may do for all."""
        return cls(
            np.broadcast_to(rounds, len(nodes)).astype(np.int64),
            nodes.astype(np.int64),
            np.full(len(nodes), event, dtype=np.int8),
            np.broadcast_to(groups, len(nodes)).astype(np.int64),
        )

    @classmethod
    def none(cls) -> EventRows:
        """No rows."""
        return cls.at_once(0, np.empty(0, dtype=np.int64), FAIL)

    @property
    def of_node(self) -> np.ndarray:
        """Mark the rows that are events of Pastry's nodes: bool, shape (E,)."""
        return self.events < NODE_EVENTS


def event_codes(names: np.ndarray) -> np.ndarray:
    """The codes of events by name: int8, shape as `names` (object); -1 where a name is unknown."""
    codes = np.full(len(names), -1, dtype=np.int8)
    for code, name in enumerate(EVENT_NAMES):
        codes[names == name] = code
    return codes
