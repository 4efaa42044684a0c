"""The engine on Spark: in a superstep, one job joins messages with the tables of their buckets.

Messages and tables are packed rows of the schema :data:`ROWS`, keyed by bucket; a bucket keeps a
table by sending it to itself.  A superstep shuffles the rows by bucket, plays each bucket, and
checkpoints the resulting rows.  The row of a table holds the table's bytes or, if all tasks share a
disk, the name of a file that tasks map into memory.
"""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.progress import Progress, Silent
from scribe_spark.engine.barrier import run_in_tasks
from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.in_turn import IfRows, InTurn, Steps, stopped_at
from scribe_spark.engine.packing import Packed, Row, pack_rows, packed_in, read_rows
from scribe_spark.engine.player import counted, most_supersteps
from scribe_spark.engine.program import Inbox, Program, Tables, deliver, merge_inbox
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import materialise_and_read, release
from scribe_spark.runtime.scratch import scratch_folder
from scribe_spark.runtime.sessions import abilities, describe_jobs, parallelism
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
        superstep: int = 0,
    ) -> list[int]:
        """Play a program until no node sends; return the number of messages of each superstep."""
        counts = list[int]()
        supersteps = counted(name, most_supersteps(int(program.bounds[-1])))
        for number in itertools.islice(supersteps, superstep, None):
            made = self._compute(program, number, name, progress, None if number else first)
            self._accept(made)
            counts.append(made.messages)
            if not made.messages:
                break
        return counts

    def play_in_turn(
        self,
        programs: Steps,
        name: str,
        progress: Progress | None = None,
        first: DataFrame | None = None,
    ) -> tuple[int, int]:
        """Play programs up to the first that sends, and play that program to its end.

        The kinds of messages in `first` begin with the index of the program.  The last program is
        no `IfRows`. Return the index of the program that sent, of the last one, or of an `IfRows`
        that has rows and was not played; and the number of messages.
        """
        turn = tuple(programs)
        while True:
            made = self._compute(InTurn(turn), 0, name, progress, first)
            stopped = stopped_at(made.held)
            at = min(stopped, default=len(turn) - 1)
            if len(stopped) <= 1:
                break
            self._discard(made)  # some buckets went too far: others sent messages before
            turn = turn[: at + 1]
        self._accept(made)
        self._forget(stopped.values())
        if not made.messages:
            return at, 0
        program = turn[at]
        assert not isinstance(program, IfRows)
        return at, made.messages + sum(self.play(program, name, progress, superstep=1))

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
                held[row.bucket] |= _tables_of([row])

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
            self._accept(_Made.read(*made))

    def settle(self) -> None:
        """Compute the first rows now, which are lazy, unless a program has been played."""
        if not self._owned:
            self._accept(_Made.of(self._kept()))

    def has(self, name: str) -> bool:
        """Return True if the table has rows in any bucket after the last superstep."""
        return self._held[name] > 0

    def take(self, pattern: str) -> list[tuple[int, str, dict[str, np.ndarray]]]:
        """Return tables as :meth:`read` does, and remove them from the buckets."""
        taken = [(at, name, dict(columns)) for at, name, columns in self.read(pattern)]
        self._forget({name for _, name, _ in taken})
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
        self._forget(list(filter(match, self._held)))

    def _forget(self, names: Iterable[str]) -> None:
        """Exclude the named tables from the rows of the next superstep."""
        for name in names:
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
        listed = pa.Table.from_pylist(there, to_arrow_schema(ROWS))
        return Batches.known(spark, listed, sum(self._held[name] for name in names), ROWS)

    def constant(self, *names: str) -> DataFrame:
        """Return tables (by default all) as constant tables for another `BucketTables`."""
        return self.rows(*names).withColumn("sender", F.lit(CONSTANT).cast("int"))

    def release(self) -> None:
        """Free the memory of the rows; `Layout.release` deletes the files."""
        if self._owned:
            release(self._rows)

    def _compute(
        self,
        program: Program,
        superstep: int,
        name: str,
        progress: Progress | None,
        first: DataFrame | None,
    ) -> _Made:
        """Compute the rows after a superstep; the rows before it remain valid."""
        started, rows = time.perf_counter(), self._with_constant(first)
        step = play_superstep(program, superstep, self.layout.folder)
        with describe_jobs(self.layout.spark, f"{name} superstep {superstep}"):
            made = _Made.of(self.layout.partition(rows).mapInArrow(step, ROWS))
        self.costs += Costs(1, made.messages, made.bytes)
        seconds = time.perf_counter() - started
        (progress or Silent()).round(name, superstep, made.messages, seconds)
        return made

    def _accept(self, made: _Made) -> None:
        """Replace the rows by those after a superstep (`made`), and free the former ones."""
        before = self._rows if self._owned else None
        self._rows, self._owned, self._taken = made.rows, True, set()
        self._held, self._places = made.held, made.places
        _delete(self._files - made.files - self._borrowed)
        self._files = made.files
        if before is not None:
            release(before)

    def _discard(self, made: _Made) -> None:
        _delete(made.files - self._files - self._borrowed)
        release(made.rows)


@dataclass(frozen=True)
class _Made:
    """Materialised rows after a superstep, with their statistics."""

    rows: DataFrame
    held: Counter[str]
    places: dict[str, list[tuple[int, str | None]]]
    messages: int
    bytes: int
    files: frozenset[str]

    @classmethod
    def of(cls, frame: DataFrame) -> _Made:
        return cls.read(*materialise_and_read(frame, _seen()))

    @classmethod
    def read(cls, rows: DataFrame, listed: pa.Table) -> _Made:
        """Return rows with their statistics, which `listed` has in the columns of :func:`_seen`."""
        every = listed.to_pylist()
        sent, held = [row for row in every if not row["table"]], Counter[str]()
        places: dict[str, list[tuple[int, str | None]]] = {}
        for row in (row for row in every if row["table"]):
            held[row["name"]] += row["rows"]
            places.setdefault(row["name"], []).append((row["bucket"], row["file"]))
        return cls(
            rows,
            held,
            places,
            sum(row["rows"] for row in sent),
            sum(row["bytes"] or 0 for row in sent),
            frozenset(file for row in every for file in (row["file"] or "").splitlines()),
        )


def _seen() -> list[str | Column]:
    """Return the columns of rows that are sent to the driver with a job: only statistics."""
    return ["table", "name", "rows", "bucket", "file", F.length("data").alias("bytes")]


def _delete(files: Iterable[str]) -> None:
    for file in files:
        Path(file).unlink(missing_ok=True)


def play_superstep(
    program: Program, superstep: int, folder: str | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
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
    held = _tables_of(rows)
    tables, inbox = _readable(held), _inbox_of(rows)
    del rows
    if inbox or not superstep:
        outbox = program.step(bucket, tables, inbox, superstep)
        del inbox
        for to, kind, columns in deliver(program.bounds, outbox):
            yield from pack_rows(to, bucket, False, kind, columns)
    yield from _rows_of(bucket, tables, held, folder)


def _tables_of(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows if row.table}


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
