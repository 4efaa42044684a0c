"""Nodes that forward nothing (N6), as kernels of tests know them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Named:
    """The nodes of some numbers; see `Withheld`."""

    numbers: tuple[int, ...]
    announcements: bool = False

    @classmethod
    def of(cls, numbers: Collection[int], announcements: bool = False) -> Named | None:
        """Return the nodes; None if there are none."""
        return cls(tuple(numbers), announcements) if numbers else None

    def of_nodes(self, node: np.ndarray) -> np.ndarray:
        """See `Withheld.of_nodes`."""
        return np.isin(node, self.numbers)
