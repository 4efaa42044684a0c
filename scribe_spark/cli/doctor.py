"""The command ``doctor``: it checks what a run needs, and names a remedy for each missing thing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from scribe_spark import __version__
from scribe_spark.cli.parsing import Command, tell
from scribe_spark.core.errors import InputError, RunError, listed
from scribe_spark.runtime.environment import SCRATCH
from scribe_spark.runtime.graphframes_jar import jars
from scribe_spark.runtime.java import check_java
from scribe_spark.runtime.master import missing_libraries
from scribe_spark.runtime.memory import heap_mib, memory_limit

#: The oldest Spark that works, and the first later one that does not; setup.cfg has the same.
SPARK, NOT_SPARK = "4.1.1", "4.2"

#: The oldest Python that works, as in setup.cfg.
_PYTHON = (3, 11)

_GIB = 2**30

#: The memory that a run of 2,000 nodes needs, and the free disk that its tables need.
_LEAST_MEMORY, _LEAST_DISK = 3 * _GIB, 1 * _GIB

#: The number of nodes in the paper's experiment.
_NODES = 100_000

_GET_SPARK = "pip install 'scribe-spark[spark]', or use the cluster's own pyspark"


@dataclass(frozen=True)
class Finding:
    """The result of one check: a thing, its version or state, and a remedy if it is missing."""

    what: str
    found: str
    remedy: str = ""
    needed: bool = True

    def __str__(self) -> str:
        state = "ok" if not self.remedy else "missing" if self.needed else "optional"
        return f"{state:<9}{self.what}: {self.found}" + (self.remedy and f"; {self.remedy}")


def findings() -> Iterator[Finding]:
    """Yield the results of all checks."""
    yield Finding("scribe_spark", __version__)
    yield _python()
    yield _java()
    yield _spark()
    yield from _environment()
    yield _memory()
    yield _disk()
    yield Finding("cores", f"{os.cpu_count()}")
    yield from _optional()


def _python() -> Finding:
    old = sys.version_info[:2] < _PYTHON
    needed = ".".join(map(str, _PYTHON))
    return Finding("Python", platform.python_version(), f"use {needed} or newer" if old else "")


def _java() -> Finding:
    try:
        return Finding("Java", str(check_java()))
    except InputError as error:
        fault, _, remedy = error.remedy.partition("; ")
        return Finding("Java", f"{error.value} {fault}", remedy or error.remedy)


def _spark() -> Finding:
    """Return the findings about pyspark: a package, or a part of Spark on a cluster."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        if find_spec("pyspark") is None:
            return Finding("pyspark", "not installed", _GET_SPARK)
        import pyspark

        found = pyspark.__version__
    fits = _parts(SPARK) <= _parts(found) < _parts(NOT_SPARK)
    remedy = f"Spark {SPARK} or newer, older than {NOT_SPARK}, is needed: {_GET_SPARK}"
    return Finding("pyspark", found, "" if fits else remedy)


def _parts(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparison: (4, 1, 0) for ``4.1.0.dev1``."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _environment() -> Iterator[Finding]:
    if find_spec("pyspark") is None:
        return
    from scribe_spark.runtime.environment import check_environment

    try:
        check_environment()
    except InputError as error:
        yield Finding(error.field, str(error.value), error.remedy)


def _memory() -> Finding:
    limit = memory_limit()
    enough = f"Spark's heap takes {heap_mib(_NODES, limit) / 1024:.1f} of it for {_NODES:,} nodes"
    remedy = f"give {_LEAST_MEMORY // _GIB} GiB at least to the machine or container"
    return Finding(
        "memory", f"{limit / _GIB:.1f} GiB; {enough}", remedy if limit < _LEAST_MEMORY else ""
    )


def _disk() -> Finding:
    folder = os.environ.get(SCRATCH, "").split(",")[0] or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("scratch disk", f"{folder} {error.strerror}", f"name one by {SCRATCH}")
    remedy = f"free some, or name another folder by {SCRATCH}"
    found = f"{free / _GIB:.1f} GiB free in {folder}"
    return Finding("scratch disk", found, remedy if free < _LEAST_DISK else "")


def _optional() -> Iterator[Finding]:
    there = find_spec("topohub") is not None
    remedy = "pip install 'scribe-spark[topohub]' for --topology topohub:NAME"
    found = "installed" if there else "not installed"
    yield Finding("topohub", found, "" if there else remedy, needed=False)
    missing = missing_libraries()
    found = f"lacks {listed(missing)}" if missing else "its libraries are installed"
    remedy = "pip install 'scribe-spark[connect]' for --remote"
    yield Finding("Spark Connect", found, remedy if missing else "", needed=False)
    graph = jars()
    remedy = "`make graphframes` in a clone, for graphframe(); nothing else needs them"
    yield Finding("GraphFrames", f"{len(graph)} jars", "" if graph else remedy, needed=False)


def _doctor() -> None:
    lacks = 0
    for finding in findings():
        lacks += bool(finding.remedy and finding.needed)
        tell(str(finding))
    if lacks:
        raise RunError(f"a run cannot start; see the findings above (missing: {lacks})")


doctor = Command(
    "doctor",
    callback=_doctor,
    help="Look for what a run needs: Python, Java, Spark, memory, disk, and optional packages. "
    "Print a line for each, with a remedy if it is missing; exit with 1 if a run cannot start.",
    epilog="\b\nExamples:\n  scribe-spark doctor",
)
