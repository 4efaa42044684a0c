"""The neighbours of places, in slots: for kernels whose nodes have few of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.core.arrays import NONE


class Slots:
    """The neighbours of places; arrays have the shape (places, slots).

    Attributes
    ----------
    node : ndarray of int32
        The neighbour in each slot; :data:`NONE` in a free slot.
    tenancy : ndarray of int16
        The number of neighbours that have left the slot.
    flags : mapping of str to ndarray
        What a node knows of its neighbours, by name; a new neighbour has 0.
    """

    def __init__(self, shape: tuple[int, int], **flags: DTypeLike) -> None:
        self.node = np.full(shape, NONE, dtype=np.int32)
        self.tenancy = np.zeros(shape, dtype=np.int16)
        self._numbers = np.arange(shape[1])[:, None]
        self.flags = {name: np.zeros(shape, dtype=kind) for name, kind in flags.items()}

    def slot(self, place: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the slots of nodes at places; NONE for a node that is no neighbour."""
        here = self._by_slot(place) == node
        return np.where(here, self._numbers, NONE).max(axis=0)

    def has(self, place: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for nodes that are neighbours of places."""
        return (self._by_slot(place) == node).any(axis=0)

    def count(self, place: np.ndarray) -> np.ndarray:
        """Return the number of neighbours of each place."""
        return np.add.reduce(self._by_slot(place) >= 0, axis=0, dtype=np.int64)

    def _by_slot(self, place: np.ndarray) -> np.ndarray:
        """Return the neighbours of places: (slots, k), since numpy is slow along short rows."""
        return np.ascontiguousarray(self.node.take(place, axis=0).T)

    def without(self, place: np.ndarray, *others: np.ndarray) -> np.ndarray:
        """Return the neighbours of places, with NONE instead of other nodes: (k, slots)."""
        node = self.node.take(place, axis=0)
        for other in others:
            node[node == other[:, None]] = NONE
        return node

    def add(self, place: np.ndarray, node: np.ndarray) -> None:
        """Add a neighbour to each place, which has a free slot."""
        free = self._by_slot(place) < 0
        slot = np.where(free, self._numbers, len(self._numbers)).min(axis=0)
        self.node[place, slot] = node
        for flags in self.flags.values():
            flags[place, slot] = 0

    def begin(self, place: np.ndarray, nodes: np.ndarray) -> None:
        """Give each place these neighbours (k, m) and no others."""
        for array in (self.tenancy, *self.flags.values()):
            array[place] = 0
        self.node[place] = NONE
        self.node[place, : nodes.shape[1]] = nodes

    def mark(self, flag: str, place: np.ndarray, node: np.ndarray, value: int) -> None:
        """Set a flag of nodes where they are neighbours."""
        slot = self.slot(place, node)
        here = np.flatnonzero(slot >= 0)
        self.flags[flag][place[here], slot[here]] = value

    def drop(self, place: np.ndarray, node: np.ndarray) -> None:
        """Remove a neighbour of each place."""
        slot = self.slot(place, node)
        self.node[place, slot] = NONE
        self.tenancy[place, slot] += 1
