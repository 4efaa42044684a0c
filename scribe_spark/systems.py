"""The registry of multicast systems: what each is called, what it is, and how it is built.

A system turns groups and members into a :class:`~scribe_spark.Multicast`: tree edges and
deliveries.  The measures read those two tables and what is said of the system here; they know no
system by its name.  Add one from anywhere with :func:`register_system`.

Nothing here loads Spark: the report reads the labels.

References
----------
JSAC 2002, Section IV.A (IP multicast), IV.D (naive unicast), IV.E (bottleneck remover), IV.F
(collapse, lazy growth).
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT (reference tree).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scribe_spark.config.trees import PLAIN
from scribe_spark.core.registry import Registry
from scribe_spark.errors import check_names

if TYPE_CHECKING:
    from scribe_spark.multicast import Multicast
    from scribe_spark.scribe import Variant, VariantContext

__all__ = [
    "IP",
    "TREE",
    "UNICAST",
    "System",
    "all_systems",
    "baseline",
    "check_variants",
    "find_system",
    "register_system",
    "system_of_variant",
    "systems_of_run",
    "tree_variant",
    "unregister_system",
]

#: End nodes forward copies along a tree of their own.
TREE = "tree"
#: The source sends a copy of its own to each member.
UNICAST = "unicast"
#: Routers duplicate packets; end nodes keep no children.
IP = "ip"

_FAMILIES = (TREE, UNICAST, IP)


@dataclass(frozen=True)
class System:
    """A multicast system.

    Attributes
    ----------
    name : str
        Its value in the column ``system`` of the tables, and the first part of its metrics' names:
        lower-case letters, digits and underscores.
    label : str
        What figures call it.
    family : str
        :data:`TREE`, :data:`UNICAST` or :data:`IP`: which measures make sense for it.
    build : callable
        ``build(stages) -> Multicast``.  `stages` is the run's
        :class:`~scribe_spark.experiments.Simulation`: ``multicast_groups``, ``members``,
        ``underlay`` and the others.
    figures : tuple of str or None
        The figures of the paper that show it; None for all that show one of its measures.
    own_figures : mapping of str to str
        Measure -> the figure or section of the paper that has it for this system alone.
    variant : str or None
        The name in the config's ``variants`` that asks for it; None for every run.
    trees : callable or None
        ``trees(context) -> Variant``: for a variant of Scribe's trees, how these are built
        (:func:`tree_variant`).
    joins_after : str or None
        The system whose JOINs all come first: this one starts from its trees and sends more.
    limited : bool
        Nodes have a limit of children, which some may exceed.
    after_failure : str or None
        What follows a failure, where it is compared: the children of the failed node join again
        (``rejoin``), or hosts find their neighbours anew (``reconfigure``).
    """

    name: str
    label: str
    family: str
    build: Callable[[Any], Multicast]
    figures: tuple[str, ...] | None = None
    own_figures: Mapping[str, str] = field(default_factory=dict)
    variant: str | None = None
    trees: Callable[[VariantContext], Variant] | None = None
    joins_after: str | None = None
    limited: bool = False
    after_failure: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"{self.name!r} is no name of a system: use a-z, 0-9 and _")
        if self.family not in _FAMILIES:
            raise ValueError(f"family {self.family!r} must be one of {', '.join(_FAMILIES)}")


# --- how the built-in systems are made


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


def _reference_tree(stages: Any) -> Multicast:
    from scribe_spark.reference_tree.multicast import multicast

    return multicast(stages.reference_tree_copies)


def _ip_multicast(stages: Any) -> Multicast:
    from scribe_spark.baselines import ip_multicast

    return ip_multicast(stages.unicasts)


def _naive_unicast(stages: Any) -> Multicast:
    from scribe_spark.baselines import naive_unicast

    return naive_unicast(stages.unicasts)


# --- variants of Scribe's trees


def system_of_variant(variant: str) -> str:
    """Name the system whose trees are those of a variant of Scribe."""
    return f"scribe_{variant}"


def tree_variant(
    name: str, label: str, trees: Callable[[VariantContext], Variant], **more: Any
) -> System:
    """A system whose trees are built another way than Scribe's, of the same groups and members.

    Messages go along them as they go along Scribe's own.  Runs have it whose config names it among
    ``variants``; its system is called ``scribe_NAME``.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and underscores.
    label : str
        What figures call it.
    trees : callable
        ``trees(context) -> Variant``, see `scribe.VariantContext` and `scribe.Variant`.
    **more
        Other attributes of :class:`System`.
    """
    system = system_of_variant(name)

    def build(stages: Any) -> Multicast:
        return stages.multicast(system, stages.variants[name].edges)

    return System(system, label, TREE, build, variant=name, trees=trees, **more)


# --- the registry

_SYSTEMS: Registry[System] = Registry(
    "system",
    System(
        "scribe",
        "Scribe",
        TREE,
        _scribe,
        ("7", "8", "9", "10", "12", "13", "14"),
        after_failure="rejoin",
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
        after_failure="reconfigure",
    ),
    System("ip_multicast", "IP multicast", IP, _ip_multicast, ("10", "14")),
    System("naive_unicast", "Naive unicast", UNICAST, _naive_unicast, ("10", "14")),
)


def register_system(system: System) -> System:
    """Add a system to every run from now on (or to those that ask for its variant).

    Raises
    ------
    ValueError
        The package has a system of that name, or it is a second one of family :data:`IP`.
    """
    if system.family == IP:
        raise ValueError(f"{baseline().name} is what delays are compared with; it is the only one")
    return _SYSTEMS.register(system)


def unregister_system(name: str) -> None:
    """Take a system out again; nothing happens if there is none of that name."""
    _SYSTEMS.unregister(name)


def all_systems() -> tuple[System, ...]:
    """All systems, in the order of tables and metrics."""
    return tuple(_SYSTEMS.values())


def systems_of_run(variants: Iterable[str]) -> tuple[System, ...]:
    """The systems of a run that asks for these variants, in the order of :func:`all_systems`.

    Raises
    ------
    InputError
        There is no such variant.
    """
    asked = tuple(variants)
    check_variants(asked)
    return tuple(s for s in _SYSTEMS.values() if s.variant is None or s.variant in asked)


def check_variants(variants: Iterable[str]) -> None:
    """Refuse names of variants that nothing is registered for.

    Raises
    ------
    InputError
        Naming the nearest right one.
    """
    known = [system.variant for system in _SYSTEMS.values() if system.variant is not None]
    check_names(variants, [PLAIN, *known], "variants")


def find_system(name: str) -> System | None:
    """The system of that name; None where the code that registers it has not been loaded."""
    return _SYSTEMS.get(name)


def baseline() -> System:
    """IP multicast: what delays are compared with."""
    return next(system for system in _SYSTEMS.values() if system.family == IP)
