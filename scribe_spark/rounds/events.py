"""The events of nodes in a round: failures, departures, recoveries and arrivals, in this order.

References
----------
JSAC 2002, Sections II.B and III.A.2; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.core.arrays import distinct, whole_numbers
from scribe_spark.engine.ring import Ring
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


def check_events(lives: KnowsLives, known: Ring, number: int, events: Events) -> None:
    """Raise `ImpossibleRound` for events that are impossible.

    A dead node cannot leave or fail, a live node cannot arrive or recover, and a node that was
    never alive cannot recover.  A node has one event, and a node is left.
    """
    alive = lives.alive
    refused = {
        "fail": events.fail[~alive[events.fail]],
        "leave": events.leave[~alive[events.leave]],
        "recover": events.recover[lives.died[events.recover] < 0],
        "arrive": events.arrive[alive[events.arrive]],
    }
    for event, nodes in refused.items():
        if len(nodes):
            raise ImpossibleRound(number, f"node {known.node[nodes[0]]} cannot {event}")
    everybody = np.concatenate([events.fail, events.leave, events.recover, events.arrive])
    if len(distinct(everybody)) < len(everybody):
        raise ImpossibleRound(number, "a node has two events")
    if np.count_nonzero(alive) + len(events.entering) == len(events.fail) + len(events.leave):
        raise ImpossibleRound(number, "no node is left")


def end_lives(lives: Lives, number: int, events: Events, detection: int) -> None:
    """Mark nodes that fail or leave as dead; failures are detected after `detection` rounds."""
    lives.exit(events.fail, number, detection)
    lives.exit(events.leave, number, 0)
