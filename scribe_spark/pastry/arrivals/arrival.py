"""The arrival of a wave of nodes: the programs in their order, for runs and for rounds of worlds.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.engine import Inbox, Outbox, Program, Tables
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.engine.player import play_in_turn
from scribe_spark.pastry.arrivals.announcements import Announce, ExchangeLeafSets, Introduce
from scribe_spark.pastry.arrivals.join_messages import Discover, JoinMessages
from scribe_spark.pastry.arrivals.waves import Wave, WaveProgram, forget
from scribe_spark.pastry.table_repair import close_phase, maintain_tables
from scribe_spark.rounds.player import Environment, RoundPlayer


def arrive(player: RoundPlayer, wave: Wave, number: int, of_wave: str = "") -> None:
    """Let a wave of dead or new nodes arrive; their old tables are cleared before.

    A wave without contacts is the first one in an overlay without live nodes.  The draws of the
    maintenance of routing tables have the keys `number` (of the wave in a run, of the round in a
    world) and `of_wave` (the words that tell apart the waves of a round).
    """
    is_first = bool((wave.contact < 0).all())
    if is_first:
        player.play(_Forget(player.environment, wave))
    else:
        play_in_turn(player, [*_asking(player.environment, wave), close_phase(player.environment)])
    if player.environment.lives is not None:  # the programs below tell other nodes of the new ones
        player.lives.enter(wave.arriving[np.argsort(wave.order)])
    programs = list[Program | IfRows]()
    if not is_first:
        programs += _entering(player.environment, wave)
    for time in range(player.environment.rules.maintenance):
        purpose = f"wave maintenance {time}{of_wave}"
        programs += maintain_tables(player.environment, wave, purpose, number)
    play_in_turn(player, programs)


def _asking(environment: Environment, wave: Wave) -> Iterator[Program]:
    """Yield the programs by which arriving nodes ask existing nodes for rows and leaf sets."""
    if environment.rules.contact == "discovered":
        yield Discover(environment, wave)
    yield JoinMessages(environment, wave)


def _entering(environment: Environment, wave: Wave) -> Iterator[Program]:
    """Yield the programs, after those of `_asking`, that tell other nodes of the arrived nodes."""
    yield Announce(environment, wave)
    yield ExchangeLeafSets(environment, wave)
    if environment.rules.introduce:
        yield Introduce(environment, wave)


@dataclass(frozen=True)
class _Forget(WaveProgram):
    """Clear the tables of arriving nodes, if the overlay has no live node."""

    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        forget(self, bucket, tables)
        return {}
