"""Trees of hosts on many rings: whether they are trees, and the area of a reconfiguration.

References
----------
Costa and Frey, Sections 4.2.1 and 4.2.2.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.arrays import NONE, distinct


def depths(parent: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Return the number of links from each host up to the root of its tree.

    Parameters
    ----------
    parent : ndarray of int64, shape (hosts,)
        The parent of each host, `NONE` at a root.
    here : ndarray of bool, shape (hosts,)
        Which hosts there are.

    Returns
    -------
    ndarray of int64, shape (hosts,)
        -1 for a host that does not come to a root of its tree, and for one that is not there.
    """
    # who is not there is in a circle of its own
    return arrays.depths(np.where(here, parent, np.arange(len(parent))), circles=True)


def links_changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The links, as pairs of ends, that one tree has and the other has not: int64, shape (k, 2).

    Parameters
    ----------
    before, after : ndarray of int64, shape (hosts,)
        Parents; `NONE` at a root, and for a host that is not there.
    """
    child, hosts = np.flatnonzero(before != after), len(before)
    codes = []
    for parent in (before[child], after[child]):
        some = parent != NONE
        low, high = np.minimum(child, parent)[some], np.maximum(child, parent)[some]
        codes.append(low * hosts + high)
    changed = np.setxor1d(codes[0], codes[1], assume_unique=True)
    return np.stack([changed // hosts, changed % hosts], axis=1)


def areas(
    parent: np.ndarray, depth: np.ndarray, ends: np.ndarray, ring_of: np.ndarray, rings: int
) -> np.ndarray:
    """Return how many hosts the subtree has that joins the ends of links, on each ring.

    Parameters
    ----------
    parent, depth : ndarray of int64, shape (hosts,)
        The tree.
    ends : ndarray of int64
        Hosts in it, any number of times.
    ring_of : ndarray of int64, shape (hosts,)
        The ring of each host.
    rings : int

    Returns
    -------
    ndarray of int64, shape (rings,)
    """
    ends = distinct(ends)
    total = np.bincount(ring_of[ends], minlength=rings)
    below = np.zeros(len(parent), dtype=np.int64)  # ends at a host and below it
    below[ends] = 1
    for level in range(int(depth[ends].max(initial=0)), 0, -1):
        there = np.flatnonzero((depth == level) & (below > 0))
        np.add.at(below, parent[there], below[there])
    # hosts with some of the ends below them are on a path, those with all of them only if they are
    # the lowest such host
    some = np.flatnonzero((below > 0) & (below < total[ring_of]))
    return np.bincount(ring_of[some], minlength=rings) + (total > 0)
