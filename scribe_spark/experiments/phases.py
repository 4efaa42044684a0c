"""The phases of a run as data: their outputs, and the functions that make their tables.

A phase is a function from the simulation to its tables, some at a time.  A thread writes those that
are yielded together in one job: a table may be read back (``simulation.saved``) as soon as it has
been yielded, but a reader waits until it has been written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine.packing import Columns
from scribe_spark.experiments.publishing import schedule_rows
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.stages import Scope
from scribe_spark.experiments.system_rows import check_rows
from scribe_spark.measures.copies import control_messages, kept_links, payload_copies
from scribe_spark.measures.coverage import tables_of_run
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
from scribe_spark.measures.parts import (
    count_by_part,
    latencies_by_part,
    measures_by_part,
    measures_by_tree,
    trees_of_publications,
)
from scribe_spark.measures.published import published, replaced_figures
from scribe_spark.measures.stress import count_stress, link_bytes, link_stress, node_stress
from scribe_spark.pastry.overlay import as_pastry
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.runtime.sessions import concurrent_jobs
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.systems.registry import is_built_in, system_of_variant
from scribe_spark.worlds.round_of_run import deliveries, other_tables, tree_edges

#: Tables that are written together, by name, in one job; rows on the driver are Arrow tables.
Tables = Generator[Mapping[str, Table | pa.Table], None, None]


@dataclass(frozen=True)
class Phase:
    """One phase of a run: its name, and functions that make its tables and texts."""

    name: str
    #: Yields tables by name; the scope is closed after all tables have been written.
    tables: Callable[[Simulation, Scope], Tables]
    #: Returns JSON values by file name, after all tables have been written.
    texts: Callable[[Simulation], Mapping[str, Any]] = lambda simulation: {}
    #: The registries whose names the phase depends on; after a registration it is incomplete.
    registries: tuple[str, ...] = ()


# --- the outputs of each phase


def _topology(simulation: Simulation, scope: Scope) -> Tables:
    for line in simulation.graph.notes:
        simulation.progress.note(line)
    yield simulation.network_tables
    _ = simulation.underlay  # computing the routes belongs to this phase's time


def _overlay(simulation: Simulation, scope: Scope) -> Tables:
    events = simulation.events
    if events is not None:
        yield {"events": events}
    overlay = simulation.overlay
    if simulation.trees_follow and overlay.unfilled is not None:
        _ = simulation.built_trees  # the job that grows the trees also fills the nodes' tables
    made = {"nodes": simulation.written_nodes, "table_entries": overlay.table_entries()}
    arrived = overlay.arrival_messages()
    yield made if arrived is None else made | {"arrival_messages": arrived}
    if simulation.config.write_knowledge:
        known = as_pastry(overlay).knowledge  # `checks` refuses others
        yield {"knowledge": schemas.conform(known, schemas.KNOWLEDGE)}
    if simulation.config.write_routing_table:
        yield {"routing_table": overlay.routing_table()}


def _trees(simulation: Simulation, scope: Scope) -> Tables:
    scope.own(simulation)  # its memory is not needed afterwards
    members = Batches.of(simulation.joined, schemas.MEMBERS.names)
    groups = schemas.arrow_columns(simulation.group_rows, schemas.GROUPS)
    yield {"groups": groups, "pastry_routes": _pastry_routes(simulation.create_rows)}
    if simulation.schedule is not None:
        yield {"schedule": schedule_rows(simulation.schedule)}
    edges = {"members": members, "tree_edges": tree_edges(simulation.systems)}
    yield edges | {"deliveries": deliveries(simulation.systems)}
    others: dict[str, Table | pa.Table] = dict(other_tables(simulation.systems))
    if simulation.variants:
        others["extra_joins"] = _extra_joins(simulation)
        others["overloaded"] = _overloaded(simulation)
    yield others
    users = [system for system in simulation.asked_for if not is_built_in(system)]
    if users:  # tests check the package's own systems
        clocks = {system.name: system.clock_of(simulation.config) for system in users}
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
        counted = scope.computed(count_stress(kept, underlay, run.buckets, nodes, names))
        stress: dict[str, Table] = {"node_stress": node_stress(counted)}
        if scheduled:
            kept_stress = link_stress(counted)
            counted = scope.computed(count_stress(payload_copies(run), underlay, run.buckets))
        stress["link_stress"] = link_stress(counted)
        control = control_messages(run)
        if control is not None and underlay.kernel.has_links:
            sent = scope.computed(count_stress(control, underlay, run.buckets))
            stress["control_stress"] = link_stress(sent)
        yield stress
        early = collected.result()
        latencies, schedule = early[LATENCY_MEASURE.name], publications_of(run)
        of_members: dict[str, Columns] = {}
        if partial := systems_below_all(latencies):
            columns = with_publication(run, "system", "group", "node", "delay_ms")
            heard = run.batches("deliveries", columns)
            of_members, _ = compare_with_base(heard, partial, run.buckets, with_ratios=False)
        sizes = run.collect("groups", ["group", "size"])
        yield {"group_delay": group_delay(latencies, sizes, of_members, schedule)}
        if simulation.config.bandwidth.has_sizes:
            if schedule is not None:
                sent = payload_copies(run, schedule.size)
                sent = scope.computed(count_stress(sent, underlay, run.buckets))
                yield {"link_bytes": link_bytes(sent)}
            yield {"bytes": node_bytes(run, kept_stress if scheduled else None)}
        if parts := simulation.node_parts:
            split = count_by_part(run, parts)
            of_parts = {"by_part": measures_by_part(split, parts, run.asked)}
            yield of_parts | {"part_latencies": latencies_by_part(split, parts)}
        if trees := trees_of_publications(run):
            yield {"by_tree": measures_by_tree(run, trees)}
        spread = measure_distributions(run, replaced_figures(simulation.config))
        of_latency = {"latency": latency_rows(latencies, published=schedule)}
        of_latency["latency_counts"] = latency_counts(latencies)
        if run.asked is not None:
            of_latency |= tables_of_run(latencies, run.asked, schedule)
        yield {"distributions": schemas.arrow_table(spread, schemas.DISTRIBUTIONS)} | of_latency
        simulation.measured = early, spread


def _metrics(simulation: Simulation) -> dict[str, Any]:
    config, run = simulation.config, _run_tables(simulation)
    early, spread = simulation.measured
    simulation.measured = None
    found = find(run, early | collect(run, early=False), spread)
    rows = metric_rows(found, run.systems, published(config), replaced_figures(config), config)
    return {"metrics.json": rows}


def _run_tables(simulation: Simulation) -> RunTables:
    config = simulation.config
    return RunTables(
        *(simulation.saved, simulation.asked_for, simulation.node_count, config.overlay.b),
        underlay=simulation.underlay,
        seed=config.seed,
        config=config,
        buckets=bucket_count(simulation.spark, config.overlay.nodes),
        asked=simulation.asked,
    )


def registered(phase: Phase, simulation: Simulation) -> dict[str, list[str]]:
    """Return the names on which a phase depends, by registry: application, systems, measures."""
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


def _pastry_routes(created: pa.Table) -> pa.Table:
    columns = {"source": created["source"], "root": created["node"], "hops": created["hops"]}
    for name, of in (("delay_ms", "delay_us"), ("direct_ms", "direct_us")):
        columns[name] = pc.divide(created[of].cast(pa.float64()), float(MICROSECONDS))
    return schemas.arrow_columns(pa.table(columns), schemas.PASTRY_ROUTES)


def _extra_joins(simulation: Simulation) -> DataFrame | pa.Table:
    sent = [
        variant.joins.withColumn("system", F.lit(system_of_variant(name)))
        for name, variant in simulation.variants.items()
        if variant.joins is not None
    ]
    if not sent:
        return schemas.arrow_table([], schemas.EXTRA_JOINS)
    return schemas.conform(union_tables(sent), schemas.EXTRA_JOINS)


def _overloaded(simulation: Simulation) -> pa.Table:
    every = {system_of_variant(name): of.overloaded for name, of in simulation.variants.items()}
    rows = [(system, nodes) for system, nodes in every.items() if nodes is not None]
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
