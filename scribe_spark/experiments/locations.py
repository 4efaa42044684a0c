"""Locations of folders, and what is known of a local one without Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scribe_spark.config import Execution
from scribe_spark.errors import InputError, one_line
from scribe_spark.inputs import is_local, local_path

__all__ = ["inside", "join", "local_contents", "probe_local", "refuse_long_names"]

#: The longest name of a file, and the longest path, in bytes, that common file systems take.
LONGEST_NAME, LONGEST_PATH = 255, 4_095

#: Bytes that Spark's files in a folder add to its path, while they are written too.
_INSIDE = 400


def join(out: str, name: str) -> str:
    """The location `name` in `out`."""
    return f"{out.rstrip('/')}/{name}"


def inside(execution: Execution, name: str) -> Execution:
    """How one run of several is made: in OUT's folder `name`, gone on with where it stopped."""
    return execution.replace(out=join(execution.out, name), resume=True, overwrite=False)


def refuse_long_names(out: str) -> None:
    """Refuse a location with a name, or a local one as a whole, that is too long for its files.

    Raises
    ------
    InputError
    """
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
    """What is in a local folder (nothing if there is none), and a reader of its texts by name.

    Raises
    ------
    InputError
        It is none, or cannot be listed.
    """
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
        raise InputError("out", out, f"cannot be written ({one_line(error)})") from None
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # somebody else has put something there
                folder.rmdir()
