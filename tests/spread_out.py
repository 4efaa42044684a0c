"""A few nodes far apart among so many that the keys of groups and two nodes come near to 2**63."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.key_limits import MOST_KEYS
from scribe_spark.engine.facts import Ring

_MOST_NODES = 2**31 - 1


class FarApart:
    """An array of which a few numbers are known: to ask for another one fails."""

    def __init__(self, at: np.ndarray, values: np.ndarray, size: int) -> None:
        self._at, self._values, self._size = at, values, size

    def __len__(self) -> int:
        return self._size

    def all(self) -> bool:
        """Return True if all known numbers are true."""
        return bool(self._values.all())

    def __getitem__(self, position: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(self._at, position), len(self._at) - 1)
        assert (self._at[place] == position).all(), "nobody is there"
        return self._values[place]


@dataclass(frozen=True)
class SpreadOut:
    """Nodes 0 to n - 1 at ascending positions; the last node has the last position."""

    at: np.ndarray
    size: int  # the number of positions

    @classmethod
    def of(cls, nodes: int, groups: int, times: int = 1) -> SpreadOut:
        """Return the most positions for keys of groups, two nodes, and `times` more numbers."""
        size = min(math.isqrt(MOST_KEYS // max(groups * times, 1)), _MOST_NODES)
        return cls(np.linspace(0, size - 1, nodes).astype(np.int64), size)

    def ring(self, ring: Ring) -> Ring:
        """Return the nodes of a ring at their positions."""
        return Ring(*(FarApart(self.at, part, self.size) for part in vars(ring).values()))

    def positions(self, node: np.ndarray) -> np.ndarray:
        """Return the positions of nodes; negative numbers stay."""
        return np.where(node >= 0, self.at[node], node)

    def nodes(self, position: np.ndarray) -> np.ndarray:
        """Return the nodes at positions; negative numbers stay."""
        return np.where(position >= 0, np.searchsorted(self.at, position), position)
