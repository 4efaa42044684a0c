"""The bottleneck remover: overloaded nodes hand children over to those children's siblings.

A round's messages are changes of children tables, each at the node whose table it is: a child that
the node has dropped (``change`` -1), or a JOIN that it accepts (+1) or refuses (0).

References
----------
JSAC 2002, Section IV.E.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import draws, superstep
from scribe_spark.core.arrays import offsets_of
from scribe_spark.runtime.blocks import materialise, read_partition
from scribe_spark.scribe.variants.context import EDGE, Variant, VariantContext
from scribe_spark.scribe.variants.cycle_rule import Refusals, rejoin
from scribe_spark.superstep import Round, Step, Table

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import TreesConfig

__all__ = ["remove_bottlenecks"]

_CHILDREN = "children"
_TIMED = [*EDGE, "delay_us"]
#: ``probes`` is set where the child sent a JOIN; ``refused`` where that would have closed a loop.
_CHANGE = (
    "group bigint, parent bigint, child bigint, parent_router bigint, child_router bigint, "
    "delay_us bigint, change int, probes bigint, refused boolean"
)


def remove_bottlenecks(context: VariantContext) -> Variant:
    """Drop children of overloaded nodes until none is overloaded, or none can drop any more.

    In a round every overloaded node drops children until it is at its limit; the JOINs that these
    send are in the receivers' children tables when the next round begins.
    """
    key, values = ["group", "parent", "child"], ["parent_router", "child_router", "delay_us"]
    children = Table(key, values, initial=context.edges)

    def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
        arrived, temporary = inbox, []
        # 1. who was refused routes a JOIN to the root with randomisation (shed_table = whole)
        if round.counts["refused"]:
            tables = _rows(children.after(_changes(inbox)), context)
            rejoined, made = rejoin(context, tables, inbox)
            arrived, temporary = inbox.unionByName(rejoined.repartition("parent")), [made]
        changes = _changes(arrived)
        # 2. who got no child since it last was within its limit, is within it still
        receivers = arrived.where("change > 0").select("parent").distinct()
        asked = children.after(changes).at(receivers, ["parent"])
        # 3. overloaded nodes drop children, which send JOINs to their siblings
        dropped = _drop(context, _or_none(asked, context)).repartition("parent")
        return Step(dropped, {_CHILDREN: changes}, arrived, temporary)

    done = superstep.run(
        "bottleneck remover",
        _drop(context, context.edges.select(_TIMED)).repartition("parent"),
        step,
        state={_CHILDREN: children},
        counts={"refused": F.col("refused")},
        progress=context.progress,
    )
    arrived = done.outcomes()
    if arrived is None:
        return Variant(context.edges, None, _count_overloaded(context, context.edges))
    edges, _ = materialise(_rows(children, context))
    sent, _ = materialise(arrived.where("change >= 0").select(*EDGE, "probes"))
    done.release()
    children.release()
    return Variant(edges, sent, _count_overloaded(context, edges), owned=[edges, sent])


def _count_overloaded(context: VariantContext, edges: DataFrame) -> int:
    """How many nodes are still overloaded: a limit can be below what the load needs."""
    count = context.overloaded(edges).count()
    if count:
        context.progress.note(
            f"bottleneck remover: the limit cannot be met; {count:,} nodes keep more children than "
            "it, each the only child in its table"
        )
    return count


def _changes(arrived: DataFrame) -> DataFrame:
    """A round's messages as changes of the state: one row for each entry.

    An entry that is dropped and added again in one round (by a randomised route that leads back to
    the former parent) is in the table afterwards.
    """
    changed = arrived.where("change != 0").groupBy(_TIMED).agg(F.max("change").alias("change"))
    return changed.select(*_TIMED, (F.col("change") < 0).alias("removed"))


def _rows(children: Table, context: VariantContext) -> DataFrame:
    """Return the rows of the children tables: `_TIMED`, partitioned by parent."""
    return _or_none(children.rows(), context)


def _or_none(rows: DataFrame | None, context: VariantContext) -> DataFrame:
    return context.edges.limit(0) if rows is None else rows.select(_TIMED)


def _drop(context: VariantContext, edges: DataFrame) -> DataFrame:
    """The messages of a round: children that overloaded nodes drop, and the JOINs that these send.

    Parameters
    ----------
    edges : DataFrame
        All children tables of the nodes asked, partitioned by parent.

    Returns
    -------
    DataFrame
        `_CHANGE`.
    """
    over = context.overloaded(edges).hint("shuffle_hash")
    mine = edges.join(over, "parent", "inner")
    draw = draws.bits(context.seed, "shed", "group", "parent", "child")
    kernel, lan_us = context.overlay.underlay.kernel, context.overlay.underlay.lan_us
    rules = _Rules.of(context.rules)

    def shed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            columns = _columns(rows)
            drops = _choose(columns, rules)
            if drops.child:
                yield _join_siblings(columns, drops, kernel, lan_us)

    return mine.withColumn("draw", draw).mapInArrow(shed, _CHANGE)


# --- a round, at its nodes


@dataclass(frozen=True)
class _Rules:
    """The rules of shedding, as executors know them: they do not have the config's library.

    Attributes
    ----------
    group, child, table : str
        `TreesConfig.shed_group`, ``shed_child``, ``shed_table``.
    """

    group: str
    child: str
    table: str

    @classmethod
    def of(cls, config: TreesConfig) -> _Rules:
        return cls(config.shed_group, config.shed_child, config.shed_table)


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
    """Let each dropped child that has received the table choose its new parent."""
    child = np.repeat(np.array(drops.child, dtype=np.int64), [len(s) for s in drops.sent])
    sibling = np.concatenate(drops.sent)
    # (i) it measures the delay between itself and other nodes in the table; (ii) the total delay
    router = kernel.index(columns["child_router"])
    probed = kernel.delays(router[child], router[sibling]) + 2 * lan_us
    total = probed + columns["delay_us"][sibling]
    # (iii) a join message to the node that provides the smallest combined delay
    starts = offsets_of(np.array([len(s) for s in drops.sent]))
    best = [at + int(np.argmin(total[at:end])) for at, end in itertools.pairwise(starts)]
    return _deltas(columns, drops, sibling[best], probed[best])


def _choose(columns: dict[str, np.ndarray], rules: _Rules) -> _Drops:
    """Choose what each overloaded node drops, one child after the other."""
    delay, draw = columns["delay_us"], columns["draw"]
    rank = {"farthest": -delay, "nearest": delay, "random": draw}[rules.child]
    # children of a table in the order in which they would be dropped
    order = np.lexsort((columns["child"], rank, columns["group"], columns["parent"]))
    parent, group = columns["parent"][order], columns["group"][order]
    new_table = np.r_[True, (parent[1:] != parent[:-1]) | (group[1:] != group[:-1])]
    starts = np.flatnonzero(new_table)
    tables = np.split(order, starts[1:])
    drops = _Drops([], [])
    nodes = np.flatnonzero(np.r_[True, parent[starts][1:] != parent[starts][:-1]])
    for first, end in zip(nodes, np.r_[nodes[1:], len(starts)], strict=True):
        _drop_at_node(tables[first:end], columns, draw, rules, drops)
    return drops


def _drop_at_node(
    tables: list[np.ndarray],
    columns: dict[str, np.ndarray],
    draw: np.ndarray,
    rules: _Rules,
    drops: _Drops,
) -> None:
    """Drop children of one node, whose `tables` are in order of group, until it is at its limit."""
    excess = sum(map(len, tables)) - int(columns["limit"][tables[0][0]])
    dropped = [0] * len(tables)

    def urgency(table: int) -> tuple[int, int]:
        at = tables[table]
        left = len(at) - dropped[table]
        by_draw = rules.group == "random"
        return (int(draw[at[dropped[table]]]) if by_draw else -left, table)

    queue = [urgency(t) for t, rows in enumerate(tables) if len(rows) > 1]
    heapq.heapify(queue)
    for _ in range(excess):
        if not queue:  # nothing but tables of one child
            return
        _, table = heapq.heappop(queue)
        rows, done = tables[table], dropped[table]
        left = rows[done + 1 :] if rules.table == "remaining" else np.delete(rows, done)
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
