"""The base class of a round's programs: it builds the Scribe nodes of a bucket from its tables.

References
----------
JSAC 2002, Section III.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.packing import count_rows
from scribe_spark.engine.program import AT, append
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.pastry.arrivals.wave import Environment
from scribe_spark.pastry.states import States
from scribe_spark.scribe.figures import deliver_leave
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.leave import LEAVE
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import PREFIX, BucketState, ScribeState
from scribe_spark.scribe.upcalls import Application

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.scribe import ScribeConfig
    from scribe_spark.config.trees import LiveTreesConfig


@dataclass(frozen=True)
class Applications:
    """Creates the application of each bucket, which keeps its memory in the bucket's tables.

    Attributes
    ----------
    make : callable
        ``make(nodes)`` returns an application with empty memory.
    nodes : int
    """

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
class GroupRound:
    """The parameters of a round that the programs of groups need.

    Attributes
    ----------
    number : int
        The number of the round.
    groups : Groups
    rules : ScribeConfig
    trees : LiveTreesConfig
        The variants of the trees, and the rule that selects a child to drop.
    incarnation : ndarray of int64, shape (K,)
        The round of each node's last arrival or recovery, or NEVER.
    applications : Applications, optional
        The applications of the nodes; None for best-effort delivery.
    timed : bool
        True if payloads carry the delay since the source.
    lan_us : int
        The delay of a node's LAN link, each way, in microseconds.
    limits : ChildLimits, optional
        The limits of children, for the bottleneck remover and lazy growth.
    settled : bool
        True if no node fails or arrives and no round follows, see `Scribe.settled`.  Then there are
        no incarnations, and messages are not counted.
    rule : NextHop, optional
        A routing rule of another overlay than Pastry.
    roots : ndarray of int64, shape (G,), optional
        See `Scribe.roots`.
    """

    number: int
    groups: Groups
    rules: ScribeConfig
    trees: LiveTreesConfig
    incarnation: np.ndarray
    applications: Applications | None = None
    timed: bool = False
    lan_us: int = 0
    limits: ChildLimits | None = None
    settled: bool = False
    rule: NextHop | None = None
    roots: np.ndarray | None = None

    def state(self, tables: Tables, writes: Sequence[str] = ()) -> BucketState:
        """Return the Scribe state of a bucket's nodes; only the parts in `writes` are writable."""
        nodes, incarnation = self.groups.size, self.incarnation
        if self.settled:
            incarnation = np.broadcast_to(np.int64(NONE), nodes)
        return BucketState(tables, writes, nodes, incarnation, len(self.groups))

    def scribe(self, given: Environment, bucket: int, tables: Tables, state: ScribeState) -> Scribe:
        """Return the Scribe software of a bucket's nodes with the state `state`."""
        ring, make, rule = given.facts.ring, None, None
        if self.rule is not None:
            rule = partial(self.rule, int(given.bounds[bucket]), tables)
        states = partial(States.of_tables, ring, int(given.bounds[bucket]), tables)
        if self.applications is not None:
            make = partial(self.applications.of, tables)
        return Scribe(
            ring,
            states,
            given.is_alive,
            given.kernel,
            self.groups,
            self.rules,
            self.trees,
            state,
            self.number,
            make,
            None if self.settled else given.observer,
            tables,
            bounds=given.bounds,
            bucket=bucket,
            seed=given.seed,
            limits=self.limits,
            rule=rule,
            settled=self.settled,
            roots=self.roots,
            timed=self.timed,
            lan_us=self.lan_us,
        )


@dataclass(frozen=True)
class RoundProgram(ABC):
    """The base class of the programs of a round.

    Attributes
    ----------
    given : Environment
        The environment that Pastry's programs also use.
    round : GroupRound
    writes : tuple of str
        The parts of `ScribeState` that the program writes.
    settled_writes : tuple of str, optional
        The parts that it writes in a settled round, if they differ from `writes`.
    """

    given: Environment
    round: GroupRound
    writes: ClassVar[tuple[str, ...]] = ()
    settled_writes: ClassVar[tuple[str, ...] | None] = None

    @property
    def silent(self) -> bool:
        """True if the program is known to send nothing."""
        return False

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.given.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        writes = self.writes
        if self.round.settled and self.settled_writes is not None:
            writes = self.settled_writes
        state = self.round.state(tables, writes)
        scribe = self.round.scribe(self.given, bucket, tables, state)
        if LEAVE in inbox:
            came = inbox[LEAVE]
            deliver_leave(scribe, came["group"], came[AT], came["source"], came["number"])
        self.play(scribe, tables, inbox, superstep)
        state.put_back()
        for name, parts in scribe.notes.items():
            append(tables, name, *parts)
        if "application" in vars(scribe) and self.round.applications is not None:
            self.round.applications.put_back(scribe.application, tables)
        return scribe.outbox()

    @abstractmethod
    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Play a superstep of a bucket's nodes; LEAVEs are already handled."""
