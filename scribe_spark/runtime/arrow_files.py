"""Files on the file systems that pyarrow knows: used where the trick ``hadoop_files`` is off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from pyarrow import fs

from scribe_spark.runtime.filesystem import FileStatus, crc32, is_store

__all__ = ["ArrowFiles"]


class ArrowFiles:
    """The file system of a URL and of all below it, by pyarrow, with pyarrow's own settings.

    Local files, HDFS (needs libhdfs), S3, Google Cloud Storage and Azure.
    """

    def __init__(self, url: str) -> None:
        scheme, slashes, place = url.partition("://")
        scheme = "s3" if scheme.lower() in ("s3a", "s3n") else scheme
        with _one_line():
            self._files, root = fs.FileSystem.from_uri(scheme + slashes + quote(place, "/:@"))
        self._url, self._root = url.rstrip("/"), root.rstrip("/")

    def _path(self, url: str) -> str:
        return self._root + url.removeprefix(self._url)

    def status(self, url: str) -> FileStatus | None:
        """See :class:`~scribe_spark.runtime.filesystem.Files`."""
        with _one_line():
            found = self._files.get_file_info(self._path(url))
        return None if found.type == fs.FileType.NotFound else _status(url, found)

    def list(self, url: str) -> list[FileStatus]:
        """See :class:`~scribe_spark.runtime.filesystem.Files`."""
        with _one_line():
            found = self._files.get_file_info(fs.FileSelector(self._path(url)))
        statuses = [_status(f"{url}/{info.base_name}", info) for info in found]
        return sorted(statuses, key=lambda status: status.name)

    def read(self, url: str) -> bytes:
        """See :class:`~scribe_spark.runtime.filesystem.Files`."""
        with _one_line(), self._files.open_input_stream(self._path(url), compression=None) as file:
            return bytes(file.read())

    def checksum(self, url: str) -> int:
        """See :class:`~scribe_spark.runtime.filesystem.Files`."""
        with _one_line(), self._files.open_input_stream(self._path(url), compression=None) as file:
            return crc32(file)

    def write(self, url: str, content: bytes) -> None:
        """See :class:`~scribe_spark.runtime.filesystem.Files`."""
        path = self._path(url)
        beside = path if is_store(url) else f"{path}.tmp"
        with _one_line():
            self._put(beside, content)
            if beside != path:
                self._files.move(beside, path)

    def create(self, url: str, content: bytes) -> bool:
        """See :class:`~scribe_spark.runtime.filesystem.Files`.  Two at once may both succeed."""
        if self.status(url) is not None:
            return False
        with _one_line():
            self._put(self._path(url), content)
        return True

    def _put(self, path: str, content: bytes) -> None:
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(path, compression=None) as file:
            file.write(content)

    def delete(self, url: str) -> None:
        """See :class:`~scribe_spark.runtime.filesystem.Files`."""
        found = self.status(url)
        if found is not None:
            with _one_line():
                remove = self._files.delete_dir if found.is_folder else self._files.delete_file
                remove(self._path(url))

    def close(self) -> None:
        """See :class:`~scribe_spark.runtime.filesystem.Files`."""


def _status(url: str, info: fs.FileInfo) -> FileStatus:
    folder = info.type == fs.FileType.Directory
    modified = 0.0 if info.mtime is None else info.mtime.timestamp()
    return FileStatus(info.base_name, url, folder, 0 if folder else info.size, modified)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn pyarrow's errors into OSErrors of one line."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError, NotImplementedError) as error:  # ArrowInvalid is a ValueError
        raise OSError((str(error).splitlines() or [type(error).__name__])[0]) from None
