"""Arrays that every executor gets once, as files, and maps into memory.

A file is shared by all Python workers of a machine; a broadcast variable would be copied into each.
"""

from __future__ import annotations

import errno
import functools
import os
import uuid
from pathlib import Path

import numpy as np
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from scribe_spark.runtime.scratch import scratch_folder

__all__ = ["discard_arrays", "distribute_arrays", "open_array"]

#: Files on the driver that executors may still fetch, by name.
_sources: dict[str, Path] = {}


def distribute_arrays(spark: SparkSession, **arrays: np.ndarray) -> list[str]:
    """Give every executor some arrays as files, once; the names for :func:`open_array`, in order.

    To be freed with :func:`discard_arrays`.
    """
    folder = scratch_folder()  # executors fetch until the end
    unique = uuid.uuid4().hex
    paths = [folder / f"{name}-{unique}.npy" for name in arrays]
    for path, array in zip(paths, arrays.values(), strict=True):
        _save(path, array)
        spark.sparkContext.addFile(path.as_uri())
        _sources[path.name] = path
    return [path.name for path in paths]


def _save(path: Path, array: np.ndarray) -> None:
    try:
        np.save(path, array)
    except OSError as error:
        if error.errno is not None:
            raise
        # numpy tells how much was written, not why no more was
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None


def discard_arrays(*names: str) -> None:
    """Free the disk that arrays take on the driver's machine; they cannot be read any more."""
    for name in names:
        # emptied, not deleted: an executor that starts later still asks for every file
        for copy in (_sources.pop(name), Path(SparkFiles.get(name))):
            copy.write_bytes(b"")


@functools.lru_cache(maxsize=16)
def open_array(name: str) -> np.ndarray:
    """An array that :func:`distribute_arrays` gave out, memory-mapped once per process."""
    return np.load(SparkFiles.get(name), mmap_mode="r")
