"""Rows with equal keys are found and added up, whatever numbers the keys are."""

from __future__ import annotations

import numpy as np
import pytest

from scribe_spark.engine.exchange import add_rows, distinct_rows


@pytest.mark.parametrize("shift", [(0, 0, 0), (2**61, 0, 5), (-3, 7, 0), (2**40, 2**40, 2**40)])
def test_rows_are_those_of_numpy(shift):
    rng = np.random.default_rng(1)
    keys = [rng.integers(0, most, 2000) + by for most, by in zip((40, 7, 9), shift, strict=True)]
    rows, value = np.stack(keys, axis=1), rng.integers(0, 99, 2000)
    expected, of, count = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    one, found, times = distinct_rows(*keys)
    assert np.array_equal(np.stack(found, axis=1), expected)
    assert np.array_equal(rows[one], expected)
    assert np.array_equal(times, count)
    added = add_rows("value", {"a": keys[0], "b": keys[1], "c": keys[2], "value": value}, *"abc")
    assert np.array_equal(np.stack([added[name] for name in "abc"], axis=1), expected)
    assert added["value"].tolist() == np.bincount(of.ravel(), value).astype(int).tolist()


def test_no_rows():
    none = np.empty(0, dtype=np.int64)
    assert [len(part) for part in distinct_rows(none, none)[1]] == [0, 0]
