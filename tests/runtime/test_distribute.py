"""Arrays given to executors as files, and taken back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark import SparkFiles

from scribe_spark.runtime.distribute import (
    arrays_of_rows,
    discard_arrays,
    distribute_arrays,
    open_array,
)


def test_workers_read_the_arrays_in_the_order_they_were_given(spark):
    squares, halves = distribute_arrays(spark, squares=np.arange(5) ** 2, halves=np.arange(5) / 2)

    def read(batches):
        for batch in batches:
            at = batch["id"].to_numpy()
            columns = [pa.array(open_array(name)[at]) for name in (squares, halves)]
            yield pa.RecordBatch.from_arrays(columns, names=["square", "half"])

    rows = spark.range(5).mapInArrow(read, "square bigint, half double").collect()
    assert sorted(map(tuple, rows)) == [(n * n, n / 2) for n in range(5)]
    discard_arrays(squares, halves)


def test_discarded_arrays_take_no_disk_and_cannot_be_read(spark):
    (name,) = distribute_arrays(spark, numbers=np.arange(1000))
    with open(SparkFiles.get(name), "rb") as copy:
        assert len(copy.read()) > 8000
    discard_arrays(name)
    with open(SparkFiles.get(name), "rb") as copy:
        assert not copy.read()
    with pytest.raises(EOFError):
        open_array(name)


@pytest.mark.parametrize("tricks", ["all", "-mapped_tables"])
def test_a_task_makes_arrays_of_rows_where_it_shares_the_disk(spark, monkeypatch, tricks):
    monkeypatch.setenv("SCRIBE_SPARK_TRICKS", tricks)
    made_here = []

    def make(rows):
        made_here.append(len(rows))
        numbers = np.sort(rows.column("id").to_numpy())
        return {"numbers": numbers, "squares": numbers**2}

    numbers, squares = arrays_of_rows(spark.range(7), make)
    assert made_here == ([] if tricks == "all" else [7])
    assert open_array(numbers).tolist() == list(range(7))
    assert open_array(squares).tolist() == [n * n for n in range(7)]
    discard_arrays(numbers, squares)
