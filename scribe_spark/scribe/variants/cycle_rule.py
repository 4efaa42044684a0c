"""The cycle rule: a JOIN from a node on the path to the root is refused, and routed anew.

References
----------
JSAC 2002, Section IV.E: "if a node receives a JOIN message from a node in its path to the root, it
rejects the join and informs the joining node that it should join using a randomized route".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import typed
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.overlay.route import OUTCOMES
from scribe_spark.pastry.randomised import randomised
from scribe_spark.pastry.trace import Tracing
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.scribe.bottleneck import ancestors
from scribe_spark.scribe.rejoin import ATTEMPTS
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.trees import CHILDREN, JOIN, Run, RunProgram
from scribe_spark.scribe.variants.context import VariantContext
from scribe_spark.scribe.variants.planted import add_children, append, write_children

__all__ = ["JOINS", "REFUSED", "CycleRule", "rejoin", "take_joins"]

#: Tables of a bucket: JOINs that have come, ``group, at, child, probes``; and ``group, child`` of
#: those that were refused in this round.
JOINS, REFUSED = "joins", "refused"

_EDGE, _STEP = "edge", "step"  # kinds of messages
_DRAWN_BY = ("group", "child", "attempt")


def rejoin(context: VariantContext, run: Run, tables: BucketTables) -> None:
    """Children whose JOIN was refused route one to the root with randomisation.

    They do so at once, and are answered in the order of (group, child).  The first node of the tree
    on the way takes the child in, and those before it become forwarders; unless the child is on
    that node's path: then it is refused again, and all such route anew.  (Other refused children
    and their descendants count as in the tree: they have children, and will have a parent.)

    Routes depend on draws alone, so those of all attempts are found together, and answered in order
    where all that a group's trees hold has been told: at the root.
    """
    refused = typed(tables.rows(REFUSED), _refused_rows, "group bigint, child bigint").toArrow()
    if not len(refused):
        return
    group, child = (refused.column(name).to_numpy() for name in ("group", "child"))
    node, attempt = run.facts.ring.node[child], np.tile(np.arange(ATTEMPTS), len(child))
    each = np.repeat(np.arange(len(child)), ATTEMPTS)
    asked = {
        "node": node[each],
        "key_hi": run.key_hi[group[each]].view(np.int64),
        "key_lo": run.key_lo[group[each]].view(np.int64),
        "group": run.number[group[each]],
        "child": node[each],
        "attempt": attempt,
    }
    overlay, spark = context.overlay, context.overlay.nodes.sparkSession
    tables.add(overlay.starting(local_frame(spark, pa.table(asked)), _DRAWN_BY))
    rule = randomised(overlay, context.seed, *_DRAWN_BY)
    tables.play(overlay.routing(Tracing(), _DRAWN_BY, rule), "JOIN, randomised", context.progress)
    roots = context.groups.select("group", "root").toArrow().sort_by("group")
    root = run.facts.positions(roots.column("root").to_numpy())
    answering = CycleRule(run, root, np.unique(group))
    tables.play(answering, "cycle rule", context.progress)


def _refused_rows(bucket: int, table: Columns) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({name: table[name] for name in ("group", "child")})


@dataclass(frozen=True)
class CycleRule(RunProgram):
    """Roots answer the JOINs that children have routed with randomisation.

    Attributes
    ----------
    root : ndarray of int64, shape (G,)
        Positions of the roots.
    concerned : ndarray of int64
        Groups with such children.
    """

    root: np.ndarray
    concerned: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Tell the roots of edges and routes; answer; add the edges that were made."""
        if superstep == 0:
            return self._tell(bucket, tables)
        if JOIN in inbox:
            take_joins(self.run.scribe(bucket, tables), inbox[JOIN], tables)
        if _STEP not in inbox:
            return {}
        return {JOIN: self._answers(inbox[_EDGE], inbox[_STEP])}

    def _tell(self, bucket: int, tables: Tables) -> Outbox:
        if REFUSED in tables:
            del tables[REFUSED]
        scribe, out = self.run.scribe(bucket, tables), {}
        if CHILDREN in tables:
            place, child = scribe.split(scribe.state.children.key)
            group, parent = scribe.split(place)
            edges = {AT: self.root[group], "group": group, "parent": parent, "child": child}
            out[_EDGE] = take(edges, np.isin(group, self.concerned))
        routed = [name for name in tables if name.startswith(OUTCOMES)]
        if routed:
            steps = concatenate([tables[name] for name in routed])
            group = np.searchsorted(self.run.number, steps["group"])
            step = {AT: self.root[group], "group": group, "hop": steps["hops"]}
            out[_STEP] = step | {name: steps[name] for name in ("attempt", "child", "node")}
            for name in routed:
                del tables[name]
        return out

    def _answers(self, edges: Columns, steps: Columns) -> Columns:
        """Return the JOINs that are accepted, and those of new forwarders."""
        node, made = self.run.facts.ring.node, []
        for group in np.unique(steps["group"]).tolist():
            mine = take(edges, edges["group"] == group)
            parents = dict(
                zip(node[mine["child"]].tolist(), node[mine["parent"]].tolist(), strict=True)
            )
            asked = take(steps, steps["group"] == group)
            root = int(node[self.root[group]])
            made += [(group, *edge) for edge in _answer(parents, asked, root)]
        columns = np.array(made, dtype=np.int64).reshape(-1, 3).T
        parent, child = (self.run.facts.positions(column) for column in columns[1:])
        none = np.zeros(len(child), dtype=np.int64)
        return {AT: parent, "group": columns[0], "child": child, "probes": none}


def _answer(parents: dict[int, int], steps: Columns, root: int) -> Iterator[tuple[int, int]]:
    """Yield the edges that one group's JOINs make, attempt by attempt and in order: parent, child.

    Parameters
    ----------
    parents : dict
        Of all nodes of the tree that have one; changed.
    steps : Columns
        ``attempt, child, hop, node``: where the JOINs would come by.
    """
    tree = {*parents, *parents.values()}
    joined: set[int] = set()
    for child, route in _routes(steps, root):
        if child in joined:
            continue
        first = next((i for i in range(1, len(route)) if route[i] in tree), len(route) - 1)
        if child in ancestors(parents, route[first]):
            continue
        joined.add(child)
        for low, high in itertools.pairwise(route[: first + 1]):
            parents[low] = high
            tree |= {low, high}
            yield high, low


def _routes(steps: Columns, root: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield each child and a route of it, attempt by attempt; the last is a hop to the root."""
    order = np.lexsort((steps["hop"], steps["child"], steps["attempt"]))
    child, node = steps["child"][order].tolist(), steps["node"][order].tolist()
    starts = np.flatnonzero(steps["hop"][order] == 0).tolist()
    for first, end in itertools.pairwise([*starts, len(node)]):
        yield child[first], node[first:end]
    for one in sorted(set(child)):
        yield one, (one, root)


def take_joins(scribe: Scribe, joins: Columns, tables: Tables) -> None:
    """Nodes take children in; ``group, at, child, probes`` of JOINs."""
    if len(joins[AT]):
        add_children(scribe, joins["group"], joins[AT], joins["child"])
        write_children(scribe, tables)
        append(tables, JOINS, {name: joins[name] for name in ("group", AT, "child", "probes")})
