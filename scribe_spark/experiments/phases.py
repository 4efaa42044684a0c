"""The phases of a run as data: their outputs, and the functions that make their tables.

A phase is a function from the simulation to its tables, one by one.  A thread writes them at the
same time: a table may be read back (``simulation.saved``) as soon as it has been yielded, but a
reader waits until it has been written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.engine.packing import Columns
from scribe_spark.experiments.scheduled import schedule_rows
from scribe_spark.experiments.scope import Scope
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.system_rows import check_rows, deliveries, other_tables, tree_edges
from scribe_spark.measures.copies import (
    control_messages,
    kept_links,
    payload_bytes,
    payload_copies,
)
from scribe_spark.measures.delay import compare_with_base, group_delay
from scribe_spark.measures.latency import (
    LATENCY_MEASURE,
    latency_counts,
    latency_rows,
    systems_below_all,
)
from scribe_spark.measures.measure import RunTables, publications_of, with_publication
from scribe_spark.measures.message_bytes import node_bytes
from scribe_spark.measures.metrics import (
    all_measures,
    collect,
    find,
    measure_distributions,
    metric_rows,
)
from scribe_spark.measures.parts import count_by_part, latencies_by_part, measures_by_part
from scribe_spark.measures.published import published, replaced_figures
from scribe_spark.measures.stress import count_stress, link_bytes, link_stress, node_stress
from scribe_spark.pastry.overlay import as_pastry
from scribe_spark.report import preload
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.runtime.sessions import concurrent_jobs
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.schemas import to_ms
from scribe_spark.systems.registry import is_built_in, system_of_variant

#: A table: rows on the driver are Arrow tables.
Tables = Generator[tuple[str, Table | pa.Table], None, None]


@dataclass(frozen=True)
class Phase:
    """One phase: its name and its outputs."""

    name: str
    #: Yields ``(name, table)``; the scope is closed after all tables have been written.
    tables: Callable[[Simulation, Scope], Tables]
    #: Returns JSON values by file name, after all tables have been written.
    texts: Callable[[Simulation], Mapping[str, Any]] = lambda simulation: {}
    #: The registries whose names the phase depends on; after a registration it is incomplete.
    registries: tuple[str, ...] = ()


# --- the outputs of each phase


def _topology(simulation: Simulation, scope: Scope) -> Tables:
    for line in simulation.graph.notes:
        simulation.progress.note(line)
    yield from simulation.network_tables.items()
    _ = simulation.underlay  # computing the routes belongs to this phase's time


def _overlay(simulation: Simulation, scope: Scope) -> Tables:
    events = simulation.events
    if events is not None:
        yield "events", events
    yield "nodes", simulation.written_nodes
    yield "table_entries", simulation.overlay.table_entries()
    arrived = simulation.overlay.arrival_messages()
    if arrived is not None:
        yield "arrival_messages", schemas.conform(arrived, schemas.ARRIVAL_MESSAGES)
    if simulation.config.write_knowledge:
        overlay = as_pastry(simulation.overlay)  # `checks` refuses others
        yield "knowledge", schemas.conform(overlay.knowledge, schemas.KNOWLEDGE)
    if simulation.config.write_routing_table:
        yield "routing_table", simulation.overlay.routing_table()


def _trees(simulation: Simulation, scope: Scope) -> Tables:
    scope.own(simulation)  # its memory is not needed afterwards
    yield "members", Batches.of(simulation.memberships, schemas.MEMBERS.names)
    yield "groups", schemas.conform(simulation.groups_with_root, schemas.GROUPS)
    yield "pastry_routes", _pastry_routes(simulation.create_routes)
    if simulation.schedule is not None:
        yield "schedule", schedule_rows(simulation.schedule)
    # written while the supersteps of MULTICAST run, which need nothing else
    yield "tree_edges", tree_edges(simulation.systems)
    yield "deliveries", deliveries(simulation.systems)
    yield from other_tables(simulation.systems)
    if simulation.variants:
        yield "extra_joins", _extra_joins(simulation)
        yield "overloaded", _overloaded(simulation)
    users = [system for system in simulation.asked_for if not is_built_in(system)]
    clocks = {system.name: system.clock_of(simulation.config) for system in users}
    # tests check the package's own systems
    check_rows(clocks, simulation.systems, simulation.saved, simulation.known)


def _measures(simulation: Simulation, scope: Scope) -> Tables:
    run, underlay = _run_tables(simulation), simulation.underlay
    # measures without new tables run beside the jobs for the large tables
    with concurrent_jobs(simulation.spark) as submit:
        collected = submit(collect, run, early=True)
        names = [system.name for system in run.systems]
        nodes = run.batches("nodes", ["node"])
        scheduled = simulation.config.bandwidth.several
        kept = kept_links(run) if scheduled else payload_copies(run)
        counted = scope.materialise(count_stress(kept, underlay, run.buckets, nodes, names))
        yield "node_stress", node_stress(counted)
        if scheduled:
            kept_stress = link_stress(counted).frame
            counted = scope.materialise(count_stress(payload_copies(run), underlay, run.buckets))
        yield "link_stress", link_stress(counted)
        control = control_messages(run)
        if control is not None:
            sent = scope.materialise(count_stress(control, underlay, run.buckets))
            yield "control_stress", link_stress(sent)
        early = collected.result()
        latencies, schedule = early[LATENCY_MEASURE.name], publications_of(run)
        of_members: dict[str, Columns] = {}
        if partial := systems_below_all(latencies):
            columns = with_publication(run, "system", "group", "node", "delay_ms")
            heard = run.batches("deliveries", columns)
            of_members, _ = compare_with_base(heard, partial, run.buckets, with_ratios=False)
        sizes = run.batches("groups", ["group", "size"]).frame.toArrow()
        yield "group_delay", group_delay(latencies, sizes, of_members, schedule)
        if simulation.config.bandwidth.has_sizes:
            if scheduled:
                sizes = count_stress(payload_bytes(run), underlay, run.buckets)
                yield "link_bytes", link_bytes(scope.materialise(sizes))
            yield "bytes", node_bytes(run, kept_stress if scheduled else None)
        if parts := simulation.node_parts:
            split = count_by_part(run, parts)
            yield "by_part", measures_by_part(split)
            yield "part_latencies", latencies_by_part(split)
        preload()  # import the libraries of the report while tables are written
        spread = measure_distributions(run, replaced_figures(simulation.config))
        yield "distributions", schemas.arrow_table(spread, schemas.DISTRIBUTIONS)
        yield "latency", latency_rows(latencies, published=schedule)
        yield "latency_counts", latency_counts(latencies)
        simulation.stages["measured"] = early, spread


def _metrics(simulation: Simulation) -> dict[str, Any]:
    config, run = simulation.config, _run_tables(simulation)
    early, spread = simulation.stages.pop("measured")
    found = find(run, early | collect(run, early=False), spread)
    rows = metric_rows(found, run.systems, published(config), replaced_figures(config), config)
    return {"metrics.json": rows}


def _run_tables(simulation: Simulation) -> RunTables:
    """Return the tables that measures collect from."""
    config = simulation.config
    return RunTables(
        *(simulation.saved, simulation.asked_for, simulation.node_count, config.overlay.b),
        underlay=simulation.underlay,
        seed=config.seed,
        config=config,
        buckets=bucket_count(simulation.spark, config.overlay.nodes),
        read=simulation.saved.batches,
    )


def registered(phase: Phase, simulation: Simulation) -> dict[str, list[str]]:
    """Return the names of a phase's application, systems and measures, by registry."""
    application = simulation.application
    names = {
        "systems": [system.name for system in simulation.asked_for],
        "application": [getattr(application, "__qualname__", repr(application))],
        "measures": [measure.name for measure in all_measures()],
    }
    if application is None:
        names["application"] = []
    return {registry: names[registry] for registry in phase.registries}


# --- tables from stages


def _pastry_routes(create_routes: DataFrame) -> DataFrame:
    return create_routes.select(
        "source",
        F.col("node").alias("root"),
        "hops",
        to_ms("delay_us"),
        to_ms("direct_us", "direct_ms"),
    )


def _extra_joins(simulation: Simulation) -> DataFrame | pa.Table:
    """Return the table `extra_joins` of all variants."""
    sent = [
        variant.joins.withColumn("system", F.lit(system_of_variant(name)))
        for name, variant in simulation.variants.items()
        if variant.joins is not None
    ]
    if not sent:
        return schemas.arrow_table([], schemas.EXTRA_JOINS)
    return schemas.conform(union_tables(sent), schemas.EXTRA_JOINS)


def _overloaded(simulation: Simulation) -> pa.Table:
    """Return the table `overloaded`: one row for each variant with limits."""
    variants = simulation.variants.items()
    rows = [
        (system_of_variant(name), variant.overloaded)
        for name, variant in variants
        if variant.overloaded is not None
    ]
    return schemas.arrow_table(rows, schemas.OVERLOADED)


# --- the registry

#: The phases that write tables, in the order in which they run.
TABLE_PHASES: dict[str, Phase] = {
    phase.name: phase
    for phase in (
        Phase("topology", _topology),
        Phase("overlay", _overlay, registries=("application",)),
        Phase("trees", _trees, registries=("systems", "application")),
        Phase("measures", _measures, _metrics, ("systems", "application", "measures")),
    )
}

#: The phase that draws the page from the outputs of the others.
REPORT = "report"

#: All phases by name, in order.
PHASES = (*TABLE_PHASES, REPORT)
