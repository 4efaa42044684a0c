"""Leaf sets: the nodes next to a node on the ring, on either side.

References
----------
JSAC 2002, Section II: "the set of nodes with the l/2 numerically closest larger nodeIds, and the
l/2 nodes with numerically closest smaller nodeIds, relative to the present node's nodeId".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import row_values


@dataclass(frozen=True)
class LeafSets:
    """The leaf sets of n nodes, each of any length; sides may differ and be empty.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        Where each node's leaves begin in `leaves`.
    leaves : ndarray of int64
        Positions in a `Ring`; of each node clockwise, from its farthest smaller leaf to its
        farthest larger one, each leaf once and without the node itself.
    smaller : ndarray of int64, shape (n,)
        How many leaves of each node lie counter-clockwise of it: the first ones.
    covers_ring : ndarray of bool, shape (n,)
        Whether every key is within the leaf set's span, see :func:`covers_ring`.
    """

    offsets: np.ndarray
    leaves: np.ndarray
    smaller: np.ndarray
    covers_ring: np.ndarray

    def __len__(self) -> int:
        return len(self.smaller)

    def take(self, nodes: slice) -> LeafSets:
        """The leaf sets of a slice of the nodes."""
        offsets, leaves = row_values(self.offsets, nodes)
        return LeafSets(offsets, self.leaves[leaves], self.smaller[nodes], self.covers_ring[nodes])


def covers_ring(larger: np.ndarray, smaller: np.ndarray, size: int) -> np.ndarray:
    """Return whether leaf sets cover the ring, so that every key is within their span: bool.

    An empty one does, and one whose two sides meet.  A short side is no sign of it: who has lost
    the leaves of one side does not know what is there.

    Parameters
    ----------
    larger, smaller : ndarray of int64
        Places from the node to its farthest leaf on each side; 0 where a side is empty.
    size : int
        Places on the ring.
    """
    together = larger + smaller
    return (together == 0) | (together >= size)


def covers_by_length(lengths: np.ndarray, leaf_set: int) -> np.ndarray:
    """Return whether leaf sets of such lengths cover the ring, as far as their lengths tell.

    Fewer than l leaves are all other nodes there are: a node that knew of more would have more.
    With l leaves there may be more nodes; who knows that there are not (perfect tables of l + 1
    nodes do) says so itself.  So does who drops dead leaves: a leaf set that lost one is short
    without covering the ring.
    """
    return lengths < leaf_set
