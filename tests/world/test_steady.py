"""The steady state: where it begins, and what is told of it."""

import numpy as np
import pandas as pd
import pytest

from scribe_spark.worlds.summary import first_steady, steady_from, summarise

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "begin"),
    [
        ([5.0] * 20, 0),
        ([0.0] * 20, 0),
        ([5.0] * 19, None),  # nothing after the mean of ten
        ([9.0] * 7 + [5.0] * 20, 7),
        ([5.0] * 10 + [5.099] * 10, 0),
        ([5.0] * 10 + [5.11] * 10, None),
        (list(range(200)), None),  # grows for ever
        ([10.0 - number for number in range(9)] + [1.0] * 21, 9),
        # a mean of ten that is like the next ten, but not like all that follow
        ([10.0] * 20 + [2.0] * 40, 20),
        ([NAN, 9.0, NAN] + [NAN, 5.0] * 12, 2),
        ([NAN] * 40, None),
    ],
)
def test_the_steady_state_begins_where_the_moving_mean_is_that_of_all_later_rounds(values, begin):
    assert steady_from(values) == begin


def test_a_noisy_line_that_falls_exponentially_settles_when_the_fall_is_less_than_the_noise():
    random = np.random.default_rng(1)
    line = 1 + np.exp(-np.arange(120) / 12) + random.normal(0, 0.02, 120)
    begin = steady_from(line)
    assert begin is not None
    assert 20 <= begin <= 45
    assert line[begin:].mean() == pytest.approx(1, abs=0.02)


def test_several_lines_are_steady_together_from_the_last_of_their_beginnings():
    one, other = [9.0] * 7 + [5.0] * 20, [3.0] * 27
    assert first_steady([one, other]) == 7
    assert first_steady([other]) == 0
    assert first_steady([one, list(range(1, 28))]) is None


def test_the_summary_of_a_world_has_the_mean_of_the_steady_state():
    table = pd.DataFrame({"settles": [9.0] * 7 + [5.0] * 20, "grows": range(1, 28)})
    found = summarise(table)
    assert found["settles"] == pytest.approx((9 * 7 + 5 * 20) / 27)
    assert found["settles.steady"] == 5.0
    assert "grows.steady" not in found
