"""Pastry's part of the events of a round: goodbyes, recoveries and arrivals.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.pastry.arrival_in_round import arrive
from scribe_spark.pastry.arrivals.wave import NodeProgram
from scribe_spark.pastry.recovery import recover
from scribe_spark.pastry.states import pairs_of
from scribe_spark.pastry.waves_of_round import arrival_order, split_in_waves
from scribe_spark.rounds.events import Events, end_lives
from scribe_spark.rounds.player import RoundPlayer


def play_events(player: RoundPlayer, number: int, events: Events) -> None:
    """Play the events of a round, which have been checked (`rounds.events.check_events`)."""
    given, lives = player.given, player.lives
    known = given.facts.ring
    # 1. failures (without a message) and departures (with goodbyes)
    end_lives(lives, number, events, given.world_rules.detection)
    goodbyes = [_SayGoodbye(player.given, events.leave)] if len(events.leave) else []
    # 2. recoveries; a node that knows no live node arrives anew
    waves = [alone[None] for alone in recover(player, events.recover, goodbyes)]
    # 3. arrivals
    ordered = arrival_order(known, events.arrive, number, given.seed)
    live = int(np.count_nonzero(lives.alive)) + len(waves)
    waves += split_in_waves(ordered, live, given.rules.growth)
    for wave, arriving in enumerate(waves):
        arrive(player, arriving, number, wave)


@dataclass(frozen=True)
class _SayGoodbye(NodeProgram):
    """Departing nodes notify their leaves, which then know at once that they are gone."""

    leaving: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        first, last = np.searchsorted(self.leaving, self.bounds[bucket : bucket + 2])
        leaving, states = self.leaving[first:last], self.states(bucket, tables)
        sender, to = pairs_of(leaving, states.distinct_leaves(leaving - states.first))
        self.given.observer.send(tables, "goodbye", self.given.is_alive(to), sender, to)
        return {}
