"""A topic of GossipSub in rounds, in one process: without routers and Spark.

Each round is a heartbeat, in which nodes may leave and come back, and a node may publish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scribe_spark.core.arrays import divided, whole_numbers
from scribe_spark.core.pair_delay import PairDelay
from scribe_spark.engine.packing import Columns, concatenate
from scribe_spark.engine.program import Program
from scribe_spark.rounds.events import Events, Lives
from scribe_spark.rounds.player import Tally
from scribe_spark.rounds.system import Publishing, SystemPlayer
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.publication import ARRIVALS
from scribe_spark.systems.gossipsub.round import CountCopies, LiveGossipSub
from scribe_spark.underlay.pairs import PairKernel
from tools.one_group import player_of, ring_of, round_of

#: ``events(round, alive)`` returns the nodes that leave, and those that come back.
NodeEvents = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]]

#: ``source(round, alive)`` returns the node that publishes in a round; None: no node.
Source = Callable[[int, np.ndarray], int | None]


def nothing_happens(_round: int, _alive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return no events."""
    return whole_numbers(), whole_numbers()


@dataclass(frozen=True)
class TopicWorld:
    """A topic whose subscribers are all nodes."""

    config: GossipSubConfig
    nodes: int
    seed: int
    delay: str  # the law of the delays of pairs: the option `pair_delay`
    jitter: int = 0  # the greatest additional delay of a copy, in millionths of the pair's delay

    def play(
        self, rounds: int, source: Source, events: NodeEvents = nothing_happens
    ) -> PlayedTopic:
        """Play rounds, and return what nodes received and sent."""
        system = LiveGossipSub(self.config.filled(), self.config.clock)
        number, kinds = np.arange(self.nodes), (*system.payload, *system.control)
        ring = ring_of(self.nodes)
        player = player_of(ring, kind=_Listener)
        kernel = PairKernel(PairDelay.parse(self.delay), self.seed, self.jitter)
        lives, counts = Lives.of(self.nodes, number), Counter[str]()
        for now in range(rounds):
            leave, arrive = events(now, lives.alive)
            lives.exit(leave, now, 0)
            lives.enter(arrive)
            publishes, tally = source(now, lives.alive), Tally(kinds)
            of = whole_numbers() if publishes is None else np.array([publishes])
            publish = Publishing.at_begin((np.zeros_like(of), of))
            happens, come = Events(leave=leave, arrive=arrive), arrive if now else number
            of_round = happens, come, publish, kernel, self.seed, tally
            today = round_of(now, rounds, ring, lives, *of_round)
            system.play_on(player, today)
            counts.update(tally.by_kind())
        return PlayedTopic(concatenate(player.heard) if player.heard else {}, counts)


@dataclass
class _Listener(SystemPlayer):
    """A player that notes all first copies before their times are forgotten."""

    heard: list[Columns] = field(default_factory=list)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.heard = []

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        """See `SystemPlayer.play`."""
        if isinstance(program, CountCopies):
            came = self.gather(ARRIVALS)[ARRIVALS]
            new = came["heartbeat"] == program.heartbeat
            message, node = divided(came["key"][new], len(self.facts.ring))
            published = program.messages.published[message]
            row = {"round": published, "node": node, "at_us": came["at"][new]}
            self.heard.append(row)
        return super().play(program, first)


@dataclass(frozen=True)
class PlayedTopic:
    """The copies by which nodes got publications, and the numbers of messages by kind.

    `copies` has the ``round`` of the publication, the ``node``, and the time ``at_us`` since the
    publication, 0 at the source.  A node that comes back may get a publication again.
    """

    copies: Columns
    sent: Counter[str]

    def delays(self) -> np.ndarray:
        """Return the delays in microseconds of the first copy of each publication at each node."""
        of, node, at = (self.copies[name] for name in ("round", "node", "at_us"))
        key = of * (node.max(initial=0) + 1) + node
        order = np.lexsort((at, key))
        first = np.r_[True, key[order][1:] != key[order][:-1]]
        return at[order[first]]
