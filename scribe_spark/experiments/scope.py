"""The memory, files and checkpoints of a simulation, which it must release."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Generic, Protocol, TypeVar, overload

from pyspark.sql import DataFrame

from scribe_spark.runtime.blocks import materialise, persist, release

T = TypeVar("T")


class Releasable(Protocol):
    """The type of objects with memory or files that must be released."""

    def release(self) -> None: ...


R = TypeVar("R", bound=Releasable)


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
        """Register an object with a ``release`` method, and return it."""
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
