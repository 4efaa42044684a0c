"""The declaration of a multicast system: its name, its properties, and who plays it.

The measures read the tables of a system (:class:`~scribe_spark.multicast.Multicast`) and the
properties below; they know no system by its name.

Nothing here imports Spark, as the report reads the labels, or the config, as the measures of a run
read the systems in Spark's tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from scribe_spark.core.errors import InputError, listed, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from scribe_spark.config.section import Section
    from scribe_spark.rounds.system import SystemOnBuckets

#: The family of systems whose end nodes forward copies along a tree.
TREE = "tree"
#: The family of systems whose end nodes forward copies to neighbours, and may get several.
MESH = "mesh"
#: The family of systems whose source sends a copy to each member.
UNICAST = "unicast"
#: The family of systems whose routers duplicate packets; end nodes keep no children.
IP = "ip"

#: The measures of each round of systems that name the structure of their overlays
#: (`grown_overlays.GrownOverlays.structure`) -> their units.
GROWN_MEASURES = {
    "control.member": "messages per member and second",
    "rest.mean": "own rounds, mean over groups",
    "rest.max": "own rounds",
    "rest.moving": "groups per group",
}

_FAMILIES = (TREE, MESH, UNICAST, IP)

#: The values of `multicast.TIME` and `multicast.HOPS`; that module imports Spark.
TIME, HOPS = "time", "hops"
_CLOCKS = (TIME, HOPS)

#: The first parts of the names of measures that belong to no system.
_OTHERS = frozenset(
    {
        *("all", "cells", "cost", "groups", "hops", "leaf_sets", "link_stress", "links"),
        *("lookups", "messages", "nodes", "pastry", "topology"),
    }
)


def function_at(place: str) -> Callable[..., Any]:
    """Return a function that calls another one, given as ``package.module:function``.

    The module is imported at the first call.
    """
    return partial(_call, place)


def _call(place: str, *given: Any) -> Any:
    return resolve_name(place)(*given)


@dataclass(frozen=True)
class Picture:
    """The words and colours of the picture of a group's overlay (`multicast.PICTURE`).

    The `heading` is that of the legend, such as ``edges by layer``; ``name(rank)`` returns the name
    of the edges of a rank, of which the least has the widest edges.  `words` say what a reader
    should see, `value` what the numbers at nodes mean (empty without numbers), and `root` what the
    node without a parent is.
    """

    heading: str
    name: Callable[[int], str]
    words: str
    value: str = ""
    root: str = "root"


@dataclass(frozen=True)
class System:
    """A multicast system: its name, its properties, and the function that returns its rounds.

    Attributes
    ----------
    name : str
        The system's value in the column ``system``, and the first part of the names of its
        metrics: lower-case letters, digits and underscores.
    label : str
        The system's name in figures.
    family : str
        ``tree``, ``mesh``, ``unicast`` or ``ip``; decides which measures apply.
    world : callable or None
        ``world(config)`` returns the `rounds.system.SystemOnBuckets` that plays the system in a run
        or world.  None: the system is a variant of Scribe, whose `trees` a run builds.
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
    config : type or str, optional
        The class of the system's section, a subclass of `config.section.Section`, or its place,
        ``package.module:Class``, which is imported with the first config.  The name of the section
        in configs is `section` or, by default, the system's name.
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
    bounded : bool
        True if nodes have a limit of children, which they keep.
    in_worlds : bool
        False if only runs can have the system.
    round_seconds : float or callable, optional
        The length in seconds of the system's own rounds in a world, or ``round_seconds(config)``.
        A round of the world plays all own rounds that begin in it.  None: one own round in each.
    world_measures : mapping of str to str, or callable
        The measures of each round of a world -> their units, or a function that returns them.  The
        world itself counts messages by kind; these need no entry.
    failure_costs : callable or None
        ``failure_costs(run)`` returns the costs of node failures by depth (the columns of
        `multicast.FAILURES`), from the tables and the config of the run.
    failures_beside : str or None
        The system beside which the report shows the costs of failures.
    picture : Picture or None
        How the report draws the edges that the system hands over as `Multicast.picture`.
    names_parts : callable or None
        ``names_parts(config)`` is True if announcements (IHAVE, IWANT) name parts by a bitmap.
    several_trees : bool
        True if a group has several trees (`rounds.system.SystemOnBuckets.trees_of`); a run with a
        schedule then has the measures of each tree.
    """

    name: str
    label: str
    family: str
    world: Callable[[Any], SystemOnBuckets] | None = None
    figures: tuple[str, ...] | None = None
    own_figures: Mapping[str, str] = field(default_factory=dict)
    requested: bool = False
    variant: str | None = None
    trees: Callable[[Any], Any] | None = None
    section: str | None = None
    config: type[Section] | str | None = None
    clock: str | Callable[[Any], str] = TIME
    control: bool = False
    over_pastry: bool = False
    joins_by_edges: bool = False
    routes_to_key: bool = False
    from_root: bool = False
    joins_after: str | None = None
    limited: bool = False
    bounded: bool = False
    in_worlds: bool = True
    round_seconds: float | Callable[[Any], float] | None = None
    world_measures: Mapping[str, str] | Callable[[], Mapping[str, str]] = field(
        default_factory=dict
    )
    failure_costs: Callable[[Any], DataFrame] | None = None
    failures_beside: str | None = None
    picture: Picture | None = None
    names_parts: Callable[[Any], bool] | None = None
    several_trees: bool = False

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
        for called in ("trees", "world", "failure_costs"):
            made = getattr(self, called)
            needed = called == "world" and self.trees is None
            if not callable(made) and (made is not None or needed):
                raise ValueError(f"{called} of {self.name} must be a function, not {shown(made)}")

    @property
    def on_request(self) -> bool:
        """True if a run has the system only when its config names it."""
        return self.requested or self.variant is not None

    @property
    def measures_of_worlds(self) -> Mapping[str, str]:
        """The measures of each round of a world -> their units."""
        found = self.world_measures
        return found() if callable(found) else found

    @property
    def config_section(self) -> str | None:
        """The name of the system's section in configs; None without a section."""
        return None if self.config is None else self.section or self.name

    def needs_pastry(self, config: Any) -> bool:
        """Return True if the system needs Pastry's tables in the world of a config."""
        return self.world is not None and self.world(config).needs_pastry

    @property
    def has_world(self) -> bool:
        """True if worlds can have the system."""
        return self.world is not None and self.in_worlds

    @property
    def plays_round_0(self) -> bool:
        """True if a run plays the system's rounds, not messages along Scribe's or other trees."""
        return self.world is not None and not self.from_root

    def clock_of(self, config: Any) -> str:
        """Return the clock that orders copies in a run: ``time`` or ``hops``."""
        found = self.clock(config) if callable(self.clock) else self.clock
        if found not in _CLOCKS:
            raise InputError(
                "systems", self.name, f"has the clock {shown(found)}; give time or hops"
            )
        return found

    @property
    def may_go_by_hops(self) -> bool:
        """True if hops, not times, order the system's copies in some config."""
        return callable(self.clock) or self.clock == HOPS
