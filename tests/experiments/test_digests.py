"""A table's content is told by names, types, values and NULLs; not by order, partitions, files."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from scribe_spark.experiments.digests import content_digest, same_content, watch_content


@pytest.fixture(scope="module")
def frame(spark) -> DataFrame:
    rows = [(1, None, "x"), (2, 5, None), (None, 1, ""), (7, 7, "NULL in"), (None, None, None)]
    return spark.createDataFrame(rows, "a bigint, b bigint, c string").coalesce(1)


def content(frame: DataFrame) -> dict[str, Any]:
    seen = Observation()
    watched = watch_content(frame, seen)
    assert watched.collect() == frame.collect()
    return content_digest(seen.get, frame.schema)


def test_order_and_partitions_do_not_matter(frame):
    assert content(frame) == content(frame.orderBy(F.desc("c"), "b").repartition(3))
    assert content(frame)["columns"] == "a BIGINT, b BIGINT, c STRING"
    assert content(frame)["rows"] == 5


OTHERS = {
    "names exchanged": lambda frame: frame.toDF("b", "a", "c"),
    "columns exchanged": lambda frame: frame.select("b", "a", "c"),
    "a NULL moved": lambda frame: frame.select(
        F.when(F.col("c") == "x", F.col("b")).otherwise(F.col("a")).alias("a"),
        F.when(F.col("c") == "x", F.col("a")).otherwise(F.col("b")).alias("b"),
        "c",
    ),
    "another type": lambda frame: frame.withColumn("a", F.col("a").cast("int")),
    "a row twice": lambda frame: frame.union(frame.limit(1)),
    "a NULL filled": lambda frame: frame.fillna({"c": ""}),
}


@pytest.mark.parametrize("other", OTHERS)
def test_others_are_told_apart(frame, other):
    assert not same_content(content(frame), content(OTHERS[other](frame)))


def test_where_nothing_is_null_only_values_count(frame):
    """Digests of tables without NULLs are those that were recorded before NULLs counted."""
    filled = frame.fillna(0).fillna("").select("a", "b", "c")
    high = F.sum(F.call_function("shiftrightunsigned", F.xxhash64("a", "b", "c"), F.lit(32)))
    assert content(filled)["digest"].split("-")[0] == f"{filled.agg(high).collect()[0][0]:x}"
