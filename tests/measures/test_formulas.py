"""Numbers of delays, also where these are far apart."""

from __future__ import annotations

import numpy as np
import pytest

from scribe_spark.errors import RunError
from scribe_spark.measures.formulas import ratio_numbers, rdp_ratios


def test_the_mean_of_ratios_is_right_also_where_their_sum_is_beyond_63_bits():
    ratio = np.array([2**62, 2**61, 2**62, 3])
    assert ratio_numbers(ratio)["mean"] == float(2**63 + 2**61 + 3) / 4 / 1e9
    far = rdp_ratios(np.full(100, 10**9), np.ones(100, dtype=np.int64))
    assert ratio_numbers(far)["mean"] == ratio_numbers(far)["median"] == 1e9


def test_a_ratio_that_no_whole_number_of_shares_holds_is_refused():
    delay_us = np.array([1, 9_223_372_036])
    assert rdp_ratios(delay_us, np.array([1, 1])).tolist()[0] == 10**9
    with pytest.raises(
        RunError, match=r"is 9.22e\+09 times the delay by IP multicast; increase lan_delay"
    ):
        rdp_ratios(delay_us + 1, np.array([1, 1]))
