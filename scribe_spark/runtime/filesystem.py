"""Small files on any storage that Spark can write, as a whole; detection of a full disk.

Locations are absolute URLs (``file:///out/run``, ``hdfs://host/out``). All errors of a file system
are OSErrors of one line.  A task, a shuffle, a kernel in Python or the driver may meet a full disk
first; often only Java's words are left, deep in Spark's message.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote

from pyarrow import fs
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from scribe_spark.core.errors import shown
from scribe_spark.core.paths import (
    MOST_BYTES,
    check_size,
    open_file,
    read_file,
    replace_file,
    temporary_name,
    whole,
)
from scribe_spark.runtime.environment import SCRATCH
from scribe_spark.runtime.sessions import Connected, abilities, usable

_LOCAL = "file://"
#: The number of bytes that are read at a time for a checksum.
_CHUNK = 1 << 20

#: Object stores: a file appears, complete, when it is closed, and a rename is a copy.
_STORES = ("s3a", "s3", "s3n", "gs", "oss", "dbfs", "abfs", "abfss", "wasb", "wasbs")


class CorruptFileError(OSError):
    """The storage itself reports that a file differs from what was written."""


@dataclass(frozen=True)
class FileStatus:
    """Name, location, length (0: a folder) and time (s, of the file system) of a file or a folder.

    Of a symbolic link, all but `is_link` are those of its target, if there is one.
    """

    name: str
    url: str
    is_folder: bool
    bytes: int
    modified: float
    is_link: bool = False


class Files(Protocol):
    """The interface of a file system.  Every method raises OSError if the file system refuses."""

    def status(self, url: str) -> FileStatus | None:
        """Return the status of a file or folder; None if it does not exist."""

    def list(self, url: str) -> list[FileStatus]:
        """Return the status of each file and folder in a folder, sorted by name."""

    def read(self, url: str, most: int = MOST_BYTES) -> bytes:
        """Return the content of a file of at most `most` bytes, else raise an UnfitFileError."""

    def checksum(self, url: str) -> int:
        """Return the CRC-32 of a file's content, computed where the file system's client runs."""

    def write(self, url: str, content: bytes) -> None:
        """Write or replace a file: readers see the old content or the new one."""

    def create(self, url: str, content: bytes) -> bool:
        """Write a file unless it exists; return True if it was written."""

    def delete(self, url: str) -> None:
        """Delete a file or a whole folder, if it exists."""

    def close(self) -> None:
        """Free the resources of the client, if any; the object cannot be used any more."""
        return


def open_files(spark: SparkSession, url: str) -> Files:
    """Return the file system of a URL; it must be closed."""
    if url.startswith(_LOCAL):
        return LocalFiles()
    return HadoopFiles(spark, url) if usable("hadoop_files", spark) else ArrowFiles(url)


def table_url(url: str) -> str:
    """Return the URL of a location for Spark: Databricks' volumes are folders for Python only."""
    return f"dbfs:{url.removeprefix(_LOCAL)}" if _is_volume(url) else url


def tasks_write(spark: SparkSession, url: str) -> bool:
    """Return True if this process can read the files that Spark writes to a folder."""
    server = abilities(spark)
    if not isinstance(server, Connected) or not url.startswith(_LOCAL) or _is_volume(url):
        return True
    return server.shares_disk or server.tasks_see(_local(url))


def _is_volume(url: str) -> bool:
    return url.startswith(f"{_LOCAL}/Volumes/") and "DATABRICKS_RUNTIME_VERSION" in os.environ


def is_store(url: str) -> bool:
    """Return True if `url` is on an object store."""
    return url.partition(":")[0].lower() in _STORES


def _beside(location: str) -> str:
    return f"{location.rpartition('/')[0]}/{temporary_name()}"


def _crc32(stream: Any) -> int:
    crc = 0
    while chunk := stream.read(_CHUNK):
        crc = zlib.crc32(chunk, crc)
    return crc


# --- local disks


class LocalFiles(Files):
    """Files of this machine: ``file://`` and an absolute path."""

    def status(self, url: str) -> FileStatus | None:
        path = _local(url)
        link = path.is_symlink()
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return FileStatus(path.name, url, False, 0, 0.0, link) if link else None
        folder = path.is_dir()
        size = 0 if folder else found.st_size
        return FileStatus(path.name, url, folder, size, found.st_mtime, link)

    def list(self, url: str) -> list[FileStatus]:
        found = [self.status(f"{url}/{name}") for name in sorted(os.listdir(_local(url)))]
        return [status for status in found if status]

    def read(self, url: str, most: int = MOST_BYTES) -> bytes:
        return read_file(_local(url), most)

    def checksum(self, url: str) -> int:
        with open_file(_local(url)) as stream:
            return _crc32(stream)

    def write(self, url: str, content: bytes) -> None:
        path = _local(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)

    def create(self, url: str, content: bytes) -> bool:
        path = _local(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("xb")
        except FileExistsError:
            if path.is_symlink():  # a link, even a broken one, is never ours and must not be read
                raise OSError(f"{path.name} is a symbolic link") from None
            return False
        with whole(path), file:
            file.write(content)
        return True

    def delete(self, url: str) -> None:
        path = _local(url)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _local(url: str) -> Path:
    return Path(url.removeprefix(_LOCAL))


# --- Hadoop's FileSystem


class HadoopFiles(Files):
    """Files of Hadoop's FileSystem in the JVM; on stores, two writers may `create` one file."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._jvm = cast(Any, spark._jvm)
        self._hadoop = self._jvm.org.apache.hadoop.fs
        self._gateway = cast(Any, spark.sparkContext._gateway)
        self._conf = spark._jsc.hadoopConfiguration()
        with _java_errors():
            # a separate object, as closing must not close the one with which Spark writes tables
            self._files = self._hadoop.FileSystem.newInstance(self._path(url).toUri(), self._conf)
        self._files.setWriteChecksum(False)  # texts may be edited by hand

    def _path(self, url: str) -> Any:
        return self._hadoop.Path(url)

    def status(self, url: str) -> FileStatus | None:
        try:
            with _java_errors():
                return _hadoop_status(url, self._files.getFileStatus(self._path(url)))
        except FileNotFoundError:
            return None

    def list(self, url: str) -> list[FileStatus]:
        with _java_errors():
            entries = self._files.listStatus(self._path(url))
            found = [_hadoop_status(f"{url}/{e.getPath().getName()}", e) for e in entries]
        return sorted(found, key=lambda status: status.name)

    def read(self, url: str, most: int = MOST_BYTES) -> bytes:
        with _java_errors():
            check_size(self._files.getFileStatus(self._path(url)).getLen(), most)
            stream = self._files.open(self._path(url))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def checksum(self, url: str) -> int:
        crc = self._jvm.java.util.zip.CRC32()
        nowhere = self._jvm.java.io.OutputStream.nullOutputStream()
        counted = self._jvm.java.util.zip.CheckedOutputStream(nowhere, crc)
        with _java_errors():
            stream = self._files.open(self._path(url))
            # the last argument closes both streams, also where reading fails
            self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, counted, _CHUNK, True)
        return int(crc.getValue())

    def write(self, url: str, content: bytes) -> None:
        with _java_errors():
            if is_store(url):
                self._put(url, content, True)
                return
            beside = _beside(url)
            self._put(beside, content, False)
            self._move(self._path(beside), self._path(url))

    def create(self, url: str, content: bytes) -> bool:
        try:
            with _java_errors():
                self._put(url, content, False)
        except FileExistsError:
            return False
        return True

    def _put(self, url: str, content: bytes, replace: bool) -> None:
        stream = self._files.create(self._path(url), replace)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _move(self, beside: Any, path: Any) -> None:
        """Rename a file onto another one (`path`), in one step if the file system can do that."""
        try:
            files = self._hadoop.FileContext.getFileContext(path.toUri(), self._conf)
        except Exception:  # the file system has only the older interface
            self._files.delete(path, False)
            if not self._files.rename(beside, path):
                raise OSError(f"{beside} cannot be renamed to {path}") from None
            return
        rename = getattr(self._hadoop, "Options$Rename")
        how = self._gateway.new_array(rename, 1)
        how[0] = rename.OVERWRITE
        files.rename(beside, path, how)

    def delete(self, url: str) -> None:
        with _java_errors():
            self._files.delete(self._path(url), True)

    def close(self) -> None:
        with _java_errors():
            self._files.close()


def _hadoop_status(url: str, found: Any) -> FileStatus:
    modified = found.getModificationTime() / 1000
    folder, link = bool(found.isDirectory()), bool(found.isSymlink())
    size = 0 if folder else int(found.getLen())
    return FileStatus(found.getPath().getName(), url, folder, size, modified, link)


#: Java's exceptions that Python has a class for, by the last part of their names.
_CLASSES: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "NoSuchFileException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "AccessControlException": PermissionError,
    "AccessDeniedException": PermissionError,
    "BlockMissingException": CorruptFileError,
    "ChecksumException": CorruptFileError,
    "EOFException": CorruptFileError,
}


@contextmanager
def _java_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        lines = str(java).strip().splitlines() or [java.getClass().getName()]
        kind = _CLASSES.get(java.getClass().getSimpleName(), OSError)
        raise kind(lines[0]) from None


# --- pyarrow's, without the trick `hadoop_files`


class ArrowFiles(Files):
    """Local files, HDFS (needs libhdfs), S3, Google Cloud Storage and Azure, by pyarrow.

    Two writers that `create` a file at once may both succeed.
    """

    def __init__(self, url: str) -> None:
        scheme, slashes, place = url.partition("://")
        scheme = "s3" if scheme.lower() in ("s3a", "s3n") else scheme
        with _arrow_errors():
            self._files, root = fs.FileSystem.from_uri(scheme + slashes + quote(place, "/:@"))
        self._url, self._root = url.rstrip("/"), root.rstrip("/")

    def _path(self, url: str) -> str:
        return self._root + url.removeprefix(self._url)

    def status(self, url: str) -> FileStatus | None:
        with _arrow_errors():
            found = self._files.get_file_info(self._path(url))
        return None if found.type == fs.FileType.NotFound else _arrow_status(url, found)

    def list(self, url: str) -> list[FileStatus]:
        with _arrow_errors():
            found = self._files.get_file_info(fs.FileSelector(self._path(url)))
        statuses = [_arrow_status(f"{url}/{info.base_name}", info) for info in found]
        return sorted(statuses, key=lambda status: status.name)

    def read(self, url: str, most: int = MOST_BYTES) -> bytes:
        with (
            _arrow_errors(),
            self._files.open_input_stream(self._path(url), compression=None) as file,
        ):
            content = bytes(file.read(most + 1))
        check_size(len(content), most)
        return content

    def checksum(self, url: str) -> int:
        with (
            _arrow_errors(),
            self._files.open_input_stream(self._path(url), compression=None) as file,
        ):
            return _crc32(file)

    def write(self, url: str, content: bytes) -> None:
        path = self._path(url)
        beside = path if is_store(url) else _beside(path)
        with _arrow_errors():
            self._put(beside, content)
            if beside != path:
                self._files.move(beside, path)

    def create(self, url: str, content: bytes) -> bool:
        if self.status(url) is not None:
            return False
        with _arrow_errors():
            self._put(self._path(url), content)
        return True

    def _put(self, path: str, content: bytes) -> None:
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(path, compression=None) as file:
            file.write(content)

    def delete(self, url: str) -> None:
        found = self.status(url)
        if found is not None:
            with _arrow_errors():
                remove = self._files.delete_dir if found.is_folder else self._files.delete_file
                remove(self._path(url))


def _arrow_status(url: str, info: fs.FileInfo) -> FileStatus:
    folder = info.type == fs.FileType.Directory
    modified = 0.0 if info.mtime is None else info.mtime.timestamp()
    return FileStatus(info.base_name, url, folder, 0 if folder else info.size, modified)


@contextmanager
def _arrow_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError, NotImplementedError) as error:  # ArrowInvalid is a ValueError
        raise OSError((str(error).splitlines() or [type(error).__name__])[0]) from None


# --- detection of a full disk


#: The error codes of an operating system for an exhausted disk, quota, or limit on file sizes.
_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: The messages for the same: Java uses those of the C library; HDFS has its own.
_WORDS = (
    *("No space left on device", "Disk quota exceeded", "File too large"),
    *(os.strerror(number) for number in _NUMBERS),
    *("DSQuotaExceededException", "NSQuotaExceededException"),
)
_SIGN = re.compile("|".join(dict.fromkeys(map(re.escape, _WORDS))))

#: A disk with fewer free bytes counts as full (a failed task deletes its files).
_LITTLE = 16 << 20

#: The words for the scratch folders of executors on other machines.
_ELSEWHERE = Path("an executor's")

#: Spark's words for a failed task that writes a table.
_WRITING = "TASK_WRITE_FAILED"

_GO_ON = "then continue with --resume"


def full_disk(
    error: BaseException, spark: SparkSession | None, out: str, folder: Path | None
) -> str | None:
    """Return one line with the folder of a full disk, `out` or a scratch folder; None otherwise."""
    reason = _sign(error)
    if reason is None:
        return None
    written = [] if folder is None else [folder]
    scratch = [] if spark is None else scratch_folders(spark)
    found = _named(error, [*written, *scratch]) or _fullest([*written, *scratch])
    if found is None and spark is not None and _WRITING not in _text(error):
        found = scratch[0] if scratch else _ELSEWHERE
    if found is None or found in written:
        return f"out = {shown(out)}: has no space left ({reason}); free space there, {_GO_ON}"
    return (
        f"{SCRATCH} = {shown(str(found))}: has no space left ({reason}); free space there, or name "
        f"another folder, {_GO_ON}"
    )


def scratch_folders(spark: SparkSession) -> list[Path]:
    """Return this machine's folders in which Spark and Python keep data that exceeds memory."""
    if not abilities(spark).shares_disk:
        return []
    found = os.environ.get(SCRATCH) or spark.conf.get("spark.local.dir", None)
    folders = [Path(folder) for folder in (found or "").split(",") if folder]
    if not folders:
        with suppress(Exception):  # the JVM may have ended
            # FOLDER/spark-.../userFiles-...
            folders = [Path(SparkFiles.getRootDirectory()).parents[1]]
    return list(dict.fromkeys([*folders, Path(tempfile.gettempdir())]))


def _sign(error: BaseException) -> str | None:
    """Return the words in an error that mean that a disk is full; None without such words."""
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return os.strerror(error.errno)
    found = _SIGN.search(_text(error))
    return found[0] if found else None


def _text(error: BaseException) -> str:
    """Return all texts of an error and of its causes, also Java's, as one text."""
    parts, seen = [], error
    for _ in range(10):
        parts += [str(seen), str(getattr(seen, "_stackTrace", "") or "")]
        cause = seen.__cause__ or seen.__context__
        if cause is None:
            break
        seen = cause
    return "\n".join(parts)


def _named(error: BaseException, folders: Iterable[Path]) -> Path | None:
    """Return the folder with the file that an error about a full disk names."""
    name = getattr(error, "filename", None)
    lines = [line for line in _text(error).splitlines() if _SIGN.search(line)]
    for folder in folders:
        if name is not None and Path(os.fsdecode(name)).is_relative_to(folder.absolute()):
            return folder
        if any(f"{folder.absolute()}{os.sep}" in line for line in lines):
            return folder
    return None


def _fullest(folders: Iterable[Path]) -> Path | None:
    """Return the folder with the least free space on its disk, if that is nearly full."""
    room: dict[Path, int] = {}
    for folder in folders:
        with suppress(OSError):
            room[folder] = shutil.disk_usage(folder).free
    least = min(room, key=lambda folder: room[folder], default=None)
    return least if least is not None and room[least] < _LITTLE else None
