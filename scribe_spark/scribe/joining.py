"""The programs of CREATEs and JOINs.

References
----------
JSAC 2002, Sections III.A.1 and III.A.2.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.scribe.create import receive_creates
from scribe_spark.scribe.figures import ANSWER, take_answers
from scribe_spark.scribe.join import JOIN, Requests, first_joins, receive_joins, send_on
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.upkeep import CREATED

__all__ = ["MADE", "JoinProgram", "SendJoins"]

#: The table of groups that were created in this round: ``group, creator``.
MADE = "scribe made"


class JoinProgram(RoundProgram):
    """JOINs and answers on their way."""

    writes = ("entries", "children", "copies", "paths", "created")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        if ANSWER in inbox:
            take_answers(scribe, inbox[ANSWER])
        if JOIN in inbox:
            send_on(scribe, receive_joins(scribe, Requests.from_columns(inbox[JOIN])))


class SendJoins(JoinProgram):
    """CREATEs are at their ends; then every waiting node sends a JOIN, until all have ended."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        super().play(scribe, tables, inbox, superstep)
        if not superstep:
            self._create(scribe, tables)
            self.send(scribe)

    def send(self, scribe: Scribe) -> None:
        """Every waiting node sends a JOIN."""
        send_on(scribe, first_joins(scribe))

    def _create(self, scribe: Scribe, tables: Tables) -> None:
        """Of several CREATEs for one group the creator with the least nodeId is the first."""
        came = tables.pop(CREATED, None)
        if came is None:
            return
        scribe.refuse("CREATE lost", (~came["delivered"]).sum())
        order = np.lexsort((came["creator"], came["group"]))
        came = take(came, order[came["delivered"][order]])
        made = receive_creates(scribe, came["group"], came["creator"], came[AT])
        scribe.note(MADE, group=came["group"][made], creator=came["creator"][made])
