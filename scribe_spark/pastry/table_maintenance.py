"""Maintenance of routing tables in an overlay with dead nodes.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

from scribe_spark.engine import Program
from scribe_spark.engine.in_turn import IfRows
from scribe_spark.pastry.arrivals.arrival import maintenance
from scribe_spark.pastry.arrivals.wave import Environment
from scribe_spark.pastry.table_repair import close_phase
from scribe_spark.pastry.waves_of_round import WaveOfRound


def maintain_tables(given: Environment, purpose: str, number: int) -> list[Program | IfRows]:
    """Return the programs in which each live node asks a random entry of each row for the row.

    The answers are rows from before the maintenance.  Dead entries that are asked are dropped and
    repaired (by the configured rule) before the answers are used.
    """
    ask, take = maintenance(given, WaveOfRound.of_nobody(given), purpose, number)
    return [ask, close_phase(given), take]
