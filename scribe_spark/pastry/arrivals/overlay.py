"""An overlay whose tables come from nodes that arrive in waves.

The first waves are played in one task, because a superstep on Spark costs the same however few
nodes it has.  Later waves are played on the buckets of the ring, by the same programs.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from scribe_spark import schemas
from scribe_spark.core.progress import Progress
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import KnowsRing, Ring, RingInMemory
from scribe_spark.engine.in_task import InTask, thread_bounds
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_rows, read_rows
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.pastry.arrivals.arrival import arrive
from scribe_spark.pastry.arrivals.waves import WavePlan, wave_ends
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.states import CELLS, LEAVES, Kind, States, states_in_buckets
from scribe_spark.rounds.observer import MESSAGES, Observer, counted
from scribe_spark.rounds.player import Environment, RoundPlayer
from scribe_spark.runtime.batches import BatchKernel, Table
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.underlay.protocol import Kernel, Underlay

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig

#: Waves are played in one task up to this number of nodes; the results do not depend on it.
_ONE_TASK = 2**17


def arrivals(
    nodes: Table,
    underlay: Underlay,
    config: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
) -> PastryOverlay:
    """Return the overlay after nodes have arrived in waves; the caller must call ``release``."""
    rules = config.for_tasks()
    overlay = PastryOverlay(nodes, underlay, rules.b, rules.leaf_set)
    ring = overlay.ring
    tables = play_arrivals(ring, len(ring), underlay.kernel, rules, seed, progress)
    tables.settle()
    overlay.known = [tables.constant(LEAVES, CELLS)]
    overlay.own(tables.release)
    by_kind = [(kind.value, int(sent)) for kind, sent in zip(Kind, _messages(tables), strict=True)]
    overlay.arrived = schemas.local_table(ring.layout.spark, by_kind, schemas.ARRIVAL_MESSAGES)
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
        plan = _planned(spark, ring, initial, kernel, rules, seed)
        environment = _environment(ring.facts, ring.bounds, rules, kernel, seed)
        sharing = OnSpark(tables)
        for number, wave in enumerate(waves := plan.waves(sharing.share)):
            if number > last:
                player = OnSpark(tables, f"wave {number}, ", progress)
                arrive(RoundPlayer(player, environment), wave, number)
                tables = player.tables
        sharing.free(waves[0].arrays)
    return tables


def _environment(
    facts: KnowsRing, bounds: np.ndarray, rules: OverlayConfig, kernel: Kernel, seed: int
) -> Environment:
    return Environment(facts, bounds, rules, kernel, Observer(tuple(Kind)), seed=seed)


@dataclass(frozen=True)
class Grown:
    """The overlay after a wave: the states of all nodes, the live nodes, and counted messages.

    The next wave changes the states.  The messages are counted by `Kind`, over all waves so far.
    """

    number: int
    states: States
    live: np.ndarray
    messages: np.ndarray


def grow(
    known: Ring,
    plan: WavePlan,
    rules: OverlayConfig,
    seed: int,
    kernel: Kernel,
    bounds: np.ndarray,
) -> Iterator[Grown]:
    """Yield the overlay after each wave, from the first node on, played in this process.

    Nodes with wave -1 in the plan do not arrive.  Each bucket is played in a thread
    (`in_task.thread_bounds`).
    """
    states = States.empty(known, np.arange(len(known)), rules.leaf_set, rules.b)
    tables = states_in_buckets(states, bounds)
    environment = _environment(RingInMemory(known), bounds, rules, kernel, seed)
    player = RoundPlayer(engine := InTask(tables), environment)
    for number, wave in enumerate(plan.waves(engine.share)):
        arrive(player, wave, number)
        messages = sum(
            (own[MESSAGES]["messages"] for own in tables if MESSAGES in own),
            start=np.zeros(len(Kind), dtype=np.int64),
        )
        yield Grown(number, states, wave.arrived(len(known)), messages)


def _in_one_task(spark: SparkSession, kernel: BatchKernel, schema: StructType | str) -> DataFrame:
    """Return the rows that a kernel yields in a single task, with a schema; lazy."""
    return spark.range(0, 1, 1, 1).mapInArrow(kernel, schema)


def _first_waves(
    ring: BucketRing, initial: int, kernel: Kernel, rules: OverlayConfig, seed: int, last: int
) -> BatchKernel:
    """Return a kernel that plays the waves up to number `last`, and yields all buckets' tables."""
    facts, bounds, folder = ring.facts, ring.bounds, ring.layout.folder

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if read_partition(batches) is None:
            return
        # the nodes of later waves are in the ring already, with empty tables
        plan = WavePlan.of_first(facts.ring, initial, rules, seed, kernel)
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


def _planned(
    spark: SparkSession,
    ring: BucketRing,
    initial: int,
    kernel: Kernel,
    rules: OverlayConfig,
    seed: int,
) -> WavePlan:
    """Return the plan of all waves, made in a task."""
    facts = ring.facts

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if read_partition(batches) is not None:
            plan = WavePlan.of_first(facts.ring, initial, rules, seed, kernel)
            yield pa.RecordBatch.from_pydict(vars(plan))

    rows = _in_one_task(spark, run, "wave bigint, rank bigint, contact bigint").toArrow()
    return WavePlan(*(column.to_numpy() for column in rows.columns))


def _messages(tables: BucketTables) -> np.ndarray:
    """Return the numbers of messages, indexed by `Kind`, summed over all buckets: int64."""
    rows = read_rows(tables.rows(MESSAGES).toArrow().to_batches())
    return sum(
        (counted(row.read(), len(Kind))[0] for row in rows), start=np.zeros(len(Kind), np.int64)
    )
