"""The stages, resources and saved tables of a simulation."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.experiments.folder import Folder
from scribe_spark.runtime.batches import EVERY, Among, Batches, rows_of
from scribe_spark.runtime.blocks import materialise, persist, release

T = TypeVar("T")


class Releasable(Protocol):
    """The type of objects with a method ``release``, which frees memory or files."""

    def release(self) -> None: ...


R = TypeVar("R", bound=Releasable)


def collected(table: DataFrame | pa.Table, *columns: str) -> list[np.ndarray]:
    """Return columns of a table on the driver, as arrays sorted by the first column."""
    rows = rows_of(table, columns).sort_by(columns[0])
    return [rows.column(name).to_numpy() for name in columns]


class Scope:
    """A list of resources; :meth:`close` releases all of them, the newest first.

    If one release fails, the others still happen.  A scope may be closed any number of times, and
    used again after that.
    """

    def __init__(self) -> None:
        self._releases = ExitStack()

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def own(self, resource: R) -> R:
        """Register an object with a method ``release``, which is called at the end; return it."""
        self._releases.callback(resource.release)
        return resource

    def persist(self, frame: DataFrame) -> DataFrame:
        """Persist a DataFrame until the scope is closed."""
        persisted, free = persist(frame)
        self._releases.callback(free)
        return persisted

    def materialise(self, frame: DataFrame) -> DataFrame:
        """Compute a DataFrame and keep it until the scope is closed."""
        table, _ = materialise(frame)
        return self.own_table(table)

    def computed(self, table: Batches) -> Batches:
        """Compute a table now, and keep its rows until the scope is closed."""
        return table if table.is_small else Batches.of(self.materialise(table.frame))

    def own_table(self, table: DataFrame) -> DataFrame:
        """Register a table from :func:`blocks.materialise`, and return it."""
        self._releases.callback(release, table)
        return table

    def close(self) -> None:
        """Release all registered resources."""
        self._releases.close()


class stage(Generic[T]):
    """A property that is computed at its first use, and kept in the owner's ``stages``.

    Unlike `functools.cached_property`, all stages can be dropped at once: ``stages.clear()``.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> stage[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> T | stage[T]:
        if instance is None:
            return self
        stages: dict[str, Any] = instance.stages
        if self._name not in stages:
            stages[self._name] = self._make(instance)
        return stages[self._name]


class SavedTables(UserDict[str, Any]):
    """The written tables of a run, by name.

    A value may be None, for a table that is in the folder, or the future of the write: a reader
    waits for it, and gets the exception of a failed write.  Spark opens a table when it is asked
    for, since most readers read the files themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The folder of the written tables; the run that has the folder sets it.
        self.folder: Folder | None = None

    def __getitem__(self, name: str) -> DataFrame:
        self._wait(name)
        table = self.data[name]
        if table is None or isinstance(table, Future):
            assert self.folder is not None
            table = self.data[name] = self.folder.read_table(name)
        return table

    def _wait(self, name: str) -> None:
        table = self.data[name]
        if isinstance(table, Future):
            table.result()

    def has(self, name: str) -> bool:
        """Return True if a table can be read without waiting."""
        table = self.data.get(name, False)
        return table is not False and (not isinstance(table, Future) or table.done())

    def batches(self, name: str, columns: Sequence[str], among: Among = EVERY) -> Batches:
        """Return columns of a table for kernels."""
        self._wait(name)
        if self.folder is None:
            return Batches.of(self[name], columns, among)
        return self.folder.batches(name, columns, among)

    def collect(self, name: str, columns: Sequence[str], among: Among = EVERY) -> pa.Table:
        """Return columns of a small table, or of a few rows, on the driver."""
        self._wait(name)
        if self.folder is None:
            return rows_of(self[name], columns, among)
        return self.folder.collect(name, columns, among)
