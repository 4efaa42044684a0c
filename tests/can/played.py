"""A case of CAN multicast: round 0 of a run, played by the engine in process."""

from dataclasses import dataclass

import numpy as np
import worlds
from poisoned import PoisonedTask
from round_0 import Round0

from scribe_spark.can.config import most_bits
from scribe_spark.can.multicast import LiveCan
from scribe_spark.can.zones import Neighbours, Space, Zones, draw_landmarks, neighbours_of
from scribe_spark.core import draws
from tests.oracle.can.cases import CanCase

LAN_US = worlds.LAN_US


@dataclass(frozen=True)
class ZonesInMemory:
    """Zones of this process' memory (`SharedZones`), where the engine plays in process."""

    zones: Zones

    def read(self) -> tuple[Zones, Neighbours]:
        """See `SharedZones`."""
        return self.zones, neighbours_of(self.zones)


def space_of(given: CanCase) -> Space:
    most = most_bits(given.dimensions)
    return Space(given.dimensions, min(given.bits or most, most))


class Played:
    """A case as kernels play it."""

    def __init__(self, given: CanCase, buckets: int) -> None:
        self.given, case = given, given.case
        self.routes = case.routes()
        world = worlds.World(case, self.routes, case.overlay(self.routes), 0)
        self.ring, self.kernel = world.ring, world.kernel
        self.bounds = np.linspace(0, len(self.ring), buckets + 1).astype(np.int64)
        self.space = space_of(given)
        self.number = np.array(sorted(case.keys), dtype=np.int64)
        self.landmarks = draw_landmarks(case.seed, given.landmarks, len(case.routers))

    @property
    def run(self) -> Round0:
        """The run, in which each source publishes once; its buckets cannot see each other."""
        given, case = self.given, self.given.case
        system = LiveCan(
            *(self.space, case.seed, given.flooding, given.clock),
            *(given.processing_us, given.landmarks),
        )
        joins = [(group, node) for group in case.keys for node in case.members[group]]
        publish = [(group, source, 0, 0) for group, source in sorted(given.sources.items())]
        network = {"kernel": self.kernel, "lan_us": LAN_US, "routers": len(case.routers)}
        of = case.keys, joins, publish, {**network, "seed": case.seed}
        return Round0(system, self.ring, self.bounds, *of, player=PoisonedTask)


def draw_of(seed: int):
    """Draws of a run as the oracle asks for them."""

    def draw(purpose: str, *numbers: int) -> int:
        return int(draws.bits_np(seed, purpose, *numbers))

    return draw
