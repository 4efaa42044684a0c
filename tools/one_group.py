"""Systems in rounds in one process, without routers and Spark: all nodes are of one group.

A topic of GossipSub, in which nodes may leave and come back; and a group of Plumtree over
Corrosion's regions.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import divided, whole_numbers
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns, concatenate
from scribe_spark.engine.program import Program, Tables
from scribe_spark.rounds.events import Events, Lives
from scribe_spark.rounds.player import Tally
from scribe_spark.rounds.system import CARRIED, DELIVERED, LivingRound, Publishing, SystemPlayer
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.publication import ARRIVALS
from scribe_spark.systems.gossipsub.round import CountCopies, LiveGossipSub
from scribe_spark.systems.plumtree import PLUMTREE
from scribe_spark.systems.plumtree.config import PlumtreeConfig
from scribe_spark.topology.regions import read_matrix
from scribe_spark.underlay.pairs import PairKernel


def ring_of(nodes: int, router: np.ndarray | None = None) -> Ring:
    """Return nodes whose positions are their numbers; by default each is its own router."""
    number = np.arange(nodes)
    no_bits = np.zeros(nodes, dtype=np.uint64)
    return Ring(number.astype(np.uint64), no_bits, number, number if router is None else router)


def player_of(ring: Ring, tables: Tables | None = None, kind: Any = SystemPlayer) -> Any:
    """Return a player of a kind that has all nodes in one bucket, perhaps with tables."""
    engine = InTask([Tables.of({}) if tables is None else tables])
    return kind(engine, RingInMemory(ring), np.array([0, len(ring)]), "")


def _play(
    system: Any,
    player: Any,
    ring: Ring,
    lives: Lives,
    publish: Publishing,
    *measure: Any,
    **more: Any,
) -> Tally:
    """Play a round of the group 1, of all nodes; return the numbers of messages."""
    group, nobody = np.ones(1, dtype=np.int64), whole_numbers()
    tally = Tally((*system.payload, *system.control))
    given = {"number": 0, "rounds": 1, "events": Events(), "join": np.arange(len(ring)), **more}
    given["join"] = np.zeros_like(given["join"]), given["join"]
    given |= {"ring": ring, "overlay": lives, "publish": publish, "tally": tally}
    given |= {"group": group, "key_hi": group, "key_lo": group, "quit": (nobody, nobody)}
    round = LivingRound(lan_us=0, deadline=1, incarnation=nobody, **given)
    system.play_on(player, round, *measure)
    return tally


# --- a topic of GossipSub


def play_topic(
    config: GossipSubConfig,
    kernel: PairKernel,
    nodes: int,
    seed: int,
    rounds: int,
    source: Callable[[int, np.ndarray], int | None],
    events: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
) -> tuple[np.ndarray, Counter[str]]:
    """Play rounds, each a heartbeat, of a topic whose subscribers are all nodes.

    ``source(round, alive)`` is the node that publishes, and ``events(round, alive)`` the nodes that
    leave, and those that come back.  Return the delays in microseconds of the first copy of each
    publication at each node, 0 at the source, and the numbers of messages by kind.
    """
    system, ring = LiveGossipSub(config.filled(), config.clock), ring_of(nodes)
    number, nobody = np.arange(nodes), whole_numbers()
    player = player_of(ring, kind=_Listener)
    lives, counts = Lives.of(nodes, number), Counter[str]()
    for now in range(rounds):
        leave, arrive = (nobody, nobody) if events is None else events(now, lives.alive)
        lives.exit(leave, now, 0)
        lives.enter(arrive)
        publishes = source(now, lives.alive)
        of = nobody if publishes is None else np.array([publishes])
        publish = Publishing.at_begin((np.zeros_like(of), of))
        more: dict[str, Any] = {"number": now, "rounds": rounds, "kernel": kernel, "seed": seed}
        more |= {"events": Events(leave=leave, arrive=arrive), "join": arrive if now else number}
        counts.update(_play(system, player, ring, lives, publish, **more).by_kind())
    heard = concatenate(player.heard)
    # a node that comes back may get a publication again
    order = np.lexsort((heard["at_us"], heard["node"], heard["round"]))
    key = (heard["round"] * nodes + heard["node"])[order]
    return heard["at_us"][order[np.r_[True, key[1:] != key[:-1]]]], counts


class _Listener(SystemPlayer):
    """A player that notes all first copies before their times are forgotten."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.heard: list[Columns] = []

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        """See `SystemPlayer.play`."""
        if isinstance(program, CountCopies):
            came = self.gather(ARRIVALS)[ARRIVALS]
            new = came["heartbeat"] == program.heartbeat
            message, node = divided(came["key"][new], len(self.facts.ring))
            published = program.messages.published[message]
            self.heard.append({"round": published, "node": node, "at_us": came["at"][new]})
        return super().play(program, first)


# --- a group of Plumtree

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

    jitter: ClassVar[int] = 150_000  # the greatest additional delay of a copy, in millionths
    withheld: ClassVar[None] = None

    @property
    def least_us(self) -> int:
        return int(region_delays().min())

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return region_delays()[a, b]

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        return np.full(len(a), self.loss) if self.loss else None


def play_group(nodes: int, publications: int, loss: float, seed: int) -> tuple[float, np.ndarray]:
    """Play publications of different nodes at random times, 5 ms apart on average.

    Return the share of the expected deliveries, and for each publication, in the order of times,
    the copies that were sent, per member but its source, minus 1.
    """
    system = PLUMTREE.world(SimpleNamespace(plumtree=RULES))  # type: ignore[misc]
    ring, number = ring_of(nodes, regions_of(nodes, seed)), np.arange(nodes)
    player = player_of(ring)
    source = np.argsort(draws.bits_np(seed, "publisher", number))[:publications]
    at_us = draws.bits_np(seed, "time", source) % np.uint64(publications * _INTERVAL_US)
    zero = np.zeros_like(source)
    publish = Publishing.numbered(zero, source, at_us.astype(np.int64), zero, source)
    more: dict[str, Any] = {"kernel": _Network(loss), "seed": seed, "scheduled": True}
    more["measures"] = ("delay", "node_stress")
    found: dict[str, Columns] = {}
    _play(
        *(system, player, ring, Lives.of(nodes, number), publish),
        lambda done: found.update(player.gather(DELIVERED, CARRIED)),
        **more,
    )
    copies = np.bincount(found[CARRIED]["publication"], minlength=publications)
    expected = publications * (nodes - 1)
    return len(found[DELIVERED]["node"]) / expected, copies / (nodes - 1) - 1
