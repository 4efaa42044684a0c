"""The events of groups in a round: create, join, quit, publish; impossible ones are refused.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.core.arrays import distinct, index_sorted
from scribe_spark.engine.ring import Ring
from scribe_spark.rounds.events import Events, ImpossibleRound
from scribe_spark.rounds.groups import Groups
from scribe_spark.rounds.player import RoundPlayer

#: Different pairs of the index of a group and the position of a node, ascending by both.
Pairs = tuple[np.ndarray, np.ndarray]


def _none() -> Pairs:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class GroupEvents:
    """The (group, node) of each event of a round, as indices of groups and ring positions of nodes.

    The nodes are alive after Pastry's events.  For each kind, a pair occurs at most once.
    """

    create: Pairs = field(default_factory=_none)
    join: Pairs = field(default_factory=_none)
    quit: Pairs = field(default_factory=_none)
    publish: Pairs = field(default_factory=_none)

    @classmethod
    def of(
        cls, known: Ring, groups: Groups, node: np.ndarray, event: np.ndarray, group: np.ndarray
    ) -> GroupEvents:
        """Select the group events from events that are given by node and group numbers."""
        kinds = [one.name for one in fields(cls)]
        some = np.isin(event, kinds)
        event, position = event[some], known.positions(node[some])
        index = index_sorted(groups.number, group[some])
        order = np.lexsort((position, index))
        event, index, position = event[order], index[order], position[order]
        return cls(**{kind: (index[event == kind], position[event == kind]) for kind in kinds})


#: Messages with joins and quits (``group``) to their nodes, besides the events: many of them are
#: not collected on the driver.
JOINING, QUITTING = "joins of the round", "quits of the round"

#: The events that members may do or not: a member cannot join, another node cannot quit.
OF_MEMBERS = ("join", "quit")


def check_pairs(
    number: int, groups: Groups, player: RoundPlayer, events: Events, of_groups: GroupEvents
) -> None:
    """Raise `ImpossibleRound` for group events of dead nodes, and for those that occur twice."""
    ring = player.given.facts.ring
    alive = player.lives.alive.copy()
    alive[np.r_[events.fail, events.leave]] = False
    alive[events.entering] = True
    for kind in (one.name for one in fields(of_groups)):
        group, node = getattr(of_groups, kind)
        if len(distinct(group * len(ring) + node)) < len(node):
            raise ImpossibleRound(number, f"{kind} twice")
        refuse_pairs(number, groups, ring, kind, group[~alive[node]], node[~alive[node]])


def refuse_pairs(
    number: int, groups: Groups, ring: Ring, kind: str, group: np.ndarray, node: np.ndarray
) -> None:
    """Raise `ImpossibleRound` for the first of some impossible events, if there are any."""
    if len(node):
        at = np.lexsort((node, group))[0]
        who, which = ring.node[node[at]], groups.number[group[at]]
        raise ImpossibleRound(number, f"node {who} cannot {kind} group {which}")
