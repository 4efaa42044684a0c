"""Worlds that are played as the tasks of Spark's supersteps play them, without Spark.

Programs are pickled, tables are files of packed columns, messages are packed, and programs that
send nothing share supersteps.  Only the shuffle is not Spark's.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Self

import pyarrow as pa
from in_memory import InMemory
from pyspark import cloudpickle

from scribe_spark.engine import Program, Tables
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import (
    BucketTables,
    OnSpark,
    pack_rows,
    read_rows,
)
from scribe_spark.engine.packing import ARROW_ROWS
from scribe_spark.engine.program import deliver
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.runtime.environment import scratch_folder

_PARTITIONS = 2


class TablesInTasks(BucketTables):
    """Tables of buckets whose rows are in this process; tables are files if `in_files`."""

    def __init__(self, tables: list[Tables], in_files: bool = True) -> None:
        super().__init__(SimpleNamespace(folder=str(scratch_folder()) if in_files else None), [])
        self._accept(
            *self._seen(
                [
                    row
                    for bucket, mine in enumerate(tables)
                    for name in mine
                    for row in pack_rows(bucket, bucket, True, name, mine[name], self.layout.folder)
                ]
            )
        )

    def all(self) -> list[tuple[int, str, dict]]:
        """Bucket, name and columns of all tables."""
        return [(row.bucket, row.name, row.read()) for row in read_rows(self._kept())]

    def read(self, pattern: str) -> list[tuple[int, str, dict]]:
        """See `BucketTables`."""
        found = [row for row in self.all() if re.fullmatch(pattern, row[1])]
        return sorted(found, key=lambda row: row[:2])

    def _kept(self):
        if not self._taken:
            return self._rows
        return [row for row in self._rows if row.column("name")[0].as_py() not in self._taken]

    def _superstep(self, kernel, first, called):
        kernel = cloudpickle.loads(cloudpickle.dumps(kernel))
        rows, made = [*self._kept(), *(first or ())], []
        buckets = pa.Table.from_batches(rows).column("bucket").to_pylist() if rows else []
        for part in range(_PARTITIONS):
            pairs = zip(buckets, rows, strict=True)
            made += kernel([row for bucket, row in pairs if bucket % _PARTITIONS == part])
        return self._seen(made)

    def _seen(self, rows) -> tuple[list[pa.RecordBatch], pa.Table]:
        listed = pa.Table.from_batches(rows, ARROW_ROWS).drop_columns("data")
        return rows, listed.append_column("bytes", pa.nulls(len(listed), pa.int64()))

    def _accept(self, rows, listed) -> tuple[int, int]:
        self._owned = False  # there is no DataFrame to be released
        found = super()._accept(rows, listed)
        self._owned = False
        return found


class EngineInTasks(OnSpark):
    """Plays programs as tasks; the tables of nodes are written into the state after each program.

    `state` are the tables of the buckets, of which those of nodes are views of the state's arrays.
    """

    def __init__(self, state: list[Tables]) -> None:
        super().__init__(TablesInTasks(state))
        self._state = state

    def share(self, **arrays):
        """See `Player.share`; programs are pickled with them."""
        return arrays

    def put(self, tables: list[Tables]) -> None:
        """Add tables to those of the buckets."""
        self._tables = TablesInTasks(
            [Tables.of({**mine, **more}) for mine, more in zip(self._state, tables, strict=True)]
        )

    def read(self) -> list[Tables]:
        """The tables of the buckets; those of nodes are written into the state."""
        found: list[dict] = [{} for _ in self._state]
        for bucket, name, columns in self.tables.all():
            found[bucket][name] = columns
        for there, state in zip(found, self._state, strict=True):
            state[LEAVES]["leaves"][:] = there[LEAVES]["leaves"]
            state[CELLS]["cells"][:] = there[CELLS]["cells"]
        return [Tables.of(there) for there in found]

    def take(self, *names: str) -> dict:
        """See `Player.take`."""
        taken = super().take(*names)
        self.read()
        return taken


class Jobs(OnSpark):
    """The engine of jobs on tables in this process, for whole rounds of a world."""

    def __init__(self, tables: list[Tables]) -> None:
        super().__init__(TablesInTasks(tables, in_files=False))

    def share(self, **arrays):
        """See `Player.share`; programs are pickled with them."""
        return arrays

    def free(self, shared) -> None:
        """See `Player.free`."""

    def keep(self, orchestrate, called: str) -> None:
        """See `Player.keep`: one task has all buckets."""
        count = 1 + max(bucket for bucket, _, _ in self.tables.all())
        tables = [Tables() for _ in range(count)]
        for bucket, name, columns in self.tables.all():
            tables[bucket][name] = columns
        cloudpickle.loads(cloudpickle.dumps(orchestrate))(InTask(tables))
        self._tables = TablesInTasks(tables, in_files=False)

    def play(self, program: Program, first=None) -> int:
        """See `Player.play`."""
        rows = [
            row
            for to, kind, columns in deliver(program.bounds, first or {})
            for row in pack_rows(to, -1, False, kind, columns)
        ]
        return sum(self.tables.play(program, "", first=rows))


class InTasks(InMemory):
    """Plays as tasks."""

    @classmethod
    def of(cls, *args, **given) -> Self:
        """As `InMemory.of`."""
        player = super().of(*args, **given)
        player.engine = EngineInTasks(player.engine.tables)
        return player
