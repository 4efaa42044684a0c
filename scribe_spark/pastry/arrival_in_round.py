"""Arrival of nodes in an overlay with dead ones: a wave of the join protocol.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.arrival import arrival
from scribe_spark.pastry.arrivals.join_messages import JoinMessages
from scribe_spark.pastry.arrivals.states import NONE
from scribe_spark.pastry.arrivals.wave import WaveInMemory
from scribe_spark.pastry.arrivals.waves import wave_size
from scribe_spark.pastry.live_contacts import contacts
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.table_maintenance import maintain_tables
from scribe_spark.pastry.table_repair import drop_and_repair
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["arrival_order", "arrive", "split_in_waves"]


def arrival_order(
    state: OverlayState, nodes: np.ndarray, number: int, rules: WorldRules
) -> np.ndarray:
    """The nodes (positions) that arrive in a round, in the order of a draw."""
    drawn = draws.stream_at(rules.seed, "arrival order", number, state.states.known.node[nodes])
    return nodes[np.lexsort((nodes, drawn))]


def split_in_waves(ordered: np.ndarray, live: int, growth: float) -> list[np.ndarray]:
    """The waves in which nodes arrive where `live` nodes are."""
    waves, done = [], 0
    while done < len(ordered):
        waves.append(ordered[done : done + wave_size(live + done, growth)])
        done += len(waves[-1])
    return waves


def arrive(
    state: OverlayState,
    arriving: np.ndarray,
    number: int,
    wave: int,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> None:
    """A wave of nodes arrives; writes all of `state`.

    Parameters
    ----------
    arriving : ndarray of int64
        Positions of nodes that are not alive, in the order of arrival; what they knew is forgotten.
    number, wave : int
        The round, and how many waves were before this one in it.
    """
    states, player = state.states, Player(state, rules, kernel, tally)
    states.leaves[arriving], states.cells[arriving] = NONE, NONE
    if state.alive.any():
        contact = contacts(state, arriving, number, rules, kernel)
        place = np.argsort(arriving)
        live = np.union1d(state.live(), arriving)
        entering = WaveInMemory(arriving[place], place, contact[place], live)
        for program in arrival(player.given, entering):
            player.play(program)
            if isinstance(program, JoinMessages):  # from now on others hear of the new nodes
                drop_and_repair(state, player.take_found(), rules, kernel, tally)
                state.enter(arriving)
    else:
        state.enter(arriving)
    for time in range(rules.maintenance):
        purpose = f"wave maintenance {time} of wave {wave}"
        maintain_tables(state, purpose, number, rules, kernel, tally)
