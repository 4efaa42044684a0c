"""The split of clusters into halves: rule V5."""

from __future__ import annotations

import numpy as np

#: The most numbers in an array of pairs of centres and members.
_NUMBERS = 1 << 22


def halves(trip: np.ndarray) -> np.ndarray:
    """Return the members of the first halves of clusters, from their round trips (c, m, m).

    The halves are those whose larger radius is the least.  For centres a and b, it is the least r
    such that every member is within r of a or b, and those within r of only one fit into its half:
    it follows from sorted distances, without a search of all halves.
    """
    count, m, _ = trip.shape
    step = max(1, _NUMBERS // m**3)
    if count > step:
        return np.concatenate([halves(trip[at : at + step]) for at in range(0, count, step)])
    first, row = (m + 1) // 2, np.arange(count)
    radius = _radii(trip, first)
    a, b = np.divmod(radius.reshape(count, m * m).argmin(axis=1), m)
    radius, to_a, to_b = radius[row, a, b, None], trip[row, a], trip[row, b]
    side = np.where(to_b > radius, 0, np.where(to_a > radius, 2, 1))
    side[row, a], side[row, b] = -1, 3
    order = np.lexsort((to_a - to_b, side), axis=1)  # stable, so equal ones are in order
    chosen = np.zeros((count, m), dtype=bool)
    np.put_along_axis(chosen, order[:, :first], True, axis=1)
    return chosen


def _radii(trip: np.ndarray, first: int) -> np.ndarray:
    """Return the least larger radius for each two centres: int64, shape (c, m, m).

    The half of the centre a (second axis) has `first` members.
    """
    m = trip.shape[1]
    radius = np.minimum(trip[:, :, None, :], trip[:, None, :, :]).max(axis=3)
    far_from_b = _nth_without(trip, first - 1).transpose(0, 2, 1)
    far_from_a = _nth_without(trip, m - first - 1)
    radius = np.maximum(radius, np.maximum(far_from_a, far_from_b))
    radius[:, *np.diag_indices(m)] = np.iinfo(np.int64).max
    return radius


def _nth_without(trip: np.ndarray, n: int) -> np.ndarray:
    """Return the n-th longest trip (from 0) of each member to all but one other: (c, m, m).

    Element (i, j) is that of member i without member j.
    """
    longest = -np.sort(-trip, axis=2)  # its trip to itself comes last
    nth, next_one = longest[:, :, n, None], longest[:, :, n + 1, None]
    return np.where(trip >= nth, next_one, nth)
