"""The base of the programs of a round: the Scribe of a bucket is read off its tables.

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
from scribe_spark.pastry.arrivals.wave import Given
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
    """An application for each bucket, which remembers in its tables.

    Attributes
    ----------
    make : callable
        Makes one that remembers nothing, given how many nodes there are.
    nodes : int
    """

    make: Callable[[int], Application]
    nodes: int

    def of(self, tables: Tables) -> Application:
        """Return that of a bucket, which knows what it has remembered."""
        made = self.make(self.nodes)
        names = [name for name in tables if name.startswith(MEMORY)]
        if names:
            found = {name.removeprefix(MEMORY): tables[name] for name in names}
            made.restore({**made.tables(), **found})  # a table without rows is not kept
        return made

    def put_back(self, application: Application, tables: Tables) -> None:
        """Keep what an application remembers."""
        for name, columns in application.tables().items():
            if count_rows(columns):
                tables[f"{MEMORY}{name}"] = columns
            else:
                tables.pop(f"{MEMORY}{name}", None)


#: How the names of the tables of applications begin.
MEMORY = f"{PREFIX}application "


@dataclass(frozen=True)
class GroupRound:
    """A round as the programs of groups see it; all nodes know it.

    Attributes
    ----------
    number : int
        The round.
    groups : Groups
    rules : ScribeConfig
    trees : LiveTreesConfig
        Variants of the trees, and the child that an overloaded node drops.
    incarnation : ndarray of int64, shape (K,)
        The round of each node's last arrival or recovery, or NEVER.
    applications : Applications, optional
        Without them delivery is best effort.
    timed : bool
        Whether payloads carry the delay of their way.
    lan_us : int
        Delay of a node's LAN link, each way.
    limits : ChildLimits, optional
        Of the bottleneck remover or of lazy growth.
    settled : bool
        Whether nodes neither fail nor come, and no other round follows: see `Scribe.settled`.
        There are no incarnations then, and nobody counts messages.
    rule : NextHop, optional
        Another rule of routing than Pastry's around dead nodes.
    roots : ndarray of int64, shape (G,), optional
        As of `Scribe.roots`.
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
        """Return what the nodes of a bucket know; only the parts `writes` can be written to."""
        nodes, incarnation = self.groups.size, self.incarnation
        if self.settled:
            incarnation = np.broadcast_to(np.int64(NONE), nodes)
        return BucketState(tables, writes, nodes, incarnation, len(self.groups))

    def scribe(self, given: Given, bucket: int, tables: Tables, state: ScribeState) -> Scribe:
        """Return the Scribe software of the nodes of a bucket, which know `state`."""
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
    """A program of a round.

    Attributes
    ----------
    given : Given
        What Pastry's programs have in common.
    round : GroupRound
    writes : tuple of str
        The parts of `ScribeState` that it writes.
    settled_writes : tuple of str, optional
        Those that it writes in a settled round, if they are others.
    """

    given: Given
    round: GroupRound
    writes: ClassVar[tuple[str, ...]] = ()
    settled_writes: ClassVar[tuple[str, ...] | None] = None

    @property
    def silent(self) -> bool:
        """Return whether the program will send nothing, as far as that is known before."""
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
        """Play a superstep of the nodes of a bucket; LEAVEs have been delivered."""
