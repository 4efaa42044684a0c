"""A case of CAN multicast, played by the engine in process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from identifiers import parts
from poisoned import Poisoned, play_blind

from scribe_spark import draws
from scribe_spark.can.multicast import JoinAndFlood, Joining, goes_on
from scribe_spark.can.space import Landmarks, Space
from scribe_spark.can.zones import Placement, Zones, zones_of_groups
from scribe_spark.config.can import most_bits
from scribe_spark.dissemination import Dissemination
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.ring import Ring
from tests.oracle.can.cases import CanCase

__all__ = ["LAN_US", "Played", "Routers", "ZonesInMemory", "draw_of"]

LAN_US = 1000


@dataclass(frozen=True)
class ZonesInMemory:
    """Zones of this process' memory (`KnowsZones`), where the engine plays in process."""

    zones: Zones


@dataclass(frozen=True)
class Routers:
    """The routes of a case; indices of routers are their ids."""

    delay_us: np.ndarray

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.delay_us[a, b]


class Played:
    """A case as kernels play it."""

    def __init__(self, given: CanCase, buckets: int) -> None:
        self.given, case = given, given.case
        self.routes = case.routes()
        many = len(case.routers)
        self.kernel = Routers(
            np.array([[self.routes.delay[a][b] for b in range(many)] for a in range(many)])
        )
        nodes = sorted(case.ids, key=case.ids.__getitem__)
        ids = [case.ids[node] for node in nodes]
        self.ring = Ring(
            *parts(ids),
            np.array(nodes),
            np.array([case.router[node] for node in nodes]),
        )
        self.bounds = np.linspace(0, len(nodes), buckets + 1).astype(np.int64)
        most = most_bits(given.dimensions)
        self.space = Space(given.dimensions, min(given.bits or most, most))
        self.number = np.array(sorted(case.keys), dtype=np.int64)
        self.landmarks = None
        if given.landmarks:
            self.landmarks = Landmarks.drawn(case.seed, given.landmarks, many)

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
        join = Joining(self.bounds, self.known, point, source, given.flooding, *floods)
        flood = Dissemination(
            *(self.bounds, RingInMemory(ring), self.kernel, LAN_US, goes_on, ("face",)),
            clock=given.clock,
            processing_us=given.processing_us,
        )
        tables = [Poisoned() for _ in self.bounds[1:]]
        self.supersteps = len(play_blind(JoinAndFlood(join, flood), tables))
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
