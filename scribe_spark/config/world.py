"""What a world is: an overlay whose nodes arrive, leave, fail and recover, in rounds."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from scribe_spark.config.groups import GroupsConfig
from scribe_spark.config.live_tree import LiveTreeConfig
from scribe_spark.config.network import NetworkConfig
from scribe_spark.config.overlay import OverlayConfig
from scribe_spark.config.rounds import RoundsConfig
from scribe_spark.config.scribe import ScribeConfig
from scribe_spark.config.section import Section
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.errors import InputError

__all__ = ["MOST_WORLD_MEMBERSHIPS", "WorldConfig"]

#: The joins at the start are rows of the table of events, which is made on the driver.
MOST_WORLD_MEMBERSHIPS = 50_000_000


class WorldConfig(NetworkConfig):
    """An overlay and the rounds that it lives through.

    Fields are given by their flat names, by section, or both, as those of
    :class:`~scribe_spark.config.RunConfig`.

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

    sections: ClassVar[dict[str, type[Section]]] = {
        "world": RoundsConfig,
        "reference_tree": LiveTreeConfig,
        "scribe": ScribeConfig,
        "overlay": OverlayConfig,
        "topology": TopologyConfig,
    }

    world: RoundsConfig = RoundsConfig()
    reference_tree: LiveTreeConfig = LiveTreeConfig()
    scribe: ScribeConfig = ScribeConfig()

    def __init__(self, **given: Any) -> None:  # for type checkers: flat names are taken too
        super().__init__(**given)

    @model_validator(mode="after")
    def _initial_nodes_exist(self) -> WorldConfig:
        nodes, initial = self.overlay.nodes, self.world.initial
        if initial is not None and initial > nodes:
            raise InputError("initial", initial, f"must be at most the {nodes} nodes")
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> WorldConfig:
        if not self.scribe.has_groups:
            return self
        nodes, size, most = self.overlay.nodes, self.scribe.size, self.overlay.leaf_set // 2
        if self.scribe.replicas > most:
            remedy = f"must be at most {most}, half of leaf_set: so far a node knows its neighbours"
            raise InputError("replicas", self.scribe.replicas, remedy)
        if size is not None and size > nodes:
            remedy = f"a group cannot have more members than the {nodes} nodes"
            raise InputError("group_size", size, remedy)
        memberships = self._memberships()
        if memberships > MOST_WORLD_MEMBERSHIPS:
            remedy = (
                f"makes {memberships:,} members over all groups of {nodes:,} nodes; must be at "
                f"most {MOST_WORLD_MEMBERSHIPS:,}"
            )
            raise InputError("groups", self.scribe.count, remedy)
        return self

    def _memberships(self) -> int:
        """About how many members all groups have together at the start; 0 where a table says it."""
        scribe = self.scribe
        if scribe.count is None:
            return 0
        if scribe.size is not None:
            return scribe.count * scribe.size
        sizes = GroupsConfig(count=scribe.count, zipf_exponent=scribe.zipf_exponent)
        return sizes.memberships(self.overlay.nodes)

    @property
    def estimated_work(self) -> int:
        """What a world costs, roughly: nodes and lookups times rounds."""
        return self.world.rounds * (self.overlay.nodes + self.world.lookups)
