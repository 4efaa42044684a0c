"""The Java that Spark will start, checked before anything else is.

It needs no package but the standard library, so that ``python3 -m scribe_spark.runtime.java`` can
be the first step on a fresh machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scribe_spark.errors import InputError

__all__ = ["check_java", "java"]

#: The oldest Java that Spark 4.1 runs on.
OLDEST = 17

#: Spark starts the JVM with this module, which trimmed runtimes leave out.
MODULE = "jdk.incubator.vector"

_REMEDY = f"Spark needs a full Java {OLDEST} or newer: install one, or point JAVA_HOME at one"


def java() -> str:
    """The program Spark's own scripts would start: JAVA_HOME's, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def check_java() -> int:
    """The major version of :func:`java`, if Spark can run on it.

    Raises
    ------
    InputError
        Missing, not starting, older than 17, or without the module Spark asks for.
    """
    field = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "java"
    value = os.environ.get("JAVA_HOME") or "java"
    # one start answers both questions in the usual case; the second only explains a refusal
    answer = _version(f"--add-modules={MODULE}")
    major = _major(answer or _version())
    if major is None:
        raise InputError(field, value, f"cannot be run; {_REMEDY}")
    if major < OLDEST:
        raise InputError(field, value, f"is Java {major}; {_REMEDY}")
    if answer is None:
        raise InputError(field, value, f"is Java {major} without {MODULE}; {_REMEDY}")
    return major


def _version(*flags: str) -> str | None:
    """Return what ``java -version`` prints, or None where it fails."""
    try:
        done = subprocess.run(
            [java(), *flags, "-version"],
            capture_output=True, text=True, errors="replace", timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout if done.returncode == 0 else None


def _major(answer: str | None) -> int | None:
    """17 out of ``openjdk version "17.0.15"``, 8 out of ``java version "1.8.0_402"``."""
    found = re.search(r'version "(?:1\.)?(\d+)', answer or "")
    return int(found.group(1)) if found else None


if __name__ == "__main__":
    try:
        check_java()
    except InputError as error:
        sys.exit(f"scribe-spark: error: {error}")
