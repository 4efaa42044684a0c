"""Events as arrays: what the numpy kernels of checks and generators work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = [
    "ALIVE_AFTER",
    "ARRIVE",
    "EVENT_NAMES",
    "FAIL",
    "LEAVE",
    "RECOVER",
    "EventRows",
    "Extent",
    "event_codes",
]

#: Events of a node, by their names in a table; the place of a name is its code in the kernels.
EVENT_NAMES = ("arrive", "leave", "fail", "recover")
ARRIVE, LEAVE, FAIL, RECOVER = range(len(EVENT_NAMES))

#: Code -> whether the node is alive afterwards.
ALIVE_AFTER = np.array([True, False, False, True])


@dataclass(frozen=True)
class Extent:
    """What a table of events has to fit into.

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
class EventRows:
    """Rows of an events table, E of them, in any order.

    Attributes
    ----------
    rounds, nodes : ndarray of int64, shape (E,)
    events : ndarray of int8, shape (E,)
        Codes of events; -1 is unknown.
    """

    rounds: np.ndarray
    nodes: np.ndarray
    events: np.ndarray

    @classmethod
    def at_once(cls, at: int, nodes: np.ndarray, event: int) -> EventRows:
        """The same event of all `nodes` in round `at`."""
        return cls(
            np.full(len(nodes), at, dtype=np.int64),
            nodes.astype(np.int64),
            np.full(len(nodes), event, dtype=np.int8),
        )

    def take(self, places: np.ndarray) -> EventRows:
        """The rows at `places`, in that order."""
        return EventRows(self.rounds[places], self.nodes[places], self.events[places])

    def __len__(self) -> int:
        return len(self.rounds)


def event_codes(names: np.ndarray) -> np.ndarray:
    """The codes of events by name: int8, shape as `names` (object); -1 where a name is unknown."""
    codes = np.full(len(names), -1, dtype=np.int8)
    for code, name in enumerate(EVENT_NAMES):
        codes[names == name] = code
    return codes
