"""The registry of multicast systems: their names, their properties, and how they are built.

A system turns groups and members into a :class:`~scribe_spark.Multicast`: copies (of a tree, its
edges), deliveries, state and control messages.  The measures read those tables and the properties
below; they know no system by its name.  Add one with :func:`register_system`.

Nothing here imports Spark, as the report reads the labels, and nothing imports the config before a
function needs it, as the measures of a run read the systems in Spark's tasks.

References
----------
JSAC 2002, Section IV.A (IP multicast), IV.D (naive unicast), IV.E (bottleneck remover), IV.F
(collapse, lazy growth).
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT (reference tree).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scribe_spark.core.registry import Registry
from scribe_spark.errors import InputError, in_series, listed, meant, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from scribe_spark.config.fields import FieldRecord
    from scribe_spark.config.section import Section
    from scribe_spark.living import SystemOnBuckets
    from scribe_spark.multicast import Multicast
    from scribe_spark.scribe import Variant, VariantContext

#: The family of systems whose end nodes forward copies along a tree.
TREE = "tree"
#: The family of systems whose end nodes forward copies to neighbours, and may get several.
MESH = "mesh"
#: The family of systems whose source sends a copy to each member.
UNICAST = "unicast"
#: The family of systems whose routers duplicate packets; end nodes keep no children.
IP = "ip"

#: The system of every world with groups.
LIVES = "scribe"

_FAMILIES = (TREE, MESH, UNICAST, IP)

#: The values of `multicast.TIME` and `multicast.HOPS`; that module imports Spark.
_TIME, _HOPS = "time", "hops"
_CLOCKS = (_TIME, _HOPS)

#: The first parts of the names of measures that belong to no system.
_OTHERS = frozenset(
    {
        *("all", "cells", "cost", "groups", "hops", "leaf_sets", "link_stress", "links"),
        *("lookups", "messages", "nodes", "pastry", "topology"),
    }
)


@dataclass(frozen=True)
class System:
    """A multicast system: its name, its properties, and the functions that build and play it.

    Attributes
    ----------
    name : str
        The system's value in the column ``system``, and the first part of the names of its
        metrics: lower-case letters, digits and underscores.
    label : str
        The system's name in figures.
    family : str
        ``tree``, ``mesh``, ``unicast`` or ``ip``; decides which measures apply.
    build : callable, optional
        ``build(stages)`` returns the :class:`Multicast` of a run.  `stages` is the run's
        :class:`~scribe_spark.experiments.Simulation`, with ``multicast_groups``, ``members``,
        ``underlay`` and others.
    figures : tuple of str or None
        The figures of the paper that show the system; None: all figures of its measures.
    own_figures : mapping of str to str
        Measure -> the figure or section of the paper that shows this measure of this system only.
    requested : bool
        True if a run has the system only when ``systems`` or ``variants`` names it.
    variant : str or None
        The system's name in ``variants``; a run has it only when ``variants`` names it.
    trees : callable or None
        ``trees(context)`` returns the :class:`Variant` with the trees of a variant of Scribe.
    section : str or None
        The section of the config with the settings of this system.
    config : type, optional
        The class of a user's section, a subclass of `config.section.Section`.  Its name in configs
        is `section` or, by default, the system's name.
    clock : str or callable
        How the first of several copies at a node is determined: ``time`` (by delays) or ``hops``
        (by hops); or ``clock(config)``, which returns one of these.
    control : bool
        True if the system has a table of control messages.
    over_pastry : bool
        True if the system needs Pastry's routing tables.
    joins_by_edges : bool
        True if each edge of the trees is one JOIN from child to parent, so that the messages of
        joining follow from the trees.
    routes_to_key : bool
        True if the trees are the overlay's routes from members to groupIds, so that the convergence
        of routes follows from the trees.
    from_root : bool
        True if copies start at the root, to which another source sends its message first.
    joins_after : str or None
        The system whose trees this one starts from, with additional JOINs.
    limited : bool
        True if nodes have a limit of children, which they may exceed.
    world : callable or None
        ``world(config)`` returns the `living.SystemOnBuckets` that plays the system in a world.
        None: worlds cannot have the system.
    round_seconds : float or callable, optional
        The length in seconds of the system's own rounds in a world, or ``round_seconds(config)``.
        A round of the world plays all own rounds that begin in it.  None: one own round in each.
    world_measures : mapping of str to str
        The measures of each round of a world -> their units.  The world itself counts messages by
        kind; these need no entry.
    failure_costs : callable or None
        ``failure_costs(run)`` returns the costs of node failures by depth (the columns of
        `multicast.FAILURES`), from the tables and the config of the run.
    failures_beside : str or None
        The system beside which the report shows the costs of failures.
    """

    name: str
    label: str
    family: str
    build: Callable[[Any], Multicast] | None = None
    figures: tuple[str, ...] | None = None
    own_figures: Mapping[str, str] = field(default_factory=dict)
    requested: bool = False
    variant: str | None = None
    trees: Callable[[VariantContext], Variant] | None = None
    section: str | None = None
    config: type[Section] | None = None
    clock: str | Callable[[Any], str] = _TIME
    control: bool = False
    over_pastry: bool = False
    joins_by_edges: bool = False
    routes_to_key: bool = False
    from_root: bool = False
    joins_after: str | None = None
    limited: bool = False
    world: Callable[[Any], SystemOnBuckets] | None = None
    round_seconds: float | Callable[[Any], float] | None = None
    world_measures: Mapping[str, str] = field(default_factory=dict)
    failure_costs: Callable[[Any], DataFrame] | None = None
    failures_beside: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"{shown(self.name)} is no name of a system: use a-z, 0-9 and _")
        if self.name in _OTHERS:
            raise ValueError(f"{shown(self.name)} is the name of other measures; take another name")
        if self.family not in _FAMILIES:
            raise ValueError(f"family {shown(self.family)} must be one of {listed(_FAMILIES)}")
        label = self.label
        if not isinstance(label, str) or not label.strip() or not label.isprintable():
            raise ValueError(f"label {shown(label)} of {self.name} must be words in one line")
        if not callable(self.clock) and self.clock not in _CLOCKS:
            raise ValueError(f"clock {shown(self.clock)} of {self.name} must be one of time, hops")
        for called in ("build", "trees", "world", "failure_costs"):
            made = getattr(self, called)
            needed = called == "build" and self.world is None
            if not callable(made) and (made is not None or needed):
                raise ValueError(f"{called} of {self.name} must be a function, not {shown(made)}")

    @property
    def on_request(self) -> bool:
        """True if a run has the system only when its config names it."""
        return self.requested or self.variant is not None

    def clock_of(self, config: Any) -> str:
        """Return the clock that orders copies in a run: ``time`` or ``hops``."""
        found = self.clock(config) if callable(self.clock) else self.clock
        if found not in _CLOCKS:
            raise InputError(
                "systems", self.name, f"has the clock {shown(found)}; give time or hops"
            )
        return found

    def clock_in_words(self, config: Any) -> str:
        """Return a description of the clock for reports.

        With message sizes, it also describes how groups share links.  With IP multicast, each
        publication is alone (rule W11); users' systems of the family ``mesh`` return delays of
        their own, without the times of transmission.
        """
        found, bandwidth = self.clock_of(config), getattr(config, "bandwidth", None)
        if bandwidth is None or not bandwidth.on:
            return found
        if self.family == MESH and not is_built_in(self):
            return f"{found}: without transmission" if bandwidth.has_sizes else found
        return f"{found}: {bandwidth.in_words(alone=self.family == IP)}"

    @property
    def may_go_by_hops(self) -> bool:
        """True if there is a config in which hops order the copies of the system."""
        return callable(self.clock) or self.clock == _HOPS

    def live(self, config: Any) -> SystemOnBuckets:
        """Return the object that plays the system in a world; a user's object is checked."""
        from scribe_spark.living_checks import CheckedSystem

        if self.world is None:
            raise InputError(
                "systems", self.name, "has no rounds, so worlds cannot have it; leave it out"
            )
        made = self.world(config)
        if is_built_in(self):
            return made
        return CheckedSystem(self.name, made, self.world_measures)


# --- the built-in systems


def _scribe(stages: Any) -> Multicast:
    return stages.multicast("scribe", stages.scribe_edges)


def _remove_bottlenecks(context: VariantContext) -> Variant:
    from scribe_spark.scribe.variants import remove_bottlenecks

    return remove_bottlenecks(context)


def _collapse(context: VariantContext) -> Variant:
    from scribe_spark.scribe.variants import collapse

    return collapse(context)


def _grow_lazily(context: VariantContext) -> Variant:
    from scribe_spark.scribe.variants import grow_lazily

    return grow_lazily(context)


def _bayeux(stages: Any) -> Multicast:
    from scribe_spark.bayeux.bayeux import build

    return build(stages)


def _flooding(stages: Any) -> Multicast:
    from scribe_spark.flooding.flooding import build

    return build(stages)


def _can(stages: Any) -> Multicast:
    from scribe_spark.can.multicast import multicast

    return multicast(stages)


def _gossipsub(stages: Any) -> Multicast:
    from scribe_spark.gossipsub.multicast import multicast

    return multicast(stages)


def _rejoining(run: Any) -> DataFrame:
    from scribe_spark.scribe.failures import costs_of_rejoining

    edges = run["tree_edges"]
    return costs_of_rejoining(edges.where(edges["system"] == "scribe"))


def _reference_tree(stages: Any) -> Multicast:
    from scribe_spark.reference_tree.multicast import multicast

    return multicast(stages.reference_tree_copies)


def _reconfiguring(run: Any) -> DataFrame:
    from scribe_spark.reference_tree.failures import costs_of_reconfiguring

    trees = run.config.trees
    return costs_of_reconfiguring(
        run["nodes"], trees.reference_children, trees.reference_assignment, run.config.seed
    )


def _live_bayeux(config: Any) -> SystemOnBuckets:
    from scribe_spark.bayeux.live import LiveBayeux

    return LiveBayeux(config.bayeux.hops, config.bayeux.recreate)


def _live_flooding(config: Any) -> SystemOnBuckets:
    from scribe_spark.flooding.live import LiveFlooding

    return LiveFlooding(config.overlay.b, config.overlay.leaf_set)


def _live_can(config: Any) -> SystemOnBuckets:
    from scribe_spark.flooding.live import live_can

    return live_can(config.can, config.seed)


def _ip_multicast(stages: Any) -> Multicast:
    from scribe_spark.baselines import ip_multicast

    return ip_multicast(stages.unicasts)


def _live_ip_multicast(config: Any) -> SystemOnBuckets:
    from scribe_spark.baselines.live import LiveIpMulticast

    return LiveIpMulticast()


def _naive_unicast(stages: Any) -> Multicast:
    from scribe_spark.baselines import naive_unicast

    return naive_unicast(stages.unicasts)


def _live_unicast(config: Any) -> SystemOnBuckets:
    from scribe_spark.baselines.live import LiveUnicast

    return LiveUnicast()


def _live_gossipsub(config: Any) -> SystemOnBuckets:
    from scribe_spark.gossipsub.round import live_gossipsub
    from scribe_spark.node_classes import NodeClasses

    return live_gossipsub(config.gossipsub, NodeClasses.of(config))


def _heartbeat(config: Any) -> float:
    return config.gossipsub.value("heartbeat_ms") / 1000


def _clock_of_gossipsub(config: Any) -> str:
    return _TIME if config is None else config.gossipsub.clock


# --- variants of Scribe's trees


def system_of_variant(variant: str) -> str:
    """Return the name of the system with the trees of a variant of Scribe."""
    return f"scribe_{variant}"


def tree_variant(
    name: str, label: str, trees: Callable[[VariantContext], Variant], **more: Any
) -> System:
    """Return a system with other trees than Scribe's for the same groups and members.

    Messages go down these trees as down Scribe's.  A run has the system, ``scribe_NAME``, if its
    config names it in ``variants``.  Add it by :func:`register_system`.

    Parameters
    ----------
    name : str
        The name in ``variants``: lower-case letters, digits and underscores.
    label : str
        The system's name in figures.
    trees : callable
        ``trees(context)`` returns a :class:`Variant`; `context` is a
        `scribe_spark.scribe.VariantContext` with Scribe's own trees.
    **more
        Other attributes of :class:`System`.
    """
    system = system_of_variant(name)

    def build(stages: Any) -> Multicast:
        variant = stages.variants[name]
        return stages.multicast(system, variant.edges, variant.trees)

    return System(*(system, label, TREE, build), variant=name, trees=trees, from_root=True, **more)


# --- the registry

_SYSTEMS: Registry[System] = Registry(
    "system",
    System(
        "scribe",
        "Scribe",
        TREE,
        _scribe,
        ("7", "8", "9", "10", "12", "13", "14"),
        joins_by_edges=True,
        routes_to_key=True,
        from_root=True,
        failure_costs=_rejoining,
    ),
    tree_variant(
        "bottleneck",
        "Scribe, bottleneck remover",
        _remove_bottlenecks,
        figures=("11",),
        own_figures={"children_entries": "11"},
        joins_after="scribe",
        limited=True,
    ),
    tree_variant("collapse", "Collapse", _collapse, figures=("12", "13", "14")),
    tree_variant(
        "lazy",
        "Lazy growth",
        _grow_lazily,
        figures=("12", "13", "14"),
        own_figures={"overloaded": "IV.F"},
        limited=True,
    ),
    System(
        "reference_tree",
        "Reference tree",
        TREE,
        _reference_tree,
        variant="reference_tree",
        failure_costs=_reconfiguring,
        failures_beside="scribe",
    ),
    System(
        "bayeux",
        "Bayeux",
        TREE,
        _bayeux,
        requested=True,
        section="bayeux",
        control=True,
        over_pastry=True,
        from_root=True,
        world=_live_bayeux,
        world_measures={
            "entries.mean": "entries",
            "entries.max": "entries",
            "waiting": "members",
            "sessions.lost": "groups",
        },
    ),
    System(
        "flooding",
        "Flooding over Pastry",
        TREE,
        _flooding,
        requested=True,
        section="flooding",
        control=True,
        over_pastry=True,
        world=_live_flooding,
    ),
    System(
        "can",
        "CAN multicast",
        MESH,
        _can,
        requested=True,
        section="can",
        clock=lambda config: config.can.clock,
        control=True,
        world=_live_can,
    ),
    System(
        "gossipsub",
        "GossipSub",
        MESH,
        _gossipsub,
        requested=True,
        section="gossipsub",
        clock=_clock_of_gossipsub,
        control=True,
        world=_live_gossipsub,
        round_seconds=_heartbeat,
        world_measures={
            "mesh": "links per membership",
            "connections": "links per membership",
            "by_iwant": "deliveries",
        },
    ),
    System(
        *("ip_multicast", "IP multicast", IP, _ip_multicast, ("10", "14")),
        world=_live_ip_multicast,
    ),
    System(
        *("naive_unicast", "Naive unicast", UNICAST, _naive_unicast, ("10", "14")),
        world=_live_unicast,
    ),
)


def register_system(system: System) -> System:
    """Add a system to all later runs of this process, or to those that name it.

    Raises
    ------
    ValueError
        The package has a system of that name, another system has the label, or a second system has
        the family ``ip``.
    """
    if system.family == IP:
        raise ValueError(f"{baseline().name} is what delays are compared with; it is the only one")
    for other in () if system.name in _SYSTEMS else _SYSTEMS.values():
        if other.label == system.label:
            raise ValueError(f"{other.name} has the label {shown(other.label)}; take another one")
    if system.config is not None and not _SYSTEMS.is_built_in(system.name):
        from scribe_spark.config.outside import add_section

        add_section(system.section or system.name, system.config)
    return _SYSTEMS.register(system)


def unregister_system(name: str) -> None:
    """Remove a user's system and its section, if there is one of that name."""
    system = _SYSTEMS.get(name)
    _SYSTEMS.unregister(name)
    if system is not None and system.config is not None:
        from scribe_spark.config.outside import remove_section

        remove_section(system.section or name)


def all_systems() -> tuple[System, ...]:
    """Return all systems, in the order of tables and metrics."""
    return tuple(_SYSTEMS.values())


def systems_of_run(variants: Iterable[str] = (), systems: Iterable[str] = ()) -> tuple[System, ...]:
    """Return the systems of a run, in the order of :func:`all_systems`.

    The setting `variants` adds systems.  The setting `systems` has all systems of the run but the
    baseline, which every run has; empty, it means the default systems.
    """
    added, named = tuple(variants), tuple(systems)
    check_systems(added, named)
    asked = {*added, *named}
    return tuple(
        system
        for system in _SYSTEMS.values()
        if asked & {system.name, system.variant}
        or system is baseline()
        or not (named or system.on_request)
    )


def check_systems(variants: Iterable[str], systems: Iterable[str] = ()) -> None:
    """Refuse names of unknown systems; the message has the nearest known one."""
    from scribe_spark.config.trees import PLAIN

    variant_names = [system.variant for system in _SYSTEMS.values() if system.variant is not None]
    asked_for = [system.name for system in _SYSTEMS.values() if system.on_request]
    _refuse_unknown("variants", variants, [PLAIN, *variant_names, *asked_for], variant_choices())
    _refuse_unknown("systems", systems, [*_SYSTEMS, *variant_names], system_choices())


def _refuse_unknown(
    field: str, names: Iterable[str], known: Collection[str], choices: Collection[str]
) -> None:
    """Refuse the first unknown name; the message lists all choices."""
    for name in names:
        if name not in known:
            remedy = (
                f"is unknown{meant(name, known)}; give some of {in_series(choices, len(choices))}"
            )
            own = ", or one that a module of yours registers (--import MODULE)"
            raise InputError(field, name, remedy + own)


def variant_choices() -> list[str]:
    """Return the possible names in ``variants``; of a system with two names, the shorter one."""
    return [system.variant or system.name for system in _SYSTEMS.values() if system.on_request]


def system_choices() -> list[str]:
    """Return the possible names in the setting ``systems`` of a run."""
    return list(_SYSTEMS)


def living_choices() -> list[str]:
    """Return the possible names in the setting ``systems`` of a world."""
    return [LIVES, *(system.name for system in _SYSTEMS.values() if system.world is not None)]


def described(field: FieldRecord) -> str:
    """Return the description of a field, with the registered names if its values are names."""
    from scribe_spark.config.fields import WORLD_FIELDS

    if field.flat not in ("systems", "variants") or field == WORLD_FIELDS["variants"]:
        return field.description
    if field.flat == "variants":
        choices = variant_choices()
    else:
        choices = living_choices() if field == WORLD_FIELDS["systems"] else system_choices()
    names = in_series(choices, len(choices))
    return f"{field.description}. Names: {names}, or one of your own (--import MODULE)"


def living_systems(names: Iterable[str]) -> tuple[System, ...]:
    """Return the systems of a world besides Scribe, in the order of :func:`all_systems`."""
    asked, living = tuple(names), living_choices()
    _refuse_unknown("systems", asked, _SYSTEMS, living)
    for name in asked:
        if name not in living:
            remedy = f"has no rounds, so worlds cannot have it; give some of {listed(living)}"
            raise InputError("systems", name, remedy)
    return tuple(s for s in _SYSTEMS.values() if s.name in asked and s.world is not None)


def is_built_in(system: System) -> bool:
    """Return True if a system belongs to the package."""
    return _SYSTEMS.is_built_in(system.name)


def plays_schedules(system: System) -> bool:
    """Return True if the system can play several publications of a group."""
    return is_built_in(system) or (system.family != MESH and system.build is not None)


def find_system(name: str) -> System | None:
    """Return the system of a name; None if the code that registers it is not imported."""
    return _SYSTEMS.get(name)


def baseline() -> System:
    """Return IP multicast, with which delays are compared."""
    return next(system for system in _SYSTEMS.values() if system.family == IP)
