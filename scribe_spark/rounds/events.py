"""The lives of nodes, and their events in a round: failures, departures, recoveries and arrivals.

A message to a dead node is lost, and its sender notices the missing acknowledgement.  The members
of a leaf set detect a death by missing keep-alives.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.event_rows import (
    EVENT_NAMES,
    NODE_EVENTS,
    EventRows,
    Extent,
    first_impossible,
)

#: The round of death of a node that is alive or never was.
NEVER = -1


def is_node(position: np.ndarray) -> np.ndarray:
    """Return True for positions that are not NONE; no node of this overlay is dead."""
    return position >= 0


class KnowsLives:
    """An object that knows which of all K nodes live, in arrays of shape (K,)."""

    alive: np.ndarray  # bool
    died: np.ndarray  # the round of death, or NEVER
    wait: np.ndarray  # rounds until the leaf set detects a death; 0 if the node left
    entered: np.ndarray  # the rank of entrance, from 1; 0 for nodes of the start and new nodes

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of lives by name."""
        return {name: getattr(self, name) for name in ("alive", "died", "wait", "entered")}

    def live(self) -> np.ndarray:
        """Return the positions of the live nodes, ascending (the order of nodeIds)."""
        return np.flatnonzero(self.alive)

    def count_entered(self) -> int:
        """Return the number of nodes that are alive or were alive before."""
        return int(np.count_nonzero(self.alive | (self.died != NEVER)))

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        """Return True for positions of live nodes; NONE is False."""
        return (positions >= 0) & self.alive[positions]

    def known_dead(self, number: int) -> np.ndarray:
        """Return True for nodes whose death others have detected by round `number`: shape (K,)."""
        return (self.died >= 0) & (self.died + self.wait <= number)


@dataclass
class Lives(KnowsLives):
    """The lives of all nodes in arrays of this process, with a counter of changes."""

    changes = 0

    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray
    entered: np.ndarray

    @classmethod
    def of(cls, nodes: int, live: np.ndarray, entered: np.ndarray | int = 0) -> Lives:
        """Return the lives of K nodes before any death: `live` marks the nodes that are alive.

        `entered` ranks the live nodes by the order of their arrival.
        """
        alive = np.zeros(nodes, dtype=bool)
        alive[live] = True
        order = np.zeros(nodes, dtype=np.int64)
        order[live] = entered
        return cls(alive, np.full(nodes, NEVER), np.zeros(nodes, dtype=np.int64), order)

    def exit(self, nodes: np.ndarray, number: int, wait: int) -> None:
        """Mark nodes as dead in round `number`; others detect the deaths after `wait` rounds."""
        self.alive[nodes] = False
        self.died[nodes], self.wait[nodes] = number, wait
        self.changes += bool(len(nodes))

    def enter(self, nodes: np.ndarray) -> None:
        """Mark nodes as alive; the given order is that of their arrival."""
        self.alive[nodes] = True
        self.died[nodes], self.wait[nodes] = NEVER, 0
        self.entered[nodes] = self.entered.max(initial=0) + 1 + np.arange(len(nodes))
        self.changes += bool(len(nodes))


class ImpossibleRound(ValueError):
    """Raised for a round that cannot be played: an event is impossible, or no node is left."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"round {number}: {what}")
        self.number, self.what = number, what


@dataclass(frozen=True)
class Events:
    """The node events of one round, as ring positions; each node has at most one event.

    A node recovers with its old nodeId, routing table and last known leaf set; it arrives with
    empty tables.
    """

    fail: np.ndarray = field(default_factory=whole_numbers)
    leave: np.ndarray = field(default_factory=whole_numbers)
    recover: np.ndarray = field(default_factory=whole_numbers)
    arrive: np.ndarray = field(default_factory=whole_numbers)

    @property
    def entering(self) -> np.ndarray:
        """The nodes that become alive in this round: positions."""
        return np.r_[self.recover, self.arrive]

    @classmethod
    def of(cls, known: Ring, node: np.ndarray, event: np.ndarray) -> Events:
        """Return the events of nodes given by number; `event` has their codes."""
        position = known.positions(node)
        kinds = {kind.name: EVENT_NAMES.index(kind.name) for kind in fields(cls)}
        return cls(**{name: np.sort(position[event == code]) for name, code in kinds.items()})

    def rows(self, known: Ring, number: int) -> EventRows:
        """Return these events as rows of a table for round `number`, with the numbers of nodes."""
        positions = {
            kind: getattr(self, name) for kind, name in enumerate(EVENT_NAMES[:NODE_EVENTS])
        }
        parts = [EventRows.at_once(number, known.node[at], kind) for kind, at in positions.items()]
        return EventRows.join(*parts)


@dataclass(frozen=True)
class BeforeRound(Extent):
    """The nodes before the events of a round; `known` is the ring of all nodes."""

    lives: KnowsLives
    known: Ring

    @classmethod
    def of(cls, lives: KnowsLives, known: Ring, number: int) -> BeforeRound:
        """Return the nodes before round `number`."""
        return cls(len(known), number + 1, 0, lives, known)

    def is_alive(self, nodes: np.ndarray) -> np.ndarray:
        return self.lives.alive[self.known.positions(nodes)]

    def was_alive(self, nodes: np.ndarray) -> np.ndarray:
        return self.is_alive(nodes) | (self.lives.died[self.known.positions(nodes)] >= 0)


def check_events(lives: KnowsLives, known: Ring, number: int, events: Events) -> None:
    """Raise `ImpossibleRound` for an impossible event of round `number`, or if no node is left."""
    fault = first_impossible(events.rows(known, number), BeforeRound.of(lives, known, number))
    if fault is not None:
        raise ImpossibleRound(number, fault)
    gone = len(events.fail) + len(events.leave)
    if np.count_nonzero(lives.alive) + len(events.entering) == gone:
        raise ImpossibleRound(number, "no node is left; keep at least one")


def end_lives(lives: Lives, number: int, events: Events, detection: int) -> None:
    """Mark nodes that fail or leave as dead; failures are detected after `detection` rounds."""
    lives.exit(events.fail, number, detection)
    lives.exit(events.leave, number, 0)
