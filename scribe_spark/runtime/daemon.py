"""Spark's Python daemon (``pyspark.daemon``), for workers with many small tasks.

Before each task, a worker collects garbage and forgets the contents of its import path: a fifth of
a second.  Here, archives are read once, and libraries are loaded and frozen before workers are
forked.  Python takes the modules of pyspark that pip has installed, as it would compile those in
Spark's archive at each start; malloc keeps freed memory for the next array; a worker whose task is
cancelled ends without a traceback.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
import zipimport
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from scribe_spark.runtime.memory import keep_freed_memory


def is_archive_of(path: str, folders: list[str]) -> bool:
    """Return True if a path is an archive in an installation of pyspark by pip, in `folders`."""
    archive = Path(path)
    if archive.suffix != ".zip" or len(archive.parents) < 4:
        return False
    package = archive.parents[2]  # pyspark/python/lib/pyspark.zip
    return (package / "__init__.py").is_file() and str(package.parent) in folders


# pyspark is found where pip has installed it
sys.path[:] = [path for path in sys.path if not is_archive_of(path, sys.path)]

# isort: split
import numpy  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pyarrow  # noqa: E402, F401
import pyspark.daemon  # noqa: E402
import pyspark.sql.functions  # noqa: E402
import scipy.sparse.csgraph  # noqa: E402, F401

#: The errors of a worker after Spark has closed its connection.
_HUNG_UP = (ConnectionError, EOFError)


def end_where_spark_hangs_up() -> None:
    """Let pyspark's workers in this process end silently when Spark closes the connection."""
    work = pyspark.daemon.worker_main

    def serve(infile: IO[bytes], outfile: IO[bytes]) -> None:
        try:
            work(infile, outfile)
        finally:
            try:
                outfile.flush()
            except _HUNG_UP:
                os._exit(1)

    def print_exc() -> None:
        if not isinstance(sys.exception(), _HUNG_UP):
            traceback.print_exc()

    pyspark.daemon.worker_main = serve
    told: Any = SimpleNamespace(print_exc=print_exc, format_exc=traceback.format_exc)
    pyspark.daemon.traceback = told


if __name__ == "__main__":
    # the user's own modules are found there, but replace no other (PYTHONSAFEPATH)
    sys.path.append("")
    # a session's archives do not change
    zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]
    end_where_spark_hangs_up()
    keep_freed_memory()
    gc.freeze()
    pyspark.daemon.manager()
