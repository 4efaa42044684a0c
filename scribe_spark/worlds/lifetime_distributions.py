"""Distributions of the lifetimes of nodes, in rounds: real numbers above 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv


@dataclass(frozen=True)
class Lifetimes:
    """Weibull-distributed lifetimes; with shape 1 they are exponential.

    Attributes
    ----------
    mean : float
        The mean in rounds.
    shape : float
        If below 1, nodes that have lived long will probably live longer, as measured in
        file-sharing networks.

    References
    ----------
    Stutzbach and Rejaie, "Understanding churn in peer-to-peer networks", IMC 2006.
    """

    mean: float
    shape: float = 1.0

    @property
    def scale(self) -> float:
        """The Weibull distribution's scale."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def lifetimes(self, uniform: np.ndarray) -> np.ndarray:
        """Return lifetimes of new nodes, from uniform numbers in [0, 1): float64."""
        return self.scale * (-np.log1p(-uniform)) ** (1 / self.shape)

    def remaining(self, uniform: np.ndarray) -> np.ndarray:
        """Return the remaining lifetimes of nodes that are already alive: float64.

        In a network with churn in equilibrium, the density of the remaining lifetime is P(lifetime
        > t) / mean (a renewal process).  For exponential lifetimes it equals that of new nodes.
        """
        return self.scale * gammaincinv(1 / self.shape, uniform) ** (1 / self.shape)
