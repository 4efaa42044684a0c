"""The config of a run.

A config says *what* is simulated and contains no Spark object.  `Execution` says where it runs and
where it writes; as this never changes a result, it does not count when two runs are compared.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from scribe_spark.config.bandwidth import (
    MOST_PUBLICATIONS,
    BandwidthConfig,
    refuse_unplayable,
)
from scribe_spark.config.bayeux import BayeuxConfig
from scribe_spark.config.can import CanConfig
from scribe_spark.config.drawn_groups import (
    MOST_MEMBERSHIPS,
    GroupsConfig,
    refuse_lone_custody,
    refuse_misfits,
    refuse_places,
)
from scribe_spark.config.flooding import FloodingConfig
from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.config.network import NetworkConfig
from scribe_spark.config.node_class import NO_CLASSES, Classes
from scribe_spark.config.overlay import OverlayConfig
from scribe_spark.config.rounds import EventsConfig, RoundsConfig
from scribe_spark.config.scribe import MaintenanceConfig, ScribeConfig
from scribe_spark.config.section import Location, Section, setting, unset
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.config.trees import TreesConfig
from scribe_spark.core.key_limits import refuse_groups
from scribe_spark.errors import InputError

#: The sections of a run, in order.
SECTIONS: dict[str, type[Section]] = {
    "overlay": OverlayConfig,
    "groups": GroupsConfig,
    "topology": TopologyConfig,
    "bandwidth": BandwidthConfig,
    "trees": TreesConfig,
    "bayeux": BayeuxConfig,
    "flooding": FloodingConfig,
    "can": CanConfig,
    "gossipsub": GossipSubConfig,
    "world": EventsConfig,
    "scribe": MaintenanceConfig,
}


#: Flat name of a setting that only worlds have -> the reason, as the end of a message.
_OF_WORLDS: dict[str, str] = {
    **dict.fromkeys(
        (*RoundsConfig.flat_names().values(), *ScribeConfig.flat_names().values()),
        "applies to worlds only: a run publishes one message to each group, after the trees are "
        "repaired; use scribe-spark world",
    ),
    "measures": "applies to worlds only: a run has all measures; leave it out",
    "reference_tree": "applies to worlds only; give --variants reference_tree",
    "bayeux_recreate": "applies to worlds only: a run has no failure of a root; leave it out",
}


class RunConfig(NetworkConfig):
    """The settings of a run; the defaults are the experiment of JSAC 2002, Section IV.A to IV.D.

    Each setting is an argument by its own name (``nodes=9``) or in its section
    (``overlay={"nodes": 9}``).  `docs/configuration.md` lists all settings.

    Raises
    ------
    InputError
        A setting is unknown, or its value is impossible, alone or together with another one.

    Examples
    --------
    >>> config = RunConfig(nodes=2_000, groups=50, variants="collapse,lazy")
    >>> config == RunConfig(
    ...     overlay={"nodes": 2_000}, groups={"count": 50}, trees={"variants": ["collapse", "lazy"]}
    ... )
    True
    >>> config.overlay.nodes, config.flat()["group_ids"], config.replace(nodes=9).overlay.nodes
    (2000, 'hash', 9)
    """

    sections: ClassVar[dict[str, type[Section]]] = SECTIONS
    elsewhere: ClassVar[dict[str, str]] = {
        name: why
        for name, why in _OF_WORLDS.items()
        if name
        not in {flat for section in SECTIONS.values() for flat in section.flat_names().values()}
    }

    groups: GroupsConfig = GroupsConfig()
    bandwidth: BandwidthConfig = BandwidthConfig()
    trees: TreesConfig = TreesConfig()
    bayeux: BayeuxConfig = BayeuxConfig()
    flooding: FloodingConfig = FloodingConfig()
    can: CanConfig = CanConfig()
    gossipsub: GossipSubConfig = GossipSubConfig()
    world: EventsConfig = EventsConfig()
    scribe: MaintenanceConfig = MaintenanceConfig()
    classes: Classes = NO_CLASSES
    write_routing_table: bool = setting(
        False, "Also write the nodes' routing tables, as the large table routing_table"
    )
    write_knowledge: bool = setting(
        False, "Also write leaf sets and routing tables, for --knowledge of later runs"
    )
    knowledge: Location | None = unset(
        "Folder of an earlier run with write_knowledge: take leaf sets and routing tables from "
        "there. Overlay, topology and seed must be the same",
    )

    # tells type checkers that flat names are arguments, too
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    @model_validator(mode="after")
    def _groups_fit(self) -> RunConfig:
        nodes, groups = self.overlay.nodes, self.groups
        memberships = groups.memberships(nodes, self.classes)
        refuse_lone_custody(groups.custody, self.classes)
        refuse_misfits(groups.count, groups.size, memberships, nodes, MOST_MEMBERSHIPS)
        if groups.count is not None:
            self.refuse_groups(groups.count, memberships)
        if self.has_system("can"):
            self.can.refuse_nodes(nodes)
        if groups.count is not None:
            self.refuse_publications(groups.count, memberships)
        return self

    def refuse_publications(self, groups: int, memberships: int) -> None:
        """Refuse more publications than a run can simulate."""
        each, who = self.bandwidth.publications, self.bandwidth.published_by
        total = (each or 0) * (memberships if who == "everyone" else groups)
        if total > MOST_PUBLICATIONS:
            remedy = f"makes {total:,} publications; must be at most {MOST_PUBLICATIONS:,}"
            raise InputError("publications", each, f"{remedy}; give fewer, or fewer groups")

    @model_validator(mode="after")
    def _bandwidth_can_be_played(self) -> RunConfig:
        if not self.bandwidth.on:
            return self
        cause, given = self.bandwidth.cause
        if self.has_rounds:
            remedy = "applies to runs without rounds; leave it out"
            raise InputError(cause, given, remedy)
        if self.groups.source == "routed":
            remedy = f"cannot be combined with {cause} = {given}; give root or direct"
            raise InputError("source", "routed", remedy)
        refuse_unplayable(self)
        return self

    def refuse_groups(self, groups: int, memberships: int, members: str | None = None) -> None:
        """Refuse more groups than the 64-bit keys of the run's systems can number."""
        nodes = self.overlay.nodes
        refuse_groups(groups, nodes, members)
        if self.has_system("bayeux"):
            sessions = self.bayeux.partitions
            because = f"bayeux_partitions = {sessions}"
            refuse_groups(groups, nodes, members, times=sessions, because=because)
        if self.has_system("can"):
            self.can.refuse_groups(groups)
            refuse_places("can", groups, memberships, nodes)
        if self.has_system("flooding") and self.flooding.over == "group":
            refuse_places("flooding", groups, memberships, nodes)

    def has_system(self, name: str) -> bool:
        """Return True if `systems` or `variants` contains the name of a system."""
        return name in {*self.trees.systems, *self.trees.variants}

    @model_validator(mode="after")
    def _rounds_can_be_played(self) -> RunConfig:
        if not self.has_rounds:
            return self
        from scribe_spark.config.world import WorldConfig  # it imports this module

        if self.groups.count == 0:
            remedy = "leaves nothing to publish; only scribe-spark world needs no groups"
            raise InputError("groups", 0, remedy)
        if "publications" in self.world.generators:
            remedy = "makes publications, but a run publishes once per group; leave it out"
            raise InputError("generator", self.world.generator, remedy)
        if self.knowledge is not None:
            remedy = "applies to runs without rounds only; leave it out"
            raise InputError("knowledge", self.knowledge, remedy)
        if self.write_knowledge:
            remedy = "applies to runs without rounds only: other runs need all nodes; leave it out"
            raise InputError("write_knowledge", True, remedy)
        WorldConfig.of_run(self)
        return self

    @property
    def has_rounds(self) -> bool:
        """True if the run first plays rounds, as a world does, and publishes after them."""
        events, scribe = self.world, self.scribe
        asked = events.events, events.generator, events.initial, scribe.access
        return any(one is not None for one in asked) or scribe.delivery == "reliable"

    @property
    def estimated_work(self) -> int:
        """A rough cost of the run, to choose the number of partitions: nodes times systems."""
        return self.overlay.nodes * (1 + len(self.trees.variants) + len(self.trees.systems))
