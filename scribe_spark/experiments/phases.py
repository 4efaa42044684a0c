"""The phases of a run as data: what each reads, what it writes, and how its tables are made.

A phase is a function from the simulation to the tables it leaves, one by one.  A table may be read
back (``simulation.saved``) as soon as it has been yielded, because whoever asks for the next table
has written the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import pastry, schemas
from scribe_spark.experiments.numbers import metrics_of
from scribe_spark.experiments.scope import Scope
from scribe_spark.experiments.simulation import Simulation, system_of_variant, systems
from scribe_spark.measures import metrics
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.schemas import Multicast, to_ms

__all__ = ["PHASES", "REPORT", "TABLE_PHASES", "Phase"]

Tables = Iterator[tuple[str, DataFrame]]


@dataclass(frozen=True)
class Phase:
    """One phase: its name, the saved tables it reads, and what it leaves.

    Attributes
    ----------
    name : str
    reads : tuple of str
        Tables of earlier phases that are read where they were saved.
    writes : tuple of str
        The tables it leaves; those in `on_request` only where the config asks for them.
    on_request : tuple of str
    tables : callable
        ``tables(simulation)`` yields ``(name, DataFrame)``.
    texts : callable
        ``texts(simulation)``: file name -> JSON value, after all tables have been written.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    on_request: tuple[str, ...]
    tables: Callable[[Simulation], Tables]
    texts: Callable[[Simulation], Mapping[str, Any]] = lambda simulation: {}


# --- what each phase writes


def _topology(simulation: Simulation) -> Tables:
    yield "routers", simulation.topology.routers()
    yield "links", simulation.topology.links()
    assert simulation.underlay  # computing the routes belongs to this phase's time


def _overlay(simulation: Simulation) -> Tables:
    b = simulation.config.overlay.b
    yield "nodes", simulation.nodes
    yield "table_entries", pastry.table_entries(simulation.overlay.state, b)
    if simulation.config.write_routing_table:
        yield "routing_table", pastry.routing_table(simulation.overlay.state, b)


def _trees(simulation: Simulation) -> Tables:
    yield "members", schemas.conform(simulation.members, schemas.MEMBERS)
    yield "groups", schemas.conform(simulation.groups_with_root, schemas.GROUPS)
    yield "pastry_routes", _pastry_routes(simulation.create_routes)
    yield "tree_edges", union_tables([_edges(system) for system in simulation.systems])
    yield "deliveries", union_tables([_deliveries(system) for system in simulation.systems])
    if simulation.variants:
        yield "extra_joins", _extra_joins(simulation)
        yield "overloaded", _overloaded(simulation)
    simulation.release()


def _measures(simulation: Simulation) -> Tables:
    saved, underlay = simulation.saved, simulation.underlay
    with Scope() as scope:
        load = scope.persist(metrics.loads(saved["tree_edges"]))
        names = systems(simulation.config)
        yield "node_stress", metrics.node_stress(load, saved["nodes"], names)
        yield "link_stress", metrics.link_stress(saved["tree_edges"], load, underlay)
    yield "group_delay", metrics.group_delay(saved["deliveries"], saved["groups"])
    joining = None
    if "extra_joins" in saved:
        joining = metrics.join_stress(saved["extra_joins"], saved["link_stress"], underlay)
    spread = metrics.distributions(
        saved["groups"],
        saved["deliveries"],
        saved["group_delay"],
        saved["node_stress"],
        saved["link_stress"],
        joining,
        equal_groups=simulation.config.groups.size is not None,
    )
    yield "distributions", schemas.held(simulation.spark, spread, schemas.DISTRIBUTIONS)


def _metrics(simulation: Simulation) -> dict[str, Any]:
    return {"metrics.json": metrics_of(simulation.saved, simulation.config)}


# --- tables out of stages


def _pastry_routes(create_routes: DataFrame) -> DataFrame:
    return create_routes.select(
        "source",
        F.col("node").alias("root"),
        "hops",
        to_ms("delay_us"),
        to_ms("direct_us", "direct_ms"),
    )


def _edges(system: Multicast) -> DataFrame:
    return system.tree_edges.select(
        F.lit(system.system).alias("system"),
        "group",
        "parent",
        "child",
        "parent_router",
        "child_router",
        F.lit(system.merged).alias("merged"),
    )


def _deliveries(system: Multicast) -> DataFrame:
    return system.deliveries.select(
        F.lit(system.system).alias("system"), "group", "node", "hops", to_ms("delay_us")
    )


def _extra_joins(simulation: Simulation) -> DataFrame:
    """`schemas.EXTRA_JOINS`."""
    sent = [
        variant.joins.withColumn("system", F.lit(system_of_variant(name)))
        for name, variant in simulation.variants.items()
        if variant.joins is not None
    ]
    if not sent:
        return schemas.held(simulation.spark, [], schemas.EXTRA_JOINS)
    return schemas.conform(union_tables(sent), schemas.EXTRA_JOINS)


def _overloaded(simulation: Simulation) -> DataFrame:
    """`schemas.OVERLOADED`: one row for each variant that has limits."""
    variants = simulation.variants.items()
    rows = [
        (system_of_variant(name), variant.overloaded)
        for name, variant in variants
        if variant.overloaded is not None
    ]
    return schemas.held(simulation.spark, rows, schemas.OVERLOADED)


# --- the registry

#: The phases that write tables, in the order in which they run.
TABLE_PHASES: dict[str, Phase] = {
    phase.name: phase
    for phase in (
        Phase("topology", (), ("routers", "links"), (), _topology),
        Phase(
            "overlay",
            (),
            ("nodes", "table_entries", "routing_table"),
            ("routing_table",),
            _overlay,
        ),
        Phase(
            "trees",
            ("nodes",),
            (
                *("members", "groups", "pastry_routes", "tree_edges", "deliveries"),
                *("extra_joins", "overloaded"),
            ),
            ("extra_joins", "overloaded"),
            _trees,
        ),
        Phase(
            "measures",
            (
                *("routers", "links", "nodes", "table_entries", "members", "groups"),
                *("pastry_routes", "tree_edges", "deliveries", "extra_joins", "overloaded"),
            ),
            ("node_stress", "link_stress", "group_delay", "distributions"),
            (),
            _measures,
            _metrics,
        ),
    )
}

#: Draws the page from what the other phases left.
REPORT = "report"

#: All phases by name, in order.
PHASES = (*TABLE_PHASES, REPORT)
