"""Hosts find their parents by asking who owns the ancestors of their topmost keys.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (look-ups).
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Asked, Climbs, Parents
from scribe_spark.reference_tree.tree import ReferenceTree


def climbs_from(rings: Rings, rows: np.ndarray, asker: np.ndarray) -> Climbs:
    """Return new searches for the parents of the hosts in given rows of `rings`."""
    nobody, level = np.full(len(asker), NONE, dtype=np.int64), rings.depth[rows] - 1
    ring, topmost = rings.ring_of(rows), rings.topmost[rows]
    return Climbs(asker, ring, topmost, level, nobody, nobody, np.zeros_like(nobody))


def climb(
    tree: ReferenceTree, rings: Rings, searches: Climbs, asked: list[Asked] | None = None
) -> tuple[Parents, Climbs]:
    """Look up the owners of ancestors, until a key is the topmost key of its owner.

    The result is the parents of searches that have ended, and the searches whose next key has no
    known owner in `rings`.  Look-ups are appended to `asked`.
    """
    n = len(searches)
    paths, _ = tree.paths(searches.topmost)
    level, above, below, lookups = (
        column.copy()
        for column in (searches.level, searches.above, searches.below, searches.lookups)
    )
    parent = np.full(n, NONE, dtype=np.int64)
    away = np.zeros(n, dtype=bool)
    rows = np.flatnonzero(level >= 0)
    while len(rows):
        key = paths[level[rows] * n + rows]
        known_here = rings.is_known(key)
        away[rows[~known_here]] = True
        rows, key = rows[known_here], key[known_here]
        owner_row = rings.owner(searches.ring[rows], key)
        owner = rings.node[owner_row]
        is_new = (owner != above[rows]) & (owner != below[rows])
        lookups[rows] += is_new
        if asked is not None:
            asked.append(Asked(searches.asker[rows[is_new]], key[is_new], owner[is_new]))
        is_above = key > searches.topmost[rows]
        above[rows[is_above]], below[rows[~is_above]] = owner[is_above], owner[~is_above]
        found = rings.topmost[owner_row] == key
        parent[rows[found]] = owner[found]
        rows = rows[~found]
        level[rows] -= 1
    ended = ~away
    after = Climbs(searches.asker, searches.ring, searches.topmost, level, above, below, lookups)
    found = Parents(searches.asker, searches.ring, parent, lookups)
    return found.take(ended), after.take(away)
