"""One Pastry ring for each group, stored one after the other.

A *place* is a node in the ring of a group.  Places are numbered by group, and within a group in the
order of nodeIds.  So code for the nodes of one ring, given by position, also works for the places
of all rings.

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
    """The places of all groups' rings."""

    begins: np.ndarray  # (G + 1,): the first place of each group, and the number of all places
    position: np.ndarray  # (M,): the overlay position of each place's node

    @classmethod
    def of(cls, group: np.ndarray, position: np.ndarray, groups: int, size: int) -> GroupRings:
        """Return the rings of members, given in any order; repetitions are ignored."""
        member = distinct(group * size + position)
        begins = np.searchsorted(member, np.arange(groups + 1) * size)
        return cls(begins, member % size)

    @property
    def group(self) -> np.ndarray:
        """The group of each place."""
        return row_numbers(self.begins)

    def find(self, group: np.ndarray, position: np.ndarray, size: int) -> np.ndarray:
        """Return the places of members: int64."""
        return np.searchsorted(self.group * size + self.position, group * size + position)


def place_bounds(begins: np.ndarray, buckets: int) -> np.ndarray:
    """Return bounds of buckets of whole groups with about equal sizes: int64, shape (B + 1,)."""
    wanted = np.arange(1, buckets) * begins[-1] // buckets
    return np.r_[0, begins[np.searchsorted(begins, wanted)], begins[-1]].astype(np.int64)


def known_of_places(
    ring: Ring, begins: np.ndarray, first: int, last: int, kernel: Kernel, b: int, half: int
) -> States:
    """Return perfect tables and leaf sets of a range of places, in their groups' rings.

    The ring has all places; the range consists of whole groups.
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
    """Return the number of entries of each kind that places keep: int64."""
    larger, smaller = states.leaves[:, : states.half], states.leaves[:, states.half :]
    # in a small ring, a leaf may be on both sides
    again = (smaller[:, :, None] == larger[:, None]).any(axis=2)
    return {
        "routing table": (states.cells >= 0).sum(axis=(1, 2)),
        "leaf set": (larger >= 0).sum(axis=1) + ((smaller >= 0) & ~again).sum(axis=1),
    }


def told(states: States) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of places of which the first announces itself to the second, each once."""
    cells = states.cells
    entries = cells.reshape(len(cells), cells.shape[1] * cells.shape[2])
    both = np.concatenate([entries, states.leaves], axis=1)
    both.sort(axis=1)
    fresh = both >= 0
    fresh[:, 1:] &= both[:, 1:] != both[:, :-1]
    teller, column = np.nonzero(fresh)
    return states.own[teller], both[teller, column].astype(np.int64)
