"""The lifetimes of nodes (the rounds in which each is alive), computed from a table of events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scribe_spark.core.arrays import without
from scribe_spark.worlds.rows import ALIVE_AFTER, EventRows, Extent


class Lifetimes:
    """The lifetimes of all nodes, from possible events; group events are ignored."""

    def __init__(self, rows: EventRows, extent: Extent) -> None:
        rows = rows.take(rows.of_node)
        self._extent = extent
        key = self._keys(rows.nodes, rows.rounds)
        order = np.argsort(key, kind="stable")
        self._key, self._rows = key[order], rows.take(order)

    def at(self, nodes: np.ndarray, rounds: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
        """Return whether nodes are alive after the events of rounds, and in which life.

        Two results for a node have the same life if the node has no event between them.
        """
        after = np.searchsorted(self._key, self._keys(nodes, rounds), side="right")
        has_row = self._is_of(after - 1, nodes)
        life = np.where(has_row, after - 1, -1)
        alive = nodes < self._extent.initial
        alive[has_row] = ALIVE_AFTER[self._rows.events[life[has_row]]]
        return alive, life

    def last_event(self, node: int, at: int) -> tuple[int, int] | None:
        """Return code and round of a node's last event up to a round; None if there is none."""
        life = self.at(np.array([node]), at)[1][0]
        return None if life < 0 else (int(self._rows.events[life]), int(self._rows.rounds[life]))

    def ends(self, nodes: np.ndarray, rounds: np.ndarray) -> np.ndarray:
        """Return the rounds in which nodes alive after `rounds` die: int64; R if they do not."""
        after = np.searchsorted(self._key, self._keys(nodes, rounds), side="right")
        found = self._is_of(after, nodes)
        ends = np.full(len(nodes), self._extent.rounds, dtype=np.int64)
        ends[found] = self._rows.rounds[after[found]]
        return ends

    def live(self, at: int) -> np.ndarray:
        """Return the nodes alive after the events of a round, ascending; round -1 is the start."""
        alive = np.arange(self._extent.nodes) < self._extent.initial
        self._play(alive, self._rows.rounds <= at)
        return np.flatnonzero(alive)

    def untouched(self, at: int) -> np.ndarray:
        """Return the nodes that are alive before a round and have no event in it, ascending."""
        return without(self.live(at - 1), self._rows.nodes[self._rows.rounds == at])

    def by_round(self) -> Iterator[np.ndarray]:
        """Yield an array that marks the live nodes after each round: bool, shape (N,).

        The same array is changed and yielded again.
        """
        alive = np.arange(self._extent.nodes) < self._extent.initial
        order = np.argsort(self._rows.rounds, kind="stable")
        ends = np.searchsorted(self._rows.rounds[order], np.arange(self._extent.rounds), "right")
        begin = 0
        for end in ends:
            self._play(alive, order[begin:end])
            begin = end
            yield alive

    def _play(self, alive: np.ndarray, which: np.ndarray) -> None:
        """Apply events; a node's rows are sorted by round, and numpy writes in order."""
        alive[self._rows.nodes[which]] = ALIVE_AFTER[self._rows.events[which]]

    def _keys(self, nodes: np.ndarray, rounds: np.ndarray | int) -> np.ndarray:
        return nodes * np.int64(self._extent.rounds) + rounds

    def _is_of(self, places: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return True if the row at a position exists and belongs to the node."""
        there = (places >= 0) & (places < len(self._rows))
        found = np.zeros(len(nodes), dtype=bool)
        found[there] = self._rows.nodes[places[there]] == nodes[there]
        return found
