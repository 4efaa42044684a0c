"""Maintenance of routing tables in an overlay with dead nodes.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

from scribe_spark.engine import Program
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.pastry.arrivals.arrival import maintenance
from scribe_spark.pastry.arrivals.wave import Given
from scribe_spark.pastry.table_repair import close_phase
from scribe_spark.pastry.waves_of_round import WaveOfRound


def maintain_tables(given: Given, purpose: str, number: int) -> list[Program | IfRows]:
    """Each live node asks one drawn entry of each row for its row.

    All answers are rows from before it.  An entry that is dead is dropped, and repaired by the rule
    in force, before the answers are taken.

    Parameters
    ----------
    purpose, number : str, int
        Key of the draws.

    Returns
    -------
    list of Program or IfRows
        To be played one after the other.
    """
    ask, take = maintenance(given, WaveOfRound.of_nobody(given), purpose, number)
    return [ask, close_phase(given), take]
