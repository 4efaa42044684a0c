"""Tables of vertex state: the newest row of a key counts, against a dictionary."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

from scribe_spark.runtime.blocks import materialise
from scribe_spark.superstep import Table


def frame(spark, rows):
    """Rows (node, key, value, removed), partitioned by node."""
    schema = "node bigint, key bigint, value bigint, removed boolean"
    return spark.createDataFrame(rows, schema).repartition("node")


def write(table: Table, changes) -> None:
    change = table.prepare(changes, changes.count())
    table.write(change, *materialise(change.frame))


def contents(rows) -> list[tuple]:
    return [] if rows is None else sorted(tuple(row) for row in rows.collect())


@pytest.mark.parametrize("with_initial", [False, True])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_table_equals_a_dictionary_after_every_round(spark, seed, with_initial):
    rng = random.Random(seed)
    initial = {(n, k): n for n in range(6) for k in range(3)} if with_initial else {}
    expected = dict(initial)
    start = frame(spark, [(n, k, v, False) for (n, k), v in initial.items()]).drop("removed")
    begun = start.repartition("node").persist() if with_initial else None
    table = Table(["node", "key"], ["value"], initial=begun)
    for _ in range(8):
        keys = rng.sample([(n, k) for n in range(8) for k in range(3)], rng.choice([1, 1, 2, 9]))
        changes = [(n, k, rng.randrange(100), rng.random() < 0.4) for n, k in keys]
        view = table.after(frame(spark, changes))
        for n, k, value, removed in changes:
            expected.pop((n, k), None)
            if not removed:
                expected[n, k] = value
        rows = sorted((n, k, v) for (n, k), v in expected.items())
        assert contents(view.rows()) == rows
        write(table, frame(spark, changes))
    assert contents(table.rows()) == rows
    asked = frame(spark, [(n, 0, 0, False) for n in (1, 4, 7, 99)]).select("node")
    assert contents(table.at(asked, ["node"])) == [row for row in rows if row[0] in (1, 4, 7)]
    table.release()


def test_few_changes_are_merged_among_themselves(spark):
    """A change of a few rows does not copy a large table."""
    table = Table(["node"], ["value"])
    large = spark.range(20_000).select(F.col("id").alias("node"), F.col("id").alias("value"))
    write(table, large.repartition("node"))
    first = table._segments[0]
    for number in range(5):
        write(table, frame(spark, [(number, 0, -1, False)]).select("node", "value"))
    assert table._segments[0] is first
    assert [segment.rows for segment in table._segments] == [20_000, 5]
    assert table.rows().where("value = -1").count() == 5
    table.release()


def test_changes_are_merged_with_what_is_not_larger(spark, monkeypatch):
    """There are no more segments than the logarithm of the number of rows."""
    monkeypatch.setattr("scribe_spark.superstep.table._FEW_ROWS", 0)
    table = Table(["node"], ["value"])
    sizes = []
    for number in range(8):
        write(table, frame(spark, [(number, 0, None, False)]).select("node", "value"))
        sizes.append([segment.rows for segment in table._segments])
    assert sizes == [[1], [2], [2, 1], [4], [4, 1], [4, 2], [4, 2, 1], [8]]
    assert contents(table.rows()) == [(number, None) for number in range(8)]
    table.release()


def test_reading_and_merging_shuffle_nothing(spark):
    table = Table(["node", "key"], ["value"])
    for number in (8, 3, 1):
        write(table, frame(spark, [(n, n, number, False) for n in range(number)]))
    keys = frame(spark, [(1, 0, 0, False)]).select("node")
    keys, _ = materialise(keys)
    for rows in (table.rows(), table.at(keys, ["node"])):
        assert "Exchange" not in rows._jdf.queryExecution().executedPlan().toString()
    table.release()


def test_an_append_only_table_is_one_leaf_of_a_plan(spark):
    table = Table(["node", "key"], ["value"], append_only=True)
    for number in (4, 3, 2):
        write(table, frame(spark, [(n, number, n, False) for n in range(number)]))
    plan = table.rows()._jdf.queryExecution().executedPlan().toString()
    assert "Union" not in plan
    assert len(contents(table.rows())) == 9
    table.release()


def test_segments_of_an_append_only_table_stay_few(spark):
    table = Table(["node"], [], append_only=True)
    for number in range(20):
        write(table, spark.range(number, number + 1).withColumnRenamed("id", "node"))
    assert len(table._segments) < 15
    assert contents(table.rows()) == [(n,) for n in range(20)]
    table.release()


def test_initial_rows_are_neither_copied_nor_freed(spark):
    rows, _ = materialise(frame(spark, [(1, 1, 1, False)]).drop("removed").repartition("node"))
    table = Table(["node", "key"], ["value"], initial=rows)
    write(table, frame(spark, [(1, 1, 2, False)]))
    write(table, frame(spark, [(1, 1, 0, True)]))
    assert contents(table.rows()) == []
    table.release()
    assert contents(table.rows()) == []
    assert contents(rows) == [(1, 1, 1)]
