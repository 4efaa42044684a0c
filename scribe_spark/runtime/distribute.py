"""Arrays that every executor gets once, as files, and maps into memory.

All Python workers of a machine share a file; a broadcast variable would be copied into each.  If
all tasks can read this machine's files, or a folder that the user has named, they map these;
otherwise Spark copies the files to each machine.
"""

from __future__ import annotations

import errno
import functools
import os
import pickle
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from scribe_spark.runtime.environment import scratch_folder
from scribe_spark.runtime.sessions import Classic, Connected, abilities
from scribe_spark.runtime.tricks import enabled

#: Files on the driver's machine that tasks may still need, by name: ours, and Spark's copy.
_sources: dict[str, list[Path]] = {}


def distribute_arrays(spark: SparkSession, **arrays: np.ndarray) -> list[str]:
    """Distribute arrays to every executor as files; return names for :func:`open_array`."""
    server, seen = abilities(spark), None
    if isinstance(server, Connected):
        seen = server.shared_folder()
    elif enabled("mapped_tables") and server.shares_disk:
        seen = scratch_folder()
    folder = seen or scratch_folder()  # executors fetch until the end
    unique = uuid.uuid4().hex
    paths = [folder / f"{name}-{unique}.npy" for name in arrays]
    for path, array in zip(paths, arrays.values(), strict=True):
        _save(path, array)
    names = [path.name if seen is None else str(path) for path in paths]
    for name, path in zip(names, paths, strict=True):
        _sources[name] = [path]
        if seen is not None:
            continue
        if isinstance(server, Classic):
            spark.sparkContext.addFile(path.as_uri())
            _sources[name].append(Path(SparkFiles.get(name)))
        else:
            spark.addArtifacts(str(path), file=True)
    return names


def _save(path: Path, array: np.ndarray) -> None:
    try:
        np.save(path, array)
    except OSError as error:
        if error.errno is not None:
            raise
        # numpy's error has the number of written bytes, but no reason
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None


def discard_arrays(*names: str) -> None:
    """Delete the files of arrays on the driver's machine; nobody can read the arrays any more."""
    for name in names:
        # emptied, not deleted: executors that start later still fetch every file
        for file in _sources.pop(name):
            file.write_bytes(b"")


@functools.lru_cache(maxsize=32)
def open_array(name: str) -> np.ndarray:
    """Return the distributed array with a name, memory-mapped once per process."""
    if name in _sources:  # the driver's
        file: str | Path = _sources[name][0]
    else:
        file = name if os.path.isabs(name) else SparkFiles.get(name)
    return np.load(file, mmap_mode="r").view(np.ndarray)  # memmap's own operations are slow


@dataclass(frozen=True)
class Shared:
    """A value that is distributed as a file, which tasks read."""

    name: str

    @property
    def value(self) -> Any:
        """The value that is shared, as a task reads it."""
        return _unpickled(self.name)

    def destroy(self) -> None:
        """Free the value; it cannot be read any more."""
        discard_arrays(self.name)


def share(spark: SparkSession, value: Any) -> Shared:
    """Share a value that is too large to be sent with each task; free it by ``destroy``."""
    packed = np.frombuffer(pickle.dumps(value), dtype=np.uint8)
    return Shared(*distribute_arrays(spark, value=packed))


@functools.lru_cache(maxsize=2)
def _unpickled(name: str) -> Any:
    return pickle.loads(open_array(name).tobytes())
