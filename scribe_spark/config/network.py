"""The settings of every config that simulates an overlay: seed, network and nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated

from scribe_spark.config.overlay import OverlayConfig
from scribe_spark.config.section import setting, within
from scribe_spark.config.sectioned import Sectioned
from scribe_spark.config.topology import TopologyConfig


class NetworkConfig(Sectioned):
    """The seed, the network of routers, and the overlay."""

    seed: Annotated[int, within(-(2**63), 2**63 - 1)] = setting(
        1, "Seed of all random numbers; the same seed and settings give the same results"
    )
    topology: TopologyConfig = TopologyConfig()
    overlay: OverlayConfig = OverlayConfig()

    @property
    def has_rounds(self) -> bool:
        """True if rounds are played."""
        return self.is_world

    @property
    def network_key(self) -> Hashable:
        """The settings that determine routers, links and routes; equal keys give equal networks."""
        return self.topology, self.seed
