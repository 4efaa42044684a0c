"""The tables of a run with the results of all its multicast systems."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.errors import shown
from scribe_spark.experiments.round_in_run import play_round_0
from scribe_spark.experiments.system_rows import Known, check_table
from scribe_spark.measures.delay import first_copies
from scribe_spark.multicast import EDGES, Multicast, conformed, refuse
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.users_code import analysed
from scribe_spark.schemas import DELIVERIES, MICROSECONDS, WRITTEN, written
from scribe_spark.scribe import Variant
from scribe_spark.systems import System

_EDGE = ("group", "parent", "child", "parent_router", "child_router")
_DELIVERY = ("group", "node", "hops", "delay_us")
_ENDS = ("group", "sender", "receiver", "sender_router", "receiver_router", "kind")


def multicast_of(system: System, stages: Any) -> Multicast:
    """Build a system, and return its `Multicast`.

    Raises
    ------
    InputError
        The system returns something else, or a Multicast of another name; or Spark finds a fault in
        the code that builds it.
    """
    with analysed("systems", system.name):
        if system.build is None:
            return play_round_0(system, stages)
        built = system.build(stages)
    if not isinstance(built, Multicast):
        raise refuse(system.name, f"build returns a {type(built).__name__}; return a Multicast")
    if built.system != system.name:
        raise refuse(system.name, f"hands over a Multicast of {shown(built.system)}; give one name")
    return built


def checked_variant(system: str, built: Any, known: Known) -> Variant:
    """Return a user's variant after a check of its edges.

    Raises
    ------
    InputError
        The function returns no `Variant`, or impossible tables.
    """
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
    check_table("tree_edges", edges.withColumn("system", F.lit(system)), known)
    return dataclasses.replace(built, edges=edges, joins=joins)


def _frame(system: str, name: str, table: Table, columns: str) -> DataFrame:
    return Batches.of(conformed(system, name, table, columns)).frame


def tree_edges(systems: Iterable[Multicast]) -> Batches:
    """Return the table ``tree_edges`` of all systems that have trees."""
    made = [(system, system.edges) for system in systems]
    return Batches.union(
        _table(system.system, edges, _EDGE, "tree_edges", {"merged": system.merged})
        for system, edges in made
        if edges is not None
    )


def deliveries(systems: Iterable[Multicast]) -> Batches:
    """Return the table ``deliveries``: the first copy of each member but the source."""
    return Batches.union(map(_deliveries, systems))


def other_tables(systems: Iterable[Multicast]) -> Iterator[tuple[str, Batches]]:
    """Yield ``copies``, ``system_state`` and ``control``, each if a system has such a table."""
    for table, name, columns in (
        ("copies", "copies", (*_ENDS, "hop", "sent_us", "first")),
        ("system_state", "state", ("group", "node", "kind", "entries")),
        ("control", "control", (*_ENDS, "messages")),
    ):
        made = [(system, system.handed_over(name)) for system in systems]
        rows = [
            _table(one.system, of, columns, table, scheduled=one.scheduled)
            for one, of in made
            if of is not None
        ]
        if rows:
            yield table, Batches.union(rows)


def _table(
    system: str,
    table: Table,
    columns: Iterable[str],
    name: str,
    constant: dict[str, Any] | None = None,
    scheduled: bool = False,
) -> Batches:
    """Return a table of one system with the columns of the written table."""
    wanted, told = list(columns), {"system": system, **(constant or {})}
    schema = written(name, scheduled)
    if schema != WRITTEN[name]:
        wanted.append("publication")

    def rows(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        same = {name: pa.repeat(pa.scalar(value), len(batch)) for name, value in told.items()}
        named = {name: batch.column(name) for name in wanted}
        if "sent_us" in named:
            named["sent_ms"] = pc.divide(named["sent_us"].cast(pa.float64()), float(MICROSECONDS))
        return same | named

    return Batches.of(table, wanted).each(rows, schema)


def _deliveries(system: Multicast) -> Batches:
    schema = written("deliveries", system.scheduled)
    more = schema.names[len(DELIVERIES.names) :]
    name, copies = system.system, Batches.of(system.deliveries, [*_DELIVERY, *more])
    repeats = system.repeats and not system.scheduled
    first = Batches.of(first_copies(copies.frame), _DELIVERY) if repeats else copies

    def rows(batch: pa.RecordBatch) -> dict[str, Any]:
        return {
            "system": pa.repeat(pa.scalar(name), len(batch)),
            **{column: batch.column(column) for column in (*_DELIVERY[:-1], *more)},
            "delay_ms": batch.column("delay_us").to_numpy() / MICROSECONDS,
        }

    return first.each(rows, schema)
