"""An overlay whose tables come from nodes that arrive in waves.

The first waves are played in one task, because a superstep on Spark costs the same however few
nodes it has.  Later waves are played on the buckets of the ring, by the same programs.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from scribe_spark import schemas
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.in_process import thread_bounds
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_rows, read_rows
from scribe_spark.pastry.arrivals.one_task import grow, programs
from scribe_spark.pastry.arrivals.waves import Plan, wave_ends
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.progress import Progress
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.observer import MESSAGES, Observer, counted
from scribe_spark.runtime.batches import BatchKernel
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.underlay.protocol import Kernel, Underlay

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig

#: Waves are played in one task up to this number of nodes; the results do not depend on it.
_ONE_TASK = 2**17


def arrivals(
    nodes: DataFrame,
    underlay: Underlay,
    config: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
) -> PastryOverlay:
    """Return the overlay after the last wave; the caller must call ``release``."""
    rules = config.for_tasks()
    overlay = PastryOverlay(nodes, underlay, rules.b, rules.leaf_set)
    ring = overlay.ring
    tables = play_arrivals(ring, len(ring), underlay.kernel, rules, seed, progress)
    tables.settle()
    overlay.known = [tables.constant(LEAVES, CELLS)]
    overlay.own(tables.release)
    by_kind = [(kind.value, int(sent)) for kind, sent in zip(Kind, _messages(tables), strict=True)]
    overlay.arrived = schemas.local_table(nodes.sparkSession, by_kind, schemas.ARRIVAL_MESSAGES)
    return overlay


def play_arrivals(
    ring: BucketRing,
    initial: int,
    kernel: Kernel,
    rules: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
) -> BucketTables:
    """Return the tables `LEAVES`, `CELLS` and `MESSAGES` after `initial` nodes have arrived."""
    spark, ends = ring.layout.spark, wave_ends(initial, rules.growth)
    last = max(0, int(np.searchsorted(ends, _ONE_TASK, side="right")) - 1)
    if ring.layout.buckets == 1:  # a single task plays all waves anyway
        last = len(ends) - 1
    first = _in_one_task(spark, _first_waves(ring, initial, kernel, rules, seed, last), ROWS)
    tables = BucketTables(ring.layout, ring.layout.partition(first))
    if last + 1 < len(ends):
        names = _planned_waves(spark, ring, initial, kernel, rules, seed)
        given = Environment(
            ring.facts, ring.bounds, rules, kernel, Observer(tuple(Kind)), seed=seed
        )
        for number in range(last + 1, len(ends)):
            wave = _PlannedWave(names, int(ends[number - 1]), int(ends[number]))
            for program in programs(given, wave, number):
                tables.play(program, f"wave {number}, {type(program).__name__}", progress)
        discard_arrays(*names)
    return tables


def _in_one_task(spark: SparkSession, kernel: BatchKernel, schema: StructType | str) -> DataFrame:
    """Return the rows that a kernel yields in a single task; lazy."""
    return spark.range(0, 1, 1, 1).mapInArrow(kernel, schema)


def _first_waves(
    ring: BucketRing, initial: int, kernel: Kernel, rules: OverlayConfig, seed: int, last: int
) -> BatchKernel:
    """Return a kernel that plays the waves up to `last` and yields the tables of all buckets."""
    facts, bounds, folder = ring.facts, ring.bounds, ring.layout.folder

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if read_partition(batches) is None:
            return
        # the nodes of later waves are in the ring already, with empty tables
        plan = Plan.of_first(facts.ring, initial, rules, seed, kernel)
        wave = np.where(plan.wave <= last, plan.wave, -1)
        now, threads = replace(plan, wave=wave), thread_bounds(len(facts.ring))
        *_, done = grow(facts.ring, now, rules, seed, kernel, threads)
        for bucket, (first, end) in enumerate(itertools.pairwise(bounds.tolist())):
            own = done.states.of(slice(first, end))
            for name, columns in own.tables().items():
                yield from pack_rows(bucket, bucket, True, name, columns, folder)
        sent = {"messages": done.messages, "lost": np.zeros_like(done.messages)}
        yield from pack_rows(0, 0, True, MESSAGES, sent)

    return run


def _planned_waves(
    spark: SparkSession,
    ring: BucketRing,
    initial: int,
    kernel: Kernel,
    rules: OverlayConfig,
    seed: int,
) -> tuple[str, ...]:
    """Plan all waves; return the names of the shared arrays ``position, rank, contact``.

    The arrays are sorted by wave and position.
    """
    facts = ring.facts

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if read_partition(batches) is not None:
            plan = Plan.of_first(facts.ring, initial, rules, seed, kernel)
            yield pa.RecordBatch.from_pydict(vars(plan))

    rows = _in_one_task(spark, run, "wave bigint, rank bigint, contact bigint").toArrow()
    wave, rank, contact = (column.to_numpy() for column in rows.columns)
    arriving = np.flatnonzero(wave >= 0)
    order = arriving[np.argsort(wave[arriving], kind="stable")]
    names = distribute_arrays(spark, position=order, rank=rank[order], contact=contact[order])
    return tuple(names)


@dataclass(frozen=True)
class _PlannedWave:
    """See `wave.Wave`: a range of the arrays of :func:`_planned_waves`; picklable."""

    names: tuple[str, ...]
    first: int
    last: int

    @property
    def arriving(self) -> np.ndarray:
        return open_array(self.names[0])[self.first : self.last]

    @property
    def order(self) -> np.ndarray:
        return open_array(self.names[1])[self.first : self.last]

    @property
    def contact(self) -> np.ndarray:
        return open_array(self.names[2])[self.first : self.last]

    @functools.cached_property
    def live(self) -> np.ndarray:
        return np.sort(open_array(self.names[0])[: self.last])


def _messages(tables: BucketTables) -> np.ndarray:
    """Return the number of messages of each kind, summed over buckets."""
    rows = read_rows(tables.rows(MESSAGES).toArrow().to_batches())
    return sum(
        (counted(row.read(), len(Kind))[0] for row in rows), start=np.zeros(len(Kind), np.int64)
    )
