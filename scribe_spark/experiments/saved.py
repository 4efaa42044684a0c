"""The tables of a run that are written, or are being written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import Future

from pyspark.sql import DataFrame

from scribe_spark.runtime.batches import EVERY, Among, Batches


class SavedTables(MutableMapping[str, DataFrame]):
    """Tables by name.

    A value may be the future of a table that is being written: a reader waits for it, and gets the
    exception of a failed write.
    """

    def __init__(self) -> None:
        self._tables: dict[str, DataFrame | Future[DataFrame]] = {}
        #: A function that reads columns of a table for kernels; the run with the folder sets it.
        self.read: Callable[[str, Sequence[str], Among], Batches] | None = None

    def __getitem__(self, name: str) -> DataFrame:
        table = self._tables[name]
        return table.result() if isinstance(table, Future) else table

    def has(self, name: str) -> bool:
        """Return True if a table can be read without waiting."""
        table = self._tables.get(name)
        return table is not None and (not isinstance(table, Future) or table.done())

    def batches(self, name: str, columns: Sequence[str], among: Among = EVERY) -> Batches:
        """Return columns of a table for kernels, of all rows or of those with some values."""
        table = self[name]
        if self.read is None:
            return Batches.of(table, columns, among)
        return self.read(name, columns, among)

    def __setitem__(self, name: str, table: DataFrame | Future[DataFrame]) -> None:
        self._tables[name] = table

    def __delitem__(self, name: str) -> None:
        del self._tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
