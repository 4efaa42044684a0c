"""The rows of all systems of a run, and their checks before anything is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row
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


@dataclass(frozen=True)
class _Table:
    """The possible values of each column in a saved table of systems."""

    handed: str  # its name in `Multicast` or `Variant`
    nodes: Mapping[str, str | None]  # column with a node -> the column with its router
    least: Mapping[str, int] = field(default_factory=dict)  # column -> its least value
    optional: tuple[str, ...] = ()  # columns that may be NULL
    apart: bool = False  # True if the two nodes of a row must differ


_EDGE = {"parent": "parent_router", "child": "child_router"}
_COPY = {"sender": "sender_router", "receiver": "receiver_router"}

#: Saved table -> the possible values of its columns.
TABLES = {
    "tree_edges": _Table("tree_edges", _EDGE, apart=True),
    "deliveries": _Table("delivered", {"node": None}, {"hops": 1, "delay_ms": 0}),
    "copies": _Table(HANDED["copies"], _COPY, {"hop": 1, "sent_ms": 0}, ("sent_ms",), apart=True),
    "system_state": _Table(HANDED["system_state"], {"node": None}, {"entries": 0}, ("group",)),
    "control": _Table(HANDED["control"], _COPY, {"messages": 0}, ("group",)),
    "pictures": _Table(HANDED["pictures"], _EDGE, optional=("value",), apart=True),
    "extra_joins": _Table("joins", _EDGE, {"probes": 0}),
}

#: A condition of bad rows, with the column and the words of the fault.
_Fault = tuple[Column, str, str]


def check_rows(
    systems: Mapping[str, str],
    made: Iterable[Multicast],
    saved: Mapping[str, DataFrame],
    known: Known,
) -> None:
    """Refuse a system with an impossible row, or without a necessary one."""
    mine = [one for one in made if one.system in systems]
    if not mine:
        return
    rows = {name: saved[name].where(_among("system", systems)) for name in TABLES if name in saved}
    untimed = [name for name, clock in systems.items() if clock == HOPS]
    for name, table in rows.items():
        _raise_first(row_faults(name, table, known, untimed))
    _raise_first(pair_faults(mine, rows, known))


def _raise_first(faults: Mapping[str, InputError]) -> None:
    for system in sorted(faults):
        raise faults[system]


def _among(column: str, values: Iterable[str]) -> Column:
    return F.col(column).isin(list(values))


# --- rows


def row_faults(
    name: str, rows: DataFrame, known: Known, untimed: Sequence[str] = ()
) -> dict[str, InputError]:
    """Return each system's first impossible row in a table, as an error; one Spark job."""
    table, columns = TABLES[name], [c for c in rows.columns if c != "merged"]
    groups = known.groups.select("group", "source", F.lit(True).alias("_group"))
    joined = rows.join(groups, "group", "left")
    for node in table.nodes:
        at = known.nodes.select(F.col("node").alias(node), F.col("router").alias(f"_{node}"))
        joined = joined.join(at, node, "left")
    faults = [
        *_null_faults(table, columns, untimed),
        *_name_faults(table),
        *((F.col(c) < least, c, f"less than {least}") for c, least in table.least.items()),
    ]
    if "kind" in columns:
        faults.append((F.col("kind") == "", "kind", "empty"))
    if table.apart:
        one, other = table.nodes
        faults.append((F.col(one) == F.col(other), other, f"the same node as {one}"))
    if "merged" in rows.columns:
        off = F.col("merged") & (F.col("parent") != F.col("source"))
        faults.append((off, "parent", "not the source, though routers duplicate (merged)"))

    shown = [column for column in columns if column != "system"]
    return {
        row["system"]: _fault_of(row["system"], table.handed, column, _row(row, shown), words)
        for row, (column, words) in _first(joined, faults, columns)
    }


def _null_faults(table: _Table, columns: Iterable[str], untimed: Sequence[str]) -> list[_Fault]:
    words = "NULL, or out of the range of its type"
    faults = [(F.col(c).isNull(), c, words) for c in columns if c not in table.optional]
    if "sent_ms" in table.optional:
        timed = F.col("sent_ms").isNull() & ~_among("system", untimed)
        faults.append((timed, "sent_ms", f"{words}; only copies by the clock of hops have no time"))
    return faults


def _name_faults(table: _Table) -> list[_Fault]:
    """Return faults to look for in a table: nodes, routers or groups that do not exist."""
    unknown = F.col("group").isNotNull() & F.col("_group").isNull()
    faults = [(unknown, "group", "no group of the run")]
    for node, router in table.nodes.items():
        at = F.col(f"_{node}")
        faults.append((at.isNull(), node, "no node of the run"))
        if router is not None:
            faults.append((at != F.col(router), router, f"not the router of {node}"))
    return faults


def _first(
    rows: DataFrame, faults: Sequence[_Fault], columns: Sequence[str]
) -> list[tuple[Row, tuple[str, str]]]:
    """Return the first bad row of each system, by the order of its columns, with its fault."""
    which = F.coalesce(*(F.when(here, F.lit(n)) for n, (here, _, _) in enumerate(faults)))
    wrong = rows.withColumn("_fault", which).where(F.col("_fault").isNotNull())
    ordered = F.struct(*(c for c in columns if c != "system"), "_fault")
    first = wrong.groupBy("system").agg(F.min(ordered).alias("row")).select("system", "row.*")
    return [(row, faults[row["_fault"]][1:]) for row in first.collect()]


def _row(row: Row, columns: Iterable[str]) -> str:
    """Return the values of a saved row as text, in the units of the system's own table."""
    cells = []
    for column in columns:
        name, value = IN_MICROSECONDS.get(column, column), row[column]
        if value is None:
            cells.append(f"{name} NULL")
        elif column in IN_MICROSECONDS:
            cells.append(f"{name} {value * MICROSECONDS:.0f}")
        else:
            cells.append(f"{name} {value}")
    return f"row {in_series(cells, len(cells))}"


def _fault_of(system: str, table: str, column: str, where: str, words: str) -> InputError:
    column = IN_MICROSECONDS.get(column, column)
    return refuse(system, f"hands over {table} with a fault in column {column}: {where}: {words}")


# --- pairs of group and node

#: The number of times that a pair is in each table: as a member but the source, a delivery, the
#: receiver of a copy, the receiver of a first copy, the sender of a copy.
_COUNTS = ("expected", "delivered", "reached", "first", "sends")


def pair_faults(
    made: Sequence[Multicast], saved: Mapping[str, DataFrame], known: Known
) -> dict[str, InputError]:
    """Return, as an error, each system's first group and node on which its tables disagree."""
    systems = F.explode(F.array(*(F.lit(one.system) for one in made))).alias("system")
    messages, keys = known.groups, ["group"]
    if known.publications is not None:
        messages, keys = known.publications, ["group", "publication"]
    sources = messages.where(F.col("source").isNotNull())
    due = known.members.join(sources, "group").where(F.col("node") != F.col("source"))
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
    joined = counted.join(messages.select(*keys, "root", "source"), keys, "left")
    faults = _pair_faults(made)
    conditions = [(here, f"{table}.{column}", words) for here, table, column, words in faults]
    columns = ["system", *keys, "node", *_COUNTS]
    found = {}
    for row, (place, words) in _first(joined, conditions, columns):
        table, _, column = place.partition(".")
        where = in_series([f"{key} {row[key]}" for key in (*keys, "node")], len(keys) + 1)
        words = words.format(**row.asDict())
        found[row["system"]] = _fault_of(row["system"], table, column, where, words)
    return found


def _counted(rows: DataFrame, keys: Sequence[str], node: str, *names: str) -> DataFrame:
    ones = (F.lit(int(name in names)).alias(name) for name in _COUNTS)
    return rows.select("system", *keys, F.col(node).alias("node"), *ones)


def _pair_faults(made: Sequence[Multicast]) -> list[tuple[Column, str, str, str]]:
    """Return the faults to look for in pairs (group, node): condition, table, column, words."""
    expected, delivered, reached, first, sends = (F.col(name) for name in _COUNTS)
    is_source = F.coalesce(F.col("node") == F.col("source"), F.lit(False))
    # the way from a source to the root is in no table
    begins = is_source | F.coalesce(F.col("node") == F.col("root"), F.lit(False))
    trees = [one.system for one in made if one.tree_edges is not None and not one.scheduled]
    tree = _among("system", trees)  # with a schedule, trees also have copies
    faults = [
        ((expected == 0) & (delivered > 0) & is_source, "delivered", "node",
         "this is the source, which gets no copy"),
        ((expected == 0) & (delivered > 0), "delivered", "node",
         "this is no member of the group, or the group has no source"),
        (delivered > 1, "delivered", "node", "this member has {delivered} rows; give one"),
        (tree & (reached > 1), "tree_edges", "child", "this child has {reached} rows; give one"),
    ]  # fmt: skip
    for table, ours, to, by in (
        ("tree_edges", tree, "child", "parent"),
        ("copies", ~tree, "receiver", "sender"),
    ):
        faults += [
            (ours & (delivered > 0) & (reached == 0) & ~begins, table, to,
             "this node has a delivery, but no copy"),
            (ours & (sends > 0) & (reached == 0) & ~begins, table, by,
             "this node sends, but gets no copy, and is neither source nor root"),
        ]  # fmt: skip
    faults += [
        (~tree & is_source & (first > 0), "copies", "first",
         "a copy to the source is marked as its first"),
        (~tree & ~is_source & (reached > 0) & (first != 1), "copies", "first",
         "{first} copies to this node are marked as its first, not 1"),
    ]  # fmt: skip
    return faults


def checked_variant(system: str, built: Any, known: Known) -> Variant:
    """Return a user's variant of Scribe's trees, after a check of its edges."""
    if not isinstance(built, Variant):
        raise refuse(system, f"trees returns a {type(built).__name__}; return a Variant")
    over = built.overloaded
    if over is not None and not (isinstance(over, int) and over >= 0):
        raise refuse(
            system, f"hands over overloaded = {shown(over)}; give a number of nodes or None"
        )
    edges, joins = _frame(system, "edges", built.edges, EDGES), built.joins
    if joins is not None:
        joins = _frame(system, "joins", joins, f"{EDGES}, probes bigint")
    rows = edges.withColumn("system", F.lit(system))
    _raise_first(row_faults("tree_edges", rows, known))
    return dataclasses.replace(built, edges=edges, joins=joins)


def _frame(system: str, name: str, table: Table, columns: str) -> DataFrame:
    return Batches.of(conformed(system, name, table, columns)).frame
