"""The tree of the spare group, whose members have room: rule L8.

The tree consists of Pastry's routes from the spare group's members to its id, as Scribe's trees do.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, expand, offsets_of
from scribe_spark.systems.splitstream.forest import Forest
from scribe_spark.systems.splitstream.routes import Routes


class SpareTree:
    """The trees of the spare groups of all channels; rows are those of the forest.

    Attributes
    ----------
    parent : ndarray of int64, shape (m,)
        The next node of the channel on the route to the spare id; NONE: none.
    inside : ndarray of bool, shape (m,)
        True for the nodes in the tree.
    """

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self.inside = np.zeros(len(forest), dtype=bool)

    def route(self, routes: Routes) -> None:
        """Find the parents anew, after nodes have entered the channel."""
        forest = self._forest
        rows = np.flatnonzero(forest.alive & forest.entered & ~forest.spare_root)
        to = np.full(len(rows), forest.stripes)
        self.parent = np.full(len(forest), NONE, dtype=np.int64)
        self.parent[rows] = routes.entries(forest, rows, to, rows)[0]
        rows = np.flatnonzero(self.parent >= 0)
        self._children = rows[np.argsort(self.parent[rows], kind="stable")]
        self._offsets = offsets_of(np.bincount(self.parent[rows], minlength=len(forest)))

    def children(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the children in the tree: the index in `rows`, and the child; ascending."""
        row, place = expand(self._offsets[rows], self._offsets[rows + 1])
        child = self._children[place]
        here = self.inside[child]
        return row[here], child[here]

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        """Return at least the numbers of children."""
        return self._offsets[rows + 1] - self._offsets[rows]

    def update(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Let nodes join and leave the tree.

        Returns
        -------
        rows : ndarray of int64
            The nodes whose parent in the tree has changed.
        old, new : ndarray of int64
            The positions of their parents; NONE: none.
        """
        forest = self._forest
        here = forest.alive & forest.entered
        inside = here & forest.spare_root
        below = np.flatnonzero(here & (forest.degree < forest.bound))
        while len(below):
            inside[below] = True
            above = distinct(self.parent[below])
            above = above[above >= 0]
            below = above[~inside[above]]
        self.inside = inside
        has = inside & (self.parent >= 0)
        new = np.where(has, forest.node[self.parent], NONE)
        rows = np.flatnonzero(here & (new != forest.spare_parent))
        old = forest.spare_parent[rows]
        forest.spare_parent[rows] = new[rows]
        return rows, old, new[rows]
