"""Spark's Python daemon (``pyspark.daemon``), for workers that have many small tasks.

Before each task a worker lets Python forget what is on its import path, after it collects garbage.
Python reads the directories of Spark's archives again for the one, thousands of entries, and looks
at all that the kernels' libraries are made of for the other: a fifth of a second in all, which is
most of what a small task costs.  Here archives are read once, and the libraries are loaded before
workers are forked, and frozen.

Arrays of kernels live for an instant.  By default malloc maps the larger ones anew each time, and
the kernel clears every page of them: more than half of what adding two arrays costs.  Here malloc
keeps some of what is freed for the next array.

A worker whose task is cancelled finds that Spark has hung up.  pyspark prints a traceback then,
which reaches the terminal by the JVM, whatever the driver has silenced; here the worker just ends.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import traceback
import zipimport
from types import SimpleNamespace
from typing import IO, Any

import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.daemon
import pyspark.sql.functions
import scipy.sparse.csgraph  # noqa: F401

#: What a worker meets where Spark has hung up.
_HUNG_UP = (ConnectionError, EOFError)

#: Options of glibc's mallopt (malloc.h): how much free memory stays with the process, how much more
#: than it needs it asks for, and from which size on memory is mapped; in bytes.
_MALLOC = {-1: 2**29, -2: 2**26, -3: 2**30}


def keep_freed_memory() -> None:
    """Let malloc keep freed memory for the next arrays, where it is glibc's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, size in _MALLOC.items():
            mallopt(option, size)


def end_where_spark_hangs_up() -> None:
    """Have pyspark's workers in this process say nothing where nobody listens any more."""
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
    sys.path.append(os.getcwd())
    # a session's archives do not change
    zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]
    end_where_spark_hangs_up()
    keep_freed_memory()
    gc.freeze()
    pyspark.daemon.manager()
