"""Lazy growth: a JOIN makes no forwarders on its way; the first node of the tree takes the joining
node in.

References
----------
JSAC 2002, Section IV.F: "an alternative algorithm that grows trees less eagerly".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from scribe_spark import draws
from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.overlay import Application, Step
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.scribe.lazy import place_in_line
from scribe_spark.scribe.trees import MEMBER, Run, group_index
from scribe_spark.scribe.variants.context import Variant, VariantContext
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

__all__ = ["Ask", "TakeIn", "grow_lazily"]

# kinds of messages; tables of a bucket: who is in a tree, who joins in which wave, JOINs that have
# come to a node of a tree
_ROOT, _ENTER, _TREE, _ASKED = "root", "enter", "tree", "asked"
_PAYLOAD = ("group", "member", "previous")


def grow_lazily(context: VariantContext) -> Variant:
    """Members join in waves, each as large as all before it together.

    A wave's JOINs see the tree and the loads that the waves before it left.  At the first node p in
    the tree, as many as it has room for become its children; the others become children of the node
    before p on their route, which p takes in their stead.
    """
    overlay, run = context.overlay, run_of(context)
    members, _ = materialise(_joining(context))
    last = members.agg(F.max("wave")).first()
    assert last is not None
    if last[0] is None:
        release(members)
        return Variant(context.edges.limit(0), overloaded=0)
    number = run.number

    def wave(facts: Facts, batch: pa.RecordBatch) -> Columns:
        return {"wave": batch.column("wave").to_numpy(), **group_index(number, facts, batch)}

    def group(facts: Facts, batch: pa.RecordBatch) -> Columns:
        return group_index(number, facts, batch)

    roots = context.groups.select("group", "root")
    first = [
        overlay.ring.messages(members, MEMBER, "node", wave),
        overlay.ring.messages(roots, _ROOT, "root", group),
    ]
    tables, taking = begin(context, first), TakeIn(run, limited_rules(context.rules), context.seed)
    tables.play(taking, "lazy growth", context.progress)
    release(members)
    for number_of_wave in range(last[0] + 1):
        asking = overlay.routing(Ask(run, number_of_wave), _PAYLOAD)
        tables.play(asking, "JOIN, lazy", context.progress)
        tables.play(taking, "lazy growth", context.progress)
    edges = grown(context, run, tables)
    tables.release()
    return Variant(edges, overloaded=context.overloaded(edges).count(), owned=[edges])


def _joining(context: VariantContext) -> DataFrame:
    """Every member and the wave that it joins in: ``group, node, wave``."""
    draw = draws.bits(context.seed, "arrival", "group", "node")
    place = F.row_number().over(Window.partitionBy("group").orderBy(draw, "node"))
    wave = F.length(F.bin(place)) - 1  # place 1; 2, 3; 4 to 7; ...
    return context.members.select("group", "node", wave.cast("bigint").alias("wave"))


@dataclass(frozen=True)
class Ask(Application):
    """A wave's JOINs go on until they are at a node of the tree, which keeps them.

    Attributes
    ----------
    run : Run
    wave : int
    """

    run: Run
    wave: int
    independent = True

    def begin(self, tables: Tables) -> Columns | None:
        """Return the JOINs of the wave."""
        if MEMBER not in tables:
            return None
        run = self.run
        mine = take(tables[MEMBER], tables[MEMBER]["wave"] == self.wave)
        node, group = run.facts.ring.node[mine[AT]], mine["group"]
        key = {"key_hi": run.key_hi[group], "key_lo": run.key_lo[group]}
        joins = {"node": node, **{name: half.view(np.int64) for name, half in key.items()}}
        return joins | {"group": group, "member": node, "previous": np.full(len(node), NONE)}

    def forward(self, tables: Tables, messages: Columns) -> Step:
        """Keep those that have come to the tree; a member in the tree sends none."""
        run = self.run
        at = run.facts.positions(messages["node"])
        place = messages["group"] * len(run.facts.ring) + at
        inside = np.zeros(len(at), dtype=bool)
        if _TREE in tables:
            inside = find_sorted(tables[_TREE]["key"], place) >= 0
        came = inside & (messages["previous"] >= 0)
        if came.any():
            columns = {AT: at, **{name: messages[name] for name in _PAYLOAD}}
            append(tables, _ASKED, take(columns, came))
        return Step(onward=take({**messages, "previous": messages["node"]}, ~inside))

    def deliver(self, tables: Tables, messages: Columns) -> Step:
        """Keep those that are at the root."""
        self.forward(tables, messages)
        return Step()


@dataclass(frozen=True)
class TakeIn(LimitedProgram):
    """Nodes of trees answer the JOINs of a wave."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Take in as many as there is room for; tell those that are in a tree now."""
        scribe = self.scribe(bucket, tables, inbox)
        if MEMBER in inbox:
            tables[MEMBER] = inbox[MEMBER]
        entered = [inbox[kind] for kind in (_ROOT, _ENTER) if kind in inbox]
        if entered:
            places = [scribe.key(one["group"], one[AT]) for one in entered]
            before = [tables[_TREE]["key"]] if _TREE in tables else []
            tables[_TREE] = {"key": np.unique(np.concatenate([*before, *places]))}
        if _ENTER in inbox:
            under = take(inbox[_ENTER], inbox[_ENTER]["child"] >= 0)
            add_children(scribe, under["group"], under[AT], under["child"])
            write_children(scribe, tables)
        if _ASKED not in tables:
            return {}
        asked = tables[_ASKED]
        del tables[_ASKED]
        ring, facts, at = self.run.facts.ring, self.run.facts, asked[AT]
        # 1. as many as there is room for, in the order of their groups and numbers
        load = np.bincount(
            scribe.split(scribe.state.children.key)[0] % len(ring), minlength=len(ring)
        )
        rules = scribe.rules.remover
        assert rules is not None
        room = rules.limits(ring.node[at]) - load[at]
        turn = place_in_line(at, asked["group"], asked["member"])
        taken = (turn < room) | (asked["previous"] == asked["member"])
        # 2. a child more for each, or the node before it on the route, once for whomever
        member, previous = (facts.positions(asked[name]) for name in ("member", "previous"))
        add_children(scribe, asked["group"], at, np.where(taken, member, previous))
        write_children(scribe, tables)
        enters = {AT: member, "group": asked["group"], "child": np.full(len(at), NONE)}
        adopts = take({AT: previous, "group": asked["group"], "child": member}, ~taken)
        return {_ENTER: concatenate([enters, adopts])}
