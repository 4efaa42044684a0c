"""Distributions of nodes' lifetimes in rounds, real numbers above 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv


@dataclass(frozen=True)
class Lifetimes:
    """Weibull-distributed lifetimes; of shape 1 they are exponential.

    Attributes
    ----------
    mean : float
        In rounds.
    shape : float
        Below 1, who has lived long will probably live longer, as measured in file sharing networks.

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
        """Lifetimes of nodes that enter, from uniform numbers in [0, 1): float64."""
        return self.scale * (-np.log1p(-uniform)) ** (1 / self.shape)

    def remaining(self, uniform: np.ndarray) -> np.ndarray:
        """Return the rest of the lifetimes of nodes that are found alive: float64.

        In a network that has churned for a long time the remaining lifetime has the density
        P(lifetime > t) / mean, the equilibrium of a renewal process.  Of exponential lifetimes it
        is that of new nodes.
        """
        return self.scale * gammaincinv(1 / self.shape, uniform) ** (1 / self.shape)
