"""Arrays that every executor gets once, as files, and maps into memory.

A file is shared by all Python workers of a machine; a broadcast variable would be copied into each.
Where all tasks see this machine's files, or a folder that the user has named, they map these; else
Spark brings each machine a copy.
"""

from __future__ import annotations

import errno
import functools
import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.runtime.scratch import scratch_folder
from scribe_spark.runtime.sessions import Classic, Connected, abilities, is_connect
from scribe_spark.runtime.tricks import enabled

#: Files on the driver's machine that tasks may still ask for, by name: ours, and Spark's copy.
_sources: dict[str, list[Path]] = {}


def distribute_arrays(spark: SparkSession, **arrays: np.ndarray) -> list[str]:
    """Give every executor some arrays as files, once; the names for :func:`open_array`, in order.

    To be freed with :func:`discard_arrays`.
    """
    server = abilities(spark)
    seen = server.shared_folder() if isinstance(server, Connected) else None
    folder = seen or scratch_folder()  # executors fetch until the end
    unique = uuid.uuid4().hex
    paths = [folder / f"{name}-{unique}.npy" for name in arrays]
    for path, array in zip(paths, arrays.values(), strict=True):
        _save(path, array)
    names = [path.name if seen is None else str(path) for path in paths]
    for name, path in zip(names, paths, strict=True):
        _sources[name] = [path]
        if isinstance(server, Classic):
            spark.sparkContext.addFile(path.as_uri())
            _sources[name].append(Path(SparkFiles.get(name)))
        elif seen is None:
            spark.addArtifacts(str(path), file=True)
    return names


def arrays_of_rows(
    frame: DataFrame, make: Callable[[pa.Table], Mapping[str, np.ndarray]]
) -> list[str]:
    """Let one task make arrays of all rows, and give them to every executor; the names, in order.

    Where tasks share no disk with this process it makes them of the rows itself.

    Parameters
    ----------
    make : callable
        Arrays by name, of the rows.
    """
    server = abilities(frame.sparkSession)
    if not (enabled("mapped_tables") and server.shares_disk):
        return distribute_arrays(frame.sparkSession, **make(frame.toArrow()))
    folder = str(scratch_folder())

    def save(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrays = make(pa.Table.from_batches(batches))
        unique = uuid.uuid4().hex  # a task may be tried again
        paths = [Path(folder, f"{name}-{unique}.npy") for name in arrays]
        for path, array in zip(paths, arrays.values(), strict=True):
            _save(path, array)
        yield pa.RecordBatch.from_pydict({"path": [str(path) for path in paths]})

    saved = frame.coalesce(1).mapInArrow(save, "path string").toArrow()
    names = saved.column("path").to_pylist()
    _sources.update({name: [Path(name)] for name in names})
    return names


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
        for file in _sources.pop(name):
            file.write_bytes(b"")


@functools.lru_cache(maxsize=32)
def open_array(name: str) -> np.ndarray:
    """An array that :func:`distribute_arrays` gave out, memory-mapped once per process."""
    return np.load(_file(name), mmap_mode="r").view(np.ndarray)  # memmap's own operations are slow


def _file(name: str) -> str | Path:
    if name in _sources:  # the driver's
        return _sources[name][0]
    return name if os.path.isabs(name) else SparkFiles.get(name)


class Shared(Protocol):
    """A value that tasks read."""

    @property
    def value(self) -> Any:
        """The value."""

    def destroy(self) -> None:
        """Free it; it cannot be read any more."""


def share(spark: SparkSession, value: Any) -> Shared:
    """Give tasks a value of ours that is too large to go with each of them; to be destroyed."""
    if not is_connect(spark):
        return spark.sparkContext.broadcast(value)
    packed = np.frombuffer(pickle.dumps(value), dtype=np.uint8)
    return _SharedFile(*distribute_arrays(spark, value=packed))


@dataclass(frozen=True)
class _SharedFile:
    """A value in a file."""

    name: str

    @property
    def value(self) -> Any:
        """See :class:`Shared`."""
        return _unpickled(self.name)

    def destroy(self) -> None:
        """See :class:`Shared`."""
        discard_arrays(self.name)


@functools.lru_cache(maxsize=2)
def _unpickled(name: str) -> Any:
    return pickle.loads(open_array(name).tobytes())
