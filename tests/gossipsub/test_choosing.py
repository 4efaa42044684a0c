"""Choosing by keyed draws, of few rows and of many."""

from __future__ import annotations

import numpy as np
import pytest

from scribe_spark.gossipsub import choosing


@pytest.mark.parametrize(("rows", "groups"), [(500, 40), (200_000, 9_000), (200_000, 3)])
def test_the_least_of_each_are_chosen_in_order(rows, groups):
    """Groups of all sizes, some that take none or more than they have; many equal draws."""
    random = np.random.default_rng(rows + groups)
    of = random.integers(0, groups, rows)
    bits = random.integers(0, 2**64, rows, dtype=np.uint64)
    bits[::7] = bits[0]
    bits[1::50] = 2**64 - 1
    count = random.integers(0, 2 * rows // groups + 1, groups)
    count[::5] = random.integers(0, 8, len(count[::5]))
    order = np.lexsort((bits, of))
    place = np.arange(rows) - np.searchsorted(of[order], of[order])
    expected = order[place < count[of[order]]]
    assert choosing.least(of, bits, count).tolist() == expected.tolist()
