"""Leaf sets: the nodes next to a node on the ring, on both sides.

References
----------
JSAC 2002, Section II: "the set of nodes with the l/2 numerically closest larger nodeIds, and the
l/2 nodes with numerically closest smaller nodeIds, relative to the present node's nodeId".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, row_values


@dataclass(frozen=True)
class LeafSets:
    """The leaf sets of n nodes, of any length; sides may have different lengths or be empty.

    The leaves of node i are ``leaves[offsets[i]:offsets[i + 1]]``, in clockwise order, from the
    farthest smaller leaf to the farthest larger one; each occurs once, without the node itself.
    """

    offsets: np.ndarray  # int64, shape (n + 1,)
    leaves: np.ndarray  # int64: positions in a `Ring`
    smaller: np.ndarray  # int64: the number of leaves that lie counter-clockwise of the node
    covers_ring: np.ndarray  # bool: every key is within the leaf set's span

    def __len__(self) -> int:
        return len(self.smaller)

    def take(self, nodes: slice) -> LeafSets:
        """Return the leaf sets of a slice of the nodes."""
        offsets, leaves = row_values(self.offsets, nodes)
        return LeafSets(offsets, self.leaves[leaves], self.smaller[nodes], self.covers_ring[nodes])


def covers_ring(larger: np.ndarray, smaller: np.ndarray, size: int) -> np.ndarray:
    """Return True for leaf sets that cover the ring, so that every key is within their span.

    These are empty leaf sets, and leaf sets whose two sides meet.  A short side alone does not
    cover the ring: a node that lost the leaves of one side does not know which nodes are there.
    The arguments are the distances to the farthest leaves (0 for an empty side) and the number of
    nodes.
    """
    together = larger + smaller
    return (together == 0) | (together >= size)


def covers_by_length(lengths: np.ndarray, leaf_set: int) -> np.ndarray:
    """Return True for leaf sets that cover the ring, judged by their lengths.

    A leaf set with fewer than l leaves contains all other nodes, because a node that knew more
    nodes would have more leaves.  The flag ``covers_ring`` says so explicitly for perfect tables of
    l + 1 nodes, and after dead leaves were dropped.
    """
    return lengths < leaf_set


def same_leaves(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return True for rows of leaves that contain the same nodes, in any order."""
    same = (one == other).all(axis=1)
    rest = np.flatnonzero(~same)
    same[rest] = (_as_sets(one[rest]) == _as_sets(other[rest])).all(axis=1)
    return same


def _as_sets(leaves: np.ndarray) -> np.ndarray:
    """Sort rows of leaves and keep each leaf once, :data:`NONE` first."""
    leaves = np.sort(leaves, axis=1)
    leaves[:, 1:][leaves[:, 1:] == leaves[:, :-1]] = NONE
    return np.sort(leaves, axis=1)


def ring_leaves(
    place: np.ndarray, half: int, nodes: np.ndarray | int, start: np.ndarray | int = 0
) -> np.ndarray:
    """Return the correct leaf sets, as in `States.leaves`: positions, int32, shape (n, l).

    A ring has `nodes` nodes and begins at the position `start`; both may differ from node to node.
    A side has fewer leaves than l / 2 (`half`) if there are fewer other nodes.
    """
    nodes, start = np.expand_dims(nodes, -1), np.expand_dims(start, -1)
    index, steps = place[:, None] - start, np.arange(1, half + 1)
    sides = [
        np.where(steps < nodes, start + (index + sign * steps) % nodes, NONE) for sign in (1, -1)
    ]
    return np.concatenate(sides, axis=1).astype(np.int32)
