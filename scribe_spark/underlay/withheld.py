"""The nodes that forward no copies of publications.

Such a node takes part in trees and meshes as every other one.  It sends the publications of its
own, but no copy of another node's; perhaps no announcement, either.

Rule: docs/rules.md, N6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import find_sorted
from scribe_spark.runtime.distribute import discard_arrays, open_array


@dataclass(frozen=True)
class Withheld:
    """The nodes that withhold copies: drawn ones, or those of a list; picklable.

    Attributes
    ----------
    seed : int
        The key of the draws.
    share : float
        The share of all nodes that withhold.
    nodes : str or None
        The name of the distributed array with the numbers of the nodes that withhold, ascending.
    announcements : bool
        True if the nodes also withhold announcements of other nodes' publications.
    """

    seed: int
    share: float = 0.0
    nodes: str | None = None
    announcements: bool = False

    def of_nodes(self, node: np.ndarray) -> np.ndarray:
        """Return True for the numbers of nodes that withhold copies."""
        if self.nodes is not None:
            return find_sorted(open_array(self.nodes), node) >= 0
        drawn = draws.bits_np(self.seed, "withhold", node) >> np.uint64(11)
        return drawn * 2.0**-53 < self.share

    def release(self) -> None:
        """Free the disk space of the list of nodes."""
        if self.nodes is not None:
            discard_arrays(self.nodes)
