"""The engine on Spark: a superstep is a job in which messages meet the tables of their buckets.

Everything is rows of :data:`ROWS`, keyed by bucket: packed messages, and the tables of a bucket,
which are what it sends to itself.  A superstep shuffles the rows by bucket, plays each bucket where
its rows have come together, and is checkpointed.  The row of a table holds its bytes; where all
tasks share a disk it names a file instead, which the tasks map into memory.
"""

from __future__ import annotations

import functools
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.engine.barrier import run_in_tasks
from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.in_turn import IfRows, InTurn, Steps, stopped_at
from scribe_spark.engine.program import Inbox, Program, Tables, deliver, merge_inbox
from scribe_spark.engine.rows import Row, pack_rows, read_rows
from scribe_spark.progress import Progress, Silent
from scribe_spark.runtime.blocks import materialise_and_read, release
from scribe_spark.runtime.scratch import scratch_folder
from scribe_spark.runtime.sessions import abilities, describe_jobs, parallelism
from scribe_spark.runtime.tricks import enabled
from scribe_spark.schemas import ROWS

#: The sender of a table that no program changes.
CONSTANT = -1

#: Tasks of a superstep for each core: more share the work more evenly, and cost more.
_TASKS_A_CORE = 2

_MOST = 10_000  # more supersteps mean that the messages never end


@dataclass(frozen=True)
class Costs:
    """The cost of programs: supersteps, messages, and the bytes of these, packed."""

    supersteps: int = 0
    messages: int = 0
    bytes: int = 0

    def in_words(self) -> str:
        """Return what is told of them.

        Examples
        --------
        >>> Costs(12, 3400, 51_000).in_words()
        '12 supersteps, 3,400 messages of 0.1 MB'
        """
        size = f"{self.bytes / 1e6:,.1f} MB"
        return f"{self.supersteps} supersteps, {self.messages:,} messages of {size}"

    def __add__(self, other: Costs) -> Costs:
        return Costs(
            self.supersteps + other.supersteps,
            self.messages + other.messages,
            self.bytes + other.bytes,
        )


class Layout:
    """The number of buckets, the partitions in which they are played, the folder of files.

    Attributes
    ----------
    spark : SparkSession
    buckets, partitions : int
    folder : str or None
        Where tasks write tables as files; None where rows hold their bytes.
    """

    def __init__(self, spark: SparkSession, buckets: int, partitions: int) -> None:
        self.spark, self.buckets = spark, buckets
        self.partitions = min(partitions, buckets)
        self.folder: str | None = None
        if enabled("mapped_tables") and abilities(spark).shares_disk:
            self.folder = str(scratch_folder())
            # a task takes its buckets one after the other, and has no more than messages in memory
            self.partitions = min(self.partitions, _TASKS_A_CORE * parallelism(spark))

    def partition(self, frame: DataFrame) -> DataFrame:
        """Return rows of :data:`ROWS`, those of a bucket in one partition."""
        part = F.floor(F.col("bucket") * self.partitions / self.buckets).cast("int")
        return frame.repartitionById(self.partitions, part)

    def release(self) -> None:
        """Delete the files."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class BucketTables:
    """The tables of all buckets that programs change, as rows on the executors.

    Parameters
    ----------
    layout : Layout
    first : DataFrame
        :data:`ROWS`: the tables at the beginning, and messages of superstep 0.
    constant : sequence of DataFrame
        :data:`ROWS` that every program sees, materialised by their owner.
    borrowed : frozenset of str
        Files of `first` that belong to others, and are not deleted.

    Attributes
    ----------
    costs : Costs
        What has been played since somebody has set it anew.
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
        self.costs = Costs()

    def play(
        self,
        program: Program,
        name: str,
        progress: Progress | None = None,
        first: DataFrame | None = None,
        superstep: int = 0,
    ) -> list[int]:
        """Play a program until nobody sends; the messages of each superstep.

        Parameters
        ----------
        first : DataFrame, optional
            :data:`ROWS`: messages that are there in superstep 0; lazy.
        superstep : int
            The first that is played.

        Raises
        ------
        RuntimeError
            Messages never end.
        """
        counts = list[int]()
        for number in range(superstep, _MOST):
            made = self._compute(program, number, name, progress, None if number else first)
            self._accept(made)
            counts.append(made.messages)
            if not made.messages:
                return counts
        raise RuntimeError(f"{name}: messages still on their way after {_MOST} supersteps")

    def play_in_turn(
        self,
        programs: Steps,
        name: str,
        progress: Progress | None = None,
        first: DataFrame | None = None,
    ) -> tuple[int, int]:
        """Play programs up to the first that sends, and that one until nobody sends.

        Parameters
        ----------
        programs : sequence of Program or IfRows
            The first and the last are programs.
        first : DataFrame, optional
            As of :meth:`play`, for the first program.

        Returns
        -------
        int
            The index of the program at which it has stopped: one that has sent, the last, or
            programs of which a table has rows, which have not been played.
        int
            The messages that have been sent.
        """
        turn = tuple(programs)
        while True:
            made = self._compute(InTurn(turn), 0, name, progress, first)
            stopped = stopped_at(made.held)
            at = min(stopped, default=len(turn) - 1)
            if len(stopped) <= 1:
                break
            self._discard(made)  # some buckets have gone on where others have sent
            turn = turn[: at + 1]
        self._accept(made)
        self._forget(stopped.values())
        if not made.messages:
            return at, 0
        program = turn[at]
        assert not isinstance(program, IfRows)
        return at, made.messages + sum(self.play(program, name, progress, superstep=1))

    def fork(self, *, constant: bool = True) -> BucketTables:
        """Return tables that begin as these, which stay as they are and must live longer.

        Parameters
        ----------
        constant : bool
            Whether programs see the constant tables too.
        """
        seen = self._constant if constant else ()
        forked = BucketTables(self.layout, self.rows(), seen, self._files | self._borrowed)
        forked._held = self._held.copy()
        return forked

    def play_in_tasks(
        self,
        orchestrate: Callable[[InTask, pa.Table], None],
        name: str,
        first: DataFrame | None = None,
        beside: DataFrame | None = None,
    ) -> None:
        """Let one job, whose tasks keep their buckets, change the tables.

        Parameters
        ----------
        orchestrate : callable
            ``orchestrate(player, beside)``, called in the task of each bucket; picklable.
        name : str
            Names the job.
        first : DataFrame, optional
            As of :meth:`play`.
        beside : DataFrame, optional
            Rows of other columns than `ROWS`, which every task reads.

        Raises
        ------
        InputError
            The orchestrator raised this; the tables are as before.
        RunError
            The orchestrator raised another error; or tasks were lost again and again.
        """
        rows, layout = self._with_constant(first), self.layout
        if beside is not None:
            rows = _with_beside(rows, beside, layout.buckets)
        wanted = None if beside is None else to_arrow_schema(beside.schema)
        folder = layout.folder

        def work(exchange: Exchange, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            own, others = _apart(batches, wanted)
            bucket, found = exchange.rank, list(read_rows(own))
            held = _tables_of(found)
            player = InTask([_readable(held)], exchange, _inbox_of(found))
            del found
            orchestrate(player, others)
            yield from _rows_of(bucket, player.tables[0], held, folder)

        with describe_jobs(layout.spark, name):
            self._accept(_Made.read(*run_in_tasks(rows, layout.buckets, work, _seen())))

    def play_in_one_task(
        self,
        orchestrate: Callable[[InTask], None],
        name: str,
        first: DataFrame | None = None,
    ) -> None:
        """Let one task change the tables of all buckets.

        Parameters
        ----------
        orchestrate : callable
            ``orchestrate(player)``, the player of all buckets; picklable.
        name : str
            Names the job.
        first : DataFrame, optional
            As of :meth:`play`.
        """
        count, folder = self.layout.buckets, self.layout.folder

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(read_rows(batches))
            held: list[dict[str, Row]] = [{} for _ in range(count)]
            for row in found:
                held[row.bucket] |= _tables_of([row])
            player = InTask([_readable(mine) for mine in held], inbox=_inbox_of(found))
            del found
            orchestrate(player)
            for bucket, tables in enumerate(player.tables):
                yield from _rows_of(bucket, tables, held[bucket], folder)

        with describe_jobs(self.layout.spark, name):
            rows = self._with_constant(first).coalesce(1).mapInArrow(run, ROWS)
            self._accept(_Made.of(self.layout.partition(rows)))

    def settle(self) -> None:
        """Compute the rows now, if nothing has been played."""
        if not self._owned:
            self._accept(_Made.of(self._kept()))

    def has(self, name: str) -> bool:
        """Return whether a table has rows in any bucket, as of the last superstep."""
        return self._held[name] > 0

    def take(self, pattern: str) -> list[tuple[int, str, dict[str, np.ndarray]]]:
        """Return tables as :meth:`read` does, and remove them."""
        taken = self.read(pattern)
        self._forget({name for _, name, _ in taken})
        return taken

    def read(self, pattern: str) -> list[tuple[int, str, dict[str, np.ndarray]]]:
        """Return bucket, name and columns of tables, in order of both.

        Parameters
        ----------
        pattern : str
            A regular expression, of the whole names.
        """
        found = self.called(pattern)
        if not found:
            return []
        read = self._kept().where(F.col("table") & F.col("name").isin(found)).toArrow()
        rows = sorted(read_rows(read.to_batches()), key=lambda row: (row.bucket, row.name))
        return [(row.bucket, row.name, row.read()) for row in rows]

    def _forget(self, names: Iterable[str]) -> None:
        """Leave tables out of the next superstep."""
        for name in names:
            self._taken.add(name)
            del self._held[name]

    def _kept(self) -> DataFrame:
        """The rows without tables that have been taken since they were made."""
        if not self._taken:
            return self._rows
        return self._rows.where(~F.col("table") | ~F.col("name").isin(sorted(self._taken)))

    def called(self, pattern: str) -> list[str]:
        """Return the names of the tables that match a regular expression."""
        return sorted(name for name in self._held if re.fullmatch(pattern, name))

    def _with_constant(self, first: DataFrame | None) -> DataFrame:
        """Return all rows that programs see, and messages."""
        rows = self._kept()
        for others in (*self._constant, *([] if first is None else [first])):
            rows = rows.unionByName(others)
        return rows

    def rows(self, *names: str) -> DataFrame:
        """Return the rows of tables (by default all), each in its bucket's partition."""
        rows = self._kept().where("table")
        return rows.where(F.col("name").isin(*names)) if names else rows

    def constant(self, *names: str) -> DataFrame:
        """Return tables (by default all) as ones that another program sees and does not change."""
        return as_constant(self.rows(*names))

    def release(self) -> None:
        """Free the memory; files are the layout's."""
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
        """Compute the rows after a superstep; those before stay what they are."""
        started, rows = time.perf_counter(), self._with_constant(first)
        step = play_buckets(program, superstep, self.layout.folder)
        with describe_jobs(self.layout.spark, f"{name} superstep {superstep}"):
            made = _Made.of(self.layout.partition(rows).mapInArrow(step, ROWS))
        self.costs += Costs(1, made.messages, made.bytes)
        seconds = time.perf_counter() - started
        (progress or Silent()).round(name, superstep, made.messages, seconds)
        return made

    def _accept(self, made: _Made) -> None:
        """Let rows take the place of those before."""
        before = self._rows if self._owned else None
        self._rows, self._owned, self._taken = made.rows, True, set()
        self._held = made.held
        _delete(self._files - made.files - self._borrowed)
        self._files = made.files
        if before is not None:
            release(before)

    def _discard(self, made: _Made) -> None:
        """Free rows that take no other ones' place."""
        _delete(made.files - self._files - self._borrowed)
        release(made.rows)


def as_constant(rows: DataFrame) -> DataFrame:
    """Return tables as ones that programs see and do not change; lazy."""
    return rows.withColumn("sender", F.lit(CONSTANT).cast("int"))


@dataclass(frozen=True)
class _Made:
    """Rows that have been computed.

    Attributes
    ----------
    rows : DataFrame
        :data:`ROWS`.
    held : Counter of str
        How many rows the tables of each name have in all buckets.
    messages, bytes : int
        How many messages there are, and the bytes of these, packed.
    files : frozenset of str
        Files that tables are in.
    """

    rows: DataFrame
    held: Counter[str]
    messages: int
    bytes: int
    files: frozenset[str]

    @classmethod
    def of(cls, frame: DataFrame) -> _Made:
        """Compute rows, and read what they are."""
        return cls.read(*materialise_and_read(frame, _seen()))

    @classmethod
    def read(cls, rows: DataFrame, listed: pa.Table) -> _Made:
        """Return materialised rows, of which the columns :func:`_seen` are read."""
        is_table = listed.column("table").to_numpy(zero_copy_only=False)
        count = listed.column("rows").to_numpy()
        sent = pc.fill_null(listed.column("bytes"), 0).to_numpy()
        named = filter(None, listed.column("file").to_pylist())
        return cls(
            rows,
            _count_rows(listed),
            int(count[~is_table].sum()),
            int(sent[~is_table].sum()),
            frozenset(file for lines in named for file in lines.splitlines()),
        )


def _seen() -> list[str | Column]:
    """Return the columns of rows that the driver reads."""
    return ["table", "name", "rows", "file", F.length("data").alias("bytes")]


def _delete(files: Iterable[str]) -> None:
    for file in files:
        Path(file).unlink(missing_ok=True)


def _count_rows(listed: pa.Table) -> Counter[str]:
    """Return how many rows the tables of each name have in all buckets."""
    held: Counter[str] = Counter()
    for row in listed.select(["table", "name", "rows"]).to_pylist():
        if row["table"]:
            held[row["name"]] += row["rows"]
    return held


def play_buckets(
    program: Program, superstep: int, folder: str | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the kernel that plays the buckets of a partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        buckets: dict[int, list[Row]] = {}
        for row in read_rows(batches):
            buckets.setdefault(row.bucket, []).append(row)
        for bucket in sorted(buckets):  # what has been played is freed
            yield from _play(program, superstep, folder, bucket, buckets.pop(bucket))

    return run


def _play(
    program: Program, superstep: int, folder: str | None, bucket: int, rows: list[Row]
) -> Iterator[pa.RecordBatch]:
    """One superstep of one bucket; rows of its tables, and of the messages that it sends."""
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
    """Return the rows of tables by name."""
    return {row.name: row for row in rows if row.table}


def _readable(held: Mapping[str, Row]) -> Tables:
    """Return tables that are read when a program asks for them."""
    return Tables({name: functools.partial(getattr, row, "packed") for name, row in held.items()})


def _inbox_of(rows: Iterable[Row]) -> Inbox:
    """Return the messages among rows, by kind."""
    return merge_inbox((row.sender, row.name, row.read()) for row in rows if not row.table)


def _rows_of(
    bucket: int, tables: Tables, held: Mapping[str, Row], folder: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the tables of a bucket, of which some have changed."""
    for name in tables:
        if name in tables.changed:
            before = held[name].packed if name in held else None
            yield from pack_rows(bucket, bucket, True, name, tables.changed[name], folder, before)
        elif held[name].sender != CONSTANT:
            yield from held[name].as_it_was()


def _with_beside(rows: DataFrame, beside: DataFrame, buckets: int) -> DataFrame:
    """Return rows of buckets with other rows for every bucket, whose name is NULL; lazy."""
    nulls = [F.lit(None).cast(one.dataType).alias(one.name) for one in beside.schema]
    others = [F.lit(None).cast(one.dataType).alias(one.name) for one in ROWS]
    each = F.lit(0) if buckets == 1 else F.explode(F.sequence(F.lit(0), F.lit(buckets - 1)))
    every = beside.select(*others, *beside.columns).withColumn("bucket", each)
    return rows.select(*ROWS.names, *nulls).unionByName(every)


def _apart(
    batches: Iterable[pa.RecordBatch], beside: pa.Schema | None
) -> tuple[list[pa.RecordBatch], pa.Table]:
    """Return the rows of a bucket, and the others as of :func:`_with_beside`; no bytes are copied.

    Parameters
    ----------
    beside : Schema or None
        Of the other rows; None where there are none.
    """
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
