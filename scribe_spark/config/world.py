"""The config of a world: an overlay whose nodes arrive, leave, fail and recover in rounds."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from scribe_spark.config import run
from scribe_spark.config.bandwidth import LinksConfig, refuse_unplayable
from scribe_spark.config.bayeux import LiveBayeuxConfig
from scribe_spark.config.can import LiveCanConfig
from scribe_spark.config.drawn_groups import (
    GroupsConfig,
    refuse_lone_custody,
    refuse_misfits,
    refuse_missing_roots,
)
from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.config.network import NetworkConfig
from scribe_spark.config.node_class import NO_CLASSES, Classes
from scribe_spark.config.overlay import OverlayConfig, SettledOverlayConfig
from scribe_spark.config.reference_tree import LiveTreeConfig
from scribe_spark.config.rounds import EventsConfig, RoundsConfig
from scribe_spark.config.scribe import MaintenanceConfig, ScribeConfig
from scribe_spark.config.section import Section
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.config.trees import LiveTreesConfig
from scribe_spark.core.key_limits import refuse_groups_of_world
from scribe_spark.errors import InputError, listed

#: The greatest number of members of all groups; the driver makes a table of their joins.
MOST_WORLD_MEMBERSHIPS = 50_000_000


#: The variants that worlds have, and the reasons why they do not have the others.
_IN_WORLDS = ("bottleneck", "collapse", "lazy")
_NO_GROUPS = "has no effect without groups; give groups or members"
_NO_SCRIBE = "has no effect without Scribe; add scribe to systems"
_NOT_IN_WORLDS = {
    "reference_tree": "applies to runs only; give --reference-tree, a tree over the live nodes",
}


#: The sections of a world, in order.
SECTIONS: dict[str, type[Section]] = {
    "world": RoundsConfig,
    "reference_tree": LiveTreeConfig,
    "scribe": ScribeConfig,
    "trees": LiveTreesConfig,
    "overlay": SettledOverlayConfig,
    "topology": TopologyConfig,
    "bandwidth": LinksConfig,
    "bayeux": LiveBayeuxConfig,
    "can": LiveCanConfig,
    "gossipsub": GossipSubConfig,
}


class WorldConfig(NetworkConfig):
    """The settings of a world: its overlay, groups, events and rounds.

    Each setting is an argument by its own name (``nodes=9``) or in its section, as in
    :class:`~scribe_spark.config.RunConfig`.

    Raises
    ------
    InputError
        A setting is unknown, or its value is impossible, alone or together with another one.

    Examples
    --------
    >>> config = WorldConfig(nodes=5_000, generator="mass-failure", rounds=5)
    >>> config == WorldConfig(
    ...     overlay={"nodes": 5_000}, world={"generator": "mass-failure", "rounds": 5}
    ... )
    True
    >>> config.world.share, config.flat()["detection"], config.replace(rounds=9).world.rounds
    (0.1, 1, 9)
    """

    sections: ClassVar[dict[str, type[Section]]] = SECTIONS
    is_world: ClassVar[bool] = True

    elsewhere: ClassVar[dict[str, str]] = {
        "flooding_over": "applies to runs only: in a world each group has a ring of its own",
        "can_landmarks": "applies to runs only: in a world points are drawn",
        **dict.fromkeys(
            ("bayeux_root", "bayeux_partitions"),
            "applies to runs only: a world's group has one root, the node closest to the groupId",
        ),
        **dict.fromkeys(
            ("write_knowledge", "write_routing_table", "knowledge"),
            "applies to runs only: what nodes know changes in every round, and a world's table "
            "state_even or state_odd has it",
        ),
        **dict.fromkeys(
            ("schedule", "publications", "interval", "published_by"),
            "applies to runs only: in a world events say who publishes in each round; give "
            "--generator publications, or --events",
        ),
    }

    overlay: SettledOverlayConfig = SettledOverlayConfig()
    world: RoundsConfig = RoundsConfig()
    reference_tree: LiveTreeConfig = LiveTreeConfig()
    scribe: ScribeConfig = ScribeConfig()
    trees: LiveTreesConfig = LiveTreesConfig()
    bandwidth: LinksConfig = LinksConfig()
    bayeux: LiveBayeuxConfig = LiveBayeuxConfig()
    can: LiveCanConfig = LiveCanConfig()
    gossipsub: GossipSubConfig = GossipSubConfig()
    classes: Classes = NO_CLASSES

    # tells type checkers that flat names are arguments, too
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    @classmethod
    def of_run(cls, config: run.RunConfig, variant: str | None = None) -> WorldConfig:
        """Return the config of the world that plays the rounds of a run."""
        sections = TopologyConfig, OverlayConfig, EventsConfig, MaintenanceConfig, GroupsConfig
        shared = {
            "seed",
            "classes",
            *(name for one in sections for name in one.flat_names().values()),
        }
        shared |= LiveTreesConfig.flat_names().keys() - {"variants", "systems"}
        given = {name: value for name, value in config.flat().items() if name in shared}
        given = {name: value for name, value in given.items() if value is not None}
        variants = () if variant is None else (variant,)
        return cls(**given, variants=variants, measures="delay", lookups=0, link_stress_period=0)

    @model_validator(mode="after")
    def _can_be_played(self) -> WorldConfig:
        nodes, world, has_groups = self.overlay.nodes, self.world, self.scribe.has_groups
        if world.initial is not None and world.initial > nodes:
            raise InputError("initial", world.initial, f"must be at most the {nodes} nodes")
        if self.gossipsub.discovery != "dial":
            remedy = "is not supported in worlds; give dial"
            raise InputError("gossipsub_discovery", self.gossipsub.discovery, remedy)
        if self.bandwidth.on and not has_groups:
            raise InputError("message_size", self.bandwidth.message_size, _NO_GROUPS)
        refuse_unplayable(self)
        for name in self.trees.variants:
            if name not in _IN_WORLDS:
                unknown = f"is not a variant of worlds; give one of {listed(_IN_WORLDS)}"
                raise InputError("variants", name, _NOT_IN_WORLDS.get(name, unknown))
            if not has_groups:
                raise InputError("variants", name, _NO_GROUPS)
            if not self.plays_scribe:
                raise InputError("variants", name, _NO_SCRIBE)
        if self.scribe.reliable and has_groups and not self.plays_scribe:
            raise InputError("delivery", self.scribe.delivery, _NO_SCRIBE)
        if self.scribe.count and "root-failure" in world.generators:
            refuse_missing_roots(world.roots, self.scribe.count)
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> WorldConfig:
        nodes, scribe, most = self.overlay.nodes, self.scribe, self.overlay.leaf_set // 2
        if not scribe.has_groups:
            return self
        if scribe.replicas > most:
            remedy = f"must be at most {most}, half of leaf_set: a node knows no farther neighbours"
            raise InputError("replicas", scribe.replicas, remedy)
        memberships = scribe.memberships(nodes, self.classes)
        refuse_lone_custody(scribe.custody, self.classes)
        refuse_misfits(scribe.count, scribe.size, memberships, nodes, MOST_WORLD_MEMBERSHIPS)
        if scribe.count is not None:
            self.refuse_groups(scribe.count)
        return self

    def refuse_groups(self, groups: int, members: str | None = None) -> None:
        """Refuse more groups than the 64-bit keys of the world's systems can number."""
        deadline, rounds = self.scribe.deadline, self.world.rounds
        refuse_groups_of_world(groups, self.overlay.nodes, deadline, rounds, members)
        if "can" in self.trees.systems:
            self.can.refuse_groups(groups)

    @property
    def plays_scribe(self) -> bool:
        """True if the world has groups and plays Scribe."""
        return self.scribe.has_groups and "scribe" in self.trees.systems

    @property
    def estimated_work(self) -> int:
        """A rough cost, to choose the number of partitions: (nodes + lookups) * rounds."""
        return self.world.rounds * (self.overlay.nodes + self.world.lookups)
