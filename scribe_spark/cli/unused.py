"""Flags that would change nothing beside the others, such as ``--limit`` without the remover.

A file's fields are taken as they are: a file may be for several commands, and a flag may have
turned off what its other fields are about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scribe_spark.config import ReferenceTreeConfig, RunConfig, TopologyConfig, WorldConfig
from scribe_spark.config.sectioned import Sectioned
from scribe_spark.core.paths import exists
from scribe_spark.errors import InputError, listed
from scribe_spark.systems import all_systems, is_built_in, living_systems, systems_of_run

__all__ = ["refuse_unused"]

Config = RunConfig | WorldConfig | ReferenceTreeConfig


@dataclass(frozen=True)
class _Use:
    """Some fields, and when they change anything.

    Attributes
    ----------
    fields : collection of str
        Flat names.
    is_used : callable
        config -> whether they change anything.
    remedy : str
    """

    fields: Collection[str]
    is_used: Callable[[Any], bool]
    remedy: str


def refuse_unused(flags: Mapping[str, Any], configs: Sequence[Config]) -> None:
    """Refuse a flag that none of the configs uses, unless it only says what is so by default.

    Parameters
    ----------
    flags : mapping
        Flat name -> value of the flags that were given.
    configs : sequence of config
        All that would be run; at least one, all of one kind.

    Raises
    ------
    InputError
    """
    defaults = type(configs[0])().flat()
    kind = type(configs[0])
    for use in (*_OF_NETWORKS, *_OF_KIND[kind], *_of_systems(kind)):
        for name in use.fields:
            if name not in flags or all(c.flat()[name] == defaults[name] for c in configs):
                continue
            if not any(use.is_used(config) for config in configs):
                raise InputError(name, flags[name], use.remedy)


# --- networks


def _drawn(kind: str) -> Callable[[Config], bool]:
    """Whether a network may be of a kind: it is no other one that is known, nor a table."""

    def is_used(config: Config) -> bool:
        given = str(config.topology.kind)
        others = {"transit-stub", "power-law"} - {kind}
        is_table = given != kind and exists(given, "topology")
        return not (given in others or given.startswith("topohub:") or is_table)

    return is_used


_POWER_LAW = ("power_law_routers", "power_law_links")
_ANY_NETWORK = ("topology", "tie", "lan_delay_ms")
_TRANSIT_STUB = [
    name
    for name in TopologyConfig.flat_names().values()
    if name not in (*_POWER_LAW, *_ANY_NETWORK)
]

_OF_NETWORKS = (
    _Use(_TRANSIT_STUB, _drawn("transit-stub"), "is of --topology transit-stub; leave it out"),
    _Use(_POWER_LAW, _drawn("power-law"), "is of power-law; give --topology power-law, too"),
    _Use(
        ("overlay_dimensions",),
        lambda config: config.overlay.kind not in ("perfect", "arrivals"),
        "is of CAN as the overlay; give --overlay can, too",
    ),
)


# --- runs


def _has_events(config: Config) -> bool:
    """Whether nodes or members come and go, in a run."""
    return isinstance(config, RunConfig) and bool(config.world.generator or config.world.events)


_ARRIVALS = _Use(
    ("growth", "contact", "rows", "announce", "introduce", "maintenance"),
    lambda config: config.overlay.kind not in ("perfect", "can") or _has_events(config),
    "is of nodes that arrive; give --overlay arrivals, too",
)


def _has_variant(*names: str) -> Callable[[Any], bool]:
    """Whether trees are built by one of some variants, or one was registered and may do as they."""

    def is_used(config: Any) -> bool:
        asked = {*config.trees.variants, *getattr(config.trees, "systems", ())}
        own = [s for s in all_systems() if is_built_in(s) and s.variant not in names]
        return bool(asked - {n for s in own for n in (s.name, s.variant)})

    return is_used


def _has_section(section: str) -> Callable[[Any], bool]:
    """Whether the config's section is that of a system of the run, or of the world."""

    def is_used(config: RunConfig | WorldConfig) -> bool:
        if isinstance(config, WorldConfig):
            systems = living_systems(config.trees.systems)
        else:
            systems = systems_of_run(config.trees.variants, config.trees.systems)
        return any(system.section == section for system in systems)

    return is_used


def _of_systems(kind: type[Sectioned]) -> Iterator[_Use]:
    """The sections of systems, which are used where a run or a world has one of them."""
    own = {system.section for system in all_systems()}
    for section in (name for name in kind.sections if name in own):
        names = [system.name for system in all_systems() if system.section == section]
        fields = kind.sections[section].flat_names().values()
        remedy = f"is of {listed(names)}; name it in --systems, too"
        yield _Use([*fields], _has_section(section), remedy)


_LIMITS = _Use(
    ("limit", "capacities"),
    _has_variant("bottleneck", "lazy"),
    "is of the bottleneck remover and of lazy growth; give --variants bottleneck or lazy, too",
)
_REMOVER = _Use(
    ("shed_group", "shed_child", "shed_table"),
    _has_variant("bottleneck"),
    "is of the bottleneck remover; give --variants bottleneck, too",
)

# --- events, of runs and worlds

#: Fields -> the generators that they are parameters of.
_PARAMETERS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("share",): ("mass-failure", "flash-crowd"),
    ("event_round", "event_seconds"): (
        *("mass-failure", "adjacent-failure", "root-failure", "flash-crowd", "group-crowd"),
    ),
    ("adjacent",): ("adjacent-failure",),
    ("lifetime", "lifetime_seconds", "lifetime_distribution"): ("churn",),
    ("weibull_shape", "replacement"): ("churn",),
    ("roots", "holders"): ("root-failure",),
    ("crowd", "crowd_group"): ("group-crowd",),
    ("membership", "membership_seconds"): ("group-churn",),
}
_PUBLICATIONS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("publish_rate", "publish_seconds", "publish_source", "publishers"): ("publications",)
}
_GENERATORS = {name for names in (_PARAMETERS | _PUBLICATIONS).values() for name in names}


def _generates(names: Collection[str]) -> Callable[[RunConfig | WorldConfig], bool]:
    """Whether one of some generators makes the events, or a registered one that may do as they."""
    return lambda config: bool(set(config.world.generators) - (_GENERATORS - set(names)))


def _of_generators(parameters: Mapping[tuple[str, ...], tuple[str, ...]]) -> Iterator[_Use]:
    """The parameters of generators, which are used where one of these makes events."""
    for fields, names in parameters.items():
        yield _Use(fields, _generates(names), f"is of --generator {listed(names)}; give it, too")


_OF_EVENTS = (
    *_of_generators(_PARAMETERS),
    _Use(
        ("weibull_shape",),
        lambda config: config.world.lifetime_distribution == "weibull",
        "is of --lifetime-distribution weibull; give it, too",
    ),
    _Use(
        ("buffer",),
        lambda config: config.scribe.delivery == "reliable",
        "is of --delivery reliable; give it, too",
    ),
)


_OF_RUNS = (
    _ARRIVALS,
    _LIMITS,
    _REMOVER,
    *_OF_EVENTS,
    _Use(
        ("rounds", "round_seconds", "rejoin", "detection", "repair", "maintenance_period"),
        _has_events,
        "is of events; give --generator or --events, too",
    ),
    _Use(
        ("replicas", "parent_timeout", "refresh", "child_timeout"),
        lambda config: config.has_rounds,
        "is of runs with rounds; give --generator, --events, --access or --delivery reliable, too",
    ),
    _Use(
        ("reference_children", "reference_assignment"),
        _has_variant("reference_tree"),
        "is of the reference tree; give --variants reference_tree, too",
    ),
    _Use(
        ("zipf_exponent",),
        lambda config: config.groups.size is None,
        "is of sizes that differ, and group_size makes them equal; leave one of them out",
    ),
    _Use(
        ("gossipsub_join_waves",),
        lambda config: config.gossipsub.joins == "waves",
        "is of JOINs in waves; give --gossipsub-joins waves, too",
    ),
    _Use(
        ("gossipsub_unsubscribe_backoff_ms",),
        lambda config: False,
        "is of worlds: in a run nobody leaves a topic; leave it out",
    ),
)


# --- worlds

_OF_WORLDS = (
    _LIMITS,
    _REMOVER,
    *_OF_EVENTS,
    *_of_generators(_PUBLICATIONS),
    _Use(
        (
            *("group_size", "zipf_exponent", "group_ids", "rejoin", "replicas", "parent_timeout"),
            *(
                "refresh",
                "child_timeout",
                "delivery",
                "buffer",
                "deadline",
                "link_stress_period",
                "source",
            ),
        ),
        lambda config: config.scribe.has_groups,
        "is of no group; give --groups or --members, too",
    ),
    _Use(
        ("zipf_exponent",),
        lambda config: config.scribe.size is None,
        "is of sizes that differ, and group_size makes them equal; leave one of them out",
    ),
    _Use(
        ("gossipsub_joins", "gossipsub_join_waves", "gossipsub_heartbeats"),
        lambda config: False,
        "is of runs: in a world members JOIN when they come, and heartbeats do not end; leave "
        "it out",
    ),
)


# --- the reference tree

_OF_REFERENCE_TREES = (
    _Use(
        ("connections", "bits"),
        lambda config: bool(config.reference_tree.hosts),
        "is of the paper's experiment; give --hosts, too",
    ),
    _ARRIVALS,
)

_OF_KIND: dict[type, tuple[_Use, ...]] = {
    RunConfig: _OF_RUNS,
    WorldConfig: _OF_WORLDS,
    ReferenceTreeConfig: _OF_REFERENCE_TREES,
}
