"""The player on Spark: tables stay on the executors, and each superstep is a job."""

from __future__ import annotations

from collections import Counter
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
from scribe_spark.engine.in_turn import IfRows, Steps, are_silent, is_silent, name_of, trimmed
from scribe_spark.engine.on_spark import BucketTables, Costs
from scribe_spark.engine.packing import Columns, pack_rows
from scribe_spark.engine.player import Shared, join_tables, play_in_turn, tables_called
from scribe_spark.engine.program import Prefixed, Program, deliver
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
        # (program, turn) pairs that sent nothing when last played, and each program's turns in this
        # round
        self._idle, self._turns = set[tuple[str, int]](), Counter[str]()
        # tables that had no rows when last seen
        self._empty = set[str]()
        # silent programs that have not been played yet, and the messages to each
        self._waiting: list[tuple[Program | IfRows, DataFrame | None]] = []

    @property
    def tables(self) -> BucketTables:
        """The tables of all buckets; programs that wait are played before."""
        self._play_waiting()
        return self._tables

    def _play_waiting(self) -> None:
        if not self._waiting:
            return
        some = trimmed([program for program, _ in self._waiting])
        later = [program for program, _ in self._waiting[len(some) :]]
        last, messages = self._waiting[len(some) - 1]
        del self._waiting[len(some) - 1 :]
        assert not isinstance(last, IfRows)
        self._play_now(last, messages)
        play_in_turn(self, later)

    def begin_round(self, number: int) -> None:
        """See `Player.begin_round`; the costs start at zero."""
        self._first.clear()
        self._turns.clear()
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

    def _take_first(self, program: Program) -> DataFrame | None:
        """Return the messages that were set for a program, and forget them."""
        return self._first.pop(_type_of(program), None)

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        messages = self._take_first(program)
        if first:
            rows = [
                row
                for to, kind, columns in deliver(program.bounds, first)
                for row in pack_rows(to, -1, False, kind, columns)
            ]
            messages = local_frame(self._tables.layout.spark, pa.Table.from_batches(rows, _ARROW))
        if is_silent(program):
            self._waiting.append((program, messages))
            return 0
        return self._play_now(program, messages)

    def _play_now(self, program: Program, messages: DataFrame | None) -> int:
        """Play all waiting programs, then `program`; return the number of its messages."""
        if self._waiting:
            return self._play_in_turn([program], messages)[1]
        name = self._round + name_of(program)
        return sum(self._tables.play(program, name, self.progress, first=messages))

    def _play_in_turn(self, programs: Steps, messages: DataFrame | None) -> tuple[int, int]:
        """Play all waiting programs, then `programs`; see `BucketTables.play_in_turn`."""
        waiting, self._waiting = self._waiting, []
        turn: list[Program | IfRows] = [*(program for program, _ in waiting), *programs]
        first = _numbered_together([*(frame for _, frame in waiting), messages])
        names = [name_of(one) for one in turn if not isinstance(one, IfRows)]
        called = f"{self._round}{names[0]} to {names[-1]}"
        at, count = self._tables.play_in_turn(turn, called, self.progress, first)
        stopped = turn[at]
        if at >= len(waiting) or not isinstance(stopped, IfRows):
            return at - len(waiting), count
        self._empty -= set(stopped.tables)
        play_in_turn(self, stopped.programs)
        self._waiting += waiting[at + 1 :]
        return self._play_in_turn(programs, messages)

    def play_some(self, programs: Steps) -> int:
        """Play in one job the first program and all that are not expected to send messages."""
        expected = programs[: self._expected(programs)]
        if are_silent(expected):
            for count, program in enumerate(expected):
                if isinstance(program, IfRows) and not self._empty.issuperset(program.tables):
                    return count
                messages = None if isinstance(program, IfRows) else self._take_first(program)
                self._waiting.append((program, messages))
                self._note(program, 0)
            return len(expected)
        some, first = trimmed(expected), programs[0]
        assert not isinstance(first, IfRows)
        if len(some) == 1:
            self._note(first, self.play(first))
            return 1
        at, sent = self._play_in_turn(some, self._take_first(first))
        for program in some[:at]:
            self._note(program, 0)
        if isinstance(some[at], IfRows):
            return at
        self._note(some[at], sent)
        return at + 1

    def _expected(self, programs: Steps) -> int:
        """Return how many of the programs are played in one job: only the last may send."""
        turns = self._turns.copy()
        for count, program in enumerate(programs, 1):
            if isinstance(program, IfRows):
                continue
            key = name_of(program)
            if count > 1 and _type_of(program) in self._first:
                return count - 1
            if not (is_silent(program) or (key, turns[key]) in self._idle):
                return count
            turns[key] += 1
        return len(programs)

    def _note(self, program: Program | IfRows, sent: int) -> None:
        """Record that a program sent messages or not, for the prediction in the next round."""
        if isinstance(program, IfRows):
            return
        key = name_of(program)
        turn = key, self._turns[key]
        self._turns[key] += 1
        if sent:
            self._idle.discard(turn)
        else:
            self._idle.add(turn)

    def has(self, name: str) -> bool:
        found = self.tables.has(name)
        self._empty.discard(name) if found else self._empty.add(name)
        return found

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
