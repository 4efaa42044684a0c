"""The overlay whose tables come from arrivals in waves.

Small overlays grow in one task, because a wave on Spark costs the same however few nodes it has;
from then on a wave is supersteps.  Both do the same.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import draws, schemas
from scribe_spark.engine.on_spark import CONSTANT, ROWS, pack_row
from scribe_spark.engine.packing import unpack
from scribe_spark.engine.ring import ring_of
from scribe_spark.pastry.arrivals.bucket_steps import state_letters
from scribe_spark.pastry.arrivals.contacts import planned_contacts
from scribe_spark.pastry.arrivals.letters import LETTER, read_letters
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.one_task import waves
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.arrivals.supersteps import Buckets
from scribe_spark.pastry.arrivals.waves import arrival_rank, wave_ends
from scribe_spark.pastry.bucket_tables import KNOWN
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.progress import Progress
from scribe_spark.runtime.blocks import materialise, read_partition, release
from scribe_spark.schemas import KNOWLEDGE
from scribe_spark.underlay.protocol import Kernel, Underlay

__all__ = ["ARRIVALS", "arrival_plan", "arrivals", "grown", "waves_of_states"]

#: Nodes that arrive, the wave that each arrives in, its place (from 0) in the order of arrival, and
#: whom it asks (NULL in wave 0).
ARRIVALS = (
    "node bigint, id_hi bigint, id_lo bigint, router bigint, wave bigint, rank bigint, "
    "drawn bigint, contact bigint"
)

#: Waves up to this many nodes are one task's.
_ONE_TASK = 2**17


def arrivals(
    nodes: DataFrame, underlay: Underlay, rules: ArrivalRules, progress: Progress | None = None
) -> PastryOverlay:
    """The overlay after the last wave, to be freed by its ``release``.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : Underlay
    rules : ArrivalRules
    """
    if rules.contact == "discovered" or nodes.count() <= _ONE_TASK:
        return _small(nodes, underlay, rules)
    *_, states = waves_of_states(nodes, underlay, rules, progress)
    overlay = _laid_out(states, underlay, rules, owned=(states,))
    overlay.arrived = _messages_by_kind(states)
    return overlay


def _small(nodes: DataFrame, underlay: Underlay, rules: ArrivalRules) -> PastryOverlay:
    """The overlay of nodes that all arrive in one task."""
    kernel = underlay.kernel
    overlay = PastryOverlay(nodes, underlay, rules.b, rules.leaf_set)
    ring, bounds, folder = overlay.ring, overlay.ring.bounds, overlay.ring.layout.folder

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        states = grown(rows, kernel, rules)
        for bucket, (first, last) in enumerate(itertools.pairwise(bounds.tolist())):
            table = {"leaves": states.leaves[first:last], "cells": states.cells[first:last]}
            yield pack_row(bucket, CONSTANT, True, KNOWN, table, folder)
        caused = {"messages": states.messages.sum(axis=0)}
        yield pack_row(0, CONSTANT, True, _MESSAGES, caused)

    plan = arrival_plan(nodes, kernel, rules, wave_ends(nodes.count(), rules.growth))
    made, _ = materialise(ring.layout.place(plan.coalesce(1).mapInArrow(run, ROWS)))
    overlay.known = [made.where(F.col("name") == KNOWN)]
    (counted,) = made.where(F.col("name") == _MESSAGES).select("data").toArrow().column("data")
    messages = unpack(counted.as_buffer())["messages"].tolist()
    by_kind = [(kind.label, messages[kind]) for kind in Kind]
    overlay.arrived = schemas.local_table(nodes.sparkSession, by_kind, schemas.ARRIVAL_MESSAGES)
    overlay.own(made)
    return overlay


#: The table of the messages that the arrivals have caused, by kind.
_MESSAGES = "arrival messages"


def _messages_by_kind(states: DataFrame) -> DataFrame:
    """`schemas.ARRIVAL_MESSAGES`."""
    sums = states.agg(*(F.sum(F.get("messages", kind)).alias(kind.label) for kind in Kind))
    counted = [
        F.struct(F.lit(kind.label).alias("kind"), F.col(kind.label).alias("messages"))
        for kind in Kind
    ]
    return sums.select(F.inline(F.array(counted)))


def waves_of_states(
    nodes: DataFrame,
    underlay: Underlay,
    rules: ArrivalRules,
    progress: Progress | None = None,
    one_task: int = _ONE_TASK,
) -> Iterator[DataFrame]:
    """The states (:data:`LETTER`) after the waves of one task, and after each wave from then on.

    Each is materialised, and released when the next is asked for; the last one is the caller's.

    Parameters
    ----------
    one_task : int
        Waves up to this many nodes are one task's; the states do not depend on it.  With contact
        ``discovered`` all are: a search asks any node for a row of its table, dozens of times.
    """
    ends = wave_ends(nodes.count(), rules.growth)
    if rules.contact == "discovered":
        one_task = int(ends[-1])
    first = max(0, int(np.searchsorted(ends, one_task, side="right")) - 1)
    context = nodes.sparkSession.sparkContext
    count = max(2, context.defaultParallelism)
    buckets = Buckets(rules, underlay.kernel, count, progress)
    plan, _ = materialise(arrival_plan(nodes, underlay.kernel, rules, ends))
    states, _ = materialise(_grown_in_one_task(plan, underlay.kernel, rules, first, count))
    for wave in range(first + 1, len(ends)):
        yield states
        overlay = _laid_out(states, underlay, rules)
        arriving = plan.where(F.col("wave") == wave)
        after = buckets.arrive(overlay, states, arriving)
        overlay.release()
        release(states)
        states = buckets.maintain(after, wave)
    release(plan)
    yield states


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


def _grown_in_one_task(
    plan: DataFrame, kernel: Kernel, rules: ArrivalRules, last: int, buckets: int
) -> DataFrame:
    """The states after wave `last`: :data:`LETTER`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            yield from state_letters(grown(rows, kernel, rules), kernel, buckets)

    return plan.where(F.col("wave") <= last).coalesce(1).mapInArrow(run, LETTER)


def grown(rows: pa.Table, kernel: Kernel, rules: ArrivalRules) -> States:
    """What nodes know after the last of their waves.

    Parameters
    ----------
    rows : pyarrow.Table
        :data:`ARRIVALS`: all nodes of the first waves.
    """
    contact = pc.coalesce(rows.column("contact"), rows.column("node"))  # wave 0 asks nobody
    rows = rows.set_column(rows.column_names.index("contact"), "contact", contact)
    known, (wave, rank, asked) = ring_of(rows, kernel, "wave", "rank", "contact")
    *_, done = waves(known, wave, rank, known.positions(asked), rules, kernel)
    return done.states


def _laid_out(
    states: DataFrame, underlay: Underlay, rules: ArrivalRules, owned: tuple[DataFrame, ...] = ()
) -> PastryOverlay:
    """The overlay of some states."""
    kernel = underlay.kernel

    def knowledge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            letters = read_letters([batch], kernel)
            if letters is not None:
                everybody = np.arange(len(letters.content))
                some = letters.states(everybody, rules.leaf_set, rules.b)
                yield some.to_knowledge(everybody, kernel).to_arrow()

    known = states.mapInArrow(knowledge, KNOWLEDGE)
    return PastryOverlay.of_knowledge(known, underlay, rules.b, rules.leaf_set, owned)
