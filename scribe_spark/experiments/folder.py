"""A run's folder: tables, texts, and the record of what in it is whole.

Everything goes through Hadoop's FileSystem, so a folder may be wherever Spark can write.  A table
counts as whole when its rows still have the digest that was taken while it was written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from scribe_spark.config import InputError
from scribe_spark.inputs import is_local, local_path

__all__ = ["Folder"]

MANIFEST = "manifest.json"

#: All that a run ever puts into its folder: what --overwrite may delete.
CONTENTS = (MANIFEST, "metrics.json", "report.html", "figures", "tables")


class Folder:
    """A folder (path or URL) and the file system it is on."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self.spark, self.out = spark, out
        self._hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
        self._conf = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
        # a plain path is local whatever the cluster's default file system is
        self.url = f"file://{local_path(out).absolute()}" if is_local(out) else out.rstrip("/")
        self._files = self._path().getFileSystem(self._conf)
        self._files.setWriteChecksum(False)  # texts stay editable by hand

    def _path(self, *parts: str) -> Any:
        return self._hadoop.Path("/".join([self.url, *parts]))

    def exists(self, *parts: str) -> bool:
        return bool(self._files.exists(self._path(*parts)))

    def names(self) -> list[str]:
        """What is in the folder; empty if there is none."""
        if not self.exists():
            return []
        return sorted(entry.getPath().getName() for entry in self._files.listStatus(self._path()))

    def clear(self) -> None:
        """Delete what a run left, and nothing else."""
        for name in CONTENTS:
            self._files.delete(self._path(name), True)

    def make(self) -> None:
        """Create the folder.

        Raises
        ------
        InputError
            It cannot be written.
        """
        try:
            self.write_text(".writable", "")
            self._files.delete(self._path(".writable"), False)
        except Exception as error:
            reason = str(getattr(error, "java_exception", error)).splitlines()[0]
            raise InputError("out", self.out, f"cannot be written ({reason})") from None

    # --- texts

    def read_text(self, *parts: str) -> str:
        stream = self._files.open(self._path(*parts))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write_text(self, name: str, text: str) -> None:
        """Write all of a file or nothing: beside it first, then moved in its place."""
        beside = self._path(f"{name}.tmp")
        stream = self._files.create(beside, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        rename = getattr(self._hadoop, "Options$Rename")
        how = self.spark.sparkContext._gateway.new_array(rename, 1)  # type: ignore[union-attr]
        how[0] = rename.OVERWRITE
        files = self._hadoop.FileContext.getFileContext(self._path().toUri(), self._conf)
        files.rename(beside, self._path(name), how)

    def read_json(self, name: str) -> Any:
        return json.loads(self.read_text(name))

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, json.dumps(value, indent=2) + "\n")

    # --- tables

    def write_table(self, name: str, frame: DataFrame) -> dict[str, Any]:
        """Write a table as Parquet; its ``rows`` and ``digest``, taken on the way."""
        seen = Observation()
        frame.observe(seen, *_digest(frame)).write.mode("overwrite").parquet(self._table(name))
        return _read_digest(seen.get)

    def read_table(self, name: str) -> DataFrame:
        return self.spark.read.parquet(self._table(name))

    def is_whole(self, name: str, record: dict[str, Any]) -> bool:
        """Whether the table can be read and is what was written."""
        try:
            frame = self.read_table(name)
            return _read_digest(frame.agg(*_digest(frame)).first().asDict()) == record
        except Exception:  # missing, cut off, scrambled: whatever it is, it is not whole
            return False

    def _table(self, name: str) -> str:
        return f"{self.url}/tables/{name}"


def _digest(frame: DataFrame) -> list[Column]:
    """Rows and two sums of row hashes: equal for equal rows in any order and partitioning."""
    row = F.xxhash64(*frame.columns)
    high = F.call_function("shiftrightunsigned", row, F.lit(32))
    low = row.bitwiseAND(F.lit(0xFFFFFFFF).cast("bigint"))
    return [
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(high), F.lit(0)).alias("high"),
        F.coalesce(F.sum(low), F.lit(0)).alias("low"),
    ]


def _read_digest(row: dict[str, Any]) -> dict[str, Any]:
    return {"rows": row["rows"], "digest": f"{row['high']:x}-{row['low']:x}"}


def refuse_local(out: str, resume: bool, overwrite: bool) -> None:
    """What can be said of a local OUT before Spark starts.

    Raises
    ------
    InputError
    """
    path = local_path(out)
    if path.exists() and not path.is_dir():
        raise InputError("out", out, "is a file; name a folder")
    names = [child.name for child in path.iterdir()] if path.exists() else []
    refuse_contents(out, names, resume, overwrite)
    above = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    if not above.is_dir() or not _writable(above):
        raise InputError("out", out, f"cannot be written; {above} is not a folder you may write")


def refuse_contents(out: str, names: list[str], resume: bool, overwrite: bool) -> None:
    """Refuse a folder that is somebody else's, or a run's without leave to go on or replace.

    Raises
    ------
    InputError
    """
    visible = [name for name in names if not name.startswith(".") and not name.endswith(".tmp")]
    if not visible:
        return
    foreign = [name for name in visible if name not in CONTENTS]
    if foreign and MANIFEST not in visible:
        remedy = f"holds other things ({foreign[0]}); name a new folder"
        raise InputError("out", out, remedy)
    if not resume and not overwrite:
        raise InputError("out", out, "exists; use --resume to go on or --overwrite to replace it")


def _writable(folder: Path) -> bool:
    import os

    return os.access(folder, os.W_OK | os.X_OK)
