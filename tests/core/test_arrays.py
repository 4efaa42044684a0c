"""Sorted keys, ranges and runs, against plain Python."""

import numpy as np
import pytest

from scribe_spark.core.arrays import (
    depths,
    distinct,
    expand,
    find_sorted,
    index_sorted,
    search_sorted,
)

EMPTY = np.empty(0, dtype=np.int64)


@pytest.mark.parametrize("absent", [1, 4, 10, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("table", [[], [2], [2, 5, 9]])
def test_an_absent_key_has_no_index(table, absent):
    """A key before the first one, between two, or after the last one."""
    table = np.array(table, dtype=np.int64)
    assert index_sorted(table, table[::-1]).tolist() == [*range(len(table))][::-1]
    assert index_sorted(table, EMPTY).tolist() == []
    with pytest.raises(LookupError, match=f"^{absent} is not one of {len(table)} sorted keys$"):
        index_sorted(table, np.r_[table, absent])


@pytest.mark.parametrize("span", [2**16, 2**22, 2**62])
def test_many_keys_are_found_as_few_are(span):
    """Keys that stand close are found by a map, others by a search."""
    random = np.random.default_rng(span % 1000)
    table = distinct(random.integers(-span, span, 60_000))
    keys = np.concatenate([random.permutation(table), random.integers(-2 * span, 2 * span, 60_000)])
    found = find_sorted(table, keys)
    assert np.array_equal(found >= 0, np.isin(keys, table))
    assert np.array_equal(table[found[found >= 0]], keys[found >= 0])
    few = [find_sorted(table, some) for some in np.array_split(keys, 100)]
    assert np.array_equal(found, np.concatenate(few))


@pytest.mark.parametrize("span", [2**10, 2**40, 2**63 - 1])
def test_many_keys_are_searched_as_few_are(span):
    random = np.random.default_rng(span % 1000)
    table = np.sort(random.integers(-span, span, 20_000))
    keys = np.concatenate([random.permutation(table), random.integers(-span, span, 20_000)])
    assert np.array_equal(search_sorted(table, keys), np.searchsorted(table, keys))


def test_expand_is_a_range_for_each_pair():
    random = np.random.default_rng(5)
    first = random.integers(0, 1000, 200)
    last = first + random.integers(0, 4, 200)
    pair, number = expand(first, last)
    pairs = enumerate(zip(first, last, strict=True))
    expected = [(index, one) for index, (a, b) in pairs for one in range(a, b)]
    assert list(zip(pair.tolist(), number.tolist(), strict=True)) == expected
    assert [part.tolist() for part in expand(EMPTY, EMPTY)] == [[], []]


def test_depths():
    assert depths(np.array([-1, 0, 1, 0, -1])).tolist() == [0, 1, 2, 1, 0]
    with pytest.raises(RuntimeError, match="are no forest"):
        depths(np.array([1, 2, 0]))
    assert depths(np.array([1, 2, 0, 0, -1, 4]), circles=True).tolist() == [-1, -1, -1, -1, 0, 1]
