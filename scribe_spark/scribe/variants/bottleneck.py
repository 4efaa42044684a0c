"""The bottleneck remover: overloaded nodes hand children over to those children's siblings.

A node's children tables change by deltas: a row with ``change`` +1 adds a child to a table, one
with -1 drops it, and what a table holds is Scribe's own edges and all deltas summed up.

References
----------
JSAC 2002, Section IV.E.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import draws, superstep
from scribe_spark.config import RunConfig
from scribe_spark.runtime import blocks
from scribe_spark.scribe.variants.context import EDGE, Forest, Variant
from scribe_spark.scribe.variants.cycle_rule import Refusals, rejoin

__all__ = ["remove_bottlenecks"]

_TIMED = [*EDGE, "delay_us"]
#: ``probes`` is set where the child sent a JOIN; ``refused`` where that would have closed a loop.
_DELTA = (
    "group bigint, parent bigint, child bigint, parent_router bigint, child_router bigint, "
    "delay_us bigint, change int, probes bigint, refused boolean"
)


def remove_bottlenecks(forest: Forest) -> Variant:
    """Drop children of overloaded nodes until none is overloaded, or none can drop any more.

    In a round every overloaded node drops children until it is at its limit; the JOINs that these
    send are in the receivers' children tables when the next round begins.
    """

    log = superstep.Log()

    def step(deltas: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        known = log.add(deltas)
        back = rejoin(forest, _with(forest.edges, known), deltas) if _may_loop(forest) else None
        news = deltas
        if back is not None:
            known, news = known.unionByName(back), deltas.unionByName(back)
        # who got no child since it last was within its limit, is within it still
        receivers = news.where("change > 0").select("parent").distinct().hint("shuffle_hash")
        asked = [t.join(receivers, "parent", "left_semi") for t in (forest.edges, known)]
        dropped = _drop(forest, _with(*asked))
        return (dropped if back is None else dropped.unionByName(back)).repartition("parent")

    first = _drop(forest, forest.edges.select(_TIMED)).repartition("parent")
    rounds = superstep.run("bottleneck remover", first, step, progress=forest.progress)
    if not rounds.tables:
        return Variant(forest.edges, None, _left(forest, forest.edges))
    deltas, _ = blocks.materialise(rounds.union().repartition("parent"))
    rounds.release()
    log.release()
    edges, _ = blocks.materialise(_with(forest.edges, deltas))
    sent = deltas.where("change >= 0").select(*EDGE, "probes")
    return Variant(edges, sent, _left(forest, edges), held=[edges, deltas])


def _left(forest: Forest, edges: DataFrame) -> int:
    """How many nodes are still overloaded: a limit can be below what the load needs."""
    left = forest.overloaded(edges).count()
    if left:
        forest.progress.note(
            f"bottleneck remover: the limit cannot be met; {left:,} nodes keep more children than "
            "it, each the only child in its table"
        )
    return left


def _may_loop(forest: Forest) -> bool:
    return forest.config.shed_table == "whole"


def _with(edges: DataFrame, deltas: DataFrame) -> DataFrame:
    """What the children tables hold after `deltas`, partitioned by parent."""
    ours = edges.select(*_TIMED, F.lit(1).alias("change"))
    every = ours.unionByName(deltas.select(*_TIMED, "change")).repartition("parent")
    return every.groupBy(_TIMED).agg(F.sum("change").alias("net")).where("net > 0").drop("net")


def _drop(forest: Forest, edges: DataFrame) -> DataFrame:
    """The deltas of a round: what overloaded nodes drop, and the JOINs of what was dropped.

    Parameters
    ----------
    edges : DataFrame
        All children tables of the nodes asked, partitioned by parent.
    """
    over = forest.overloaded(edges).hint("shuffle_hash")
    mine = edges.join(over, "parent", "inner")
    draw = draws.bits(forest.config.seed, "shed", "group", "parent", "child")
    kernel, lan_us = forest.overlay.underlay.kernel, forest.overlay.underlay.lan_us
    config = forest.config

    def shed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = blocks.read_partition(batches)
        if rows is not None:
            columns = _columns(rows)
            drops = _choose(columns, config)
            if drops.child:
                yield _join_siblings(columns, drops, kernel, lan_us)

    return mine.withColumn("draw", draw).mapInArrow(shed, _DELTA)


# --- a round, at its nodes


@dataclass(frozen=True)
class _Drops:
    """Children dropped, in order within a node, and the siblings that each was sent.

    Attributes
    ----------
    child : list of int
        Row of each dropped child.
    sent : list of ndarray
        Rows of the table that it was sent, without itself, by node.
    """

    child: list[int]
    sent: list[np.ndarray]


def _columns(edges: pa.Table) -> dict[str, np.ndarray]:
    return {name: edges.column(name).to_numpy() for name in edges.column_names}


def _join_siblings(
    columns: dict[str, np.ndarray], drops: _Drops, kernel: Any, lan_us: int
) -> pa.RecordBatch:
    """What a dropped child does when it has received the table."""
    child = np.repeat(np.array(drops.child, dtype=np.int64), [len(s) for s in drops.sent])
    sibling = np.concatenate(drops.sent)
    # (i) it measures the delay between itself and other nodes in the table; (ii) the total delay
    router = kernel.index(columns["child_router"])
    probed = kernel.delays(router[child], router[sibling]) + 2 * lan_us
    total = probed + columns["delay_us"][sibling]
    # (iii) a join message to the node that provides the smallest combined delay
    starts = np.r_[0, np.cumsum([len(s) for s in drops.sent])].astype(np.int64)
    best = [at + int(np.argmin(total[at:end])) for at, end in itertools.pairwise(starts)]
    return _deltas(columns, drops, sibling[best], probed[best])


def _choose(columns: dict[str, np.ndarray], config: RunConfig) -> _Drops:
    """What each overloaded node drops, one child after the other."""
    delay, draw = columns["delay_us"], columns["draw"]
    rank = {"farthest": -delay, "nearest": delay, "random": draw}[config.shed_child]
    # children of a table in the order in which they would be dropped
    order = np.lexsort((columns["child"], rank, columns["group"], columns["parent"]))
    parent, group = columns["parent"][order], columns["group"][order]
    new_table = np.r_[True, (parent[1:] != parent[:-1]) | (group[1:] != group[:-1])]
    starts = np.flatnonzero(new_table)
    tables = np.split(order, starts[1:])
    drops = _Drops([], [])
    nodes = np.flatnonzero(np.r_[True, parent[starts][1:] != parent[starts][:-1]])
    for first, end in zip(nodes, np.r_[nodes[1:], len(starts)], strict=True):
        _drop_at_node(tables[first:end], columns, draw, config, drops)
    return drops


def _drop_at_node(
    tables: list[np.ndarray],
    columns: dict[str, np.ndarray],
    draw: np.ndarray,
    config: RunConfig,
    drops: _Drops,
) -> None:
    """Drop children of one node, whose `tables` are in order of group, until it is at its limit."""
    excess = sum(map(len, tables)) - int(columns["limit"][tables[0][0]])
    dropped = [0] * len(tables)

    def urgency(table: int) -> tuple[int, int]:
        at = tables[table]
        left = len(at) - dropped[table]
        by_draw = config.shed_group == "random"
        return (int(draw[at[dropped[table]]]) if by_draw else -left, table)

    queue = [urgency(t) for t, rows in enumerate(tables) if len(rows) > 1]
    heapq.heapify(queue)
    for _ in range(excess):
        if not queue:  # nothing but tables of one child
            return
        _, table = heapq.heappop(queue)
        rows, done = tables[table], dropped[table]
        left = rows[done + 1 :] if config.shed_table == "remaining" else np.delete(rows, done)
        drops.child.append(int(rows[done]))
        drops.sent.append(left[np.argsort(columns["child"][left])])
        dropped[table] += 1
        if len(rows) - dropped[table] > 1:
            heapq.heappush(queue, urgency(table))


def _deltas(
    columns: dict[str, np.ndarray], drops: _Drops, to: np.ndarray, delay_us: np.ndarray
) -> pa.RecordBatch:
    """Each drop as two rows: out of the parent's table, into that of the sibling `to`."""
    out = np.array(drops.child, dtype=np.int64)
    probes = np.array([len(sent) for sent in drops.sent], dtype=np.int64)
    # a table's JOINs are answered in the order in which its children were dropped
    loops = Refusals()
    pairs = zip(out.tolist(), to.tolist(), strict=True)
    refused = np.array([loops.refuses(child, sibling) for child, sibling in pairs], dtype=bool)
    sent = {
        "group": columns["group"][out],
        "parent": columns["child"][to],
        "child": columns["child"][out],
        "parent_router": columns["child_router"][to],
        "child_router": columns["child_router"][out],
        "delay_us": delay_us,
    }
    taken = {name: columns[name][out] for name in sent}
    both = {name: np.r_[taken[name], sent[name]] for name in sent}
    both["change"] = np.r_[np.full(len(out), -1), np.where(refused, 0, 1)].astype(np.int32)
    none = np.ones(len(out), dtype=bool)
    arrays = [pa.array(column) for column in both.values()]
    arrays.append(pa.array(np.r_[probes, probes], mask=np.r_[none, ~none]))
    arrays.append(pa.array(np.r_[~none, refused]))
    return pa.RecordBatch.from_arrays(arrays, names=[*both, "probes", "refused"])
