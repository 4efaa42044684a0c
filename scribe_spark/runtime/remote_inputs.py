"""Reading of a user's table on any storage: one that only Spark can reach is copied here first."""

from __future__ import annotations

import re
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

#: The names of texts, which may be compressed.
_TEXT = re.compile(r"\.(csv|tsv|txt)(\.[a-z0-9]+)?$", re.IGNORECASE)

#: The first line of a text that is no comment and not empty.
_FIRST_LINE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n)*([^\r\n]*)")


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
    rows = files.orderBy("path").select("path", "content").toArrow().to_pylist()
    if not rows:  # Spark reads no files without content
        raise InputError("", path, "cannot be read: it is empty")
    if len(rows) == 1 and rows[0]["path"].endswith(f"/{name}"):
        (folder / name).write_bytes(rows[0]["content"])
        return folder / name
    for number, row in enumerate(rows):
        _, is_below, place = row["path"].rpartition(f"/{name}/")
        if not is_below:  # the path is a pattern, so folders may have files of one name
            place = f"{number}-{row['path'].rpartition('/')[2]}"
        file = folder / name / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(row["content"])
        written.append(file)
    return _joined(written, folder / "all.csv") if _TEXT.search(name) else folder / name


def _joined(parts: list[Path], into: Path) -> Path:
    """Write the texts that Spark has written into a folder as one; each part has the header."""
    header = None
    with into.open("wb") as out:
        for part in parts:
            data = read_packed(part)
            found = _FIRST_LINE.match(data)
            assert found is not None  # it matches all texts
            if header is None:
                header = found[1]
                out.write(header + b"\n")
            # another first line than the header is a row, or is refused as one
            out.write(data[found.end(1) if found[1] == header else 0 :] + b"\n")
    return into
