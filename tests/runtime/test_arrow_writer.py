"""Tables that tasks write themselves: what is there after it, whatever went wrong."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from scribe_spark.runtime import batches
from scribe_spark.runtime.batches import Batches, _row_groups, can_write, write_parquet


@pytest.fixture
def frame(spark):
    return spark.range(1000).select(
        "id",
        F.when(F.col("id") % 7 > 0, F.col("id").cast("int")).alias("number"),
        (F.col("id") / 3).alias("share"),
        F.concat(F.lit("text "), F.col("id") % 3).alias("text"),
        (F.col("id") % 2 == 0).alias("even"),
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_rows_of_tasks_and_of_the_driver_are_written_and_read_back(spark, frame, tmp_path):
    """Whatever partitions and order they have."""
    tables = [Batches.of(frame.repartition(3)), Batches.of(frame.orderBy(F.desc("id")))]
    written = []
    for table in (*tables, frame.toArrow()):
        written.append(write_parquet(table, tmp_path / "table"))
        back = spark.read.parquet(str(tmp_path / "table"))
        assert [(f.name, f.dataType) for f in back.schema] == [
            (f.name, f.dataType) for f in frame.schema
        ]
        assert sorted(back.collect()) == sorted(frame.collect())
    assert written[0]["rows"] == 1000
    assert written[0] == written[1] == written[2]
    write_parquet(tables[0], tmp_path / "table")
    assert sum(name.endswith(".parquet") for name in names(tmp_path / "table")) == 3


@pytest.mark.parametrize("of", [Batches.of, lambda frame: frame.toArrow()], ids=["tasks", "driver"])
def test_a_table_without_rows_has_its_columns(spark, frame, tmp_path, of):
    content = write_parquet(of(frame.limit(0)), tmp_path / "table")
    assert content == {"rows": 0, "high": 0, "low": 0}
    assert spark.read.parquet(str(tmp_path / "table")).columns == frame.columns


def test_kernels_and_several_parts_make_one_table(spark, frame, tmp_path):
    def double(batch: pa.RecordBatch) -> dict:
        return {"id": batch.column("id").to_numpy() * 2}

    doubled = Batches.of(frame, ["id"]).each(double, "id bigint")
    both = Batches.union([doubled, doubled.each(double, "id bigint")])
    assert write_parquet(both, tmp_path / "table")["rows"] == 2000
    found = [row["id"] for row in spark.read.parquet(str(tmp_path / "table")).collect()]
    assert sorted(found) == sorted([2 * n for n in range(1000)] + [4 * n for n in range(1000)])
    saved = Batches.saved(spark, tmp_path / "table", ["id"]).frame
    assert sorted(row["id"] for row in saved.collect()) == sorted(found)


def test_only_parts_of_files_that_may_have_the_rows_are_read(spark, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_ROWS_WRITTEN_AT_ONCE", 100)
    rows = frame.orderBy("id").toArrow().combine_chunks()
    write_parquet(pa.Table.from_batches(rows.to_batches(100)), tmp_path / "table")
    wanted = {"id": [3, 250, 251], "text": ["text 0", "text 1"]}
    read = partial(Batches.saved, spark, tmp_path / "table", ["id", "text"])
    assert sorted(row["id"] for row in read(wanted).frame.collect()) == [3, 250]
    (file,) = (tmp_path / "table").glob("*.parquet")
    assert list(_row_groups(str(file), wanted)) == [0, 2]
    assert len(list(_row_groups(str(file), {}))) == 10
    assert read({"id": []}).frame.count() == 0
    assert read({"id": [-1, 1000]}).frame.count() == 0


def test_what_other_attempts_have_written_is_not_part_of_it(frame, tmp_path, monkeypatch):
    """A task that is tried again writes a second file; Spark takes one result of the two."""
    written = batches._writer

    def twice(schema, folder):
        kernel = written(schema, folder)

        def run(batches):
            kept = list(batches)
            list(kernel(iter(kept)))  # an attempt whose result is lost
            yield from kernel(iter(kept))

        return run

    once = write_parquet(Batches.of(frame), tmp_path / "table")
    before = len(names(tmp_path / "table"))
    monkeypatch.setattr(batches, "_writer", twice)
    assert write_parquet(Batches.of(frame), tmp_path / "table") == once
    assert len(names(tmp_path / "table")) == before


def test_a_failure_leaves_no_half_table(frame, tmp_path):
    def fails(batch: pa.RecordBatch) -> dict:
        raise ValueError("as a test")

    write_parquet(Batches.of(frame), tmp_path / "table")
    with pytest.raises(Exception, match="as a test"):
        write_parquet(Batches.of(frame).each(fails, frame.schema), tmp_path / "table")
    assert names(tmp_path / "table") == []


def test_a_full_disk_is_told_with_the_file(tmp_path):
    """Otherwise nobody would know which disk it is, once the file has been deleted."""
    full = pytest.raises(OSError, match=r"No space left on device: '.*/part'")
    with full, batches._naming(tmp_path / "part"):
        raise OSError(28, "Error writing bytes to file")


def test_only_tables_on_the_disk_that_tasks_share_and_of_plain_columns(spark, frame, monkeypatch):
    plain = frame.schema
    assert can_write(plain, spark, "file:///out/tables/nodes")
    assert not can_write(plain, spark, "s3a://bucket/tables/nodes")
    listed = frame.select(F.array("id").alias("ids")).schema
    assert not can_write(listed, spark, "file:///out/tables/nodes")
    monkeypatch.setenv("SCRIBE_SPARK_TRICKS", "-arrow_writer")
    assert not can_write(plain, spark, "file:///out/tables/nodes")
