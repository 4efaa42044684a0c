"""The base class of a round's programs: it builds the Scribe nodes of a bucket from its tables.

References
----------
JSAC 2002, Section III.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.packing import count_rows
from scribe_spark.engine.program import AT, append
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.groups import Groups
from scribe_spark.scribe.figures import deliver_leave
from scribe_spark.scribe.leave import LEAVE
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import PREFIX, BucketState
from scribe_spark.scribe.upcalls import Application

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.scribe import ScribeConfig
    from scribe_spark.config.trees import TreesConfig


@dataclass(frozen=True)
class Applications:
    """Makes the application of each bucket, whose memory is kept in the bucket's tables."""

    make: Callable[[int], Application]
    nodes: int

    def of(self, tables: Tables) -> Application:
        """Return the bucket's application with its saved memory."""
        made = self.make(self.nodes)
        names = [name for name in tables if name.startswith(MEMORY)]
        if names:
            found = {name.removeprefix(MEMORY): tables[name] for name in names}
            made.restore({**made.tables(), **found})  # tables without rows are not saved
        return made

    def put_back(self, application: Application, tables: Tables) -> None:
        """Save the memory of an application."""
        for name, columns in application.tables().items():
            if count_rows(columns):
                tables[f"{MEMORY}{name}"] = columns
            else:
                tables.pop(f"{MEMORY}{name}", None)


#: The prefix of the tables of applications.
MEMORY = f"{PREFIX}application "


@dataclass(frozen=True)
class RoundOfGroups:
    """The parameters of a round that the programs of groups need.

    A round is settled if no node fails or arrives, all tables are right, and no round follows, as
    in a run.  Then no JOIN visits a node twice or closes a cycle, messages are not counted, and
    `roots` has the end of every path to a root; `rule` may be that of another overlay than Pastry.
    Without applications, delivery is best effort.  If the round is timed, payloads carry the delay
    since the source.  `lan_us` is the delay of a node's LAN link, each way.  `source` is the way
    from a source to the root, as in the section ``groups`` of configs.
    """

    number: int
    groups: Groups
    rules: ScribeConfig
    trees: TreesConfig
    incarnation: np.ndarray
    applications: Applications | None = None
    timed: bool = False
    lan_us: int = 0
    limits: ChildLimits | None = None
    settled: bool = False
    rule: NextHop | None = None
    roots: np.ndarray | None = None
    source: str = "root"


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
        round, writes, incarnation = self.round, self.writes, self.round.incarnation
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
