"""The base class of a round's programs: it builds the Scribe nodes of a bucket from its tables.

References
----------
JSAC 2002, Section III.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.program import AT, append
from scribe_spark.rounds.environment import Environment
from scribe_spark.systems.scribe.figures import deliver_leave
from scribe_spark.systems.scribe.leave import LEAVE
from scribe_spark.systems.scribe.scribe import RoundOfGroups, Scribe
from scribe_spark.systems.scribe.state import BucketState


@dataclass(frozen=True)
class RoundProgram(ABC):
    """The base class of the programs of a round.

    `writes` are the parts of `ScribeState` that the program writes, `settled_writes` those in a
    settled round if they differ.
    """

    given: Environment
    round: RoundOfGroups
    writes: ClassVar[tuple[str, ...]] = ()
    settled_writes: ClassVar[tuple[str, ...] | None] = None

    @property
    def silent(self) -> bool:
        """True if the program is known to send nothing."""
        return False

    @property
    def bounds(self) -> np.ndarray:
        return self.given.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        round, writes, incarnation = self.round, self.writes, self.round.incarnations
        if round.settled:
            incarnation = np.broadcast_to(np.int64(NONE), round.groups.size)
            writes = self.writes if self.settled_writes is None else self.settled_writes
        state = BucketState(tables, writes, round.groups.size, incarnation, len(round.groups))
        scribe = Scribe(self.given, round, bucket, tables, state)
        if LEAVE in inbox:
            came = inbox[LEAVE]
            deliver_leave(scribe, came["group"], came[AT], came["source"], came["number"])
        self.play(scribe, tables, inbox, superstep)
        state.put_back()
        for name, parts in scribe.notes.items():
            append(tables, name, *parts)
        if "application" in vars(scribe) and round.applications is not None:
            round.applications.put_back(scribe.application, tables)
        return scribe.outbox()

    @abstractmethod
    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Play a superstep of a bucket's nodes; LEAVEs are already handled."""
