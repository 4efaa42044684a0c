"""The overlay whose tables come from arrivals in waves.

The first waves are played in one task, because a superstep on Spark costs the same however few
nodes it has; later ones on the buckets of the ring.  The programs are the same.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from scribe_spark import draws, schemas
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_row, read_rows
from scribe_spark.engine.ring import Ring, ring_of
from scribe_spark.pastry.arrivals.contacts import planned_contacts
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.observer import MESSAGES, Observer, counted
from scribe_spark.pastry.arrivals.one_task import Grown, grow, programs
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.wave import CELLS, LEAVES, Given
from scribe_spark.pastry.arrivals.waves import arrival_rank, wave_ends
from scribe_spark.pastry.bucket_tables import KNOWN
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.progress import Progress
from scribe_spark.runtime.blocks import materialise, read_partition, release
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.underlay.protocol import Kernel, Underlay

__all__ = ["ARRIVALS", "arrival_plan", "arrivals", "grown"]

#: Nodes that arrive, the wave that each arrives in, its place (from 0) in the order of arrival, and
#: whom it asks (NULL in wave 0).
ARRIVALS = (
    "node bigint, id_hi bigint, id_lo bigint, router bigint, wave bigint, rank bigint, "
    "drawn bigint, contact bigint"
)
_PLANNED = "wave", "rank", "contact"

#: Waves up to this many nodes are one task's.
_ONE_TASK = 2**17


def arrivals(
    nodes: DataFrame,
    underlay: Underlay,
    rules: ArrivalRules,
    progress: Progress | None = None,
    one_task: int = _ONE_TASK,
) -> PastryOverlay:
    """Return the overlay after the last wave, to be freed by its ``release``.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : Underlay
    rules : ArrivalRules
    one_task : int
        Waves up to this many nodes are one task's; what nodes know does not depend on it.
    """
    overlay = PastryOverlay(nodes, underlay, rules.b, rules.leaf_set)
    ring, kernel = overlay.ring, underlay.kernel
    ends = wave_ends(len(ring), rules.growth)
    last = max(0, int(np.searchsorted(ends, one_task, side="right")) - 1)
    plan, _ = materialise(arrival_plan(nodes, kernel, rules, ends))
    begun = plan.coalesce(1).mapInArrow(_first_waves(ring, kernel, rules, last), ROWS)
    tables = BucketTables(ring.layout, begun)
    if last + 1 < len(ends):
        later = _PlannedWaves.of(plan, ring)
        given = Given(ring.facts, ring.bounds, rules, kernel, Observer())
        for number in range(last + 1, len(ends)):
            for program in programs(given, later.wave(number), number):
                name = f"wave {number}, {type(program).__name__}"
                tables.play(program, name, progress)
        later.release()
    tables.play(_Finish(ring.bounds), "arrivals", progress)
    release(plan)
    overlay.known = [tables.constant(KNOWN)]
    overlay.own(tables.release)
    by_kind = [(kind.value, int(sent)) for kind, sent in zip(Kind, _messages(tables), strict=True)]
    overlay.arrived = schemas.local_table(nodes.sparkSession, by_kind, schemas.ARRIVAL_MESSAGES)
    return overlay


def _first_waves(
    ring: BucketRing, kernel: Kernel, rules: ArrivalRules, last: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the kernel that plays the waves up to `last`; it leaves the tables of all buckets."""
    facts, bounds, folder = ring.facts, ring.bounds, ring.layout.folder

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        # the nodes of later waves are in the ring already, and know nobody
        known, columns = facts.ring, ring_of(rows, kernel, *_PLANNED)[1]
        wave, rank, contact = _positions(known, *columns)
        wave = np.where(wave <= last, wave, -1)
        *_, done = grow(known, wave, rank, contact, rules, kernel)
        for bucket, (first, end) in enumerate(itertools.pairwise(bounds.tolist())):
            states = done.states
            yield pack_row(
                bucket, bucket, True, LEAVES, {"leaves": states.leaves[first:end]}, folder
            )
            yield pack_row(bucket, bucket, True, CELLS, {"cells": states.cells[first:end]}, folder)
        sent = {"messages": done.messages, "lost": np.zeros_like(done.messages)}
        yield pack_row(0, 0, True, MESSAGES, sent)

    return run


def grown(rows: pa.Table, kernel: Kernel, rules: ArrivalRules) -> Grown:
    """Return the overlay after the last of the waves of some nodes.

    Parameters
    ----------
    rows : pyarrow.Table
        :data:`ARRIVALS`: all nodes of the first waves.
    """
    known, columns = ring_of(rows, kernel, *_PLANNED)
    *_, done = grow(known, *_positions(known, *columns), rules, kernel)
    return done


def _positions(
    known: Ring, wave: np.ndarray, rank: np.ndarray, contact: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns of a plan with positions for the numbers of contacts, -1 for nobody."""
    asks = np.flatnonzero(contact >= 0)
    position = np.full(len(known), -1, dtype=np.int64)
    position[asks] = known.positions(contact[asks])
    return wave, rank, position


@dataclass(frozen=True)
class _PlannedWaves:
    """All waves, for the tasks of Spark; picklable.

    Attributes
    ----------
    names : tuple of str
        Distributed arrays, sorted by wave and position: ``position, rank, contact``.
    ends : ndarray of int64
        Where each wave ends in them.
    """

    names: tuple[str, ...]
    ends: np.ndarray

    @classmethod
    def of(cls, plan: DataFrame, ring: BucketRing) -> _PlannedWaves:
        """Give every executor the waves of a plan (:data:`ARRIVALS`), once."""
        rows = plan.select("node", *_PLANNED).toArrow()
        node, wave, rank = (rows.column(name).to_numpy() for name in ("node", "wave", "rank"))
        contact = pc.coalesce(rows.column("contact"), rows.column("node")).to_numpy()
        position, asked = (ring.facts.positions(one) for one in (node, contact))
        order = np.lexsort((position, wave))
        ends = np.cumsum(np.bincount(wave))
        names = distribute_arrays(
            plan.sparkSession,
            position=position[order],
            rank=rank[order],
            contact=asked[order],
        )
        return cls(tuple(names), ends)

    def wave(self, number: int) -> _PlannedWave:
        """Return the nodes of a wave."""
        return _PlannedWave(self, number)

    def release(self) -> None:
        """Free the disk that the arrays take."""
        discard_arrays(*self.names)


@dataclass(frozen=True)
class _PlannedWave:
    """See `wave.Wave`."""

    waves: _PlannedWaves
    number: int

    def _column(self, name: str) -> np.ndarray:
        first, last = np.r_[0, self.waves.ends][self.number : self.number + 2]
        return open_array(name)[first:last]

    @property
    def arriving(self) -> np.ndarray:
        return self._column(self.waves.names[0])

    @property
    def order(self) -> np.ndarray:
        return self._column(self.waves.names[1])

    @property
    def contact(self) -> np.ndarray:
        return self._column(self.waves.names[2])

    @functools.cached_property
    def live(self) -> np.ndarray:
        return np.sort(open_array(self.waves.names[0])[: self.waves.ends[self.number]])


@dataclass(frozen=True)
class _Finish:
    """Makes tables that routing reads of the tables that arrivals have written."""

    bounds: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        tables[KNOWN] = {**tables[LEAVES], **tables[CELLS]}
        del tables[LEAVES], tables[CELLS]
        return {}


def _messages(tables: BucketTables) -> np.ndarray:
    """Return how many messages of each kind all buckets' nodes have sent."""
    rows = read_rows(tables.rows(MESSAGES).toArrow().to_batches())
    return sum(
        (counted(row.read(), len(Kind))[0] for row in rows), start=np.zeros(len(Kind), np.int64)
    )


def arrival_plan(
    nodes: DataFrame, kernel: Kernel, rules: ArrivalRules, ends: np.ndarray
) -> DataFrame:
    """Every node with its wave and its contact: :data:`ARRIVALS`.

    One task makes it: whom a node asks depends on who arrived before, not on what nodes know.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    ends : ndarray of int64
        How many nodes there are after each wave.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        known, (rank, drawn) = ring_of(rows, kernel, "rank", "drawn")
        wave = np.searchsorted(ends, rank, side="right")
        bits = drawn.view(np.uint64)
        contact = planned_contacts(rules.contact, known, wave, rank, bits, kernel)
        columns = [
            known.node,
            known.hi.view(np.int64),
            known.lo.view(np.int64),
            kernel.ids(known.router),
            wave,
            rank,
            drawn,
            pa.array(known.node[contact], mask=contact < 0),
        ]
        names = [column.split()[0] for column in ARRIVALS.split(", ")]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)

    placed = nodes.select(
        "node",
        "id_hi",
        "id_lo",
        "router",
        arrival_rank(rules.seed).cast("bigint").alias("rank"),
        draws.bits(rules.seed, "contact", "node").alias("drawn"),
    )
    return placed.coalesce(1).mapInArrow(run, ARRIVALS)
