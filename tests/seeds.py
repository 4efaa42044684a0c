"""Seeds of random cases: some in each run of the tests, all in ``make test-slow``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(of: Sequence[int], in_each_run: int) -> list[Any]:
    """Return seeds as parameters of a test, of which all but the first are slow tests."""
    slow = (pytest.param(seed, marks=pytest.mark.slow) for seed in of[in_each_run:])
    return [*of[:in_each_run], *slow]
