"""Seeds of random cases: some in each run of the tests, all in ``make test-slow``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(of: Sequence[int], in_each_run: int) -> list[Any]:
    """Return seeds as parameters of a test, of which all but the first are slow tests."""
    slow = (pytest.param(seed, marks=pytest.mark.slow) for seed in of[in_each_run:])
    return [*of[:in_each_run], *slow]


#: Buckets and cases: one bucket for all nodes, two, and many of few nodes.
PLAYS = [
    (7, range(50)),
    pytest.param(1, range(220), marks=pytest.mark.slow),
    pytest.param(2, range(220), marks=pytest.mark.slow),
    pytest.param(7, range(50, 220), marks=pytest.mark.slow),
]
