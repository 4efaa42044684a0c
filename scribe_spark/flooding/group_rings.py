"""A Pastry ring for each group, all of them one after the other.

A *place* is a node in a ring of a group: places are numbered by group, and in a group in the order
of nodeIds.  So what is written for the nodes of one ring, by their positions, does for the places
of all rings at once.

References
----------
docs/rules.md, F1, F6 and F7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, row_numbers
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.leaf_set_order import ring_leaves
from scribe_spark.pastry.nearest_entries import nearest_entries
from scribe_spark.pastry.states import States
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class GroupRings:
    """The places of all groups' rings.

    Attributes
    ----------
    begins : ndarray of int64, shape (G + 1,)
        The first place of each group, and the number of all.
    position : ndarray of int64, shape (M,)
        The position of each place's node in the overlay's ring.
    """

    begins: np.ndarray
    position: np.ndarray

    @classmethod
    def of(cls, group: np.ndarray, position: np.ndarray, groups: int, size: int) -> GroupRings:
        """Return the rings of groups' members.

        Parameters
        ----------
        group, position : ndarray of int64
            Members, in any order; a second mention changes nothing.
        groups, size : int
            How many groups and nodes there are.
        """
        member = distinct(group * size + position)
        begins = np.searchsorted(member, np.arange(groups + 1) * size)
        return cls(begins, member % size)

    @property
    def group(self) -> np.ndarray:
        """The group of each place."""
        return row_numbers(self.begins)

    def find(self, group: np.ndarray, position: np.ndarray, size: int) -> np.ndarray:
        """Return the places of some nodes that are there: int64."""
        return np.searchsorted(self.group * size + self.position, group * size + position)


def place_bounds(begins: np.ndarray, buckets: int) -> np.ndarray:
    """Return bounds of buckets of whole groups, about as large as one another: int64, (B + 1,)."""
    wanted = np.arange(1, buckets) * begins[-1] // buckets
    return np.r_[0, begins[np.searchsorted(begins, wanted)], begins[-1]].astype(np.int64)


def known_of_places(
    ring: Ring, begins: np.ndarray, first: int, last: int, kernel: Kernel, b: int, half: int
) -> States:
    """Return what some places know: perfect tables and leaf sets of their groups' rings.

    Parameters
    ----------
    ring : Ring
        All places; routers are indices.
    begins : ndarray of int64
        Where the groups' rings begin, and the number of places.
    first, last : int
        The first place, and that after the last; whole groups.
    half : int
        l / 2.
    """
    own = begins[(begins > first) & (begins < last)] - first
    rows = nearest_entries(ring.take(slice(first, last)), 0, kernel, b, own)
    cells = np.full((last - first, max(1, len(rows)), 2**b), NONE, dtype=np.int32)
    for number, row in enumerate(rows):
        cells[:, number] = np.where(row >= 0, row + np.int32(first), np.int32(NONE))
    place = np.arange(first, last)
    of_group = np.searchsorted(begins, place, side="right") - 1
    leaves = ring_leaves(place, half, np.diff(begins)[of_group], begins[of_group])
    return States(ring, place, leaves, cells)


def kept_of(states: States) -> dict[str, np.ndarray]:
    """Return how many entries of each kind some places keep: int64."""
    larger, smaller = states.leaves[:, : states.half], states.leaves[:, states.half :]
    again = (smaller[:, :, None] == larger[:, None]).any(axis=2)  # in a small ring
    return {
        "routing table": (states.cells >= 0).sum(axis=(1, 2)),
        "leaf set": (larger >= 0).sum(axis=1) + ((smaller >= 0) & ~again).sum(axis=1),
    }


def told(states: States) -> tuple[np.ndarray, np.ndarray]:
    """Return whom each place tells of itself: those in its routing table and leaf set, once each.

    Returns
    -------
    teller, place : ndarray of int64
    """
    cells = states.cells
    entries = cells.reshape(len(cells), cells.shape[1] * cells.shape[2])
    both = np.concatenate([entries, states.leaves], axis=1)
    both.sort(axis=1)
    fresh = both >= 0
    fresh[:, 1:] &= both[:, 1:] != both[:, :-1]
    teller, column = np.nonzero(fresh)
    return states.own[teller], both[teller, column].astype(np.int64)
