"""Telling a disk that takes no more from every other failure, and which folder is on it.

Whoever meets it first may be anybody: a task that writes a table, a shuffle, a kernel in Python,
the driver.  Java's own words are all that is left of it by then, deep in what Spark says.
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

#: What an operating system says where a disk, a quota, or a limit on files' sizes is used up.
_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: The same in words: Java's are those of the C library; HDFS has its own.
_WORDS = (
    *("No space left on device", "Disk quota exceeded", "File too large"),
    *(os.strerror(number) for number in _NUMBERS),
    *("DSQuotaExceededException", "NSQuotaExceededException"),
)
_SIGN = re.compile("|".join(dict.fromkeys(map(re.escape, _WORDS))))

#: Bytes; with less than this a disk counts as full (a task that fails takes back what it wrote).
_LITTLE = 16 << 20

#: What stands for the scratch folders of executors elsewhere.
_ELSEWHERE = Path("an executor's")

#: What Spark says where a task that writes a table fails.
_WRITING = "TASK_WRITE_FAILED"

_GO_ON = "then continue with --resume"


def full_disk(
    error: BaseException, spark: SparkSession | None, out: str, folder: Path | None
) -> str | None:
    """One line that names the folder whose disk takes no more; None for every other error.

    Parameters
    ----------
    spark : SparkSession, optional
        Without one, only the folder that is written comes into question.
    out : str
        That folder, as the user calls it.
    folder : Path or None
        The same where it is on this machine.
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
    """The folders of this machine where Spark and Python keep what does not fit in memory.

    Those of executors elsewhere are not known.
    """
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
    """The words by which an error tells of a full disk."""
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return os.strerror(error.errno)
    found = _SIGN.search(_text(error))
    return found[0] if found else None


def _text(error: BaseException) -> str:
    """All that an error says: its own words, Java's, and those of its causes."""
    parts, seen = [], error
    for _ in range(10):
        parts += [str(seen), str(getattr(seen, "_stackTrace", "") or "")]
        cause = seen.__cause__ or seen.__context__
        if cause is None:
            break
        seen = cause
    return "\n".join(parts)


def _named(error: BaseException, folders: Iterable[Path]) -> Path | None:
    """The folder that holds the file of which an error tells that there was no room for it."""
    name = getattr(error, "filename", None)
    lines = [line for line in _text(error).splitlines() if _SIGN.search(line)]
    for folder in folders:
        if name is not None and Path(os.fsdecode(name)).is_relative_to(folder.absolute()):
            return folder
        if any(f"{folder.absolute()}{os.sep}" in line for line in lines):
            return folder
    return None


def _fullest(folders: Iterable[Path]) -> Path | None:
    """The folder with the least room, if that is next to none."""
    room: dict[Path, int] = {}
    for folder in folders:
        with suppress(OSError):
            room[folder] = shutil.disk_usage(folder).free
    least = min(room, key=lambda folder: room[folder], default=None)
    return least if least is not None and room[least] < _LITTLE else None
