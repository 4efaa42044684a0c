"""A case of CAN multicast, played by the engine in process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import worlds
from poisoned import Poisoned, play_blind

from scribe_spark import draws
from scribe_spark.can.config import most_bits
from scribe_spark.can.multicast import Joining, goes_on
from scribe_spark.can.zones import Placement, Space, Zones, draw_landmarks, zones_of_groups
from scribe_spark.dissemination import Dissemination
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.packing import concatenate
from tests.oracle.can.cases import CanCase

__all__ = ["LAN_US", "Played", "ZonesInMemory", "draw_of"]

LAN_US = worlds.LAN_US


@dataclass(frozen=True)
class ZonesInMemory:
    """Zones of this process' memory (`KnowsZones`), where the engine plays in process."""

    zones: Zones


class Played:
    """A case as kernels play it."""

    def __init__(self, given: CanCase, buckets: int) -> None:
        self.given, case = given, given.case
        self.routes = case.routes()
        world = worlds.World(case, self.routes, case.overlay(self.routes), 0)
        self.ring, self.kernel = world.ring, world.kernel
        self.bounds = np.linspace(0, len(self.ring), buckets + 1).astype(np.int64)
        most = most_bits(given.dimensions)
        self.space = Space(given.dimensions, min(given.bits or most, most))
        self.number = np.array(sorted(case.keys), dtype=np.int64)
        self.landmarks = None
        if given.landmarks:
            self.landmarks = draw_landmarks(case.seed, given.landmarks, len(case.routers))

    @cached_property
    def tables(self) -> list[Poisoned]:
        given, case, ring = self.given, self.given.case, self.ring
        space = self.space
        source = ring.positions(np.array([given.sources[g] for g in self.number.tolist()], int))
        rows = [
            (index, node)
            for index, group in enumerate(self.number.tolist())
            for node in case.members[group]
        ]
        group, member = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        placement = Placement(space, case.seed, self.landmarks)
        zones = zones_of_groups(
            *(placement, ring, self.kernel, self.number, source, group, ring.positions(member))
        )
        self.known = ZonesInMemory(zones)
        point = np.array([case.keys[g] >> (128 - space.bits) for g in self.number.tolist()], int)
        floods = np.arange(len(source)), source
        flood = Dissemination(
            *(self.bounds, RingInMemory(ring), self.kernel, LAN_US, goes_on, ("face",)),
            clock=given.clock,
            processing_us=given.processing_us,
        )
        join = Joining(self.bounds, self.known, point, source, given.flooding, *floods, flood)
        tables = [Poisoned() for _ in self.bounds[1:]]
        self.supersteps = len(play_blind(join, tables))
        return tables

    def rows(self, *names: str) -> dict[str, np.ndarray]:
        """The rows of tables of all buckets; nodes and groups by number."""
        found = [one[name] for one in self.tables for name in names if name in one]
        if not found:
            return {}
        every = concatenate(found)
        for name in ("node", "sender", "receiver"):
            if name in every:
                known = every[name] >= 0
                every[name] = np.where(known, self.ring.node[every[name]], every[name])
        if "group" in every:
            every["group"] = self.number[every["group"]]
        return every


def draw_of(seed: int):
    """Draws of a run as the oracle asks for them."""

    def draw(purpose: str, *numbers: int) -> int:
        return int(draws.bits_np(seed, purpose, *numbers))

    return draw
