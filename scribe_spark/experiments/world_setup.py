"""The world of a config, and the checks before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.bandwidth.runs import links_of
from scribe_spark.bandwidth.schedule import check_schedule
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.core.errors import InputError, in_series
from scribe_spark.core.inputs import is_local
from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.experiments.checks import check_out, check_tables, refuse_recoding
from scribe_spark.experiments.manifest import WORLD, Manifest, input_digests
from scribe_spark.experiments.plan import Plan, settings_of
from scribe_spark.experiments.publishing import refuse_slow
from scribe_spark.experiments.saved_knowledge import saved_knowledge
from scribe_spark.experiments.stages import Stages, collected
from scribe_spark.measures.multicasts import MulticastMeasures
from scribe_spark.multicast import HOPS
from scribe_spark.overlays import check_overlay
from scribe_spark.runtime.memory import memory_limit
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.systems.reference_tree.live import LiveTree
from scribe_spark.systems.registry import (
    SCRIBE,
    all_systems,
    live_system,
    living_systems,
    played_systems,
    plays_pastry,
)
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.systems.scribe.measures import watched_groups
from scribe_spark.systems.scribe.upcalls import ScribeApplication
from scribe_spark.worlds.drivers import EventFiles
from scribe_spark.worlds.events import check_world, extent_of, round_times, world_events
from scribe_spark.worlds.groups import RIGHTS, group_keys, world_groups
from scribe_spark.worlds.round_measures import LinkStress
from scribe_spark.worlds.save import VERSION, check_start, refuse_other_buckets
from scribe_spark.worlds.setting import own_rounds, round_seconds, rounds_in_words
from scribe_spark.worlds.world import World
from scribe_spark.worlds.world_state import LiveGroups, LiveSystems, Protocols


def make_world(
    simulation: Stages,
    config: WorldConfig,
    events: DataFrame | None = None,
    application: Callable[[int], Any] | None = None,
    buckets: int = 1,
    engine: str | None = None,
    event_files: EventFiles | None = None,
) -> World:
    """Return the world of a config before its first round; free it by its ``release``.

    Parameters
    ----------
    simulation : Simulation
        The simulation ``Simulation(spark, config)``, which has the network and the
        nodes.
    config : WorldConfig
        The settings of the world.
    events : DataFrame, optional
        The events, ``round, node, event, group``; by default they are made from the config.
    application : callable, optional
        ``application(nodes)`` returns your own application (`rounds.applications`; with Scribe, one
        of `systems.scribe.upcalls`) for a number of nodes, for example the class of the
        application.  It must be picklable.
    buckets : int
        The number of buckets.
    engine : str, optional
        ``tasks`` or ``jobs``, as in :class:`World`; by default ``tasks`` for one bucket.
    event_files : EventFiles, optional
        The files of `events`, if all tasks can read them.

    Raises
    ------
    InputError
        No system of the world calls an application, or the delivery is reliable, which is itself an
        application.

    Examples
    --------
    >>> config = WorldConfig(nodes=1000, generator="mass-failure")
    >>> with Simulation(spark, config) as simulation:
    ...     world = make_world(simulation, config)
    ...     print(world.step()["lookups.hops"])
    ...     world.lookups.where("NOT right").show()
    """
    protocols = protocols_of(simulation, config)
    if application is not None:
        protocols = _with_application(protocols, config, application)
    return World.start(
        simulation.node_rows,
        extent_of(config).initial,
        world_events(simulation.nodes, config) if events is None else events,
        simulation.underlay,
        protocols,
        config.overlay.kind,
        buckets,
        engine,
        event_files,
        saved_knowledge(simulation.spark, config),
    )


def _with_application(
    protocols: Protocols, config: WorldConfig, application: Callable[[int], Any]
) -> Protocols:
    """Return protocols whose systems call a user's application."""
    config.refuse_jitter()
    systems = dict(protocols.systems.systems)
    scribe = systems.get(SCRIBE)
    if isinstance(scribe, LiveScribe):
        if scribe.rules.reliable:
            remedy = "is an application itself; your application needs best-effort delivery"
            raise InputError("delivery", config.scribe.delivery, remedy)
        if not isinstance(application(config.overlay.nodes), ScribeApplication):
            remedy = "must be an application of Scribe (systems.scribe.upcalls), which is played"
            raise InputError("application", getattr(application, "__name__", "made"), remedy)
        systems[SCRIBE] = replace(scribe, application=application)
    elif not any(one.notes_failures for one in systems.values()):
        every = [one for one in all_systems() if one.has_world]
        callers = [one.name for one in every if live_system(one, config).notes_failures]
        remedy = f"call no application; give groups, and one of {in_series(callers, len(callers))}"
        raise InputError("systems", ",".join(config.trees.systems), remedy)
    of_world = replace(protocols.systems, systems=systems, application=application)
    return replace(protocols, systems=of_world)


def protocols_of(simulation: Stages, config: WorldConfig) -> Protocols:
    """Return the protocols of a config's world, with the sections of their settings."""
    tree = config.reference_tree
    return Protocols(
        config.overlay.for_tasks(),
        config.world.for_tasks(),
        config.seed,
        simulation.underlay.kernel,
        LiveTree(tree.children, tree.assignment) if tree.kept else None,
        live_groups_of(simulation, config),
        _live_systems_of(simulation, config),
        has_pastry=plays_pastry(config),
    )


def live_groups_of(simulation: Stages, config: WorldConfig) -> LiveGroups | None:
    """Return the groups of a config's world; None without groups."""
    extent, scribe = extent_of(config), config.scribe
    groups = world_groups(config, extent, simulation.spark)
    if groups is None:
        return None
    keys = group_keys(simulation.rows_of_nodes, groups, config, extent)
    number, hi, lo = collected(keys, "group", "key_hi", "key_lo")
    lists = {
        right: (
            groups.access.listed(code),
            groups.access.groups[groups.access.rights == code],
            groups.access.nodes[groups.access.rights == code],
        )
        for code, right in enumerate(RIGHTS)
    }
    keys_hi, keys_lo = hi.view("uint64"), lo.view("uint64")
    underlay = simulation.underlay
    period = scribe.link_stress_period if underlay.kernel.has_links else 0
    link_stress = LinkStress(period, underlay.links, len(underlay.routers))
    return LiveGroups(
        *(number, keys_hi, keys_lo, lists, scribe.deadline, config.world.rounds, link_stress),
        _multicast_measures(simulation, config),
        watched_groups(groups.numbers, groups.sizes(extent.initial)),
        round_times(config, len(groups.numbers)),
    )


def _multicast_measures(simulation: Stages, config: WorldConfig) -> MulticastMeasures:
    underlay, scribe = simulation.underlay, config.scribe
    network = underlay.links, len(underlay.routers), underlay.lan_us
    needs_delay = config.bandwidth.on or config.coverage.on
    names = {*scribe.measures, *(("delay",) if needs_delay else ())}
    names |= {"bytes"} if config.bandwidth.has_sizes else set()
    parts = simulation.node_parts if needs_delay else ()
    links = links_of(simulation) if config.bandwidth.on else None
    measured = tuple(sorted(names)), *network, config.groups.source
    return MulticastMeasures(*measured, parts, links, simulation.asked)


def _live_systems_of(simulation: Stages, config: WorldConfig) -> LiveSystems:
    systems = played_systems(config)
    return LiveSystems(
        {system.name: live_system(system, config) for system in systems},
        own_rounds(config),
        round_seconds(config),
        simulation.limits,
        frozenset(system.name for system in systems if system.clock_of(config) == HOPS),
    )


# --- errors


def check_world_run(config: WorldConfig, execution: Execution) -> pa.Table | None:
    """Refuse bad input of a world that can be found without Spark.

    Return the world's events (`schemas.WORLD_EVENTS`), if they were made for the check.
    """
    check_out(plan_world(config, execution))
    check_start(config.overlay.kind)
    check_overlay(config.overlay)
    graph = check_tables(config, extent_of(config).initial)
    wants = {name: getattr(config, name) for name in ("write_knowledge", "write_routing_table")}
    for name, given in {**wants, "knowledge": config.knowledge}.items():
        if given and not plays_pastry(config):
            raise InputError(name, given, "has no effect without Pastry; add scribe to systems")
    schedule = config.bandwidth.schedule
    if schedule is not None and is_local(schedule):
        given = check_schedule(schedule, config.overlay.nodes, config.bandwidth.size)
        refuse_slow(config, given, graph)
    own_rounds(config)
    events = check_world(config)
    for system in living_systems(config.trees.systems):
        live_system(system, config)  # raises if it cannot be played
        refuse_recoding(config, system, "world")
        if system.name != SCRIBE and not config.groups.has_groups:
            remedy = "has no effect without groups; give groups or members"
            raise InputError("systems", ",".join(config.trees.systems), remedy)
    return events


def plan_world(config: WorldConfig, execution: Execution) -> Plan:
    """Return the plan of a world."""
    length = {"seconds": round_seconds(config), "has": rounds_in_words(config)}
    return Plan(
        WORLD,
        execution,
        *settings_of(config),
        about={"seed": config.seed},
        done={"round": length, "world": {"tables": {}, "saved": None}},
        inputs=lambda: input_digests(config),
        nodes=config.overlay.nodes,
        check=lambda made: _refuse_other_buckets(made["world"]["saved"], config, execution),
    )


def _refuse_other_buckets(
    saved: Manifest | None, config: WorldConfig, execution: Execution
) -> None:
    """Refuse to continue with another number of buckets."""
    if saved is None or execution.buckets is None or saved.get("version") != VERSION:
        return
    if saved["number"] < config.world.rounds:
        refuse_other_buckets(execution.buckets, saved.get("buckets", 1), ", or --overwrite")


# --- the engine and the number of buckets with which rounds are played


class Engine(NamedTuple):
    """An engine, ``tasks`` or ``jobs``, and the reason for its choice."""

    name: str
    why: str

    def in_words(self) -> str:
        """Return a line for the log: the engine and the reason."""
        return f"rounds: in {self.name} ({self.why})"


def engine_of(asked: str, spark: SparkSession, buckets: int) -> Engine:
    """Return the engine of a world's rounds for the setting ``auto``, ``tasks`` or ``jobs``."""
    if asked == "jobs":
        return Engine("jobs", "as asked for")
    reason = why_no_tasks(spark, buckets)
    if reason is None:
        why = "all nodes are in one bucket" if buckets == 1 else f"{buckets} tasks can stay"
        return Engine("tasks", "as asked for" if asked == "tasks" else why)
    if asked == "tasks":
        raise InputError(
            "engine", asked, f"cannot be used: {reason}; give jobs, or another number of buckets"
        )
    return Engine("jobs", reason)


class RoundCosts(NamedTuple):
    """The measured costs of a round of a world, by which buckets are chosen.

    `one` and `each` are seconds per node in one bucket, and per node and core in several buckets;
    `floor` is the seconds of the supersteps of several buckets, for any number of nodes; `bytes` is
    the memory per node while it is played.
    """

    one: float
    floor: float
    each: float
    bytes: int


#: The costs by engine: with groups, and of Pastry alone (a fiftieth of the kernels' time, a quarter
#: of the supersteps).  They are fitted to a table of docs/performance.md, which the command `python
#: -m benchmarks.world_buckets --engine tasks,jobs --write` measures; only how they compare matters.
#: The bytes are those of a million nodes.
COSTS: dict[str, tuple[RoundCosts, RoundCosts]] = {
    "tasks": (
        RoundCosts(one=8e-6, floor=0.1, each=10e-6, bytes=13_000),
        RoundCosts(one=0.2e-6, floor=0.03, each=0.3e-6, bytes=1_000),
    ),
    "jobs": (
        RoundCosts(one=10e-6, floor=5.7, each=29e-6, bytes=13_000),
        RoundCosts(one=0.2e-6, floor=1.4, each=0.6e-6, bytes=1_000),
    ),
}

#: The share of the memory for the nodes that are played at a time; the JVM needs the rest.
_SHARE = 0.75


def buckets_of(config: WorldConfig, spark: SparkSession, engine: str = "auto") -> int:
    """Return the number of buckets of a config's world; ``auto`` means tasks if tasks can stay."""
    nodes, cores, memory = config.overlay.nodes, parallelism(spark), memory_limit()
    kind = 0 if config.groups.has_groups else 1
    if engine != "jobs":
        buckets = choose_buckets(nodes, cores, memory, COSTS["tasks"][kind])
        if engine == "tasks":  # all buckets are in memory
            return min(buckets, cores)
        if why_no_tasks(spark, buckets) is None:
            return buckets
    return choose_buckets(nodes, cores, memory, COSTS["jobs"][kind])


def choose_buckets(nodes: int, cores: int, memory: int, costs: RoundCosts) -> int:
    """Return the number of buckets for some nodes, all cores, and a machine's memory (bytes).

    It is one, unless a bucket for each core is faster, or the nodes do not fit into one bucket.
    Then the nodes of as many buckets as are played at a time fit into memory.
    """
    room = _SHARE * memory
    is_faster = cores > 1 and costs.floor + costs.each * nodes / cores < costs.one * nodes
    if nodes * costs.bytes <= room and not is_faster:
        return 1
    return max(2, cores, int(-(-cores * nodes * costs.bytes // room)))
