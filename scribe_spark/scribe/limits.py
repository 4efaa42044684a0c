"""Limits on the number of children of nodes (docs/variants.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ChildLimits:
    """The maximal number of children of nodes over all groups, by node number with `capacities`."""

    limit: int
    capacities: np.ndarray | None = None

    def of(self, number: np.ndarray) -> np.ndarray:
        """Return the limits of nodes given by their numbers: int64."""
        if self.capacities is None:
            return np.full(len(number), self.limit)
        return self.capacities[number]
