"""The nodes of a world before its first round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.engine.in_process import thread_bounds
from scribe_spark.engine.ring import ring_of
from scribe_spark.errors import InputError, listed
from scribe_spark.pastry.arrivals.one_task import grow
from scribe_spark.pastry.arrivals.waves import Plan
from scribe_spark.pastry.lives import Lives
from scribe_spark.pastry.node_rows import NodeRows, to_rows
from scribe_spark.pastry.perfect_start import perfect_start
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.packed import pack
from scribe_spark.worlds.state_table import NODES, state_table

__all__ = ["arrived_start", "check_start", "perfect_tables"]

#: The overlays that a world can start with.
_OVERLAYS = ("perfect", "arrivals")


def check_start(overlay: str) -> None:
    """Refuse an overlay that no world starts with.

    Raises
    ------
    InputError
    """
    if overlay not in _OVERLAYS:
        remedy = f"has no rounds; give one of {listed(_OVERLAYS)}"
        raise InputError("overlay", overlay, remedy)


def perfect_tables(nodes: DataFrame, initial: int, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """`schemas.PACKED` of a world that begins with perfect tables.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`: all nodes of the world.
    initial : int
        How many are alive at the start: the first numbers.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            known, _ = ring_of(rows, kernel)
            live = np.flatnonzero(known.node < initial)
            state = perfect_start(known, live, rules.leaf_set, rules.b, kernel)
            yield from pack({NODES: state_table(to_rows(state.states, state), kernel)}).to_batches()

    return nodes.coalesce(1).mapInArrow(run, schemas.PACKED)


def arrived_start(nodes: DataFrame, initial: int, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """`schemas.PACKED` of a world whose first nodes have arrived in waves.

    Parameters
    ----------
    nodes, initial
        As of :func:`perfect_tables`.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        known, _ = ring_of(rows, kernel)
        is_first = known.node < initial
        first = known.take(is_first)
        plan = Plan.of(first, rules, kernel)
        *_, done = grow(first, plan, rules, kernel, thread_bounds(len(first)))
        lives = Lives.of(len(first), done.states.own, plan.rank + 1)
        there = to_rows(done.states, lives)
        both = NodeRows.join(there, NodeRows.of_new(known.take(~is_first), rules.leaf_set))
        yield from pack({NODES: state_table(both, kernel)}).to_batches()

    return nodes.coalesce(1).mapInArrow(run, schemas.PACKED)
