"""The registry of multicast systems (`rounds.declaration.System`).

Add one with :func:`register_system`.

Nothing here imports Spark, as the report reads the labels, and nothing imports the config before a
function needs it, as the measures of a run read the systems in Spark's tasks.

JSAC 2002, Section IV.A (IP multicast), IV.D (naive unicast), IV.E (bottleneck remover), IV.F
(collapse, lazy growth).
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT (reference tree).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from scribe_spark.can import CAN
from scribe_spark.core.errors import InputError, in_series, listed, meant, shown
from scribe_spark.core.registry import SYSTEMS, Registry
from scribe_spark.rounds.declaration import IP, TREE, UNICAST, System, function_at
from scribe_spark.systems.bayeux import BAYEUX
from scribe_spark.systems.flooding import FLOODING
from scribe_spark.systems.gossipsub import GOSSIPSUB
from scribe_spark.systems.narada import NARADA
from scribe_spark.systems.nice import NICE
from scribe_spark.systems.overcast import OVERCAST
from scribe_spark.systems.plumtree import PLUMTREE
from scribe_spark.systems.splitstream import SPLITSTREAM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from scribe_spark.config.fields import FieldRecord
    from scribe_spark.rounds.system import SystemOnBuckets
    from scribe_spark.systems.scribe.variants import Variant, VariantContext

#: The name of Scribe, the default system of a world with groups.
SCRIBE = "scribe"

#: The folder of Scribe.
_SCRIBE = "scribe_spark.systems.scribe"

# --- the built-in systems


def _scribe_measures() -> Mapping[str, str]:
    from scribe_spark.systems.scribe.measures import MEASURES

    return MEASURES


def _rejoining(run: Any) -> DataFrame:
    from scribe_spark.systems.scribe.trees import costs_of_rejoining

    edges = run["tree_edges"]
    return costs_of_rejoining(edges.where(edges["system"] == "scribe"))


def _reference_tree(config: Any) -> SystemOnBuckets:
    from scribe_spark.systems.reference_tree.multicast import GroupsOnTree
    from scribe_spark.systems.reference_tree.tree import ReferenceTree

    tree = config.reference_tree
    return GroupsOnTree(ReferenceTree(128, tree.children), tree.assignment)


def _reconfiguring(run: Any) -> DataFrame:
    from scribe_spark.systems.reference_tree.reconfiguration import costs_of_reconfiguring

    tree = run.config.reference_tree
    return costs_of_reconfiguring(run["nodes"], tree.children, tree.assignment, run.config.seed)


_IP_MULTICAST, _NAIVE_UNICAST = (
    function_at(f"scribe_spark.systems.baselines:{name}")
    for name in ("LiveIpMulticast", "LiveUnicast")
)


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
        `scribe_spark.systems.scribe.variants.VariantContext` with Scribe's own trees.
    **more
        Other attributes of :class:`System`.
    """
    system = system_of_variant(name)
    return System(system, label, TREE, variant=name, trees=trees, from_root=True, **more)


# --- the registry

_SYSTEMS: Registry[System] = SYSTEMS
_SYSTEMS.build_in(
    System(
        SCRIBE,
        "Scribe",
        TREE,
        function_at(f"{_SCRIBE}.live:live_scribe"),
        ("7", "8", "9", "10", "12", "13", "14"),
        joins_by_edges=True,
        routes_to_key=True,
        from_root=True,
        world_measures=_scribe_measures,
        failure_costs=_rejoining,
    ),
    tree_variant(
        "bottleneck",
        "Scribe, bottleneck remover",
        function_at(f"{_SCRIBE}.variants:remove_bottlenecks"),
        figures=("11",),
        own_figures={"children_entries": "11"},
        joins_after="scribe",
        limited=True,
    ),
    tree_variant(
        "collapse",
        "Collapse",
        function_at(f"{_SCRIBE}.variants:collapse"),
        figures=("12", "13", "14"),
    ),
    tree_variant(
        "lazy",
        "Lazy growth",
        function_at(f"{_SCRIBE}.variants:grow_lazily"),
        figures=("12", "13", "14"),
        own_figures={"overloaded": "IV.F"},
        limited=True,
    ),
    System(
        "reference_tree",
        "Reference tree",
        TREE,
        _reference_tree,
        in_worlds=False,
        variant="reference_tree",
        config="scribe_spark.systems.reference_tree.config:KeyTreeConfig",
        failure_costs=_reconfiguring,
        failures_beside="scribe",
    ),
    BAYEUX,
    FLOODING,
    CAN,
    GOSSIPSUB,
    PLUMTREE,
    NARADA,
    NICE,
    OVERCAST,
    SPLITSTREAM,
    System("ip_multicast", "IP multicast", IP, lambda config: _IP_MULTICAST(), ("10", "14")),
    System(
        "naive_unicast", "Naive unicast", UNICAST, lambda config: _NAIVE_UNICAST(), ("10", "14")
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
    if not _SYSTEMS.is_built_in(system.name):
        from scribe_spark.config.fields import refuse_taken

        refuse_taken(system, _SYSTEMS.get(system.name))
    return _SYSTEMS.register(system)


def unregister_system(name: str) -> None:
    """Remove a user's system of a name, and its section of the config, if it has one."""
    _SYSTEMS.unregister(name)


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
    """Refuse names of unknown systems; the error names the nearest known one."""
    from scribe_spark.config.groups import PLAIN

    variant_names = [system.variant for system in _SYSTEMS.values() if system.variant is not None]
    asked_for = [system.name for system in _SYSTEMS.values() if system.on_request]
    _refuse_unknown("variants", variants, [PLAIN, *variant_names, *asked_for], variant_choices())
    _refuse_unknown("systems", systems, [*_SYSTEMS, *variant_names], system_choices())


def _refuse_unknown(
    field: str, names: Iterable[str], known: Collection[str], choices: Collection[str]
) -> None:
    """Refuse the first name that is not `known`; the message lists all `choices`."""
    for name in names:
        if name not in known:
            remedy = (
                f"is unknown{meant(name, known)}; give some of {in_series(choices, len(choices))}"
            )
            own = ", or one that a module of yours registers (--import MODULE)"
            raise InputError(field, name, remedy + own)


def variant_choices() -> list[str]:
    """Return the possible names in the setting ``variants``; the shorter one of two."""
    return [system.variant or system.name for system in _SYSTEMS.values() if system.on_request]


def system_choices() -> list[str]:
    """Return the possible names in the setting ``systems`` of a run."""
    return list(_SYSTEMS)


def living_choices() -> list[str]:
    """Return the possible names in the setting ``systems`` of a world."""
    return [system.name for system in _SYSTEMS.values() if system.has_world]


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
    """Return the systems of a world, in the order of :func:`all_systems`."""
    asked, living = tuple(names), living_choices()
    _refuse_unknown("systems", asked, _SYSTEMS, living)
    for name in asked:
        if name not in living:
            remedy = f"is for runs only; give some of {listed(living)}"
            raise InputError("systems", name, remedy)
    return tuple(system for system in _SYSTEMS.values() if system.name in asked)


def played_systems(config: Any) -> tuple[System, ...]:
    """Return the systems that a config's world plays; none without groups."""
    return living_systems(config.trees.systems) if config.groups.has_groups else ()


def plays_pastry(config: Any) -> bool:
    """Return True if a world plays Pastry: without groups, or for a system that needs Pastry."""
    systems = (live_system(system, config) for system in played_systems(config))
    return not config.groups.has_groups or any(system.needs_pastry for system in systems)


def live_system(system: System, config: Any) -> SystemOnBuckets:
    """Return the object that plays a system in a config's world; a user's with checks."""
    from scribe_spark.rounds.system_checks import CheckedSystem

    assert system.world is not None  # a variant of Scribe has no rounds
    made = system.world(config)
    if is_built_in(system):
        return made
    return CheckedSystem(system.name, made, system.measures_of_worlds)


def clock_in_words(system: System, config: Any) -> str:
    """Return a description of a system's clock for reports.

    With message sizes, it also describes how groups share links.  With IP multicast, each
    publication is alone (rule W11).
    """
    found, bandwidth = system.clock_of(config), getattr(config, "bandwidth", None)
    if bandwidth is None or not bandwidth.on:
        return found
    return f"{found}: {bandwidth.in_words(alone=system.family == IP)}"


def is_built_in(system: System) -> bool:
    """Return True if a system belongs to the package."""
    return _SYSTEMS.is_built_in(system.name)


def measure_of_round(system: str, measure: str) -> str:
    """Return the name of a system's measure in a world's rounds.

    Packets of Scribe are counted with those of Pastry, and have no name of a system.

    Examples
    --------
    >>> [measure_of_round(name, "link_stress.payload.max") for name in ("gossipsub", "scribe")]
    ['gossipsub.link_stress.payload.max', 'link_stress.payload.max']
    """
    together = system == SCRIBE and measure.startswith("link_stress.payload.")
    return measure if together else f"{system}.{measure}"


def find_system(name: str) -> System | None:
    """Return the system with a name; None if no such system is registered."""
    return _SYSTEMS.get(name)


def baseline() -> System:
    """Return IP multicast, with which delays are compared."""
    return next(system for system in _SYSTEMS.values() if system.family == IP)
