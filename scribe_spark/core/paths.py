"""Paths and URLs from users, checks of local ones without Spark, and the reading of files.

A file is a regular file, not a pipe, a device or a socket: several steps of a command read the same
input, and to open a pipe may take for ever.  It is read into memory at once, up to a bound, which
also holds for the content of a compressed file.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlparse

from scribe_spark.core.errors import InputError, one_line

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
    """Return the status of a file or folder; an UnfitFileError refuses a pipe or a device."""
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
    """Return the content of a regular file of at most `most` bytes, else raise an OSError."""
    with open_file(file) as opened:
        return _read(opened, most)


def read_packed(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file that may be compressed (``.gz``, ``.bz2``, ``.xz``, ``.zip``).

    A damaged file raises the error of its compression.
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


#: A scheme is followed by a slash (``dbfs:/x``, ``s3a://b/x``), so ``a:b.csv`` stays a file name.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")

#: The longest file name and the longest path of common file systems, in bytes.
LONGEST_NAME, LONGEST_PATH = 255, 4_095

#: Bytes that Spark's files, also incomplete ones, add to the path of their folder.
_INSIDE = 400


#: The form of the names of :func:`temporary_name`.
_TEMPORARY = re.compile(r"\.scribe-spark-[0-9a-f]{32}\.tmp")


def is_local(path: str) -> bool:
    """Return True if `path` is on this machine: a plain path or a ``file:`` URL."""
    scheme = _SCHEME.match(path)
    return scheme is None or scheme[1].lower() == "file"


def local_path(path: str) -> Path:
    """Return the file that a plain path or a ``file:`` URL names."""
    return Path(unquote(urlparse(path).path)) if _SCHEME.match(path) else Path(path)


def exists(path: str, field: str) -> bool:
    """Return True if a local file or folder exists; refuse a bad path, a pipe and a device."""
    try:
        check_regular(local_path(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except UnfitFileError as error:
        raise InputError(field, path, str(error)) from None
    except (OSError, ValueError) as error:
        raise InputError(field, path, f"cannot be read ({one_line(error)})") from None
    return True


def refuse_long_names(out: str) -> None:
    """Refuse an output location if its names, or its local path, are too long for Spark."""
    for name in local_path(out).parts if is_local(out) else out.split("/"):
        if len(os.fsencode(name)) > LONGEST_NAME:
            remedy = f"has a name of {len(os.fsencode(name))} bytes; must be at most {LONGEST_NAME}"
            raise InputError("out", out, remedy)
    if is_local(out):
        length, most = len(os.fsencode(local_path(out).absolute())), LONGEST_PATH - _INSIDE
        if length > most:
            remedy = f"is a path of {length:,} bytes; must be at most {most:,}"
            raise InputError("out", out, remedy)


def local_contents(out: str) -> tuple[list[str], Callable[[str], str]]:
    """Return the names in a local folder (none: it is missing), and a reader of their texts."""
    refuse_long_names(out)
    path = local_path(out)
    try:
        names = sorted(child.name for child in path.iterdir())
    except FileNotFoundError:
        names = []
    except NotADirectoryError:
        raise InputError("out", out, "is a file, or below one; name a folder") from None
    except (OSError, ValueError) as error:
        raise InputError("out", out, f"cannot be read ({one_line(error)})") from None
    return names, lambda name: read_file(path / name).decode()


def visible(names: Iterable[str]) -> list[str]:
    """Return the names of a folder's contents without hidden and incomplete ones."""
    return [name for name in names if not name.startswith(".") and not name.endswith(".tmp")]


def refuse_old(out: str, names: Iterable[str]) -> None:
    """Refuse an output folder that has contents; `names` are those of its contents."""
    found = visible(names)
    if found:
        raise InputError("out", out, f"is not empty ({found[0]}); name a new folder")


def temporary_name() -> str:
    """Return a new hidden, unpredictable name for an incomplete file."""
    return f".scribe-spark-{secrets.token_hex(16)}.tmp"


def is_temporary(name: str) -> bool:
    """Return True if :func:`temporary_name` has made a name."""
    return _TEMPORARY.fullmatch(name) is not None


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step; a link at `path` is replaced. Nothing is left after an OSError."""
    beside = path.with_name(temporary_name())
    # exclusive creation (O_CREAT and O_EXCL) fails at a link, wherever that leads
    with open(beside, "xb") as file, whole(beside):
        file.write(content)
        file.flush()
        beside.replace(path)


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Return a context manager that deletes a new file if its block fails, as on a full disk."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def probe_local(out: str) -> None:
    """Refuse a local output folder that cannot be made or written; the test leaves no trace."""
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
        raise InputError("out", out, f"cannot be written ({one_line(error)})") from None
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # another process has written there
                folder.rmdir()
