"""A run's folder: tables, texts, and the record of what in it is whole.

Everything goes through Hadoop's FileSystem, so a folder may be wherever Spark can write.  A table
counts as whole when its rows still have the digest that was taken while it was written.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from scribe_spark.config import Execution
from scribe_spark.errors import InputError
from scribe_spark.inputs import is_local, local_path
from scribe_spark.report import Report
from scribe_spark.runtime.filesystem import open_files

__all__ = [
    "MANIFEST",
    "Folder",
    "below",
    "inside",
    "local_contents",
    "probe_local",
    "refuse_contents",
]

MANIFEST = "manifest.json"

#: All that a run or a sweep ever puts into its folder, but a sweep's runs: what --overwrite may
#: delete.
CONTENTS = (MANIFEST, "metrics.json", "report.html", "figures", "tables", "sweep", "sweep.html")

#: Spark takes a path to read for a pattern, though it writes to it as it stands.
_AS_IT_STANDS = {"__globPaths__": "false"}


class Folder:
    """A folder (path or URL) and the file system it is on.

    Raises
    ------
    InputError
        Spark knows no file system for such a URL.
    """

    def __init__(self, spark: SparkSession, out: str) -> None:
        self.spark, self.out = spark, out
        # a plain path is local whatever the cluster's default file system is
        self.url = f"file://{local_path(out).absolute()}" if is_local(out) else out.rstrip("/")
        with self._usable():
            self._files = open_files(spark, self.url)

    def _location(self, *parts: str) -> str:
        return "/".join([self.url, *parts])

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Whatever the file system has against OUT is bad input."""
        try:
            yield
        except Exception as error:
            reason = (getattr(error, "strerror", None) or str(error)).strip().splitlines()[0]
            raise InputError("out", self.out, f"cannot be used ({reason})") from None

    def close(self) -> None:
        """Free what the file system's client holds."""
        self._files.close()

    def exists(self, *parts: str) -> bool:
        return self._files.status(self._location(*parts)) is not None

    def names(self) -> list[str]:
        """What is in the folder; empty if there is none.

        Raises
        ------
        InputError
            It cannot be looked into.
        """
        with self._usable():
            if not self.exists():
                return []
            return [found.name for found in self._files.list(self.url)]

    def make(self) -> None:
        """Create the folder.

        Raises
        ------
        InputError
            It cannot be written.
        """
        with self._usable():
            self.write_text(".writable", "")
            self._files.delete(self._location(".writable"))

    def clear(self, more: Iterable[str] = ()) -> None:
        """Delete what a run left but its manifest (which says that the folder is a run's).

        Parameters
        ----------
        more : iterable of str
            What else it left.
        """
        for name in (*CONTENTS, *more):
            if name != MANIFEST:
                self._files.delete(self._location(name))

    def remove(self) -> None:
        """Delete what a run left, and the folder if nothing else is in it."""
        if MANIFEST not in self.names():
            return
        self.clear()
        self._files.delete(self._location(MANIFEST))
        if not self.names():
            self._files.delete(self._location())

    # --- texts

    def read_text(self, *parts: str) -> str:
        return self._files.read(self._location(*parts)).decode()

    def write_text(self, name: str, text: str) -> None:
        """Write all of a file or nothing."""
        self._files.write(self._location(name), text.encode())

    def write_page(self, page: Report) -> str:
        """Write the report and its figures; the page's location."""
        for name, drawing in page.figures.items():
            self.write_text(f"figures/{name}.svg", drawing)
        self.write_text("report.html", page.html)
        return below(self.out, "report.html")

    def read_json(self, name: str) -> Any:
        return json.loads(self.read_text(name))

    def write_json(self, name: str, value: Any) -> str:
        """Write a value; the digest of the text."""
        text = json.dumps(value, indent=2) + "\n"
        self.write_text(name, text)
        return _text_digest(text)

    def is_whole_text(self, name: str, digest: str) -> bool:
        """Whether a text is what was written."""
        try:
            return _text_digest(self.read_text(name)) == digest
        except Exception:  # missing, or no text any more
            return False

    # --- tables

    def write_table(self, name: str, frame: DataFrame) -> dict[str, Any]:
        """Write a table as Parquet; its ``rows`` and ``digest``, taken on the way."""
        seen = Observation()
        frame.observe(seen, *_digest(frame)).write.mode("overwrite").parquet(self._table(name))
        return _read_digest(seen.get)

    def read_table(self, name: str, schema: StructType | None = None) -> DataFrame:
        """A table; where its columns are known, Spark does not look into its files for them."""
        return self._read(self._table(name), schema)

    def write_rows(self, name: str, frame: DataFrame) -> DataFrame:
        """Write a few rows as one Parquet file, beside `tables`; read back."""
        url = f"{self.url}/{name}"
        frame.coalesce(1).write.mode("overwrite").parquet(url)
        return self._read(url)

    def _read(self, url: str, schema: StructType | None = None) -> DataFrame:
        read = self.spark.read.options(**_AS_IT_STANDS)
        return (read if schema is None else read.schema(schema)).parquet(url)

    def is_whole(self, name: str, record: dict[str, Any]) -> bool:
        """Whether the table can be read and is what was written."""
        try:
            frame = self.read_table(name)
            return _read_digest(frame.agg(*_digest(frame)).collect()[0].asDict()) == record
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


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- what can be said of a folder before anything is written


def refuse_contents(
    out: str,
    names: Iterable[str],
    read: Callable[[str], str],
    resume: bool,
    overwrite: bool,
    done: str = "phases",
) -> dict[str, Any] | None:
    """Refuse a folder that is somebody else's, or a run's without leave to go on or replace.

    Parameters
    ----------
    names : iterable of str
        What is in the folder.
    read : callable
        A text of the folder by its name.
    done : str
        Under what a manifest of this kind has what is done.

    Returns
    -------
    dict or None
        The manifest of the run to go on with, if there is one.

    Raises
    ------
    InputError
    """
    visible = [name for name in names if not name.startswith(".") and not name.endswith(".tmp")]
    if not visible:
        return None
    if MANIFEST not in visible:
        remedy = f"holds other things ({visible[0]}); name a new folder"
        raise InputError("out", out, remedy)
    try:
        manifest = json.loads(read(MANIFEST))
    except Exception:
        manifest = None
    readable = manifest is not None
    if readable and not (isinstance(manifest, dict) and {"resolved", done} <= set(manifest)):
        raise InputError("out", out, f"holds a {MANIFEST} of something else; name a new folder")
    if not resume and not overwrite:
        raise InputError("out", out, "exists; use --resume to go on or --overwrite to replace it")
    if overwrite:
        return None
    if not readable:
        raise InputError("out", out, f"its {MANIFEST} cannot be read; use --overwrite")
    return manifest


def below(out: str, name: str) -> str:
    """The location `name` in `out`."""
    return f"{out.rstrip('/')}/{name}"


def inside(execution: Execution, name: str) -> Execution:
    """How one run of several is made: in OUT's folder `name`, gone on with where it stands."""
    return execution.replace(out=below(execution.out, name), resume=True, overwrite=False)


def local_contents(out: str) -> tuple[list[str], Callable[[str], str]]:
    """What is in a local folder (nothing if there is none), and a reader of its texts by name.

    Raises
    ------
    InputError
        It is none, or cannot be looked into.
    """
    path = local_path(out)
    try:
        names = sorted(child.name for child in path.iterdir())
    except FileNotFoundError:
        names = []
    except NotADirectoryError:
        raise InputError("out", out, "is a file, or below one; name a folder") from None
    except (OSError, ValueError) as error:
        raise InputError("out", out, f"cannot be read ({_reason(error)})") from None
    return names, lambda name: (path / name).read_text("utf-8")


def probe_local(out: str) -> None:
    """Refuse a local folder that cannot be made or written, by doing so; no trace is left.

    Raises
    ------
    InputError
    """
    path = local_path(out)
    made: list[Path] = []
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, ValueError) as error:
        raise InputError("out", out, f"cannot be written ({_reason(error)})") from None
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # somebody else has put something there
                folder.rmdir()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
