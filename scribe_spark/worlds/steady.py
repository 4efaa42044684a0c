"""The steady state of a world under churn: the rounds over which figures average.

A world starts with perfect tables and trees, and with all members alive.  Under churn the tables
degrade for a while, so a mean over all rounds would depend on the number of rounds.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

#: The window of the moving mean in rounds, and the maximal relative difference to the mean of the
#: later rounds.
WINDOW, TOLERANCE = 10, 0.02


def steady_from(
    values: Sequence[float] | np.ndarray, window: int = WINDOW, tolerance: float = TOLERANCE
) -> int | None:
    """Return the index of the first value of the steady state.

    The steady state begins at the first value from which the mean of `window` values differs by
    less than `tolerance` (relative) from the mean of all later values; there must be at least
    `window` later values.  The result is None if the values do not settle.  NaN, for rounds without
    the measure, is ignored.

    Examples
    --------
    >>> steady_from([9, 8, 5, 5, 5, 5, 5, 5], window=2)
    2
    >>> steady_from(range(8), window=2) is None
    True
    """
    line = np.asarray(values, dtype=float)
    for begin in range(len(line) - 2 * window + 1):
        mean, later = _mean(line[begin : begin + window]), _mean(line[begin + window :])
        if mean == later or abs(mean - later) < tolerance * abs(later):
            return begin
    return None


def first_steady(lines: Iterable[Sequence[float] | np.ndarray]) -> int | None:
    """Return the index from which several series are steady; None if one never is."""
    begins = [steady_from(line) for line in lines]
    return None if None in begins else max((one for one in begins if one is not None), default=0)


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if len(known) else float("nan")
