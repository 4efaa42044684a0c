"""A run's folder as storage for texts and tables, wherever Spark can write.

Texts go through `runtime.filesystem`, tables through Spark.  Files that no command has written are
found by their names before anything is deleted: each command writes files of fixed names, and Spark
and pyarrow name the files of tables.  Names of figures depend on the measures of a run; an SVG file
has its own name as a label, and PNG and CSV files have the name of the SVG file beside them.  A
symbolic link is never a command's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark import schemas
from scribe_spark.config import EXPERIMENTS
from scribe_spark.core.errors import InputError, RunError, one_line, redacted, shown
from scribe_spark.core.inputs import is_local, local_path
from scribe_spark.core.paths import (
    MOST_BYTES,
    MOST_MANIFEST,
    UnfitFileError,
    is_temporary,
    local_contents,
    refuse_long_names,
    temporary_name,
)
from scribe_spark.experiments.digests import (
    content_digest,
    file_digests,
    find_changed_file,
    text_digest,
    watch_content,
)
from scribe_spark.experiments.lock import LOCK, Lock
from scribe_spark.experiments.manifest import (
    MANIFEST,
    PAPER,
    Owner,
    inner_name,
    join,
    owner_of,
    points_of,
    read_manifest,
)
from scribe_spark.report.page import Report
from scribe_spark.runtime.batches import (
    EVERY,
    Among,
    Batches,
    Table,
    can_write,
    rows_of,
    shares_disk,
    write_parquet,
)
from scribe_spark.runtime.filesystem import (
    CorruptFileError,
    Files,
    FileStatus,
    LocalFiles,
    full_disk,
    open_files,
    table_url,
    tasks_write,
)
from scribe_spark.runtime.sessions import local_frame

#: The option with which Spark does not read a path as a pattern.
_NO_PATTERN = {"__globPaths__": "false"}

#: The table of a sweep.
SWEPT = "sweep"

#: Errors because of a text, not because of the storage.
_OF_CONTENT = (
    *(FileNotFoundError, NotADirectoryError, IsADirectoryError),
    *(UnicodeDecodeError, CorruptFileError, UnfitFileError),
)


class StoredFolder:
    """A folder (path or URL) of a command, and its file system; close it after use."""

    def __init__(self, spark: SparkSession | None, out: str) -> None:
        self.out, self._session = out, spark
        refuse_long_names(out)
        # a plain path is local, even if the cluster's default file system is another one
        self.url = f"file://{local_path(out).absolute()}" if is_local(out) else out.rstrip("/")
        with self.usable():
            self._files = LocalFiles() if spark is None else open_files(spark, self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the folder; if a disk was full anywhere, raise the one line about that."""
        self.close()
        if isinstance(error, Exception) and not isinstance(error, (InputError, RunError)):
            self._refuse_full_disk(error, self._session)

    def _refuse_full_disk(self, error: Exception, spark: SparkSession | None) -> None:
        path = local_path(self.out).absolute() if is_local(self.out) else None
        line = full_disk(error, spark, self.out, path)
        if line is not None:
            raise RunError(line) from None

    def close(self) -> None:
        """Free the resources of the file system's client; a second call does nothing."""
        with suppress(OSError):
            self._files.close()

    @contextmanager
    def usable(self, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Return a context manager that turns errors of the file system into an InputError.

        Errors of the types `but` stay as they are.
        """
        try:
            yield
        except (InputError, RunError):
            raise
        except but:
            raise
        except Exception as error:
            self._refuse_full_disk(error, None)
            raise InputError("out", self.out, f"cannot be used ({one_line(error)})") from None

    def names(self) -> list[str]:
        """Return the names of files and folders in the folder; empty if it does not exist."""
        if is_local(self.out):
            return local_contents(self.out)[0]
        with self.usable():
            if self._files.status(self.url) is None:
                return []
            return [found.name for found in self._files.list(self.url)]

    def read_text(self, name: str) -> str:
        """Return a text of the folder."""
        most = MOST_MANIFEST if name == MANIFEST else MOST_BYTES
        with self.usable(_OF_CONTENT):
            return self._files.read(self._location(name), most).decode()

    def read_json(self, name: str) -> Any:
        """Return the value of a JSON file; raise the errors of `read_text` and `json.loads`."""
        return json.loads(self.read_text(name))

    def is_of(self, owner: Owner | None) -> bool:
        """Return True if the folder has a manifest of the command `owner`."""
        return (
            MANIFEST in self.names() and owner_of(read_manifest(self.out, self.read_text)) is owner
        )

    def inner_folders(self, owner: Owner) -> list[str]:
        """Return the names of the folders of runs or worlds in that of the command `owner`."""
        if owner.inner is None or not self.is_of(owner):
            return []
        if owner is not PAPER:
            return points_of(self.read_json(MANIFEST))
        with self.usable():
            above = [found for found in self._files.list(self.url) if found.name in EXPERIMENTS]
            runs = [(each, self._files.list(each.url)) for each in above if each.is_folder]
        return [f"{each.name}/{run.name}" for each, of in runs for run in of if run.is_folder]

    def refuse_strange(self, owner: Owner, inner: Iterable[str] | None = None) -> None:
        """Refuse to replace the folder if it has files that no command has written."""
        self._refuse_strange(find_strange_file, owner.contents)
        for name in self.inner_folders(owner) if inner is None else inner:
            self._refuse_strange(find_link, name)
            with StoredFolder(self._session, join(self.out, name)) as folder:
                if owner.inner is not None and folder.is_of(owner.inner):
                    folder.refuse_strange(owner.inner)

    def refuse_links(self, owner: Owner) -> None:
        """Refuse symbolic links in place of the owner's files and folders."""
        for name in owner.contents:
            self._refuse_strange(find_link, name)

    def refuse_strange_in_tables(self) -> None:
        """Refuse foreign files in tables' folders; writing a table deletes all files there."""
        with self.usable():
            found = self._files.list(self._location("tables")) if "tables" in self.names() else []
        tables = [f"tables/{each.name}" for each in found if each.name in schemas.WRITTEN]
        self._refuse_strange(find_strange_file, [*tables, SWEPT])

    def _refuse_strange(self, find: Callable[[Files, str, Any], str | None], where: Any) -> None:
        with self.usable():
            strange = find(self._files, self.url, where)
        if strange is not None:
            remedy = (
                f"holds {shown(strange)}, which scribe-spark did not write and would delete; "
                "move it away, or name another OUT"
            )
            raise InputError("out", self.out, remedy)

    def verify_text(self, name: str, digest: str) -> str | None:
        """Return the fault of a text, compared with its digest; None if it is as recorded."""
        try:
            text = self.read_text(name)
        except (FileNotFoundError, NotADirectoryError):
            return "it is missing"
        except (IsADirectoryError, UnicodeDecodeError, CorruptFileError):
            return "it is not a text file"
        except UnfitFileError as error:
            return f"it {error}"
        return None if text_digest(text) == digest else "it has changed"

    def verify_table(self, name: str, record: Mapping[str, Any]) -> str | None:
        """Return the fault of a table, compared with its record; None if it is as recorded."""
        with self.usable():
            return find_changed_file(self._files, self._table(name), record.get("files", {}))

    def faults(
        self, tables: Mapping[str, Any], texts: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the path and the fault of each text and table that is not as recorded."""
        for name, digest in texts.items():
            if (problem := self.verify_text(name, digest)) is not None:
                yield name, problem
        for name, record in tables.items():
            if (problem := self.verify_table(name, record)) is not None:
                yield _table_path(name), problem

    def clear(self, owner: Owner, inner: Iterable[str] = ()) -> None:
        """Delete all output of a command but its manifest, which names the owner of the folder."""
        names = list(dict.fromkeys([*inner, *self.inner_folders(owner)]))
        self.refuse_strange(owner, names)
        for name in names:
            with StoredFolder(self._session, join(self.out, name)) as folder:
                folder.remove(owner.inner)
        with self.usable():
            for name in owner.contents:
                self._files.delete(self._location(name))
            for name in {name.rpartition("/")[0] for name in names} - {""}:
                if not self._files.list(self._location(name)):
                    self._files.delete(self._location(name))

    def remove(self, owner: Owner | None) -> None:
        """Delete all output of a command, and the folder if it is then empty."""
        if owner is None or not self.is_of(owner):
            return
        self.clear(owner)
        with self.usable():
            self._files.delete(self._location(MANIFEST))
            if not set(self.names()) - {LOCK}:
                self._files.delete(self.url)

    def write_text(self, name: str, text: str) -> None:
        """Write a text to a file: all of it or nothing."""
        self._write_bytes(name, text.encode())

    def _write_bytes(self, name: str, content: bytes) -> None:
        with self.usable():
            self._files.write(self._location(name), content)

    def write_page(self, page: Report, name: str = "report.html") -> str:
        """Write a page and its figures; return the page's location."""
        for file, content in page.files.items():
            self._write_bytes(f"figures/{file}", content)
        self.write_text(name, page.html)
        return join(self.out, name)

    def write_json(self, name: str, value: Any, indent: int | None = 2) -> str:
        """Write a value as JSON (a manifest without secrets); return the digest of the text."""
        value = redacted(value) if name == MANIFEST else value
        text = json.dumps(value, indent=indent) + "\n"
        self.write_text(name, text)
        return text_digest(text)

    def collect(self, name: str, columns: Sequence[str], among: Among = EVERY) -> pa.Table:
        """Return columns of a table; `among` (column -> values) selects rows."""
        path = self._table(name).removeprefix("file://")
        # without a job; only the parts of the files that may have such rows
        chosen = [(column, "in", values) for column, values in among.items()]
        return pq.read_table(path, columns=list(columns), filters=chosen or None, partitioning=None)

    def _location(self, name: str) -> str:
        """Return the URL of a name in the folder; refuse names that lead elsewhere."""
        return "/".join([self.url, *map(inner_name, name.split("/"))])

    def _table(self, name: str) -> str:
        return self._location(_table_path(name))


def _local(url: str) -> Path:
    """Return the folder that a table's URL names, if the folder is on a local disk."""
    return Path(url.removeprefix("file://"))


def _table_path(name: str) -> str:
    """Return the path of a table in its folder; a sweep's table is not among ``tables``."""
    return name if name == SWEPT else f"tables/{name}"


#: Parquet checks after each row if a page or a row group is full.  By default it checks after a
#: hundred rows: packed tables, with few and long rows, would be one page, compressed in memory.
_ROW_BY_ROW = {"parquet.page.size.row.check.min": "1", "parquet.page.row.count.limit": "1"}


class Folder(StoredFolder):
    """A stored folder with operations to read and write tables."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        super().__init__(spark, out)
        self.spark = spark

    def lock(self, note: Callable[[str], None]) -> Lock:
        """Return the lock that a run holds while it writes; it is not acquired yet."""
        return Lock(self._files, self.url, self.out, note=note)

    def make(self) -> None:
        """Create the folder."""
        with self.usable():
            probe = self._location(temporary_name())
            self._files.create(probe, b"")
            self._files.delete(probe)
            seen = tasks_write(self.spark, self.url)
        if not seen:
            remedy = "is not visible to the server's tasks; give a URL or a shared folder"
            raise InputError("out", self.out, remedy)

    # --- tables

    def write_tables(self, tables: Mapping[str, Table | pa.Table]) -> dict[str, dict[str, Any]]:
        """Write tables as Parquet, those that tasks can write in one job; return their records."""
        made = {
            name: table if isinstance(table, pa.Table) else Batches.of(table)
            for name, table in tables.items()
        }
        columns = {
            name: from_arrow_schema(table.schema) if isinstance(table, pa.Table) else table.schema
            for name, table in made.items()
        }
        for name, found in columns.items():
            if name != SWEPT:  # which has a column for each swept setting
                schemas.check_columns(name, found)
        urls = {name: self._table(name) for name in made}
        in_tasks = {
            _local(urls[name]): table
            for name, table in made.items()
            if can_write(columns[name], self.spark, urls[name])
        }
        try:
            contents = write_parquet(in_tasks)
        except OSError:  # other errors are those of Spark's jobs
            with self.usable():
                raise
        records = {}
        for name, table in made.items():
            content: Mapping[str, Any] | None = contents.get(_local(urls[name]))
            if content is None:
                content = self._write_by_spark(urls[name], table, columns[name])
            with self.usable():
                files = file_digests(self._files, urls[name])
            records[name] = {**content_digest(content, columns[name]), "files": files}
        return records

    def _write_by_spark(
        self, url: str, table: Batches | pa.Table, columns: StructType
    ) -> Mapping[str, Any]:
        """Let Spark write a table; return the values of `watch_content`."""
        local = isinstance(table, pa.Table)
        frame = local_frame(self.spark, table).coalesce(1) if local else table.frame
        seen = Observation()
        watched = watch_content(frame, seen)
        options = _ROW_BY_ROW if columns == schemas.ROWS else {}
        watched.write.mode("overwrite").options(**options).parquet(table_url(url))
        return seen.get

    def read_table(self, name: str) -> DataFrame:
        """Return a table; with known columns, Spark does not open its files first."""
        read, columns = self.spark.read.options(**_NO_PATTERN), self._columns(name)
        return (read if columns is None else read.schema(columns)).parquet(
            table_url(self._table(name))
        )

    def _columns(self, name: str) -> StructType | None:
        """Return the columns of a table that are known; None if Spark has to open its files."""
        further, url = schemas.further_columns(name), self._table(name)
        if not further:
            return schemas.WRITTEN.get(name)
        if not shares_disk(self.spark, url):
            return None
        for file in _local(url).glob("*.parquet"):
            there = pq.read_schema(file).names
            further = [field for field in further if field.name in there]
            return StructType([*schemas.WRITTEN[name], *further])
        return schemas.WRITTEN[name]

    def batches(self, name: str, columns: Sequence[str], among: Among = EVERY) -> Batches:
        """Return columns of a table for kernels; `among` (column -> values) selects rows."""
        url = self._table(name)
        if shares_disk(self.spark, url):
            return Batches.saved(self.spark, _local(url), columns, among)
        return Batches.of(self.read_table(name), columns, among)

    def files_for_tasks(self, name: str) -> tuple[str, ...] | None:
        """Return the paths of a table's files, or None if tasks cannot read them."""
        url = self._table(name)
        if not shares_disk(self.spark, url):
            return None
        folder = _local(url)
        return tuple(sorted(str(file) for file in folder.glob("*.parquet")))

    def collect(self, name: str, columns: Sequence[str], among: Among = EVERY) -> pa.Table:
        if shares_disk(self.spark, self._table(name)):
            return super().collect(name, columns, among)
        return rows_of(self.read_table(name), columns, among)


#: In the folder of a table: rows, marks and checksums, and what a killed job has left.
_IN_TABLE = (
    r"part-\d[\w.-]*\.parquet",
    r"_SUCCESS",
    r"\.(part-\d[\w.-]*\.parquet|_SUCCESS)\.crc",
    r"(_temporary|\.spark-staging-[\w-]+)/.*",
    r"_(started|committed)_\w+",  # Databricks
)

_NAMES = re.compile(
    "|".join(
        (
            r"(report|sweep|compare)\.html|compare\.(csv|json)|metrics\.json|measures_(even|odd)\.json",
            r"points/(hosts|scaling)-\d+-children-\d+\.json",
            rf"(tables/({'|'.join(schemas.WRITTEN)})|sweep)/({'|'.join(_IN_TABLE)})",
        )
    )
)

_FIGURE = re.compile(r"(?P<stem>figures/(?P<name>[\w-]+))\.(svg|png|csv)")


def find_strange_file(files: Files, url: str, contents: Iterable[str]) -> str | None:
    """Return the first file or link in a folder that no command of scribe-spark has written."""
    for path in contents:
        link = find_link(files, url, path)
        if link is not None:
            return link
        found = files.status(f"{url}/{path}")
        for each in [] if found is None else _files_of(files, found):
            inner = each.url.removeprefix(f"{url}/")
            if each.is_link or not _is_written(files, inner, each):
                return inner
    return None


def find_link(files: Files, url: str, path: str) -> str | None:
    """Return the first symbolic link on the way from the folder `url` to a path below it."""
    parts = path.split("/")
    for way in ("/".join(parts[:end]) for end in range(1, len(parts) + 1)):
        found = files.status(f"{url}/{way}")
        if found is not None and found.is_link:
            return way
    return None


def _files_of(files: Files, found: FileStatus) -> Iterator[FileStatus]:
    """Yield `found` if it is a file or link, else the files and links in this folder."""
    if not found.is_folder or found.is_link:
        yield found
        return
    for inner in files.list(found.url):
        yield from _files_of(files, inner)


def _is_written(files: Files, path: str, file: FileStatus) -> bool:
    """Return True if commands write such a file; `path` is relative to the command's folder."""
    if is_temporary(file.name) or _NAMES.fullmatch(path):
        return True
    figure = _FIGURE.fullmatch(path)
    if figure is None:
        return False
    # PNG and CSV belong to the SVG beside them, which `report.svg` labels
    drawing = f"{file.url.removesuffix(path)}{figure['stem']}.svg"
    found = files.status(drawing)
    if found is None or found.is_folder:
        return False
    if found.is_link:  # which is refused itself
        return True
    return f'aria-labelledby="{figure["name"]}-title '.encode() in files.read(drawing)
