"""The nodes nearest to groupIds, as nodes know them from their leaf sets."""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.pastry.closeness import Distances, distances
from scribe_spark.scribe.scribe import Scribe


def rank(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Count the nodes in each node's leaf set that are nearer to the groupId than itself: int64."""
    leaves, distance = _leaves(scribe, group, node)
    own = _distances(scribe, group, node[:, None])
    return np.count_nonzero((leaves >= 0) & distance.closer_than(own), axis=1)


def leaves_by_nearness(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return leaf sets sorted by distance to the groupId, :data:`NONE` last: int64, (n, l)."""
    leaves, distance = _leaves(scribe, group, node)
    order = np.lexsort((distance.position, distance.lo, distance.hi, leaves < 0), axis=1)
    return np.take_along_axis(leaves, order, axis=1)


def nearness_order(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return the indices that sort pairs by group, and by the node's distance to the groupId."""
    distance = _distances(scribe, group, node[:, None])
    return np.lexsort((node, distance.lo[:, 0], distance.hi[:, 0], group))


def _leaves(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, Distances]:
    states = scribe.states
    leaves = states.distinct_leaves(node - states.first).astype(np.int64)
    leaves[leaves < 0] = NONE
    return leaves, _distances(scribe, group, leaves)


def _distances(scribe: Scribe, group: np.ndarray, candidates: np.ndarray) -> Distances:
    return distances(scribe.ring, scribe.groups.keys.take(group), candidates)
