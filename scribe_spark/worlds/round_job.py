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

from scribe_spark import schemas
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.living.events import Events, ImpossibleRound
from scribe_spark.pastry.living.live_knowledge import live_knowledge
from scribe_spark.pastry.living.lookups import LookupResults, Lookups, try_routes
from scribe_spark.pastry.living.node_rows import from_rows, to_rows
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.round import RoundResult, play_round
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.underlay.protocol import Kernel, Underlay
from scribe_spark.worlds.live_groups import LiveGroups
from scribe_spark.worlds.live_tree import LiveTree, live_tree_measures
from scribe_spark.worlds.packed import pack, unpack
from scribe_spark.worlds.round_measures import round_measures
from scribe_spark.worlds.state_table import NODES, read_state, state_table
from scribe_spark.worlds.world_rows import (
    BATCH,
    EVENT,
    LOOKUPS,
    MEASURE,
    NEW_LEAFS,
    PUBLICATIONS,
    REFUSED,
    STATE,
    WORLD_ROWS,
    as_rows,
    as_table,
)

__all__ = ["live_overlay", "played", "routed"]


def played(
    state: DataFrame,
    events: DataFrame,
    number: int,
    lookups: int,
    rules: WorldRules,
    kernel: Kernel,
    live_tree: LiveTree | None = None,
    groups: LiveGroups | None = None,
) -> DataFrame:
    """Everything after a round: :data:`WORLD_ROWS`, in one partition; lazy.

    A round that cannot be played leaves one row, `REFUSED`, whose name says why.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    events : DataFrame
        `schemas.EVENTS` of this round.
    live_tree : LiveTree, optional
        The reference tree that is kept over the live nodes.
    groups : LiveGroups, optional
        The groups of the world.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        what = rows.column("what").to_numpy()
        tables = unpack(rows.filter(pa.array(what == STATE)))
        overlay = from_rows(read_state(tables.pop(NODES), rules.leaf_set, kernel), rules.b)
        given = rows.filter(pa.array(what == EVENT))
        happening = {
            "node": given.column("node").to_numpy(),
            "event": given.column("name").to_numpy(zero_copy_only=False).astype(str),
            "group": pc.fill_null(given.column("group"), -1).to_numpy(),
        }
        known = overlay.states.known
        was_alive = overlay.alive.copy()
        of_groups = None
        try:
            if groups is None:
                of_nodes = Events.of(known, happening["node"], happening["event"])
                result = play_round(overlay, number, of_nodes, lookups, rules, kernel)
            else:
                of_groups = groups.play(overlay, tables, number, happening, lookups, rules, kernel)
                result = of_groups.overlay
        except ImpossibleRound as impossible:
            refused = {"name": pa.array([impossible.what])}
            yield from as_table(REFUSED, refused).to_batches()
            return
        measures = round_measures(overlay, result, rules.seed, kernel)
        if live_tree is not None:
            measures |= live_tree_measures(live_tree, known, was_alive, overlay.alive)
        if of_groups is not None:
            measures |= of_groups.measures
            tables = of_groups.state
            told = {
                "publications": of_groups.publications,
                "watched_trees": of_groups.watched_trees,
            }
            yield from as_table(PUBLICATIONS, pack(told)).to_batches()
        tables = {NODES: state_table(to_rows(overlay), kernel), **tables}
        yield from as_table(STATE, pack(tables)).to_batches()
        for table in _results(overlay, result, measures):
            yield from table.to_batches(BATCH)

    named = events.withColumn("name", F.col("event"))  # `group` may be missing: it is NULL then
    rows = as_rows(state, STATE).unionByName(as_rows(named, EVENT))
    return rows.coalesce(1).mapInArrow(run, WORLD_ROWS)


def routed(state: DataFrame, messages: DataFrame, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """Where messages end, by what nodes know now: `schemas.LOOKUPS`, in one partition; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    messages : DataFrame
        ``node, key_hi, key_lo``: where each begins, and its key.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        is_state = pa.array(rows.column("what").to_numpy() == STATE)
        overlay = _overlay(rows.filter(is_state), rules, kernel)
        sent = rows.filter(pc.invert(is_state))
        known = overlay.states.known
        hi, lo = (sent.column(name).to_numpy().view(np.uint64) for name in ("key_hi", "key_lo"))
        source = known.positions(sent.column("source").to_numpy())
        found = try_routes(overlay, Lookups(source, Keys(hi, lo)))
        columns = _lookup_columns(found, known.node)
        table = pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.LOOKUPS))
        yield from table.to_batches(BATCH)

    sent = messages.select(F.col("node").alias("source"), "key_hi", "key_lo")
    nodes = state.where(F.col("name") == NODES)
    rows = as_rows(nodes, STATE).unionByName(as_rows(sent, LOOKUPS))
    return rows.coalesce(1).mapInArrow(run, schemas.LOOKUPS)


def live_overlay(
    state: DataFrame, rules: WorldRules, underlay: Underlay, partitions: int
) -> PastryOverlay:
    """What live nodes know of live nodes, laid out for routing.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    partitions : int
        In how many the nodes are laid out.
    """
    kernel = underlay.kernel

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            overlay = _overlay(rows, rules, kernel)
            known = live_knowledge(overlay, kernel)
            for first in range(0, len(known), BATCH):
                yield known.take(slice(first, first + BATCH)).to_arrow()

    nodes = state.where(F.col("name") == NODES)
    known = nodes.coalesce(1).mapInArrow(run, schemas.KNOWLEDGE).repartition(partitions, "node")
    return PastryOverlay.of_knowledge(known, underlay, rules.b, rules.leaf_set)


def _overlay(packed: pa.Table, rules: WorldRules, kernel: Kernel) -> OverlayState:
    """What is in the table of nodes."""
    return from_rows(read_state(unpack(packed)[NODES], rules.leaf_set, kernel), rules.b)


def _results(
    overlay: OverlayState, result: RoundResult, measures: dict[str, float]
) -> Iterator[pa.Table]:
    yield as_table(
        MEASURE, {"name": pa.array(list(measures)), "value": pa.array(list(measures.values()))}
    )
    number = overlay.states.known.node
    yield as_table(LOOKUPS, _lookup_columns(result.lookups, number))
    yield as_table(NEW_LEAFS, {"node": pa.array(number[result.new_leafs])})


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
