"""Several topologies as one, against numbers worked out by hand."""

import numpy as np
import pytest

from scribe_spark.core.histogram import Histogram
from scribe_spark.report.comparison import (
    average_deviation,
    over_seeds,
)


@pytest.mark.parametrize(
    ("curves", "cumulative", "expected"),
    [
        # of counts every whole x counts: at 0: 4, 2, 6 (deviation 2); at 1: 1, 1, 1; at 2 and 3
        # nothing; at 4: 3, 0, 0 (deviation sqrt 3)
        ([{0: 4, 1: 1, 4: 3}, {0: 2, 1: 1}, {0: 6, 1: 1}], False, (2 + 3**0.5) / 5),
        # x of a cumulative curve runs evenly: with at most x 1 and 0 from 1 to 2; 1 and 2 from 2 to
        # 4; two values that differ by 1 have the sample standard deviation sqrt(1 / 2)
        ([{1: 1, 4: 2}, {2: 2}], True, 0.5**0.5),
        # 1 and 0 from 1 to 2; 1 and 3 from 2 to 4
        ([{1: 1, 4: 2}, {2: 3}], True, (0.5**0.5 + 2 * 2**0.5) / 3),
        *(([{0: 4, 7: 1}] * 3, cumulative, 0) for cumulative in (False, True)),
        # one value; a topology without a value counts 0
        *(([{2: 4}, {2: 6}], cumulative, 2**0.5) for cumulative in (False, True)),
        *(([{3: 2}, {}], cumulative, 2**0.5) for cumulative in (False, True)),
        # one topology has none, and so have empty ones
        *(([{0: 4}], False, None), ([{}, {}], False, None)),
    ],
)
def test_the_average_standard_deviation_of_curves(curves, cumulative, expected):
    read = [Histogram(np.array([*of], float), np.array([*of.values()], float)) for of in curves]
    found = average_deviation(read, cumulative)
    assert found == (None if expected is None else pytest.approx(expected))


def test_numbers():
    rows = [
        [{"name": "a", "value": 2, "paper": 4, "figure": "7"}, {"name": "b", "value": None}],
        [{"name": "a", "value": 4, "paper": 4, "figure": "7"}, {"name": "b", "value": 7.5}],
        [{"name": "a", "value": 9, "paper": 4, "figure": "7"}, {"name": "c", "value": None}],
    ]
    a, b, c = over_seeds(dict(enumerate(rows, start=1)))
    assert (a["value"], a["paper"], a["figure"]) == (5, 4, "7")
    assert a["std"] == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert a["seeds"] == {"1": 2, "2": 4, "3": 9}
    assert (b["value"], b["std"], b["seeds"]) == (7.5, None, {"1": None, "2": 7.5, "3": None})
    assert (c["value"], c["std"], c["seeds"]) == (None, None, {"1": None, "2": None, "3": None})
