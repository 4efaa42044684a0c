"""The rows of users' systems of a run, and their checks before anything is measured.

Groups, nodes and routers of a system that is played in its round 0 follow from positions on the
ring; those of a variant's edges are a user's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from scribe_spark.core.errors import InputError, in_series, shown
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.multicast import EDGES, HOPS, PAYLOAD, Multicast, conformed, refuse
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.systems.scribe.variants import Variant
from scribe_spark.worlds.round_of_run import HANDED, IN_MICROSECONDS


@dataclass(frozen=True)
class Known:
    """The nodes, groups and members that rows of systems may contain."""

    nodes: DataFrame  # node, router
    groups: DataFrame  # group, root, source; no source in a group without publications
    members: DataFrame  # group, node
    publications: DataFrame | None = None  # publication, group, root, source; with a schedule


#: The condition of bad rows in SQL, the column with the fault, and its words.
_Fault = tuple[str, str, str]

#: Saved table -> its name in `Multicast`.
_HANDED = HANDED | {"deliveries": "delivered"}

_SAME = ("parent = child", "child", "the same node as parent")

#: Saved table -> the faults of a row.
_ROWS: dict[str, tuple[_Fault, ...]] = {
    "tree_edges": (
        _SAME,
        ("merged AND parent <> source", "parent",
         "not the source, though routers duplicate (merged)"),
    ),
    "deliveries": (
        ("hops < 1", "hops", "less than 1"),
        ("delay_ms < 0", "delay_ms", "less than 0"),
    ),
    "copies": (
        ("sender = receiver", "receiver", "the same node as sender"),
        ("hop < 1", "hop", "less than 1"),
        ("sent_ms < 0", "sent_ms", "less than 0"),
        ("sent_ms IS NULL AND NOT by_hops", "sent_ms",
         "NULL; only copies by the clock of hops have no time"),
    ),
    "system_state": (("entries < 0", "entries", "less than 0"),),
    "control": (("messages < 0", "messages", "less than 0"),),
    "pictures": (_SAME,),
}  # fmt: skip

#: The faults of a row of a variant's edges; `_group`, `_parent`, `_child` are NULL if unknown.
_OF_EDGES: tuple[_Fault, ...] = (
    *((f"{one} IS NULL", one, "NULL, or out of the range of its type")
      for one in ("group", "parent", "child", "parent_router", "child_router")),
    ("_group IS NULL", "group", "no group of the run"),
    *((f"_{one} IS NULL", one, "no node of the run") for one in ("parent", "child")),
    *((f"_{one} <> {one}_router", f"{one}_router", f"not the router of {one}")
      for one in ("parent", "child")),
    _SAME,
)  # fmt: skip

#: The number of times that a pair of group and node is in each table: as a member but the source, a
#: delivery, the receiver of a copy, the receiver of a first copy, the sender of a copy.
_COUNTS = ("expected", "delivered", "reached", "first", "sends")

_UNREACHED = "this node has a delivery, but no copy"
_SENDS = "this node sends, but gets no copy, and is neither source nor root"

#: The faults of a pair; columns are named with their table.  Nodes where messages `begin` are the
#: source and the root, as the way between them is in no table.
_PAIRS: tuple[_Fault, ...] = (
    ("expected = 0 AND delivered > 0 AND is_source", "delivered.node",
     "this is the source, which gets no copy"),
    ("expected = 0 AND delivered > 0", "delivered.node",
     "this is no member of the group, or the group has no source"),
    ("delivered > 1", "delivered.node", "this member has {delivered} rows; give one"),
    ("tree AND reached > 1", "tree_edges.child", "this child has {reached} rows; give one"),
    ("tree AND delivered > 0 AND reached = 0 AND NOT begins", "tree_edges.child", _UNREACHED),
    ("tree AND sends > 0 AND reached = 0 AND NOT begins", "tree_edges.parent", _SENDS),
    ("NOT tree AND delivered > 0 AND reached = 0 AND NOT begins", "copies.receiver", _UNREACHED),
    ("NOT tree AND sends > 0 AND reached = 0 AND NOT begins", "copies.sender", _SENDS),
    ("NOT tree AND is_source AND first > 0", "copies.first",
     "a copy to the source is marked as its first"),
    ("NOT tree AND NOT is_source AND reached > 0 AND first <> 1", "copies.first",
     "{first} copies to this node are marked as its first, not 1"),
)  # fmt: skip


def check_rows(
    systems: Mapping[str, str],
    made: Iterable[Multicast],
    saved: Mapping[str, DataFrame],
    known: Known,
) -> None:
    """Refuse a system with an impossible row, or without a necessary one.

    `systems` have their clocks.
    """
    mine = [one for one in made if one.system in systems]
    if not mine:
        return
    is_mine = F.col("system").isin(list(systems))
    rows = {name: saved[name].where(is_mine) for name in _ROWS if name in saved}
    by_hops = [name for name, clock in systems.items() if clock == HOPS]
    for name, table in rows.items():
        _raise_first(row_faults(name, table, known, by_hops))
    _raise_first(pair_faults(mine, rows, known))


def _raise_first(faults: Mapping[str, InputError]) -> None:
    for system in sorted(faults):
        raise faults[system]


def row_faults(
    name: str, rows: DataFrame, known: Known, by_hops: Sequence[str] = ()
) -> dict[str, InputError]:
    """Return each system's first impossible row in a table, as an error; one Spark job."""
    sources = known.groups.select("group", "source")
    untimed = F.col("system").isin(list(by_hops))
    joined = rows.join(sources, "group", "left").withColumn("by_hops", untimed)
    columns = [column for column in rows.columns if column not in ("merged", "system")]
    return _row_faults(_HANDED.get(name, name), joined, _ROWS[name], columns)


def _row_faults(
    table: str, rows: DataFrame, faults: Sequence[_Fault], columns: Sequence[str]
) -> dict[str, InputError]:
    return {
        row["system"]: _fault_of(row["system"], table, column, _row(row, columns), words)
        for row, (column, words) in _first(rows, faults, columns)
    }


def _first(
    rows: DataFrame, faults: Sequence[_Fault], columns: Sequence[str]
) -> list[tuple[Row, tuple[str, str]]]:
    """Return the first bad row of each system, by the order of its columns, with its fault."""
    which = F.coalesce(*(F.when(F.expr(sql), F.lit(n)) for n, (sql, _, _) in enumerate(faults)))
    wrong = rows.withColumn("_fault", which).where("_fault IS NOT NULL")
    ordered = F.struct(*columns, "_fault")
    first = wrong.groupBy("system").agg(F.min(ordered).alias("row")).select("system", "row.*")
    return [(row, faults[row["_fault"]][1:]) for row in first.collect()]


def _row(row: Row, columns: Iterable[str]) -> str:
    """Return the values of a saved row as text, in the units of the system's own table."""
    cells = []
    for column in columns:
        value = "NULL" if row[column] is None else row[column]
        if column in IN_MICROSECONDS and value != "NULL":
            value = f"{value * MICROSECONDS:.0f}"
        cells.append(f"{IN_MICROSECONDS.get(column, column)} {value}")
    return f"row {in_series(cells, len(cells))}"


def _fault_of(system: str, table: str, column: str, where: str, words: str) -> InputError:
    column = IN_MICROSECONDS.get(column, column)
    return refuse(system, f"hands over {table} with a fault in column {column}: {where}: {words}")


def pair_faults(
    made: Sequence[Multicast], saved: Mapping[str, DataFrame], known: Known
) -> dict[str, InputError]:
    """Return, as an error, each system's first group and node on which its tables disagree."""
    systems = F.explode(F.array(*(F.lit(one.system) for one in made))).alias("system")
    messages, keys = known.groups, ["group"]
    if known.publications is not None:
        messages, keys = known.publications, ["group", "publication"]
    sources = messages.where("source IS NOT NULL")
    due = known.members.join(sources, "group").where("node <> source")
    parts = [
        _counted(due.select(systems, *keys, "node"), keys, "node", "expected"),
        _counted(saved["deliveries"], keys, "node", "delivered"),
    ]
    if known.publications is None:
        parts.append(_counted(saved["tree_edges"], keys, "child", "reached"))
        parts.append(_counted(saved["tree_edges"], keys, "parent", "sends"))
    if "copies" in saved:
        payload = saved["copies"].where(F.col("kind") == PAYLOAD)
        parts.append(_counted(payload, keys, "receiver", "reached"))
        parts.append(_counted(payload.where("first"), keys, "receiver", "first"))
        parts.append(_counted(payload, keys, "sender", "sends"))
    pairs = reduce(DataFrame.unionAll, parts).groupBy("system", *keys, "node")
    counted = pairs.agg(*(F.sum(name).alias(name) for name in _COUNTS))
    # with a schedule, trees also have copies
    trees = [one.system for one in made if one.tree_edges is not None and not one.scheduled]
    joined = counted.join(messages.select(*keys, "root", "source"), keys, "left").withColumns(
        {
            "tree": F.col("system").isin(trees),
            "is_source": F.expr("node <=> source"),
            "begins": F.expr("node <=> source OR node <=> root"),
        }
    )
    found = {}
    for row, (place, words) in _first(joined, _PAIRS, [*keys, "node", *_COUNTS]):
        table, _, column = place.partition(".")
        where = in_series([f"{key} {row[key]}" for key in (*keys, "node")], len(keys) + 1)
        words = words.format(**row.asDict())
        found[row["system"]] = _fault_of(row["system"], table, column, where, words)
    return found


def _counted(rows: DataFrame, keys: Sequence[str], node: str, *names: str) -> DataFrame:
    ones = (F.lit(int(name in names)).alias(name) for name in _COUNTS)
    return rows.select("system", *keys, F.col(node).alias("node"), *ones)


def checked_variant(system: str, built: Any, known: Known) -> Variant:
    """Return a user's variant of Scribe's trees, after a check of its edges and JOINs."""
    if not isinstance(built, Variant):
        raise refuse(system, f"trees returns a {type(built).__name__}; return a Variant")
    over = built.overloaded
    if over is not None and not (isinstance(over, int) and over >= 0):
        raise refuse(
            system, f"hands over overloaded = {shown(over)}; give a number of nodes or None"
        )

    def checked(name: str, table: Table, columns: str, *faults: _Fault) -> DataFrame:
        frame = Batches.of(conformed(system, name, table, columns)).frame
        rows = frame.join(
            known.groups.select("group", F.lit(True).alias("_group")), "group", "left"
        )
        for node in ("parent", "child"):
            at = known.nodes.select(F.col("node").alias(node), F.col("router").alias(f"_{node}"))
            rows = rows.join(at, node, "left")
        rows = rows.withColumn("system", F.lit(system))
        _raise_first(_row_faults(name, rows, (*_OF_EDGES, *faults), frame.columns))
        return frame

    edges, joins = checked("edges", built.edges, EDGES), built.joins
    if joins is not None:
        few = "probes < 0", "probes", "less than 0"
        joins = checked("joins", joins, f"{EDGES}, probes bigint", few)
    return dataclasses.replace(built, edges=edges, joins=joins)
