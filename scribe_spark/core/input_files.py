"""Reading of files: tables and configs of users, manifests and texts in folders of results.

One rule holds for all of them.  A file is a regular file, not a pipe, a device or a socket: several
steps of a command read the same input, and to open a pipe may take for ever.  A file is read into
memory at once, up to a bound, which also holds for the content of a compressed file.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path
from typing import IO, Any

#: The greatest content of a file in bytes.
MOST_BYTES = 2**30

#: The greatest manifest in bytes, as JSON takes many times as much memory.
MOST_MANIFEST = 2**26

_PART = 2**20  # bytes that are read at a time

_SPECIAL = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)

#: The endings of archives, which may be compressed, and pandas' name of the compression.
_ARCHIVES = {".tar": None, ".tar.gz": "gzip", ".tar.bz2": "bz2", ".tar.xz": "xz"}


class UnfitFileError(OSError):
    """A file that is no regular file, or that has too many bytes."""


def check_regular(file: Path) -> os.stat_result:
    """Return the status of a file or folder; raise an UnfitFileError for a pipe or a device."""
    found = file.stat()
    for is_special, name in _SPECIAL:
        if is_special(found.st_mode):
            raise UnfitFileError(f"is {name}, not a file; write its content into a file first")
    return found


def check_size(size: int, most: int = MOST_BYTES) -> None:
    """Raise an UnfitFileError if a file has more than `most` bytes."""
    if size > most:
        raise UnfitFileError(f"has more than {most:,} bytes; give a smaller file")


def open_file(file: Path) -> io.BufferedReader:
    """Open a regular file; raise an UnfitFileError for a pipe or a device."""
    check_regular(file)
    return open(file, "rb")


def read_file(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises
    ------
    OSError
        The file cannot be read; an UnfitFileError if it is a pipe or a device, or too large.
    """
    with open_file(file) as opened:
        return _read(opened, most)


def read_packed(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file that may be compressed (``.gz``, ``.bz2``, ``.xz``, ``.zip``).

    Raises
    ------
    OSError
        See :func:`read_file`; `most` is the number of uncompressed bytes.
    Exception
        A compressed file is damaged; each compression has its own errors.
    """
    from pandas.io.common import get_handle  # imported here, as `--help` does not need it

    check_regular(file)
    name = file.name.lower()
    archive = next((ending for ending in _ARCHIVES if name.endswith(ending)), None)
    how: Any = "infer" if archive is None else _ARCHIVES[archive]
    with get_handle(file, "rb", compression=how, is_text=False) as opened:
        content: Any = opened.handle
        data = _read(content, most)
    return data if archive is None else _only_member(data)


def _read(opened: IO[bytes], most: int) -> bytes:
    content = io.BytesIO()
    while part := opened.read(_PART):
        content.write(part)
        check_size(content.tell(), most)
    return content.getvalue()


def _only_member(data: bytes) -> bytes:
    """Return the only file in a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        first = archive.next()
        content = None if first is None else archive.extractfile(first)
        if content is None or archive.next() is not None:
            raise ValueError("the archive must hold one file")
        return content.read()
