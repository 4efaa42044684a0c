"""Detection of a full disk among all other failures, and of the folder on it.

A task that writes a table, a shuffle, a kernel in Python or the driver may meet it first.  By the
time of the error, often only Java's words are left, deep in Spark's message.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from scribe_spark.errors import shown
from scribe_spark.runtime.scratch import SCRATCH
from scribe_spark.runtime.sessions import abilities

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
    """Return one line with the folder of a full disk; None for every other error.

    `out` is the output folder in the user's words, and `folder` the same, if it is on this machine.
    """
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
    """Return the words in an error that mean a full disk."""
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return os.strerror(error.errno)
    found = _SIGN.search(_text(error))
    return found[0] if found else None


def _text(error: BaseException) -> str:
    """Return all texts of an error: its own words, Java's, and those of its causes."""
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
    """Return the folder with the least free space, if it is nearly full."""
    room: dict[Path, int] = {}
    for folder in folders:
        with suppress(OSError):
            room[folder] = shutil.disk_usage(folder).free
    least = min(room, key=lambda folder: room[folder], default=None)
    return least if least is not None and room[least] < _LITTLE else None
