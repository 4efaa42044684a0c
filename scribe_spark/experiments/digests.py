"""Digests of tables, which are recorded when a table is written and compared when it is checked.

A table's record has two parts.  Its *content* (``rows``, ``columns``, ``digest``) is equal for
equal rows, whatever their order, the partitions and the files; runs are compared by it.  Its
*files* (name -> length and CRC-32) show whether the bytes have changed since they were written,
including footers, statistics and indexes of Parquet; tables are verified by them, without a Spark
job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructType

from scribe_spark.core.paths import UnfitFileError
from scribe_spark.runtime.filesystem import CorruptFileError, Files, FileStatus

#: The number of files to read at once, as remote storage answers one reader slowly.
_READERS = 8


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# --- content


def watch_content(frame: DataFrame, seen: Observation) -> DataFrame:
    """Return the frame; computing it puts the number of rows and sums of hashes into `seen`.

    Sums do not depend on the order of rows or on partitions. The two halves of the hashes are
    summed separately, because a sum of 64-bit numbers would overflow. The hash is first a column,
    as Spark generates code for columns but interprets observed expressions (which take three times
    as long).
    """
    row, name = _row_hash(frame.schema), f"hash of {len(frame.columns)} columns"
    hashed = frame.withColumn(name, row)
    high = F.call_function("shiftrightunsigned", F.col(name), F.lit(32))
    low = F.col(name).bitwiseAND(F.lit(0xFFFFFFFF).cast("bigint"))
    return hashed.observe(
        seen,
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(high), F.lit(0)).alias("high"),
        F.coalesce(F.sum(low), F.lit(0)).alias("low"),
    ).drop(name)


def _row_hash(schema: StructType) -> Column:
    """Return a row's hash, which also depends on the columns that are NULL (xxhash64 skips NULLs).

    The hash of a row without NULL is that of its values alone; see `core.draws.hash_rows`.
    """
    values = [
        F.crc32(F.col(f"`{field.name}`"))
        if field.dataType == BinaryType()
        else F.col(f"`{field.name}`")
        for field in schema
    ]
    any_null = reduce(or_, [value.isNull() for value in values])
    places = [F.when(value.isNull(), F.lit(str(at))) for at, value in enumerate(values)]
    nulls = F.xxhash64(F.lit("NULL in"), F.concat_ws(",", *places))
    return F.xxhash64(*values, F.when(any_null, nulls))


def content_digest(row: Mapping[str, Any], schema: StructType) -> dict[str, Any]:
    """Return the content part of a record from the result of :func:`watch_content`."""
    return {
        "rows": row["rows"],
        "columns": describe_columns(schema),
        "digest": f"{row['high']:x}-{row['low']:x}",
    }


def describe_columns(schema: StructType) -> str:
    """Return names and types of columns, such as ``group BIGINT, node BIGINT``."""
    return ", ".join(f"{f.name} {f.dataType.simpleString().upper()}" for f in schema.fields)


def same_content(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two records belong to tables with the same columns and rows."""
    return all(one.get(part) == other.get(part) for part in ("rows", "columns", "digest"))


# --- files


def file_digests(
    files: Files, url: str, recorded: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the length and CRC-32 of each file of a table that a reader may open, by name."""
    found = [status for status in files.list(url) if _is_read(status)]
    with ThreadPoolExecutor(_READERS) as readers:
        digests = readers.map(lambda status: _file_digest(files, status, recorded), found)
        return {status.name: digest for status, digest in zip(found, digests, strict=True)}


def _is_read(status: FileStatus) -> bool:
    """Return True if Spark or Hadoop reads a file: they ignore ``_NAME`` and ``.NAME``."""
    hidden = status.name.startswith(("_", "."))
    return not hidden or (status.name.startswith(".") and status.name.endswith(".crc"))


def _file_digest(files: Files, status: FileStatus, recorded: Mapping[str, str] | None) -> str:
    if status.is_folder:
        return "folder"
    if recorded is not None and recorded.get(status.name, "").split("-")[0] != str(status.bytes):
        return str(status.bytes)
    return f"{status.bytes}-{files.checksum(status.url):08x}"


def find_changed_file(files: Files, url: str, recorded: Mapping[str, str]) -> str | None:
    """Return the first difference of a table's files from its record, or None if they are equal."""
    try:
        found = file_digests(files, url, recorded)
    except (FileNotFoundError, NotADirectoryError):
        return "the table or a part of it is missing"
    except (CorruptFileError, UnfitFileError) as error:
        return f"a part of it is corrupt ({error})"
    for name in sorted({*found, *recorded}):
        checksum_file = name.startswith(".")
        if name not in recorded and not checksum_file:
            return f"{name} does not belong to this table"
        if name not in found and not checksum_file:
            return f"{name} is missing"
        if name in found and name in recorded and found[name] != recorded[name]:
            return f"{name} has changed"
    return None


def same_outputs(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two records of a phase have the same rows and texts."""
    tables, others = one["tables"], other["tables"]
    same = tables.keys() == others.keys() and one["texts"] == other["texts"]
    return same and all(same_content(tables[name], others[name]) for name in tables)
