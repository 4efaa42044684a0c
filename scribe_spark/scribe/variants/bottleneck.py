"""The bottleneck remover: overloaded nodes hand children over to those children's siblings.

A round's messages are changes of children tables, each at the node whose table it is: a child that
the node has dropped (``change`` -1), or a JOIN that it accepts (+1) or refuses (0).

References
----------
JSAC 2002, Section IV.E.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import draws, superstep
from scribe_spark.runtime.blocks import materialise, read_partition
from scribe_spark.scribe.bottleneck import (
    Drops,
    choose_drops,
    choose_siblings,
    refusals,
)
from scribe_spark.scribe.rules import RemoverRules
from scribe_spark.scribe.variants.context import EDGE, Variant, VariantContext
from scribe_spark.scribe.variants.cycle_rule import rejoin
from scribe_spark.superstep import Round, Step, Table

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import TreesConfig

__all__ = ["remove_bottlenecks", "rules_of"]

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
    rules = rules_of(context.rules)

    def shed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            columns = _columns(rows)
            drops = choose_drops(columns, rules)
            if len(drops):
                yield _join_siblings(columns, drops, kernel, lan_us)

    return mine.withColumn("draw", draw).mapInArrow(shed, _CHANGE)


def rules_of(config: TreesConfig) -> RemoverRules:
    """The rules as executors know them: they do not have the config's library."""
    return RemoverRules(config.limit, config.shed_group, config.shed_child, config.shed_table)


# --- a round, at its nodes


def _columns(edges: pa.Table) -> dict[str, np.ndarray]:
    return {name: edges.column(name).to_numpy() for name in edges.column_names}


def _join_siblings(
    columns: dict[str, np.ndarray], drops: Drops, kernel: Any, lan_us: int
) -> pa.RecordBatch:
    """Let each dropped child that has received the table choose its new parent."""
    asking, sibling = drops.asking, drops.sibling
    # (i) it measures the delay between itself and other nodes in the table; (ii) the total delay
    router = kernel.index(columns["child_router"])
    probed = kernel.delays(router[drops.child[asking]], router[sibling]) + 2 * lan_us
    total = probed + columns["delay_us"][sibling]
    # (iii) a join message to the node that provides the smallest combined delay
    best = choose_siblings(asking, total)
    return _deltas(columns, drops, sibling[best], probed[best])


def _deltas(
    columns: dict[str, np.ndarray], drops: Drops, to: np.ndarray, delay_us: np.ndarray
) -> pa.RecordBatch:
    """Each drop as two rows: out of the parent's table, into that of the sibling `to`."""
    out, probes = drops.child, np.diff(drops.offsets)
    refused = refusals(out, to)
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
