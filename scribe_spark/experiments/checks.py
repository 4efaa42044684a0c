"""Errors for bad input before Spark starts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from scribe_spark.bandwidth.schedule import check_schedule
from scribe_spark.config import Execution, ExperimentConfig, NetworkConfig, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import is_local
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.core.paths import local_contents, probe_local, refuse_old
from scribe_spark.experiments.folder import StoredFolder
from scribe_spark.experiments.lock import refuse_local_lock
from scribe_spark.experiments.plan import Plan, plan_run
from scribe_spark.experiments.publishing import (
    refuse_deliveries,
    refuse_slow,
    refuse_unknown_groups,
)
from scribe_spark.experiments.saved_knowledge import check_saved_knowledge
from scribe_spark.measures.within import check_weights
from scribe_spark.overlays import check_overlay
from scribe_spark.systems.registry import System, live_system, systems_of_run
from scribe_spark.systems.scribe.groups import check_capacities, check_members, group_sizes
from scribe_spark.topology.checks import refuse_network
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.registry import load, needs_spark
from scribe_spark.underlay.protocol import withheld_nodes
from scribe_spark.underlay.routable import check_routes
from scribe_spark.worlds.events import check_world, extent_of
from scribe_spark.worlds.save import check_start


def check(config: RunConfig, execution: Execution) -> None:
    """Refuse bad input of a run that can be found without Spark: settings, local tables, OUT."""
    if not config.has_rounds:
        refuse_buckets(execution, tasks=True)
    check_out(plan_run(config, execution))
    _check_trees(config)
    alive = config.overlay.nodes
    if config.has_rounds:
        world = WorldConfig.of_run(config)
        check_start(config.overlay.kind)
        check_world(world, times=False)
        alive = extent_of(world).initial
    graph = check_tables(config, alive)
    if graph is not None:
        config.bandwidth.refuse_slow(config.classes, graph.hosts.least_rates())
    members = config.groups.members
    sizes: pd.Series | None = None
    if members is not None and is_local(members):
        frame = check_members(members, config.overlay.nodes)
        sizes = frame["group"].value_counts()
        config.refuse_groups(len(sizes), len(frame), members)
        config.refuse_publications(len(sizes), len(frame))
    if config.bandwidth.several:
        if members is None:
            drawn = group_sizes(config)
            sizes = pd.Series(drawn, np.arange(1, 1 + len(drawn)))
        _check_schedule(config, sizes, graph)


def check_tables(config: ExperimentConfig, alive: int) -> Graph | None:
    """Refuse local input about nodes that does not fit to a run or world; return `known_graph`.

    `alive` is the number of nodes that are alive at the start.
    """
    nodes = config.overlay.nodes
    check_knowledge(config, alive)
    withheld_nodes(config)
    graph = known_graph(config)
    weights, capacities = config.coverage.weights, config.trees.capacities
    if capacities is not None and is_local(capacities):
        check_capacities(capacities, nodes)
    if weights is not None and is_local(weights):
        check_weights(weights, nodes, config.topology.nodes_file)
    return graph


def known_graph(config: NetworkConfig) -> Graph | None:
    """Return the network if it is known without Spark, else None."""
    if needs_spark(config.topology.kind):
        return None
    graph = load(config)
    check_routes(graph, config.topology.tie, config.seed)
    if isinstance(config, ExperimentConfig):
        refuse_network(config, graph)
        NodeClasses.of(config)  # refuses classes of the nodes file that the config lacks
    return graph


def refuse_buckets(execution: Execution, *, tasks: bool = False) -> None:
    """Refuse `buckets`, for a command without rounds, and ``engine = tasks`` without `tasks`."""
    if execution.buckets is not None:
        remedy = (
            "applies to worlds and to runs with rounds only; give partitions instead, the buckets "
            "of other runs"
        )
        raise InputError("buckets", execution.buckets, remedy)
    if execution.engine == "tasks" and not tasks:
        remedy = "applies to runs and worlds; leave it out"
        raise InputError("engine", execution.engine, remedy)


def _check_trees(config: RunConfig) -> None:
    """Refuse variants and systems that need Pastry, if the config has another overlay."""
    kind, trees = check_overlay(config.overlay), config.trees
    systems = systems_of_run(trees.variants, trees.systems)
    remover = any(system.variant == "bottleneck" for system in systems)
    if remover and trees.shed_table == "whole" and not kind.randomised:
        remedy = (
            f"needs randomised routing, which overlay {kind.name} does not have; give remaining"
        )
        raise InputError("shed_table", trees.shed_table, remedy)
    for system in systems:
        if system.over_pastry and not kind.randomised:
            remedy = (
                f"contains {system.name}, which needs Pastry's tables; overlay {kind.name} has none"
            )
            raise InputError("systems", ",".join(trees.systems), remedy)


def refuse_recoding(config: RunConfig | WorldConfig, system: System, command: str) -> None:
    """Refuse recoded parts of publications for a system whose nodes do not recode."""
    if config.bandwidth.recoded and command not in live_system(system, config).recodes:
        remedy = f"cannot be combined with {system.name}, whose nodes do not recode in {command}s"
        raise InputError("code", config.bandwidth.code, f"{remedy}; leave out one of them")


def _check_schedule(config: RunConfig, sizes: pd.Series | None, graph: Graph | None) -> None:
    """Refuse several publications of a group, or a schedule, that a run cannot play."""
    for system in systems_of_run(config.trees.variants, config.trees.systems):
        if not system.from_root:
            refuse_recoding(config, system, "run")
    path = config.bandwidth.schedule
    if path is None:
        if sizes is not None:
            each = sizes if config.bandwidth.published_by == "everyone" else 1
            refuse_deliveries(
                config, int((each * sizes).sum()) * (config.bandwidth.publications or 1)
            )
    elif is_local(path):
        schedule = check_schedule(path, config.overlay.nodes, config.bandwidth.size)
        refuse_slow(config, schedule, graph)
        if sizes is not None:
            refuse_unknown_groups(path, schedule, sizes.index.to_numpy())
            refuse_deliveries(config, int(sizes.loc[schedule.group].sum()))


def check_knowledge(config: ExperimentConfig, alive: int) -> None:
    """Refuse settings about saved tables (knowledge) that do not fit to the config.

    `write_knowledge` needs an overlay of Pastry; `knowledge` needs all nodes alive at the start
    (`alive` is their number) and the config's overlay.
    """
    kind = check_overlay(config.overlay)
    if config.write_knowledge and not kind.randomised:
        remedy = f"is for the overlays of Pastry, not for {kind.name}"
        raise InputError("write_knowledge", True, remedy)
    if config.knowledge is not None and alive < config.overlay.nodes:
        remedy = f"has tables of all nodes, but {alive:,} are alive at the start; give initial"
        raise InputError("knowledge", config.knowledge, f"{remedy} = {config.overlay.nodes}")
    if config.knowledge is not None and is_local(config.knowledge):
        with StoredFolder(None, config.knowledge) as folder:
            check_saved_knowledge(config, folder)


def check_local(out: str) -> None:
    """Refuse an OUT on another machine, for commands that run without Spark."""
    if not is_local(out):
        raise InputError("out", out, "is not on this machine; name a folder that is")


def check_new(out: str) -> None:
    """Refuse an OUT that is not a local folder, new or empty."""
    check_local(out)
    refuse_old(out, local_contents(out)[0])
    probe_local(out)


def check_out(plan: Plan) -> None:
    """Refuse a local OUT that cannot be continued or replaced, is in use, or has no free space."""
    out = plan.execution.out
    if is_local(out):
        with StoredFolder(None, out) as folder:
            plan.previous(folder)
        refuse_local_lock(out)
        probe_local(out)
