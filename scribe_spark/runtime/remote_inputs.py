"""Reading of a user's table on any storage: one that only Spark can reach is copied here first."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import Kind, last_cause, read_table
from scribe_spark.core.paths import check_size, is_local, read_packed
from scribe_spark.runtime.environment import scratch_folder


def read_input(
    spark: SparkSession | None,
    path: str,
    field: str,
    columns: Mapping[str, Kind],
    optional: Collection[str] = (),
) -> pd.DataFrame:
    """Return the named columns of a user's table as `core.inputs.read_table` does.

    Without a session, the table must be on this machine.
    """
    if spark is None or is_local(path):
        return read_table(path, field, columns, optional)
    return read_remote(spark, path, field, columns, optional)


def read_remote(
    spark: SparkSession,
    path: str,
    field: str,
    columns: Mapping[str, Kind],
    optional: Collection[str] = (),
) -> pd.DataFrame:
    """Return the named columns of a table that Spark can reach, from a copy of its files."""
    folder = scratch_folder()
    try:
        copy = _copied(spark, path.rstrip("/"), folder)
        return read_table(str(copy), field, columns, optional)
    except InputError as error:
        raise InputError(field, path, error.remedy) from None
    except Exception as error:  # Spark's, or that of a compression
        if "cancelled" in str(error):  # by Ctrl-C: the table may be good
            raise
        raise InputError(field, path, f"cannot be read by Spark: {last_cause(error)}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copied(spark: SparkSession, path: str, folder: Path) -> Path:
    """Copy the files of a table, of bounded size, into a folder of this machine."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    check_size(files.agg(F.sum("length")).collect()[0][0] or 0)
    name, written = path.rpartition("/")[2], list[Path]()
    for row in files.orderBy("path").select("path", "content").toArrow().to_pylist():
        _, is_below, place = row["path"].rpartition(f"/{name}/")
        file = folder / name / place if is_below else folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(row["content"])
        written.append(file)
    if (folder / name).is_dir() and name.lower().endswith((".csv", ".tsv", ".txt")):
        return _joined(written, folder / f"all {name}")
    return folder / name


def _joined(parts: list[Path], into: Path) -> Path:
    """Write the texts that Spark has written into a folder as one; each part has the header."""
    header = b""
    with into.open("wb") as out:
        for part in parts:
            first, _, rows = read_packed(part).partition(b"\n")
            out.write(rows if header else first + b"\n" + rows)
            header = header or first
    return into
