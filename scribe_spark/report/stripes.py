"""Equal curves of a drawing: stripes of all their colours, and one entry of the legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: The length of a stripe, in widths of the line.
_LENGTH = 4

#: An entry of a legend: a label, and the looks of the lines that it names.
Entry = tuple[str, Sequence[Mapping[str, Any]]]


def equal_curves(points: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[list[int]]:
    """Return the indices of curves in groups of equal points; a curve without points is alone.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0]), np.array([5.0, np.nan])
    >>> equal_curves([(x, y), (x, x), (x.copy(), y.copy())])
    [[0, 2], [1]]
    """
    groups: list[list[int]] = []
    for number, of in enumerate(points):
        for group in groups:
            if _are_equal(points[group[0]], of):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _are_equal(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> bool:
    if not np.isfinite(one[1]).any():
        return False
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def striped(
    looks: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    """Return the looks of curves; equal curves get dashes that leave space for each other.

    Examples
    --------
    >>> [look["linestyle"] for look in striped([{"color": "r"}, {"color": "b"}], [[0, 1]])]
    [(0, (4, 4)), (4, (4, 4))]
    """
    found = [dict(look) for look in looks]
    for group in groups:
        for place, number in enumerate(group if len(group) > 1 else ()):
            dashes = (_LENGTH, _LENGTH * (len(group) - 1))
            # a positive offset begins within the pattern
            offset = _LENGTH * (-place % len(group))
            found[number]["linestyle"] = (offset, dashes)
    return found


def entries(
    labels: Sequence[str],
    looks: Sequence[Mapping[str, Any]],
    groups: Sequence[Sequence[int]],
) -> list[Entry]:
    """Return the entries of a legend, one for each group of equal curves.

    Examples
    --------
    >>> entries(["IP", "Scribe", "Naive"], [{}, {}, {}], [[0, 2], [1]])
    [('IP = Naive', [{}, {}]), ('Scribe', [{}])]
    """
    return [
        (" = ".join(labels[number] for number in group), [looks[number] for number in group])
        for group in groups
    ]
