"""The events of nodes in a round: failures, departures, recoveries and arrivals, in this order.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine.ring import Ring
from scribe_spark.rounds.event_rows import EVENT_NAMES, NODE_EVENTS, EventRows
from scribe_spark.rounds.legality import first_impossible
from scribe_spark.rounds.lives import KnowsLives, Lives


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
        """The nodes that become alive in this round."""
        return np.r_[self.recover, self.arrive]

    @classmethod
    def of(cls, known: Ring, node: np.ndarray, event: np.ndarray) -> Events:
        """Return the events of nodes given by number; `event` contains names of the attributes."""
        position = known.positions(node)
        return cls(**{kind.name: np.sort(position[event == kind.name]) for kind in fields(cls)})

    def rows(self, known: Ring, number: int) -> EventRows:
        """Return these events as rows of a table, by numbers of nodes."""
        positions = {
            kind: getattr(self, name) for kind, name in enumerate(EVENT_NAMES[:NODE_EVENTS])
        }
        parts = [EventRows.at_once(number, known.node[at], kind) for kind, at in positions.items()]
        return EventRows.join(*parts)


@dataclass(frozen=True)
class BeforeRound:
    """The nodes before the events of a round (see `Before`); `known` are all nodes."""

    lives: KnowsLives
    known: Ring
    number: int

    @property
    def nodes(self) -> int:
        return len(self.known)

    @property
    def rounds(self) -> int:
        return self.number + 1

    def is_alive(self, nodes: np.ndarray) -> np.ndarray:
        return self.lives.alive[self.known.positions(nodes)]

    def was_alive(self, nodes: np.ndarray) -> np.ndarray:
        return self.is_alive(nodes) | (self.lives.died[self.known.positions(nodes)] >= 0)

    def state(self, node: int) -> str:
        one = np.array([node])
        if self.is_alive(one)[0]:
            return "is alive"
        died = int(self.lives.died[self.known.positions(one)[0]])
        return f"is not alive since round {died}" if died >= 0 else "was never there"


def check_events(lives: KnowsLives, known: Ring, number: int, events: Events) -> None:
    """Raise `ImpossibleRound` for an impossible event, and if no node is left."""
    fault = first_impossible(events.rows(known, number), BeforeRound(lives, known, number))
    if fault is not None:
        raise ImpossibleRound(number, fault[-1])
    gone = len(events.fail) + len(events.leave)
    if np.count_nonzero(lives.alive) + len(events.entering) == gone:
        raise ImpossibleRound(number, "no node is left; keep at least one")


def end_lives(lives: Lives, number: int, events: Events, detection: int) -> None:
    """Mark nodes that fail or leave as dead; failures are detected after `detection` rounds."""
    lives.exit(events.fail, number, detection)
    lives.exit(events.leave, number, 0)
