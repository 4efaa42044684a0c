"""Limits of the number of children of nodes (docs/variants.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ChildLimits:
    """The limits of nodes, over all groups.

    Attributes
    ----------
    limit : int
        A node with more children is overloaded, unless it has a limit of its own.
    capacities : ndarray of int64, optional
        Every node's own limit, by the node's number.
    """

    limit: int
    capacities: np.ndarray | None = None

    def of(self, number: np.ndarray) -> np.ndarray:
        """Return the limits of nodes, given by their numbers."""
        if self.capacities is None:
            return np.full(len(number), self.limit)
        return self.capacities[number]
