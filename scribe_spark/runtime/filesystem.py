"""Files wherever Spark can write: local, HDFS, object stores; small ones, read and written whole.

A file system takes locations as absolute URLs (``file:///out/run``, ``hdfs://host/out``).  Whatever
it has against one is an OSError of one line.
"""

from __future__ import annotations

import os
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from scribe_spark.runtime.tricks import enabled

__all__ = [
    "CHUNK",
    "CorruptFileError",
    "FileStatus",
    "Files",
    "LocalFiles",
    "crc32",
    "is_store",
    "open_files",
]

_LOCAL = "file://"
#: Bytes read at a time for a checksum.
CHUNK = 1 << 20

#: Object stores: a file appears, complete, when it is closed, and a rename is a copy.
_STORES = ("s3a", "s3", "s3n", "gs", "oss", "dbfs", "abfs", "abfss", "wasb", "wasbs")


class CorruptFileError(OSError):
    """The storage itself has found that a file is not what was written."""


@dataclass(frozen=True)
class FileStatus:
    """What a file system says of a file or folder.

    Attributes
    ----------
    name : str
        The last part of its location.
    url : str
        Its location.
    is_folder : bool
    bytes : int
        Its length; 0 for a folder.
    modified : float
        Seconds since 1970 when it was last written, by the clock of the file system.
    """

    name: str
    url: str
    is_folder: bool
    bytes: int
    modified: float


class Files(Protocol):
    """A file system.  Every method raises OSError where the file system refuses."""

    def status(self, url: str) -> FileStatus | None:
        """What is at `url`; None if nothing is."""

    def list(self, url: str) -> list[FileStatus]:
        """What is in a folder, by name."""

    def read(self, url: str) -> bytes:
        """The content of a file."""

    def checksum(self, url: str) -> int:
        """The CRC-32 of the content of a file, computed where the file system's client runs."""

    def write(self, url: str, content: bytes) -> None:
        """Put a file there, or replace it: a reader sees the old content or the new one."""

    def create(self, url: str, content: bytes) -> bool:
        """Put a file there unless there is one; whether it was put there."""

    def delete(self, url: str) -> None:
        """Delete a file, or a folder with all that is in it; nothing there is no error."""

    def close(self) -> None:
        """Free what the file system's client holds; it cannot be used any more."""


def open_files(spark: SparkSession, url: str) -> Files:
    """The file system that `url` is on; to be closed.

    Raises
    ------
    OSError
        There is no such file system, or it does not answer.
    """
    if url.startswith(_LOCAL):
        return LocalFiles()
    # imported here, because both are made of what this module defines
    if enabled("hadoop_files"):
        from scribe_spark.runtime.hadoop_files import HadoopFiles

        return HadoopFiles(spark, url)
    from scribe_spark.runtime.arrow_files import ArrowFiles

    return ArrowFiles(url)


def is_store(url: str) -> bool:
    """Whether `url` is on an object store."""
    return url.partition(":")[0].lower() in _STORES


class LocalFiles:
    """Files of this machine: ``file://`` and an absolute path."""

    def status(self, url: str) -> FileStatus | None:
        """See :class:`Files`."""
        path = _local(url)
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        folder = path.is_dir()
        return FileStatus(path.name, url, folder, 0 if folder else found.st_size, found.st_mtime)

    def list(self, url: str) -> list[FileStatus]:
        """See :class:`Files`."""
        found = [self.status(f"{url}/{name}") for name in sorted(os.listdir(_local(url)))]
        return [status for status in found if status]

    def read(self, url: str) -> bytes:
        """See :class:`Files`."""
        return _local(url).read_bytes()

    def checksum(self, url: str) -> int:
        """See :class:`Files`."""
        with _local(url).open("rb") as stream:
            return crc32(stream)

    def write(self, url: str, content: bytes) -> None:
        """See :class:`Files`."""
        path = _local(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.tmp")
        beside.write_bytes(content)
        beside.replace(path)

    def create(self, url: str, content: bytes) -> bool:
        """See :class:`Files`."""
        path = _local(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def delete(self, url: str) -> None:
        """See :class:`Files`."""
        path = _local(url)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """See :class:`Files`."""


def _local(url: str) -> Path:
    return Path(url.removeprefix(_LOCAL))


def crc32(stream: Any) -> int:
    """The CRC-32 of what is left of a binary stream."""
    crc = 0
    while chunk := stream.read(CHUNK):
        crc = zlib.crc32(chunk, crc)
    return crc
