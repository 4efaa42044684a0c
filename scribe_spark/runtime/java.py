"""The check of Java before Spark starts it.

It needs only the standard library, so that ``python3 -m scribe_spark.runtime.java`` can be the
first step on a new machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scribe_spark.core.errors import InputError

#: The oldest and the newest Java that Spark 4.1 is made for.  From Java 23 on
#: ``Subject.getSubject``, which its Hadoop calls before all else, only raises an exception.
OLDEST, NEWEST = 17, 21

#: Spark starts the JVM with this module, which trimmed runtimes leave out.
MODULE = "jdk.incubator.vector"

#: Seconds within which Java must print its version.
_PATIENCE = 60

_REMEDY = f"Spark needs a full Java {OLDEST} or {NEWEST}: install one, or point JAVA_HOME at one"


def java() -> str:
    """Return the path of the Java program that Spark starts: in JAVA_HOME, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def check_java() -> int:
    """Return the major version of :func:`java`, if Spark can run on it."""
    field = "JAVA_HOME" if os.environ.get("JAVA_HOME") else "java"
    value = os.environ.get("JAVA_HOME") or "java"
    # usually one start answers both questions; the second start only explains a refusal
    has_module, answer = _version(f"--add-modules={MODULE}")
    major = _major(answer) if has_module else _major(_version()[1])
    if major is None:
        raise InputError(field, value, f"cannot be run ({_reason(answer)}); {_REMEDY}")
    if not OLDEST <= major <= NEWEST:
        raise InputError(field, value, f"is Java {major}; {_REMEDY}")
    if not has_module:
        raise InputError(field, value, f"is Java {major} without {MODULE}; {_REMEDY}")
    return major


def _version(*flags: str) -> tuple[bool, str]:
    """Return whether ``java -version``, with flags, succeeds, and what it prints."""
    try:
        done = subprocess.run(
            [java(), *flags, "-version"],
            capture_output=True, text=True, errors="replace", timeout=_PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"no answer in {_PATIENCE} s"
    except OSError as error:
        return False, str(error.strerror)
    return done.returncode == 0, done.stderr + done.stdout


def _major(answer: str) -> int | None:
    """Return the major version in Java's answer: 17 from ``17.0.15``, 8 from ``1.8.0_402``."""
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found.group(1)) if found else None


def _reason(answer: str) -> str:
    """Return the first two lines of Java's output about a failure, as one line."""
    lines = [line.strip() for line in answer.splitlines()]
    said = [line for line in lines if line and not line.startswith("Picked up ")]
    return "; ".join(said[:2]) or "no answer"


if __name__ == "__main__":
    try:
        check_java()
    except InputError as error:
        sys.exit(f"scribe-spark: error: {error}")
