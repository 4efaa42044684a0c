"""The overlay, the groups and the sources of a small run, as the oracles have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from identifiers import whole
from oracle.pastry import Overlay

from scribe_spark.experiments import Simulation

__all__ = ["RunCase", "case_of"]

SMALL = {
    "transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3,
    "nodes": 120, "groups": 6, "overlay": "perfect", "leaf_set": 4, "b": 2, "seed": 5,
}  # fmt: skip


@dataclass(frozen=True)
class RunCase:
    """What a run is about.

    Attributes
    ----------
    overlay : Overlay
    keys : dict of group to groupId
    members : dict of group to set of nodes
    sources : dict of group to node
    """

    overlay: Overlay
    keys: dict[int, int]
    members: dict[int, set[int]]
    sources: dict[int, int]


def case_of(stages: Simulation) -> RunCase:
    """Read the case of a run off its tables."""
    config, underlay = stages.config, stages.underlay
    nodes = stages.nodes.collect()
    ids = {row["node"]: whole(row["id_hi"], row["id_lo"]) for row in nodes}
    router = {row["node"]: row["router"] for row in nodes}
    routers, every = underlay.routers.tolist(), np.arange(len(underlay.routers))
    delay = {
        one: dict(zip(routers, underlay.kernel.delays(0 * every + at, every).tolist(), strict=True))
        for at, one in enumerate(routers)
    }
    pastry = config.overlay
    overlay = Overlay(ids, router, delay, pastry.b, pastry.leaf_set, underlay.lan_us)
    groups = stages.multicast_groups.collect()
    members: dict[int, set[int]] = {row["group"]: set() for row in groups}
    for row in stages.members.collect():
        members[row["group"]].add(row["node"])
    keys = {row["group"]: whole(row["key_hi"], row["key_lo"]) for row in groups}
    return RunCase(overlay, keys, members, {row["group"]: row["source"] for row in groups})
