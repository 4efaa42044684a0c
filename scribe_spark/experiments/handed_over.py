"""The tables of a run with the results of all its multicast systems."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.errors import shown
from scribe_spark.experiments.round_in_run import play_round_0
from scribe_spark.experiments.system_rows import IN_MICROSECONDS, TABLES, Known, check_table
from scribe_spark.measures.delay import first_copies
from scribe_spark.multicast import EDGES, Multicast, conformed, refuse
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.users_code import analysed
from scribe_spark.schemas import MICROSECONDS, written
from scribe_spark.systems.registry import System
from scribe_spark.systems.scribe import Variant

_DELIVERY = ("group", "node", "hops", "delay_us")


def multicast_of(system: System, stages: Any) -> Multicast:
    """Build a system, and return its `Multicast`."""
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
    """Return a user's variant after a check of its edges."""
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
        _table(system, edges, "tree_edges") for system, edges in made if edges is not None
    )


def deliveries(systems: Iterable[Multicast]) -> Batches:
    """Return the table ``deliveries``: the first copy of each member but the source."""
    return Batches.union(_table(one, _first_deliveries(one), "deliveries") for one in systems)


def _first_deliveries(system: Multicast) -> Table:
    if not system.repeats or system.scheduled:
        return system.deliveries
    return first_copies(Batches.of(system.deliveries, _DELIVERY).frame)


def other_tables(systems: Iterable[Multicast]) -> Iterator[tuple[str, Batches]]:
    """Yield ``copies``, ``system_state`` and ``control``, each if a system has such a table."""
    for name in ("copies", "system_state", "control"):
        made = [(system, system.handed_over(TABLES[name].handed)) for system in systems]
        rows = [_table(system, of, name) for system, of in made if of is not None]
        if rows:
            yield name, Batches.union(rows)


def _table(system: Multicast, table: Table, name: str) -> Batches:
    """Return a table of one system with the columns of the written table."""
    schema = written(name, system.scheduled)
    same = {"system": system.system, "merged": system.merged}
    wanted = {column: IN_MICROSECONDS.get(column, column) for column in schema.names}
    wanted = {column: of for column, of in wanted.items() if column not in same}

    def rows(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        made = {
            n: pa.repeat(pa.scalar(v), len(batch)) for n, v in same.items() if n in schema.names
        }
        for column, of in wanted.items():
            values = batch.column(of)
            if column != of:
                values = pc.divide(values.cast(pa.float64()), float(MICROSECONDS))
            made[column] = values
        return made

    return Batches.of(table, list(wanted.values())).each(rows, schema)
