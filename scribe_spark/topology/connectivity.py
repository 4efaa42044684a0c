"""The probability that a pure random graph is connected, and the time to draw a connected one.

Every pair of n routers is linked with probability p; all links are redrawn until the graph is
connected.  With large n or small p, this would practically never end.

References
----------
Gilbert, "Random graphs", Annals of Mathematical Statistics 30, 1959.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import gammaln

from scribe_spark.errors import InputError

#: The greatest mean number of pairs of routers to draw before all domains are connected: half a
#: minute's work.
MOST_DRAWS = 5_000_000_000

#: The constant cost of a domain's draw, in pairs.
_OVERHEAD = 5_000

#: Up to this many routers the probability is exact.
_EXACT = 300


def connected_probability(n: np.ndarray, p: float) -> np.ndarray:
    """Return the probability that graphs of n routers are connected if pairs are linked with `p`.

    It is exact for up to 300 routers.  For more, it is the probability that no router is isolated,
    as if routers were isolated independently of each other.  It is at least 1e-15.
    """
    isolated = n * np.exp((n - 1) * math.log1p(-p)) if p < 1 else np.zeros(len(n))
    exact = _exact(p)[np.minimum(n, _EXACT)]
    return np.maximum(np.where(n <= _EXACT, exact, np.exp(-isolated)), 1e-15)


@functools.lru_cache(maxsize=64)
def _exact(p: float) -> np.ndarray:
    """Return the probability for 0, 1, ..., 300 routers; a sum of positive terms, so it is
    accurate.

    Of n + 1 routers, put the last one aside.  The component of the first router among the others
    has k + 1 routers: k of n - 1 are chosen; they are connected with the first; at least one of the
    k + 1 has a link to the router put aside, and none has a link to the n - k - 1 others, which are
    connected with the router put aside.
    """
    connected = np.ones(_EXACT + 1)
    if p == 1:
        return connected
    unlinked, log_factorial = math.log1p(-p), gammaln(np.arange(_EXACT + 1) + 1)
    for n in range(1, _EXACT):
        k = np.arange(n)
        chosen = log_factorial[n - 1] - log_factorial[k] - log_factorial[n - 1 - k]
        apart = np.exp(chosen + (k + 1) * (n - k - 1) * unlinked)
        linked = -np.expm1((k + 1) * unlinked)
        connected[n + 1] = (apart * linked * connected[k + 1] * connected[n - k]).sum()
    return connected


def check_connectable(sizes: np.ndarray, p: float, field: str) -> None:
    """Refuse a probability `p` > 0 with which the search for connected domains takes too long.

    The message names the setting `field`, and a sufficient probability.
    """
    if _draws(sizes, p) <= MOST_DRAWS:
        return
    # find the least sufficient probability, to one part in a hundred; 1 is always sufficient
    low, high = p, 1.0
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _draws(sizes, middle) > MOST_DRAWS else (low, middle)
    enough = min(1.0, math.ceil(high * 1000) / 1000)
    remedy = (
        f"practically never gives a connected domain of {sizes.max():,} routers; "
        f"raise it to {enough:g} or more, or make domains smaller"
    )
    raise InputError(field, p, remedy)


def _draws(sizes: np.ndarray, p: float) -> float:
    """Return the mean number of pairs to draw until every domain is connected."""
    pairs = sizes * (sizes - 1) / 2 + _OVERHEAD
    return float((pairs / connected_probability(sizes, p)).sum())
