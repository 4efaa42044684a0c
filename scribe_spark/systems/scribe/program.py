"""The base class of a round's programs, which builds the Scribe nodes of a bucket; upcalls.

JSAC 2002, Sections III and III.B.2 (upcalls).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, index_sorted
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.program import AT, append
from scribe_spark.rounds.player import Environment
from scribe_spark.systems.scribe.figures import LEAVE, deliver_leave
from scribe_spark.systems.scribe.scribe import Joins, RoundOfGroups, Scribe
from scribe_spark.systems.scribe.state import NOTHING, BucketState
from scribe_spark.systems.scribe.upcalls import Calls


@dataclass(frozen=True)
class RoundProgram(ABC):
    """The base class of the programs of a round.

    `writes` are the parts of `ScribeState` that the program writes, `settled_writes` those in a
    settled round if they differ.
    """

    environment: Environment
    round: RoundOfGroups
    writes: ClassVar[tuple[str, ...]] = ()
    settled_writes: ClassVar[tuple[str, ...] | None] = None

    @property
    def silent(self) -> bool:
        """True if the program is known to send nothing."""
        return False

    @property
    def bounds(self) -> np.ndarray:
        return self.environment.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        round, writes, incarnation = self.round, self.writes, self.round.incarnations
        if round.settled:
            incarnation = np.broadcast_to(np.int64(NONE), round.groups.size)
            writes = self.writes if self.settled_writes is None else self.settled_writes
        state = BucketState(tables, writes, round.groups.size, incarnation, len(round.groups))
        scribe = Scribe(self.environment, round, bucket, tables, state)
        if LEAVE in inbox:
            came = inbox[LEAVE]
            deliver_leave(scribe, came["group"], came[AT], came["source"], came["number"])
        self.handle(scribe, tables, inbox, superstep)
        state.put_back()
        for name, parts in scribe.notes.items():
            append(tables, name, *parts)
        if "application" in vars(scribe) and round.applications is not None:
            round.applications.put_back(scribe.application, tables)
        return scribe.outbox()

    @abstractmethod
    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Handle the messages of a superstep at a bucket's nodes; LEAVEs are already handled."""


#: The table of roots that are new or whose group state changed, and whose replicas are not updated
#: yet: ``pair``, the key of (group, root).
CHANGED = "scribe changed"


def calls_of(scribe: Scribe, pair: np.ndarray, row: np.ndarray) -> Calls:
    """Return what the application may see of tree nodes (rows of `Entries`), for an upcall."""
    entries, children, copies = scribe.state.entries, scribe.state.children, scribe.state.copies
    group, node = scribe.split(pair)
    root = entries.root[row]
    answered = (entries.parent[row] >= 0) & (entries.number[row] == scribe.number)
    copy = copies.find(pair[root])
    epoch = np.full(len(pair), -1)
    epoch[root] = copies.epoch[copy]
    here = {
        "group": group,
        "node": node,
        "root": root,
        "entered": entries.entered[row],
        "joined": np.where(entries.member[row], entries.joined[row], -1),
        "asked": np.where(answered, entries.extra[row], NOTHING),
        "epoch": epoch,
    }
    call, edge = scribe.children_of(pair)
    under = {"call": call, "child": children.key[edge] % scribe.state.size}
    which, value = scribe.state.values.of(copies.value[copy])
    kept = {"call": np.flatnonzero(root)[which], "value": value}
    return Calls(scribe.number, here, under, kept)


def call_fault_handler(scribe: Scribe, joins: Joins) -> Joins:
    """Call the upcall faultHandler for repair JOINs; return the JOINs with its data."""
    if scribe.best_effort or not len(joins):
        return joins
    pair = scribe.key(joins.group, joins.source)
    calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
    table = {"number": joins.number, "cause": joins.cause}
    return joins.with_extra(scribe.application.fault_handler(calls, table).astype(np.int64))


def keep_values(scribe: Scribe, pair: np.ndarray, values: Columns) -> None:
    """Store new values of the application in the states at the roots ``pair[call]``."""
    call = values["call"]
    if not len(call):
        return
    order = np.argsort(call, kind="stable")
    numbers = values["value"][order]
    changed, first = np.unique(call[order], return_index=True)
    copies = scribe.state.copies
    row = copies.find(pair[changed])
    lengths = np.diff(np.r_[first, len(numbers)])
    copies.value[row] = scribe.state.values.add(lengths, numbers)
    copies.version[row] += 1
    scribe.note(CHANGED, pair=pair[changed])


def keep_used_values(scribe: Scribe) -> None:
    """Delete values of the application that no group state has; number the others from 0."""
    value = scribe.state.copies.value
    used = distinct(value[value >= 0])
    if len(used) < len(scribe.state.values):
        value[value >= 0] = index_sorted(used, value[value >= 0])
        scribe.state.values.keep(used)
