"""Checks that the links of hosts form trees, and the area of a reconfiguration, on many rings.

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

    The result is -1 for an absent host (not `here`), and for a host whose ancestors do not lead to
    a root; `parent` is `NONE` at a root.
    """
    # an absent host is its own parent: a circle, therefore depth -1
    return arrays.depths(np.where(here, parent, np.arange(len(parent))), circles=True)


def links_changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the links that exist in only one of two trees, as pairs of hosts: int64, shape (k, 2).

    A tree is the parent of each host; `NONE` for a root and for an absent host.
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
    """Return on each ring the number of hosts in the smallest subtree that joins given hosts.

    In the tree 1-2, 1-3, 3-4 the hosts 2 and 4 are joined by the subtree of the hosts 1 to 4.  A
    host may occur several times in `ends`.
    """
    ends = distinct(ends)
    total = np.bincount(ring_of[ends], minlength=rings)
    below = np.zeros(len(parent), dtype=np.int64)  # listed hosts in the subtree of each host
    below[ends] = 1
    for level in range(int(depth[ends].max(initial=0)), 0, -1):
        there = np.flatnonzero((depth == level) & (below > 0))
        np.add.at(below, parent[there], below[there])
    # A host is in the joining subtree if its own subtree contains some listed hosts but not all.
    # If it contains all, only the lowest such host counts.
    some = np.flatnonzero((below > 0) & (below < total[ring_of]))
    return np.bincount(ring_of[some], minlength=rings) + (total > 0)
