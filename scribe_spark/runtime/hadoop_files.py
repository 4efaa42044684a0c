"""Files on any file system that Spark can write, through Hadoop's FileSystem in the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from pyspark.sql import SparkSession

from scribe_spark.runtime.filesystem import CHUNK, CorruptFileError, FileStatus, is_store

__all__ = ["HadoopFiles"]


class HadoopFiles:
    """Any file system that Spark can write, through Hadoop's FileSystem in the JVM."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._jvm = cast(Any, spark._jvm)
        self._hadoop = self._jvm.org.apache.hadoop.fs
        self._gateway = cast(Any, spark.sparkContext._gateway)
        self._conf = spark._jsc.hadoopConfiguration()
        with _java_errors():
            # one of our own, because what Spark writes tables with must not be closed with it
            self._files = self._hadoop.FileSystem.newInstance(self._path(url).toUri(), self._conf)
        self._files.setWriteChecksum(False)  # texts may be edited by hand

    def _path(self, url: str) -> Any:
        return self._hadoop.Path(url)

    def status(self, url: str) -> FileStatus | None:
        """See :class:`Files`."""
        try:
            with _java_errors():
                return _hadoop_status(url, self._files.getFileStatus(self._path(url)))
        except FileNotFoundError:
            return None

    def list(self, url: str) -> list[FileStatus]:
        """See :class:`Files`."""
        with _java_errors():
            entries = self._files.listStatus(self._path(url))
            found = [_hadoop_status(f"{url}/{e.getPath().getName()}", e) for e in entries]
        return sorted(found, key=lambda status: status.name)

    def read(self, url: str) -> bytes:
        """See :class:`Files`."""
        with _java_errors():
            stream = self._files.open(self._path(url))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def checksum(self, url: str) -> int:
        """See :class:`Files`."""
        crc = self._jvm.java.util.zip.CRC32()
        nowhere = self._jvm.java.io.OutputStream.nullOutputStream()
        counted = self._jvm.java.util.zip.CheckedOutputStream(nowhere, crc)
        with _java_errors():
            stream = self._files.open(self._path(url))
            # the last argument closes both streams, also where reading fails
            self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, counted, CHUNK, True)
        return int(crc.getValue())

    def write(self, url: str, content: bytes) -> None:
        """See :class:`Files`."""
        with _java_errors():
            if is_store(url):
                self._put(url, content, True)
            else:
                self._put(f"{url}.tmp", content, True)
                self._move(self._path(f"{url}.tmp"), self._path(url))

    def create(self, url: str, content: bytes) -> bool:
        """See :class:`Files`.  Two at once may both succeed on an object store."""
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
        """Put a file in another's place: in one step, where the file system has one."""
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
        """See :class:`Files`."""
        with _java_errors():
            self._files.delete(self._path(url), True)

    def close(self) -> None:
        """See :class:`Files`."""
        with _java_errors():
            self._files.close()


def _hadoop_status(url: str, found: Any) -> FileStatus:
    modified = found.getModificationTime() / 1000
    folder = bool(found.isDirectory())
    return FileStatus(
        found.getPath().getName(), url, folder, 0 if folder else int(found.getLen()), modified
    )


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
    """Turn Java's exceptions into OSErrors of one line."""
    try:
        yield
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        lines = str(java).strip().splitlines() or [java.getClass().getName()]
        kind = _CLASSES.get(java.getClass().getSimpleName(), OSError)
        raise kind(lines[0]) from None
