"""The engine on Spark: in a superstep, one job joins messages with the tables of their buckets.

Messages and tables are packed rows of the schema :data:`ROWS`, keyed by bucket; a bucket keeps a
table by sending it to itself.  A superstep shuffles the rows by bucket, plays each bucket, and
checkpoints the resulting rows.  The row of a table holds the table's bytes or, if all tasks share a
disk, the name of a file that tasks map into memory.
"""

from __future__ import annotations

import functools
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.progress import Progress, Silent
from scribe_spark.engine.barrier import run_in_tasks, why_no_tasks
from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import (
    ARROW_ROWS,
    Columns,
    Packed,
    Row,
    pack_rows,
    packed_in,
    read_rows,
)
from scribe_spark.engine.player import Shared, counted, join_tables, most_supersteps, tables_called
from scribe_spark.engine.program import (
    Inbox,
    InTurn,
    Prefixed,
    Program,
    Tables,
    deliver,
    is_silent,
    merge_inbox,
    name_of,
)
from scribe_spark.runtime.batches import Batches, BatchKernel
from scribe_spark.runtime.blocks import materialise_and_read, release, union_tables
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.runtime.environment import scratch_folder
from scribe_spark.runtime.sessions import abilities, describe_jobs, local_frame, parallelism
from scribe_spark.runtime.tricks import enabled
from scribe_spark.schemas import ROWS

#: The value of the column `sender` in the rows of a table that no program changes.
CONSTANT = -1

#: Spark tasks per core in a superstep: more tasks balance the load better, but cost more.
_TASKS_A_CORE = 2


@dataclass(frozen=True)
class Costs:
    """The cost of programs: supersteps, messages, and the packed size of the messages in bytes."""

    supersteps: int = 0
    messages: int = 0
    bytes: int = 0

    def in_words(self) -> str:
        """Return the costs for a progress line: ``12 supersteps, 3,400 messages of 0.1 MB``."""
        size = f"{self.bytes / 1e6:,.1f} MB"
        return f"{self.supersteps} supersteps, {self.messages:,} messages of {size}"

    def __add__(self, other: Costs) -> Costs:
        return Costs(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class Layout:
    """The numbers of buckets and partitions, and the folder for tables in files, or None."""

    def __init__(self, spark: SparkSession, buckets: int, partitions: int) -> None:
        self.spark, self.buckets = spark, buckets
        self.partitions = min(partitions, buckets)
        self.folder: str | None = None
        if enabled("mapped_tables") and abilities(spark).shares_disk:
            self.folder = str(scratch_folder())
            # a task plays its buckets one after the other; tables are mapped, so memory suffices
            self.partitions = min(self.partitions, _TASKS_A_CORE * parallelism(spark))

    def partition(self, frame: DataFrame) -> DataFrame:
        """Return the rows (:data:`ROWS`) with all rows of a bucket in one partition."""
        part = F.floor(F.col("bucket") * self.partitions / self.buckets).cast("int")
        return frame.repartitionById(self.partitions, part)

    def release(self) -> None:
        """Delete the folder with the files of tables."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class BucketTables:
    """The tables of all buckets, which programs change, as rows on the executors.

    `first` (`ROWS`) has the first tables and messages.  Programs read the tables in `constant`,
    which the caller releases; files in `borrowed` are not deleted here.  `costs` counts since it
    was set.
    """

    def __init__(
        self,
        layout: Layout,
        first: DataFrame,
        constant: Iterable[DataFrame] = (),
        borrowed: frozenset[str] = frozenset(),
    ) -> None:
        self.layout, self._constant, self._borrowed = layout, list(constant), borrowed
        self._rows, self._files = first, frozenset[str]()
        self._owned, self._taken = False, set[str]()
        self._held: Counter[str] = Counter()
        # the bucket and the files of each row of a table, by name; None for bytes in the row
        self._places: dict[str, list[tuple[int, str | None]]] = {}
        self.costs = Costs()

    def play(
        self,
        program: Program,
        name: str,
        progress: Progress | None = None,
        first: DataFrame | None = None,
        before: Sequence[Program] = (),
    ) -> list[int]:
        """Play a program until no node sends; return the number of messages of each superstep.

        Silent programs `before` it are played in its superstep 0, see `InTurn` for the messages
        `first`.
        """
        counts = list[int]()
        for number in counted(name, most_supersteps(int(program.bounds[-1]))):
            started = time.perf_counter()
            step = InTurn((*before, program)) if before and not number else program
            kernel = play_superstep(step, number, self.layout.folder)
            called = f"{name} superstep {number}"
            made = self._superstep(kernel, None if number else first, called)
            messages, size = self._accept(*made)
            self.costs += Costs(1, messages, size)
            seconds = time.perf_counter() - started
            (progress or Silent()).round(name, number, messages, seconds)
            counts.append(messages)
            if not messages:
                break
        return counts

    def fork(self, *read_only: str, constant: bool = True) -> BucketTables:
        """Return tables that start as a copy, in which `read_only` are constant; release them."""
        seen = self._constant if constant else []
        if read_only:
            seen = [*seen, self.constant(*read_only)]
        forked = BucketTables(self.layout, self.rows(), seen, self._files | self._borrowed)
        forked._held, forked._places = self._held.copy(), self._places
        forked.forget(read_only.__contains__)
        return forked

    def play_in_tasks(
        self,
        orchestrate: Callable[..., None],
        name: str,
        first: DataFrame | None = None,
        beside: DataFrame | None = None,
        *,
        alone: bool = False,
    ) -> None:
        """Let ``orchestrate(player)`` change the tables in a task that keeps each bucket.

        With `alone`, a single task keeps all buckets.  With `beside`, every task reads these rows:
        ``orchestrate(player, rows)``.  If one raises an error, the tables are unchanged.
        """
        rows, layout = self._with_constant(first), self.layout
        tasks, folder = 1 if alone else layout.buckets, layout.folder
        if beside is not None:
            rows = _with_beside(rows, beside, tasks)
        wanted = None if beside is None else to_arrow_schema(beside.schema)
        count = layout.buckets

        def work(exchange: Exchange, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            own, *others = _apart(batches, wanted)
            found, buckets = list(read_rows(own)), [exchange.rank] if tasks > 1 else range(count)
            held: dict[int, dict[str, Row]] = {bucket: {} for bucket in buckets}
            for row in found:
                if row.table:
                    held[row.bucket][row.name] = row

            def put_away(bucket: int, tables: Tables, name: str) -> None:
                row = pack_rows(bucket, bucket, True, name, tables[name], folder)
                (held[bucket][name],) = read_rows(row)
                tables.put_away(name, functools.partial(getattr, held[bucket][name], "packed"))

            inbox, move = _inbox_of(found), None if folder is None else put_away
            player = InTask([_readable(mine) for mine in held.values()], exchange, inbox, move)
            del found
            if wanted is None:
                orchestrate(player)
            else:
                orchestrate(player, others.pop())  # nobody else keeps the table in memory
            for bucket, tables in zip(held, player.tables, strict=True):
                yield from _rows_of(bucket, tables, held[bucket], folder)

        with describe_jobs(layout.spark, name):
            made = run_in_tasks(rows, tasks, work, _seen(), folder, place=layout.partition)
            self._accept(*made)

    def settle(self) -> None:
        """Compute the first rows now, which are lazy, unless a program has been played."""
        if not self._owned:
            self._accept(*materialise_and_read(self._kept(), _seen()))

    def has(self, name: str) -> bool:
        """Return True if the table has rows in any bucket after the last superstep."""
        return self._held[name] > 0

    def take(self, pattern: str) -> list[tuple[int, str, dict[str, np.ndarray]]]:
        """Return tables as :meth:`read` does, and remove them from the buckets."""
        taken = [(at, name, dict(columns)) for at, name, columns in self.read(pattern)]
        self.forget({name for _, name, _ in taken}.__contains__)
        return taken

    def read(self, pattern: str) -> list[tuple[int, str, Packed]]:
        """Return (bucket, name, columns) of the tables that match a regular expression.

        Each column is decoded when it is read.
        """
        found = self.called(pattern)
        if not found:
            return []
        places = [(at, name, file) for name in found for at, file in self._places.get(name, [])]
        if places and all(file is not None for _, _, file in places):
            return [(at, name, packed_in(file)) for at, name, file in sorted(places) if file]
        read = self._kept().where(F.col("table") & F.col("name").isin(found)).toArrow()
        rows = sorted(read_rows(read.to_batches()), key=lambda row: (row.bucket, row.name))
        return [(row.bucket, row.name, row.packed) for row in rows]

    def forget(self, match: Callable[[str], bool]) -> None:
        """Remove from the buckets each table for whose name ``match(name)`` is True."""
        for name in list(filter(match, self._held)):
            self._taken.add(name)
            del self._held[name]

    def _kept(self) -> DataFrame:
        """Return the rows without the tables that were removed since the last superstep."""
        if not self._taken:
            return self._rows
        return self._rows.where(~F.col("table") | ~F.col("name").isin(sorted(self._taken)))

    def called(self, pattern: str) -> list[str]:
        """Return the names of tables that match a regular expression."""
        return sorted(name for name in self._held if re.fullmatch(pattern, name))

    def _with_constant(self, first: DataFrame | None) -> DataFrame:
        """Return all rows that programs read: tables, constant tables, and messages `first`."""
        rows = self._kept()
        for others in (*self._constant, *([] if first is None else [first])):
            rows = rows.unionByName(others)
        return rows

    def rows(self, *names: str) -> DataFrame:
        """Return the rows of some tables (by default all), partitioned by bucket."""
        rows = self._kept().where("table")
        return rows.where(F.col("name").isin(*names)) if names else rows

    def batches(self, *names: str) -> Batches:
        """Return the rows of some tables for kernels, which read tables in files without Spark."""
        spark = self.layout.spark
        places = [(*place, name) for name in names for place in self._places.get(name, [])]
        if not places or any(file is None for _, file, _ in places):
            return Batches.of(self.rows(*names))
        there = [
            {"bucket": bucket, "sender": bucket, "table": True, "name": name, "rows": 0}
            | {"file": file, "data": None, "part": 0, "parts": 1}
            for bucket, file, name in sorted(places)
        ]
        listed = pa.Table.from_pylist(there, ARROW_ROWS)
        return Batches.known(spark, listed, sum(self._held[name] for name in names), ROWS)

    def constant(self, *names: str) -> DataFrame:
        """Return tables (by default all) as constant tables for another `BucketTables`."""
        return self.rows(*names).withColumn("sender", F.lit(CONSTANT).cast("int"))

    def release(self) -> None:
        """Free the memory of the rows; `Layout.release` deletes the files."""
        if self._owned:
            release(self._rows)

    def _superstep(
        self, kernel: BatchKernel, first: DataFrame | None, called: str
    ) -> tuple[DataFrame, pa.Table]:
        """Compute new rows, and the columns of :func:`_seen`; the rows before remain valid."""
        rows = self.layout.partition(self._with_constant(first))
        with describe_jobs(self.layout.spark, called):
            return materialise_and_read(rows.mapInArrow(kernel, ROWS), _seen())

    def _accept(self, rows: DataFrame, listed: pa.Table) -> tuple[int, int]:
        """Replace the rows by new ones, and free the former; return the messages, and their bytes.

        `listed` has the columns of :func:`_seen` of the new rows, which are materialised.
        """
        before = self._rows if self._owned else None
        self._rows, self._owned, self._taken = rows, True, set()
        self._held, self._places = Counter(), {}
        messages = size = 0
        files = set[str]()
        for row in listed.to_pylist():
            files.update((row["file"] or "").splitlines())
            if row["table"]:
                self._held[row["name"]] += row["rows"]
                self._places.setdefault(row["name"], []).append((row["bucket"], row["file"]))
            else:
                messages, size = messages + row["rows"], size + (row["bytes"] or 0)
        for file in self._files - files - self._borrowed:
            Path(file).unlink(missing_ok=True)
        self._files = frozenset(files)
        if before is not None:
            release(before)
        return messages, size


def _seen() -> list[str | Column]:
    """Return the columns of rows that are sent to the driver with a job: only statistics."""
    return ["table", "name", "rows", "bucket", "file", F.length("data").alias("bytes")]


def play_superstep(program: Program, superstep: int, folder: str | None = None) -> BatchKernel:
    """Return the kernel that plays a superstep of a program in all buckets of a partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        buckets: dict[int, list[Row]] = {}
        for row in read_rows(batches):
            buckets.setdefault(row.bucket, []).append(row)
        for bucket in sorted(buckets):  # pop frees a bucket after it was played
            yield from _play(program, superstep, folder, bucket, buckets.pop(bucket))

    return run


def _play(
    program: Program, superstep: int, folder: str | None, bucket: int, rows: list[Row]
) -> Iterator[pa.RecordBatch]:
    """Play a superstep of one bucket; yield the rows of its tables and of the messages it sends."""
    held = {row.name: row for row in rows if row.table}
    tables, inbox = _readable(held), _inbox_of(rows)
    del rows
    if inbox or not superstep:
        outbox = program.step(bucket, tables, inbox, superstep)
        del inbox
        for to, kind, columns in deliver(program.bounds, outbox):
            yield from pack_rows(to, bucket, False, kind, columns)
    yield from _rows_of(bucket, tables, held, folder)


def _readable(held: Mapping[str, Row]) -> Tables:
    """Return the tables of a bucket, which unpack a row when a program reads its columns."""
    return Tables({name: functools.partial(getattr, row, "packed") for name, row in held.items()})


def _inbox_of(rows: Iterable[Row]) -> Inbox:
    return merge_inbox((row.sender, row.name, row.read()) for row in rows if not row.table)


def _rows_of(
    bucket: int, tables: Tables, held: Mapping[str, Row], folder: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a bucket's tables; unchanged tables keep the rows in `held`."""
    for name in tables:
        if name in tables.changed:
            before = held[name].packed if name in held else None
            yield from pack_rows(bucket, bucket, True, name, tables.changed[name], folder, before)
        elif held[name].sender != CONSTANT:
            yield from held[name].as_it_was()


def _with_beside(rows: DataFrame, beside: DataFrame, buckets: int) -> DataFrame:
    """Add the rows `beside` to the rows of every bucket, with NULL as their name; lazy."""
    nulls = [F.lit(None).cast(one.dataType).alias(one.name) for one in beside.schema]
    others = [F.lit(None).cast(one.dataType).alias(one.name) for one in ROWS]
    each = F.lit(0) if buckets == 1 else F.explode(F.sequence(F.lit(0), F.lit(buckets - 1)))
    every = beside.select(*others, *beside.columns).withColumn("bucket", each)
    return rows.select(*ROWS.names, *nulls).unionByName(every)


def _apart(
    batches: Iterable[pa.RecordBatch], beside: pa.Schema | None
) -> tuple[list[pa.RecordBatch], pa.Table]:
    """Split a partition's rows in two: a bucket's own, and those of `_with_beside`."""
    if beside is None:
        return list(batches), pa.table({})
    own, others = [], []
    for batch in batches:
        is_other = pc.is_null(batch.column("name"))
        if batch.column("name").null_count:
            others.append(batch.select(beside.names).filter(is_other))
        mine = np.flatnonzero(~is_other.to_numpy(zero_copy_only=False))
        own += [batch.select(ROWS.names).slice(int(at), 1) for at in mine]
    return own, pa.Table.from_batches(others) if others else beside.empty_table()


# --- the player


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
            messages = local_frame(
                self._tables.layout.spark, pa.Table.from_batches(rows, ARROW_ROWS)
            )
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
