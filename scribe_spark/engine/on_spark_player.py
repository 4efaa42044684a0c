"""The player on Spark: tables stay on the executors, and each superstep is a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.progress import Progress
from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import BucketTables, Costs
from scribe_spark.engine.packing import Columns, pack_rows
from scribe_spark.engine.player import Shared, join_tables, tables_called
from scribe_spark.engine.program import Prefixed, Program, deliver, is_silent, name_of
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.schemas import ROWS

_ARROW = to_arrow_schema(ROWS)


@dataclass(frozen=True)
class SharedInFiles(Shared):
    """Read-only arrays in files that tasks map into memory: pairs (array's name, file's name)."""

    names: tuple[tuple[str, str], ...]

    def __getitem__(self, name: str) -> np.ndarray:
        return open_array(dict(self.names)[name])

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.names))

    def __len__(self) -> int:
        return len(self.names)

    def __hash__(self) -> int:
        return hash(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedInFiles) and self.names == other.names

    def release(self) -> None:
        """Delete the files."""
        discard_arrays(*dict(self.names).values())


class OnSpark:
    """A player whose supersteps are jobs; `called` begins their names.

    Silent programs wait for the next program that may send, or for a reader of the tables.
    """

    def __init__(
        self, tables: BucketTables, called: str = "", progress: Progress | None = None
    ) -> None:
        self._tables, self.progress = tables, progress
        self._shared: list[SharedInFiles] = []
        self._round = called
        self._first: dict[type, DataFrame] = {}
        # silent programs that have not been played yet, and the messages to each
        self._waiting: list[tuple[Program, DataFrame | None]] = []

    @property
    def tables(self) -> BucketTables:
        """The tables of all buckets; programs that wait are played before."""
        self._play_waiting()
        return self._tables

    def _play_waiting(self) -> int:
        """Play all programs that wait; return the number of messages of the last one."""
        if not self._waiting:
            return 0
        waiting, self._waiting = self._waiting, []
        (program, first), *others = reversed(waiting)
        before, name = [one for one, _ in waiting[:-1]], self._round + name_of(program)
        if others:
            first = _numbered_together([frame for _, frame in waiting])
            name = f"{self._round}{name_of(before[0])} to {name_of(program)}"
        return sum(self._tables.play(program, name, self.progress, first, before))

    def begin_round(self, number: int) -> None:
        """See `Player.begin_round`; the costs start at zero."""
        self._first.clear()
        self._round = f"round {number}, "
        self.tables.costs = Costs()

    def share(self, **arrays: np.ndarray) -> SharedInFiles:
        """See `Player.share`; the arrays are copied to files now."""
        files = distribute_arrays(self._tables.layout.spark, **arrays)
        self._shared.append(SharedInFiles(tuple(zip(arrays, files, strict=True))))
        return self._shared[-1]

    def free(self, shared: Shared) -> None:
        assert isinstance(shared, SharedInFiles)
        self._play_waiting()
        self._shared.remove(shared)
        shared.release()

    def fork(self, called: str = "", *, constant: bool = True) -> OnSpark:
        """Return a player on a copy of these tables (see `BucketTables.fork`)."""
        return OnSpark(self.tables.fork(constant=constant), called, self.progress)

    def play_in_tasks(
        self, orchestrate: Callable[[InTask], None], called: str, *, alone: bool = False
    ) -> None:
        """Run an orchestrator in one job whose tasks (with `alone`, one task) keep the buckets."""
        first = union_tables([*self._first.values()]) if self._first else None
        self._first.clear()
        self.tables.play_in_tasks(orchestrate, self._round + called, first, alone=alone)

    def keep(self, orchestrate: Callable[[InTask], None], called: str) -> None:
        """See `Player.keep`: tasks keep the buckets, or one task where several cannot."""
        layout = self.tables.layout
        alone = layout.buckets > 1 and why_no_tasks(layout.spark, layout.buckets) is not None
        self.play_in_tasks(orchestrate, called, alone=alone)

    def send_first(self, program: type, messages: DataFrame) -> None:
        """Set the messages (`ROWS`, lazy) for superstep 0 of the next program of a type."""
        self._first[program] = messages

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        messages = self._first.pop(_type_of(program), None)
        if first:
            rows = [
                row
                for to, kind, columns in deliver(program.bounds, first)
                for row in pack_rows(to, -1, False, kind, columns)
            ]
            messages = local_frame(self._tables.layout.spark, pa.Table.from_batches(rows, _ARROW))
        self._waiting.append((program, messages))
        return 0 if is_silent(program) else self._play_waiting()

    def has(self, name: str) -> bool:
        return self.tables.has(name)

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        found = self.tables.take(tables_called(names).pattern)
        return join_tables((name, columns) for _, name, columns in found)

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        found = self.tables.read(tables_called(names).pattern)
        return join_tables((name, columns) for _, name, columns in found)

    def forget(self, match: Callable[[str], bool]) -> None:
        """See `Player.forget`; no job is needed."""
        self.tables.forget(match)

    def release(self) -> None:
        self._waiting.clear()
        self._tables.release()
        for shared in list(self._shared):
            self.free(shared)


def _numbered_together(messages: Sequence[DataFrame | None]) -> DataFrame | None:
    """Return the messages to several programs; their kinds begin with the index of the program."""
    numbered = [
        some.withColumn("name", F.concat(F.lit(f"{index} "), "name"))
        for index, some in enumerate(messages)
        if some is not None
    ]
    return union_tables(numbered) if numbered else None


def _type_of(program: Program) -> type:
    return _type_of(program.program) if isinstance(program, Prefixed) else type(program)
