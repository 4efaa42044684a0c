"""Seeds of random cases: some in each run of the tests, all in ``make test-slow``."""

from collections.abc import Sequence
from typing import Any

import pytest


def seeds(of: Sequence[Any], in_each_run: int) -> list[Any]:
    """Return seeds, or tuples of them and others, as parameters; all but the first are slow."""
    rest = (one if isinstance(one, tuple) else (one,) for one in of[in_each_run:])
    slow = (pytest.param(*one, marks=pytest.mark.slow) for one in rest)
    return [*of[:in_each_run], *slow]


#: Buckets and cases: one bucket for all nodes, two, and many of few nodes.
PLAYS = [
    (7, range(50)),
    pytest.param(1, range(220), marks=pytest.mark.slow),
    pytest.param(2, range(220), marks=pytest.mark.slow),
    pytest.param(7, range(50, 220), marks=pytest.mark.slow),
]
