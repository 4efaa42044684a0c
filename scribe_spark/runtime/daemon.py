"""Spark's Python daemon (``pyspark.daemon``), for workers that have many small tasks.

Before each task a worker lets Python forget what is on its import path, after it collects garbage.
Python reads the directories of Spark's archives again for the one, thousands of entries, and looks
at all that the kernels' libraries are made of for the other: a fifth of a second in all, which is
most of what a small task costs.  Here archives are read once, and the libraries are loaded before
workers are forked, and frozen.
"""

from __future__ import annotations

import gc
import zipimport

import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.sql.functions  # noqa: F401
import scipy.sparse.csgraph  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    # a session's archives do not change
    zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]
    gc.freeze()
    manager()
