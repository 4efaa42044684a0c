"""Worlds that are played as the tasks of Spark's supersteps play them, without Spark.

Programs are pickled, tables are files of packed columns, messages are packed, and programs that
send nothing share supersteps.  Only the shuffle is not Spark's.
"""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import ClassVar

from pyspark import cloudpickle

from scribe_spark.engine import Program, Tables
from scribe_spark.engine.in_turn import Steps
from scribe_spark.engine.on_spark import (
    BucketTables,
    _delete,
    _Made,
    _superstep,
    pack_row,
    read_rows,
)
from scribe_spark.pastry.arrivals.states import CELLS, LEAVES
from scribe_spark.pastry.player import InProcess
from scribe_spark.pastry.player_on_spark import OnSpark
from scribe_spark.runtime.scratch import scratch_folder

_PARTITIONS = 2


class TablesInTasks(BucketTables):
    """Tables of buckets whose rows are in this process."""

    def __init__(self, tables: list[Tables]) -> None:
        super().__init__(SimpleNamespace(folder=str(scratch_folder())), [])
        self._accept(
            self._made(
                [
                    pack_row(bucket, bucket, True, name, mine[name], self.layout.folder)
                    for bucket, mine in enumerate(tables)
                    for name in mine
                ]
            )
        )

    def read(self) -> list[tuple[int, str, dict]]:
        """Bucket, name and columns of all tables."""
        return [(row.bucket, row.name, row.read()) for row in read_rows(self._kept())]

    def take(self, pattern: str) -> list[tuple[int, str, dict]]:
        """See `BucketTables`."""
        taken = [row for row in self.read() if re.fullmatch(pattern, row[1])]
        self._forget({name for _, name, _ in taken})
        return sorted(taken, key=lambda row: row[:2])

    def _kept(self):
        return [row for row in self._rows if row.column("name")[0].as_py() not in self._taken]

    def _compute(self, program: Program, superstep: int, name, progress, first):
        assert first is None
        program = cloudpickle.loads(cloudpickle.dumps(program))
        rows, made = self._kept(), []
        step = _superstep(program, superstep, self.layout.folder)
        for part in range(_PARTITIONS):
            mine = [row for row in rows if row.column("bucket")[0].as_py() % _PARTITIONS == part]
            made += step(mine)
        return self._made(made)

    def _made(self, rows) -> _Made:
        listed = [row.to_pylist()[0] for row in rows]
        messages = sum(row["rows"] for row in listed if not row["table"])
        files = [line for row in listed if row["file"] for line in row["file"].splitlines()]
        held = Counter[str]()
        for row in listed:
            held[row["name"]] += row["rows"] * row["table"]
        return _Made(rows, held, messages, 0, frozenset(files))

    def _accept(self, made: _Made) -> None:
        self._rows, self._taken, self._held = made.rows, set(), made.held
        _delete(self._files - made.files)
        self._files = made.files

    def _discard(self, made: _Made) -> None:
        _delete(made.files - self._files)


class InTasks(InProcess):
    """Plays programs as tasks; which send nothing is remembered from round to round."""

    def __init__(self, given, tables) -> None:
        self._tasks: OnSpark | None = None
        super().__init__(given, tables)

    @classmethod
    def remembering(cls) -> type[InTasks]:
        """A class of players that remember together."""
        return type("InTasks", (cls,), {"idle": set()})

    idle: ClassVar[set] = set()

    @property
    def tables(self) -> list[Tables]:
        """The tables of the buckets; those of nodes are written into the state."""
        if self._tasks is None:
            return self._mine
        found: list[dict] = [{} for _ in self._mine]
        for bucket, name, columns in self._tasks.tables.read():
            found[bucket][name] = columns
        for there, state in zip(found, self._mine, strict=True):
            state[LEAVES]["leaves"][:] = there[LEAVES]["leaves"]
            state[CELLS]["cells"][:] = there[CELLS]["cells"]
        return [Tables.of(there) for there in found]

    @tables.setter
    def tables(self, tables: list[Tables]) -> None:
        self._mine = tables

    def _engine(self) -> OnSpark:
        if self._tasks is None:
            tasks = OnSpark.__new__(OnSpark)
            tasks.tables, tasks._round, tasks._first = TablesInTasks(self._mine), "", {}
            tasks._idle, tasks._turns = self.idle, Counter()
            self._tasks = tasks
        return self._tasks

    def play(self, program: Program) -> int:
        """See `Player.play`."""
        return self._engine().play(program)

    def play_some(self, programs: Steps) -> int:
        """See `Player.play_some`."""
        return self._engine().play_some(programs)

    def has(self, name: str) -> bool:
        """See `Player.has`."""
        return self._engine().has(name)

    def take(self, *names: str) -> dict:
        """See `Player.take`."""
        taken = self._engine().take(*names)
        _ = self.tables
        return taken
