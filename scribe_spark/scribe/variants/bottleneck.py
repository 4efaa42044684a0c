"""The bottleneck remover: overloaded nodes hand children over to those children's siblings.

What is dropped, and whom it joins, is `scribe.bottleneck`'s.  As all nodes of a run are
alive, and their tables right, a parent knows what its children will measure: they are dropped, and
send their JOINs to siblings, in one superstep.

References
----------
JSAC 2002, Section IV.E.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import typed
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.runtime.blocks import materialise
from scribe_spark.scribe.bottleneck import (
    choose_drops,
    choose_parents,
    overloaded,
    refusals,
    tables_of,
)
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.trees import JOIN, Run, group_index
from scribe_spark.scribe.variants.context import EDGE, Variant, VariantContext
from scribe_spark.scribe.variants.cycle_rule import JOINS, REFUSED, rejoin, take_joins
from scribe_spark.scribe.variants.planted import (
    LimitedProgram,
    add_children,
    append,
    begin,
    grown,
    limited_rules,
    run_of,
    write_children,
)

__all__ = ["Remover", "remove_bottlenecks"]

_EDGE = "edge"  # a kind of messages: a child of a node


def remove_bottlenecks(context: VariantContext) -> Variant:
    """Drop children of overloaded nodes until none is overloaded, or none can drop any more.

    In a round every overloaded node drops children until it is at its limit; the JOINs that these
    send are in the receivers' children tables when the next round begins.
    """
    run = run_of(context)
    tables = begin(context, [_edges_of(context, run)])
    remover = Remover(run, limited_rules(context.rules), context.seed)
    sent = _play(context, remover, tables)
    if not sent:
        tables.release()
        return Variant(context.edges, None, _count_overloaded(context, context.edges))
    edges = grown(context, run, tables)
    joins, _ = materialise(_joins(run, tables))
    tables.release()
    return Variant(edges, joins, _count_overloaded(context, edges), owned=[edges, joins])


def _play(context: VariantContext, remover: Remover, tables: BucketTables) -> int:
    """Play all rounds; how many JOINs were sent to siblings."""
    name, sent = "bottleneck remover", 0
    while True:
        counts = tables.play(remover, name, context.progress)
        sent += sum(counts)
        if not remover.waits or not counts[0]:
            return sent
        # the next round begins when those that were refused have joined another way
        rejoin(context, remover.run, tables)


def _edges_of(context: VariantContext, run: Run) -> DataFrame:
    """Return the edges of the trees as messages to the parents, packed."""
    number = run.number

    def edge(facts: Facts, batch: pa.RecordBatch) -> Columns:
        child = facts.positions(batch.column("child").to_numpy())
        return {"child": child, **group_index(number, facts, batch)}

    edges = context.edges.select("group", "parent", "child")
    return context.overlay.ring.messages(edges, _EDGE, "parent", edge)


@dataclass(frozen=True)
class Remover(LimitedProgram):
    """A superstep is a round: JOINs are received, overloaded nodes drop children.

    Where JOINs can be refused a round is all that is played: those that were go on first.
    """

    @property
    def waits(self) -> bool:
        """Whether JOINs of dropped children can be refused: `refusals`."""
        return self.rules.table == "whole"

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Section IV.E, for the nodes of a bucket."""
        scribe = self.scribe(bucket, tables, inbox)
        if _EDGE in inbox:
            edge = inbox[_EDGE]
            add_children(scribe, edge["group"], edge[AT], edge["child"])
            write_children(scribe, tables)
        if JOIN in inbox:
            _receive(scribe, inbox[JOIN], tables)
        if superstep and self.waits:
            return {}
        return _drop(scribe, tables)


def _receive(scribe: Scribe, joins: Columns, tables: Tables) -> None:
    """JOINs of dropped children at the siblings that they have chosen."""
    refused = take(joins, joins["refused"])
    if len(refused[AT]):
        append(tables, REFUSED, {name: refused[name] for name in ("group", "child")})
        append(tables, JOINS, {name: refused[name] for name in ("group", AT, "child", "probes")})
    take_joins(scribe, take(joins, ~joins["refused"]), tables)


def _drop(scribe: Scribe, tables: Tables) -> Outbox:
    """Overloaded nodes drop children; the JOINs that these send."""
    over, remover = overloaded(scribe), scribe.rules.remover
    if remover is None or not len(over):
        return {}
    edge, columns = tables_of(scribe, over, np.empty(0, dtype=np.int64))
    drops = choose_drops(columns, remover)
    if not len(drops):
        return {}
    place, child = scribe.split(edge)
    scribe.state.children.drop(scribe.state.children.find(edge[drops.child]))
    write_children(scribe, tables)
    source, to = choose_parents(
        scribe, child, drops.child, drops.asking, drops.sibling, columns["delay_us"]
    )
    join = {
        AT: child[to],
        "group": scribe.split(place[source])[0],
        "child": child[source],
        "probes": np.diff(drops.offsets),
        "refused": refusals(source, to),
    }
    return {JOIN: join}


def _joins(run: Run, tables: BucketTables) -> DataFrame:
    """Return ``group, parent, child, parent_router, child_router, probes`` of all JOINs; lazy."""

    def rows(bucket: int, table: Columns) -> Iterator[pa.RecordBatch]:
        ring, ids = run.facts.ring, run.kernel.ids
        above, below = ring.take(table[AT]), ring.take(table["child"])
        columns = [run.number[table["group"]], above.node, below.node]
        columns += [ids(above.router), ids(below.router), table["probes"]]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=[*EDGE, "probes"])

    return typed(
        tables.rows(JOINS), rows, ", ".join(f"{name} bigint" for name in (*EDGE, "probes"))
    )


def _count_overloaded(context: VariantContext, edges: DataFrame) -> int:
    """How many nodes are still overloaded: a limit can be below what the load needs."""
    count = context.overloaded(edges).count()
    if count:
        context.progress.note(
            f"bottleneck remover: the limit cannot be met; {count:,} nodes keep more children than "
            "it, each the only child in its table"
        )
    return count
