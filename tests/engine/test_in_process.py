"""The engine in one process: buckets, threads, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scribe_spark.engine import Tables
from scribe_spark.engine.in_task import play, thread_bounds
from scribe_spark.engine.program import AT, bucket_of, deliver, once_a_bucket


@dataclass(frozen=True)
class Halve:
    """Every node sends its number to the node of half its position, until node 0 has all."""

    bounds: np.ndarray

    def step(self, bucket, tables, inbox, superstep):
        """See `engine.Program`."""
        first, last = self.bounds[bucket], self.bounds[bucket + 1]
        at = value = np.arange(first, last) if not superstep else inbox["number"][AT]
        if superstep:
            value = inbox["number"]["value"]
            sums = tables["sums"]["sum"].copy()
            np.add.at(sums, at - first, value)
            tables["sums"] = {"sum": sums}
        moving = at > 0
        return {"number": {AT: at[moving] // 2, "value": value[moving]}}


def played(bounds: np.ndarray, threads: int) -> tuple[list[int], list[int]]:
    """The messages of each superstep, and what each node has summed up."""
    tables = [Tables.of({"sums": {"sum": np.zeros(n, dtype=np.int64)}}) for n in np.diff(bounds)]
    counts = play(Halve(bounds), tables, threads=threads)
    return counts, np.concatenate([mine["sums"]["sum"] for mine in tables]).tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_results_do_not_depend_on_buckets_and_threads(threads):
    expected = played(np.array([0, 50]), 1)
    assert expected[1][0] == sum(range(50))
    for bounds in ([0, 1, 50], [0, 0, 20, 50], [0, 7, 21, 33, 50]):
        assert played(np.array(bounds), threads) == expected


def test_an_error_of_a_step_comes_out_of_its_thread():
    with pytest.raises(KeyError, match="sums"):
        play(Halve(np.array([0, 25, 50])), [Tables(), Tables()], threads=2)


rows = st.lists(st.lists(st.integers(-1, 19), min_size=3, max_size=3), max_size=8)


@given(rows, st.lists(st.integers(0, 20), max_size=4))
def test_a_row_goes_once_to_each_bucket_that_it_is_for(rows, cuts):
    bounds = np.array([0, *sorted(cuts), 20])
    positions = np.array(rows, dtype=np.int32).reshape(-1, 3)
    row, at = once_a_bucket(bounds, positions)
    bucket = np.searchsorted(bounds[1:-1], at, side="right")
    expected = {
        (number, int(np.searchsorted(bounds[1:-1], position, side="right")))
        for number, one in enumerate(rows)
        for position in one
        if position >= 0
    }
    found = list(zip(row.tolist(), bucket.tolist(), strict=True))
    assert sorted(found) == sorted(expected)
    assert all(position in rows[number] for number, position in zip(row, at, strict=True))


def test_few_nodes_are_not_worth_a_thread():
    assert thread_bounds(100).tolist() == [0, 100]
    assert thread_bounds(0).tolist() == [0, 0]
    assert thread_bounds(100_000)[-1] == 100_000


@pytest.mark.parametrize("buckets", [2, 4, 5, 31, 40])
def test_messages_go_to_the_bucket_of_their_node_in_their_order(buckets):
    rng = np.random.default_rng(buckets)
    bounds = np.sort(np.r_[0, 0, rng.integers(0, 300, buckets - 2), 300])  # the first is empty
    at = rng.integers(0, 300, 500).astype(np.int32)
    bucket = [max(b for b in range(buckets) if bounds[b] <= one) for one in at.tolist()]
    assert bucket_of(bounds, at).tolist() == bucket
    found = {}
    for to, kind, columns in deliver(bounds, {"kind": {AT: at, "row": np.arange(500)}, "none": {}}):
        assert (kind, columns[AT].tolist()) == ("kind", at[columns["row"]].tolist())
        found[to] = columns["row"].tolist()
    assert found == {
        to: [row for row, of in enumerate(bucket) if of == to] for to in sorted(set(bucket))
    }
