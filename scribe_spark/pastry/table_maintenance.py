"""Maintenance of routing tables in an overlay with dead nodes.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

from scribe_spark.pastry.arrivals.arrival import maintenance
from scribe_spark.pastry.arrivals.wave import WaveInMemory
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.table_repair import drop_and_repair
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["maintain_tables"]


def maintain_tables(
    state: OverlayState,
    purpose: str,
    number: int,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> None:
    """Each live node asks one drawn entry of each row for its row; writes `States.cells`.

    All answers are rows from before it.  An entry that is dead is dropped, and repaired by the rule
    in force, before the answers are taken.

    Parameters
    ----------
    purpose, number : str, int
        Key of the draws.
    """
    player = Player(state, rules, kernel, tally)
    ask, take = maintenance(player.given, WaveInMemory.of_nobody(state.live()), purpose, number)
    player.play(ask)
    drop_and_repair(state, player.take_found(), rules, kernel, tally)
    player.play(take)
