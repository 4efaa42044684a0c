"""The neighbours of each place: HyParView's active view, with Plumtree's flags.

HyParView adds and drops neighbours; Plumtree makes them eager or lazy.  A new neighbour is eager.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import NONE


@dataclass
class Neighbours:
    """The neighbours of places; arrays have the shape (places, slots)."""

    node: np.ndarray  # int32; NONE in a free slot
    lazy: np.ndarray  # bool
    #: int16: the number of nodes that have left the slot; what they announced is forgotten.
    tenancy: np.ndarray = field(init=False)
    duplicates: np.ndarray = field(init=False)  # int16: the copies that came in vain

    def __post_init__(self) -> None:
        self.tenancy, self.duplicates = (np.zeros(self.node.shape, np.int16) for _ in range(2))

    def slot(self, place: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the slots of nodes at places; NONE for a node that is no neighbour."""
        here = self.node[place] == node[:, None]
        return np.where(here.any(axis=1), here.argmax(axis=1), NONE)

    def has(self, place: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for nodes that are neighbours of places."""
        return (self.node[place] == node[:, None]).any(axis=1)

    def count(self, place: np.ndarray) -> np.ndarray:
        """Return the number of neighbours of each place."""
        return np.count_nonzero(self.node[place] >= 0, axis=1)

    def without(self, place: np.ndarray, *others: np.ndarray) -> np.ndarray:
        """Return the neighbours of places, with NONE instead of other nodes: (k, slots)."""
        node = self.node[place]
        for other in others:
            node[node == other[:, None]] = NONE
        return node

    def add(self, place: np.ndarray, node: np.ndarray) -> None:
        """Add an eager neighbour to each place, which has a free slot."""
        slot = (self.node[place] < 0).argmax(axis=1)
        self.node[place, slot], self.lazy[place, slot] = node, False
        self.duplicates[place, slot] = 0

    def drop(self, place: np.ndarray, node: np.ndarray) -> None:
        """Remove a neighbour of each place."""
        slot = self.slot(place, node)
        self.node[place, slot] = NONE
        self.tenancy[place, slot] += 1

    def set_lazy(self, place: np.ndarray, node: np.ndarray, lazy: bool) -> None:
        """Make nodes lazy or eager where they are neighbours."""
        slot = self.slot(place, node)
        here = np.flatnonzero(slot >= 0)
        self.lazy[place[here], slot[here]] = lazy
