"""Arrival of a wave of nodes in a living overlay, by the join protocol.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Inbox, Outbox, Program, Tables
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.player import play_in_turn
from scribe_spark.pastry.arrivals.arrival import asking, entering
from scribe_spark.pastry.arrivals.wave import WaveProgram, forget
from scribe_spark.pastry.table_repair import close_phase, maintain_tables
from scribe_spark.pastry.waves_of_round import WaveOfRound
from scribe_spark.rounds.player import RoundPlayer


@dataclass(frozen=True)
class _Forget(WaveProgram):
    """Clear the tables of nodes that arrive in an overlay without a live node."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        forget(self, bucket, tables)
        return {}


def arrive(player: RoundPlayer, ordered: np.ndarray, number: int, wave: int) -> None:
    """Let a wave of dead or new nodes (positions, in their order of arrival) arrive in a round.

    Their old tables are cleared.  The value `wave` is the number of the wave in the round, from 0.
    """
    arriving = WaveOfRound.of(player.given, ordered, number)
    if player.lives.alive.any():
        play_in_turn(player, [*asking(player.given, arriving), close_phase(player.given)])
        player.lives.enter(ordered)  # the programs below tell other nodes of the new ones
        programs = list[Program | IfRows](entering(player.given, arriving))
    else:
        player.play(_Forget(player.given, arriving))
        player.lives.enter(ordered)
        programs = []
    for time in range(player.given.rules.maintenance):
        purpose = f"wave maintenance {time} of wave {wave}"
        programs += maintain_tables(player.given, purpose, number)
    play_in_turn(player, programs)
