"""A group of Plumtree over Corrosion's regions, in one process: without routers and Spark."""

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.engine.packing import Columns
from scribe_spark.rounds.events import Events, Lives
from scribe_spark.rounds.player import Tally
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    Publishing,
    SystemRound,
)
from scribe_spark.systems.plumtree import PLUMTREE
from scribe_spark.systems.plumtree.config import PlumtreeConfig
from scribe_spark.topology.regions import read_matrix
from tools.one_group import player_of, ring_of, round_of

#: Corrosion's settings in its simulation (``Params::config``, ``TICK_INTERVAL``); the second wait
#: is half of the first one, as by default.
RULES = PlumtreeConfig(
    rules="corrosion",
    views="full",
    threshold=5,
    batch_ms=200.0,
    first_wait_ms=200.0,
    next_wait_ms=100.0,
)

#: The mean time between two publications, in microseconds.
_INTERVAL_US = 5_000

#: The greatest additional delay of a copy, in millionths.
_JITTER = 150_000


@cache
def region_delays() -> np.ndarray:
    """Return the one-way delays between the 19 regions in microseconds: int64, shape (19, 19)."""
    return read_matrix("corrosion19").us


def regions_of(nodes: int, seed: int) -> np.ndarray:
    """Return the drawn region of each node: int64."""
    bits = draws.bits_np(seed, "region", np.arange(nodes))
    shares = read_matrix("corrosion19").shares
    assert shares is not None
    found = np.searchsorted(np.cumsum(shares), (bits >> np.uint64(11)) * 2.0**-53, side="right")
    return np.minimum(found, len(shares) - 1)


@dataclass(frozen=True)
class _Network:
    """Delays and losses between regions; a part of `underlay.protocol.Kernel`."""

    loss: float

    jitter: ClassVar[int] = _JITTER
    withheld: ClassVar[None] = None

    @property
    def least_us(self) -> int:
        return int(region_delays().min())

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return region_delays()[a, b]

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        return np.full(len(a), self.loss) if self.loss else None


@dataclass(frozen=True)
class PlayedGroup:
    """What became of the publications, in the order of their times."""

    delivered: float  # the share of the expected deliveries
    #: float64, shape (P,): copies of each publication that were sent, per member but its source,
    #: minus 1.
    redundancy: np.ndarray


def played_group(nodes: int, publications: int, loss: float, seed: int) -> PlayedGroup:
    """Play publications of different nodes at random times, 5 ms apart on average."""
    system = PLUMTREE.world(SimpleNamespace(plumtree=RULES))  # type: ignore[misc]
    ring = ring_of(nodes, regions_of(nodes, seed))
    player = player_of(ring)
    number = np.arange(nodes)
    source = np.argsort(draws.bits_np(seed, "publisher", number))[:publications]
    at_us = draws.bits_np(seed, "time", source) % np.uint64(publications * _INTERVAL_US)
    zero = np.zeros_like(source)
    publish = Publishing.numbered(zero, source, at_us.astype(np.int64), zero, source)
    tally = Tally((*system.payload, *system.control))
    of_round = Events(), number, publish, _Network(loss), seed, tally
    lives, measures = Lives.of(nodes, number), ("delay", "node_stress")
    now = round_of(0, 1, ring, lives, *of_round, measures=measures, scheduled=True)
    found: dict[str, Columns] = {}

    def measure(_done: SystemRound) -> None:
        found.update(player.gather(DELIVERED, CARRIED))

    system.play_on(player, now, measure)
    others = nodes - 1
    copies = np.bincount(found[CARRIED]["publication"], minlength=publications)
    return PlayedGroup(len(found[DELIVERED]["node"]) / (publications * others), copies / others - 1)
