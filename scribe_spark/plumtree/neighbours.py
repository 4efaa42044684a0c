"""The neighbours of each place: HyParView's active view, with Plumtree's flags.

HyParView adds and drops neighbours; Plumtree makes them eager or lazy.  A new neighbour is eager.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.clock import Slots


class Neighbours(Slots):
    """The neighbours of places, with flags by place and slot."""

    def __init__(self, node: np.ndarray) -> None:
        super().__init__(node)
        self.lazy = np.zeros(node.shape, dtype=bool)
        self.duplicates = np.zeros(node.shape, dtype=np.int16)  # the copies that came in vain

    def add(self, place: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Add an eager neighbour to each place, which has a free slot; return the slots."""
        slot = super().add(place, node)
        self.lazy[place, slot], self.duplicates[place, slot] = False, 0
        return slot

    def set_lazy(self, place: np.ndarray, node: np.ndarray, lazy: bool) -> None:
        """Make nodes lazy or eager where they are neighbours."""
        slot = self.slot(place, node)
        here = np.flatnonzero(slot >= 0)
        self.lazy[place[here], slot[here]] = lazy
