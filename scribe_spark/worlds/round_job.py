"""A round of a world as one Spark job: rows of nodes and events in, rows of nodes and results out.

One task plays a round.  A round of a thousand messages in supersteps takes some twenty Spark jobs,
each of which costs more than all of its messages; and what nodes know changes with every hop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.overlay import arrival_plan, grown
from scribe_spark.pastry.arrivals.waves import wave_ends
from scribe_spark.pastry.living.events import Events, ImpossibleRound
from scribe_spark.pastry.living.live_knowledge import live_knowledge
from scribe_spark.pastry.living.lookups import LookupResults, Lookups, try_routes
from scribe_spark.pastry.living.node_rows import NodeRows, from_rows, to_rows
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.perfect_start import perfect_start
from scribe_spark.pastry.living.round import RoundResult, play_round
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.ring import ring_of
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.underlay.protocol import Kernel, Underlay
from scribe_spark.worlds.live_tree import LiveTree, live_tree_measures
from scribe_spark.worlds.round_measures import round_measures
from scribe_spark.worlds.state_table import read_state, state_table

__all__ = [
    "LOOKUPS",
    "MEASURE",
    "NEW_LEAFS",
    "REFUSED",
    "STATE",
    "arrived_start",
    "live_overlay",
    "perfect_tables",
    "played",
    "routed",
]

#: What a round is made of and what it leaves: rows of several kinds in one table, so that one job
#: makes all of it.
WORLD_ROWS = StructType(
    [
        StructField("what", IntegerType()),
        *schemas.WORLD_STATE.fields,
        StructField("name", StringType()),
        StructField("value", DoubleType()),
        *schemas.LOOKUPS.fields,
    ]
)

#: Values of the column ``what`` of :data:`WORLD_ROWS`.
STATE, MEASURE, LOOKUPS, NEW_LEAFS, EVENT, REFUSED = range(6)

_BATCH = 10_000


def perfect_tables(nodes: DataFrame, initial: int, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """`schemas.WORLD_STATE` of a world that begins with perfect tables.

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
            yield from state_table(to_rows(state), kernel).to_batches(_BATCH)

    return nodes.coalesce(1).mapInArrow(run, schemas.WORLD_STATE)


def arrived_start(nodes: DataFrame, initial: int, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """`schemas.WORLD_STATE` of a world whose first nodes have arrived in waves.

    Parameters
    ----------
    nodes, initial
        As of :func:`perfect_tables`.
    """
    first = nodes.where(F.col("node") < initial)
    plan = arrival_plan(first, kernel, rules, wave_ends(initial, rules.growth))
    later = nodes.where(F.col("node") >= initial)
    placed = later.select(
        *schemas.NODES.names,
        *(F.lit(None).cast("bigint").alias(name) for name in ("wave", "rank", "contact")),
    )

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        states = grown(rows.filter(rows.column("wave").is_valid()), kernel, rules)
        there = to_rows(OverlayState.of(states, states.own))
        new, _ = ring_of(rows.filter(rows.column("wave").is_null()), kernel)
        both = NodeRows.join(there, NodeRows.of_new(new, rules.leaf_set))
        yield from state_table(both, kernel).to_batches(_BATCH)

    together = plan.select(placed.columns).unionByName(placed)
    return together.coalesce(1).mapInArrow(run, schemas.WORLD_STATE)


def played(
    state: DataFrame,
    events: DataFrame,
    number: int,
    lookups: int,
    rules: WorldRules,
    kernel: Kernel,
    live_tree: LiveTree | None = None,
) -> DataFrame:
    """Everything after a round: :data:`WORLD_ROWS`, in one partition; lazy.

    A round that cannot be played leaves one row, `REFUSED`, whose name says why.

    Parameters
    ----------
    state : DataFrame
        `schemas.WORLD_STATE`.
    events : DataFrame
        `schemas.EVENTS` of this round.
    live_tree : LiveTree, optional
        The reference tree that is kept over the live nodes.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        what = rows.column("what").to_numpy()
        overlay = from_rows(
            read_state(rows.filter(pa.array(what == STATE)), rules.leaf_set, kernel), rules.b
        )
        given = rows.filter(pa.array(what == EVENT))
        names = given.column("name").to_numpy(zero_copy_only=False).astype(str)
        known = overlay.states.known
        happening = Events.of(known, given.column("node").to_numpy(), names)
        was_alive = overlay.alive.copy()
        try:
            result = play_round(overlay, number, happening, lookups, rules, kernel)
        except ImpossibleRound as impossible:
            refused = {"name": pa.array([impossible.what])}
            yield from _table(REFUSED, refused).to_batches()
            return
        measures = round_measures(overlay, result, rules.seed, kernel)
        if live_tree is not None:
            measures |= live_tree_measures(live_tree, known, was_alive, overlay.alive)
        for table in _results(overlay, result, measures, kernel):
            yield from table.to_batches(_BATCH)

    named = events.select("node", F.col("event").alias("name"))
    rows = _rows(state, STATE).unionByName(_rows(named, EVENT))
    return rows.coalesce(1).mapInArrow(run, WORLD_ROWS)


def routed(state: DataFrame, messages: DataFrame, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """Where messages end, by what nodes know now: `schemas.LOOKUPS`, in one partition; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.WORLD_STATE`.
    messages : DataFrame
        ``node, key_hi, key_lo``: where each begins, and its key.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        is_state = pa.array(rows.column("what").to_numpy() == STATE)
        overlay = from_rows(read_state(rows.filter(is_state), rules.leaf_set, kernel), rules.b)
        sent = rows.filter(pc.invert(is_state))
        known = overlay.states.known
        hi, lo = (sent.column(name).to_numpy().view(np.uint64) for name in ("key_hi", "key_lo"))
        source = known.positions(sent.column("source").to_numpy())
        found = try_routes(overlay, Lookups(source, Keys(hi, lo)))
        columns = _lookup_columns(found, known.node)
        table = pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.LOOKUPS))
        yield from table.to_batches(_BATCH)

    sent = messages.select(F.col("node").alias("source"), "key_hi", "key_lo")
    rows = _rows(state, STATE).unionByName(_rows(sent, LOOKUPS))
    return rows.coalesce(1).mapInArrow(run, schemas.LOOKUPS)


def live_overlay(
    state: DataFrame, rules: WorldRules, underlay: Underlay, partitions: int
) -> PastryOverlay:
    """What live nodes know of live nodes, laid out for routing.

    Parameters
    ----------
    state : DataFrame
        `schemas.WORLD_STATE`.
    partitions : int
        In how many the nodes are laid out.
    """
    kernel = underlay.kernel

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            overlay = from_rows(read_state(rows, rules.leaf_set, kernel), rules.b)
            known = live_knowledge(overlay, kernel)
            for first in range(0, len(known), _BATCH):
                yield known.take(slice(first, first + _BATCH)).to_arrow()

    known = state.coalesce(1).mapInArrow(run, schemas.KNOWLEDGE).repartition(partitions, "node")
    return PastryOverlay.of_knowledge(known, underlay, rules.b, rules.leaf_set)


def _rows(frame: DataFrame, what: int) -> DataFrame:
    """Rows of :data:`WORLD_ROWS`, NULL in the columns that `frame` does not have."""
    fields = WORLD_ROWS.fields[1:]
    cells = [
        F.col(f.name) if f.name in frame.columns else F.lit(None).cast(f.dataType).alias(f.name)
        for f in fields
    ]
    return frame.select(F.lit(what).cast("int").alias("what"), *cells)


def _results(
    overlay: OverlayState, result: RoundResult, measures: dict[str, float], kernel: Kernel
) -> Iterator[pa.Table]:
    yield _table(STATE, state_table(to_rows(overlay), kernel))
    yield _table(
        MEASURE, {"name": pa.array(list(measures)), "value": pa.array(list(measures.values()))}
    )
    number = overlay.states.known.node
    yield _table(LOOKUPS, _lookup_columns(result.lookups, number))
    yield _table(NEW_LEAFS, {"node": pa.array(number[result.new_leafs])})


def _lookup_columns(found: LookupResults, number: np.ndarray) -> dict[str, pa.Array]:
    """`schemas.LOOKUPS`; `number` has the nodes' numbers by position."""
    return {
        "source": pa.array(number[found.source]),
        "key_hi": pa.array(found.keys.hi.view(np.int64)),
        "key_lo": pa.array(found.keys.lo.view(np.int64)),
        "at": pa.array(number[found.at]),
        "delivered": pa.array(found.delivered),
        "right": pa.array(found.right),
        "hops": pa.array(found.hops),
        "lost": pa.array(found.lost),
    }


def _table(what: int, columns: pa.Table | dict[str, pa.Array]) -> pa.Table:
    """Rows of :data:`WORLD_ROWS`."""
    if isinstance(columns, pa.Table):
        columns = {name: columns.column(name) for name in columns.column_names}
    length = len(next(iter(columns.values())))
    cells = {"what": pa.array(np.full(length, what, dtype=np.int32)), **columns}
    wanted = to_arrow_schema(WORLD_ROWS)
    return pa.Table.from_arrays(
        [cells.get(f.name, pa.nulls(length, f.type)) for f in wanted], schema=wanted
    )
