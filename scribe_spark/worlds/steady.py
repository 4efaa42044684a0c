"""The steady state of a world under churn: the rounds of which its figures are taken.

A world begins with perfect tables and trees, and with members that are all there.  Under churn all
of them get worse for a while, so a mean over all rounds depends on how many are played.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

#: Rounds of a moving mean, and its share by which that of the rounds after it may differ.
WINDOW, TOLERANCE = 10, 0.02


def steady_from(
    values: Sequence[float] | np.ndarray, window: int = WINDOW, tolerance: float = TOLERANCE
) -> int | None:
    """Return the index of the first value of the steady state.

    The steady state begins with the first value such that the mean of `window` values from it on
    differs by less than `tolerance` from the mean of all values after these, of which there must be
    `window` at least.

    Parameters
    ----------
    values : sequence of float
        Round by round; NaN where a round does not have the measure, which is left out of means.

    Returns
    -------
    int or None
        None: the values do not settle.

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
    """Return the index from which several lines of values are steady; None if one never is."""
    begins = [steady_from(line) for line in lines]
    return None if None in begins else max((one for one in begins if one is not None), default=0)


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if len(known) else float("nan")
