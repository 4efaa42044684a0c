"""Materialised tables: computed once, counted, released; and kernels' partitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from scribe_spark.runtime import blocks
from scribe_spark.runtime.blocks import delete_checkpoints
from scribe_spark.runtime.sessions import describe_jobs


def persistent_rdds(spark) -> set[int]:
    """The RDDs that the block manager keeps."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def test_materialise_counts_and_cuts(spark):
    frame = spark.range(10).withColumn("twice", F.col("id") * 2).where("id > 3")
    table, rows = blocks.materialise(frame)
    assert rows == 6
    assert sorted(map(tuple, table.collect())) == [(n, 2 * n) for n in range(4, 10)]
    assert "LogicalRDD" in table._jdf.queryExecution().analyzed().getClass().getSimpleName()
    blocks.release(table)


def test_release_of_what_is_not_materialised_does_nothing(spark):
    before = persistent_rdds(spark)
    blocks.release(spark.range(3).where("id > 1"))
    assert not persistent_rdds(spark) - before


def test_union_goes_by_names(spark):
    first = spark.createDataFrame([(1, 2)], "a int, b int")
    second = spark.createDataFrame([(4, 3)], "b int, a int")
    together = blocks.union_tables([first, second])
    assert sorted(map(tuple, together.collect())) == [(1, 2), (3, 4)]


def test_read_partition_is_all_rows_in_one_table():
    batches = [pa.RecordBatch.from_pydict({"n": rows}) for rows in ([1, 2], [], [3])]
    batches[1] = batches[0].slice(0, 0)
    table = blocks.read_partition(iter(batches))
    assert table is not None
    np.testing.assert_array_equal(table["n"], [1, 2, 3])
    assert blocks.read_partition([batches[1]]) is None


def test_describe_jobs_puts_the_description_back(spark):
    context = spark.sparkContext
    with describe_jobs(spark, "outer"):
        with describe_jobs(spark, "inner"):
            assert context.getLocalProperty("spark.job.description") == "inner"
        assert context.getLocalProperty("spark.job.description") == "outer"
    assert context.getLocalProperty("spark.job.description") is None


@pytest.fixture
def reliable(spark, tmp_path):
    """A checkpoint directory that the user named."""
    context = spark.sparkContext
    before = spark._jsc.sc().getCheckpointDir()
    context.setCheckpointDir(str(tmp_path))
    yield tmp_path
    getattr(spark._jsc.sc(), "checkpointDir_$eq")(before)


def test_a_checkpoint_directory_of_the_user_is_used(spark, reliable):
    before = persistent_rdds(spark)
    table, rows = blocks.materialise(spark.range(5).where("id > 1"))
    assert rows == 3
    assert not persistent_rdds(spark) - before  # it is in files
    assert len(list(reliable.glob("*/rdd-*"))) == 1
    assert sorted(row["id"] for row in table.collect()) == [2, 3, 4]
    blocks.release(table)


def test_release_deletes_the_files_of_a_reliable_checkpoint(spark, reliable):
    kept, _ = blocks.materialise(spark.range(3))
    table, _ = blocks.materialise(spark.range(5))
    both = blocks.union_tables([kept, table])
    blocks.release(both)  # not materialised: nothing happens
    assert both.count() == 8
    blocks.release(table)
    assert len(list(reliable.glob("*/rdd-*"))) == 1
    assert kept.count() == 3
    blocks.release(kept)
    assert not list(reliable.glob("*/rdd-*"))


def test_the_folder_of_a_sessions_checkpoints_is_deleted(spark, reliable):
    """Spark makes one for each session in the directory that the user named, and leaves it."""
    blocks.materialise(spark.range(3))
    (reliable / "of the user").touch()
    delete_checkpoints(spark)
    assert [path.name for path in reliable.iterdir()] == ["of the user"]
    delete_checkpoints(spark)


def test_graphframes_directory_is_not_used(spark):
    """A local session has a checkpoint directory, because GraphFrames fails without one."""
    directory = Path(spark.sparkContext.getCheckpointDir().removeprefix("file:"))
    before = persistent_rdds(spark)
    table, _ = blocks.materialise(spark.range(5))
    assert len(persistent_rdds(spark) - before) == 1
    assert not list(directory.glob("rdd-*"))
    blocks.release(table)
    frame = spark.range(3).checkpoint()  # as GraphFrames does
    assert list(directory.glob("rdd-*"))
    assert frame.count() == 3
    blocks.release(frame)


@pytest.mark.parametrize("tricks", ["none", "all,-release_blocks"])
def test_without_tricks_the_rows_are_the_same(spark, monkeypatch, tricks):
    monkeypatch.setenv("SCRIBE_SPARK_TRICKS", tricks)
    first, rows = blocks.materialise(spark.range(5).repartition(2, "id"))
    second, _ = blocks.materialise(spark.range(3).repartition(2, "id"))
    assert rows == 5
    both = blocks.union_tables([second, first])
    assert sorted(row["id"] for row in both.collect()) == [0, 0, 1, 1, 2, 2, 3, 4]
    for table in (first, second):
        blocks.release(table)
    monkeypatch.undo()
    for table in (first, second):
        blocks.release(table)
