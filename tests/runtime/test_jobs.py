"""Jobs: tables that they materialise and write, arrays that executors get, what tasks report."""

import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import SparkFiles
from pyspark.sql import functions as F

from scribe_spark.runtime import batches as arrow_writer
from scribe_spark.runtime import blocks
from scribe_spark.runtime.batches import Batches, _row_groups, can_write, write_parquet
from scribe_spark.runtime.blocks import delete_checkpoints
from scribe_spark.runtime.distribute import (
    discard_arrays,
    distribute_arrays,
    open_array,
)
from scribe_spark.runtime.sessions import concurrent_jobs
from scribe_spark.runtime.task_reports import Reporter, receive_reports


@pytest.fixture
def reliable(spark, tmp_path):
    """A checkpoint directory that the user named."""
    context = spark.sparkContext
    before = spark._jsc.sc().getCheckpointDir()
    context.setCheckpointDir(str(tmp_path))
    yield tmp_path
    getattr(spark._jsc.sc(), "checkpointDir_$eq")(before)


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


# --- arrays for executors -------------------------------------------------------------------------


@pytest.mark.parametrize("tricks", ["all", "-mapped_tables"])
def test_discarded_arrays_take_no_disk_and_cannot_be_read(spark, monkeypatch, tricks):
    monkeypatch.setenv("SCRIBE_SPARK_TRICKS", tricks)
    (name,) = distribute_arrays(spark, numbers=np.arange(1000))
    with open(SparkFiles.get(name), "rb") as copy:
        assert len(copy.read()) > 8000
    discard_arrays(name)
    with open(SparkFiles.get(name), "rb") as copy:
        assert not copy.read()
    with pytest.raises(EOFError):
        open_array(name)


# --- jobs in a thread beside the caller's ---------------------------------------------------------


def test_what_has_not_begun_is_dropped_where_the_caller_raises(spark):
    begun, free, done, pending = threading.Event(), threading.Event(), [], []

    def first() -> None:
        begun.set()
        free.wait(10)
        done.append("first")

    def interrupted() -> None:
        with concurrent_jobs(spark) as submit:
            submit(first)
            pending.append(submit(done.append, "second"))
            begun.wait(10)
            threading.Timer(0.2, free.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["first"]  # what runs is waited for
    assert pending[0].cancelled()


def test_a_running_job_is_cancelled_where_the_caller_raises(spark):
    """Not waited for, which can take minutes; and no job of anybody else."""
    failed = []

    def compute() -> None:
        try:
            spark.range(10**12).selectExpr("sum(id % 7)").collect()
        except Exception as error:
            failed.append(error)

    def interrupted() -> None:
        with concurrent_jobs(spark) as submit:
            submit(compute)
            while not spark.sparkContext.statusTracker().getActiveJobsIds():
                time.sleep(0.05)
            raise KeyboardInterrupt

    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.perf_counter() - started < 30
    assert "cancelled" in str(failed[0])
    with concurrent_jobs(spark) as submit:
        assert submit(spark.range(5).count).result() == 5


# --- tables that tasks write themselves -----------------------------------------------------------


@pytest.fixture
def frame(spark):
    return spark.range(1000).select(
        "id",
        F.when(F.col("id") % 7 > 0, F.col("id").cast("int")).alias("number"),
        (F.col("id") / 3).alias("share"),
        F.concat(F.lit("text "), F.col("id") % 3).alias("text"),
        (F.col("id") % 2 == 0).alias("even"),
    )


def write(table: Batches | pa.Table, folder: Path) -> dict[str, int]:
    return write_parquet({folder: table})[folder]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_rows_of_tasks_and_of_the_driver_are_written_and_read_back(spark, frame, tmp_path):
    """Whatever partitions and order they have."""
    tables = [Batches.of(frame.repartition(3)), Batches.of(frame.orderBy(F.desc("id")))]
    written = []
    for table in (*tables, frame.toArrow()):
        written.append(write(table, tmp_path / "table"))
        back = spark.read.parquet(str(tmp_path / "table"))
        assert [(f.name, f.dataType) for f in back.schema] == [
            (f.name, f.dataType) for f in frame.schema
        ]
        assert sorted(back.collect()) == sorted(frame.collect())
    assert written[0]["rows"] == 1000
    assert written[0] == written[1] == written[2]
    write(tables[0], tmp_path / "table")
    assert sum(name.endswith(".parquet") for name in names(tmp_path / "table")) == 3


def test_only_parts_of_files_that_may_have_the_rows_are_read(spark, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_writer, "_ROWS_WRITTEN_AT_ONCE", 100)
    rows = frame.orderBy("id").toArrow().combine_chunks()
    write(pa.Table.from_batches(rows.to_batches(100)), tmp_path / "table")
    wanted = {"id": [3, 250, 251], "text": ["text 0", "text 1"]}
    read = partial(Batches.saved, spark, tmp_path / "table", ["id", "text"])
    assert sorted(row["id"] for row in read(wanted).frame.collect()) == [3, 250]
    (file,) = (tmp_path / "table").glob("*.parquet")
    assert list(_row_groups(str(file), wanted)) == [(0, 100), (2, 100)]
    assert len(list(_row_groups(str(file), {}))) == 10
    assert read({"id": []}).frame.count() == 0
    assert read({"id": [-1, 1000]}).frame.count() == 0


def test_what_other_attempts_have_written_is_not_part_of_it(frame, tmp_path, monkeypatch):
    """A task that is tried again writes a second file; Spark takes one result of the two."""
    written = arrow_writer._writer

    def twice(schema, folder):
        kernel = written(schema, folder)

        def run(batches):
            kept = list(batches)
            list(kernel(iter(kept)))  # an attempt whose result is lost
            yield from kernel(iter(kept))

        return run

    once = write(Batches.of(frame), tmp_path / "table")
    before = len(names(tmp_path / "table"))
    monkeypatch.setattr(arrow_writer, "_writer", twice)
    assert write(Batches.of(frame), tmp_path / "table") == once
    assert len(names(tmp_path / "table")) == before


def test_a_failure_leaves_no_half_table(frame, tmp_path):
    def fails(batch: pa.RecordBatch) -> dict:
        raise ValueError("as a test")

    write(Batches.of(frame), tmp_path / "table")
    with pytest.raises(Exception, match="as a test"):
        write(Batches.of(frame).each(fails, frame.schema), tmp_path / "table")
    assert names(tmp_path / "table") == []


def test_only_tables_on_the_disk_that_tasks_share_and_of_plain_columns(spark, frame, monkeypatch):
    plain = frame.schema
    assert can_write(plain, spark, "file:///out/tables/nodes")
    assert not can_write(plain, spark, "s3a://bucket/tables/nodes")
    listed = frame.select(F.array("id").alias("ids")).schema
    assert not can_write(listed, spark, "file:///out/tables/nodes")
    monkeypatch.setenv("SCRIBE_SPARK_TRICKS", "-arrow_writer")
    assert not can_write(plain, spark, "file:///out/tables/nodes")


# --- reports of running tasks ---------------------------------------------------------------------


class Taken:
    """Remembers reports, and waits for them."""

    def __init__(self, count: int) -> None:
        self.reports: list = []
        self._count, self._all = count, threading.Event()

    def __call__(self, report) -> None:
        self.reports.append(report)
        if len(self.reports) == self._count:
            self._all.set()

    def wait(self) -> list:
        assert self._all.wait(30)
        return self.reports


def test_who_does_not_know_the_token_is_not_heard(spark):
    taken = Taken(1)
    with receive_reports(spark, taken) as address:
        stranger = Reporter(replace(address, token="0" * 32))
        assert not stranger.is_heard
        stranger.report("stranger")
        known = Reporter(address)
        assert known.is_heard
        known.report("known")
        assert taken.wait() == ["known"]


def test_where_the_driver_is_not_reached_nothing_fails(spark):
    with receive_reports(spark, print) as address:
        pass
    for nowhere in (address, None, replace(address, host="no.such.host.invalid")):
        reporter = Reporter(nowhere)
        assert not reporter.is_heard
        reporter.report(1)
        reporter.close()
