"""The events of groups in a round: create, join, quit, publish; impossible ones are refused.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.core.arrays import distinct, find_sorted, index_sorted, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Program
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Ring
from scribe_spark.rounds.event_rows import EVENT_NAMES, EventRows
from scribe_spark.rounds.events import BeforeRound, Events, ImpossibleRound
from scribe_spark.rounds.groups import Groups
from scribe_spark.rounds.legality import first_impossible_in_groups
from scribe_spark.rounds.player import RoundPlayer

#: Different pairs of the index of a group and the position of a node, ascending by both.
Pairs = tuple[np.ndarray, np.ndarray]


def _none() -> Pairs:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


def to_nodes(pairs: Pairs) -> Columns:
    """Return pairs as messages to their nodes; :func:`keys_sent` reads the messages."""
    return {"group": pairs[0], AT: pairs[1]}


def keys_sent(inbox: Inbox, kind: str, size: int) -> np.ndarray:
    """Return the keys (group, node) of messages of a kind, ascending; `size` is K."""
    if kind not in inbox:
        return whole_numbers()
    return distinct(key_of([inbox[kind]["group"], inbox[kind][AT]], size))


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

    def by_kind(self) -> dict[str, Pairs]:
        """Return the pairs of each kind of event, by its name."""
        return {kind.name: getattr(self, kind.name) for kind in fields(self)}


#: Messages with joins and quits (``group``) to their nodes, besides the events: many of them are
#: not collected on the driver.
JOINING, QUITTING = "joins of the round", "quits of the round"

#: The events that members may do or not: a member cannot join, another node cannot quit.
OF_MEMBERS = ("join", "quit")


def refuse_impossible(
    player: RoundPlayer,
    number: int,
    groups: Groups,
    events: Events,
    of_groups: GroupEvents,
    check: Program,
    refused_table: str,
) -> None:
    """Raise `ImpossibleRound` for impossible events of groups, before anything is played.

    The program `check` writes joins of members and quits of nodes that are no members into
    `refused_table`: ``kind`` (an index of :data:`OF_MEMBERS`), ``group``, ``node``.
    """
    ring, wrong = player.given.facts.ring, dict[str, np.ndarray]()
    if len(of_groups.join[0]) + len(of_groups.quit[0]):
        player.play(check)
        if player.has(refused_table):
            refused = player.take(refused_table)[refused_table]
            pair = refused["group"] * len(ring) + refused["node"]
            wrong = {kind: pair[refused["kind"] == at] for at, kind in enumerate(OF_MEMBERS)}
    alive = player.lives.alive.copy()
    alive[np.r_[events.fail, events.leave]] = False
    alive[events.entering] = True
    # few rows can be impossible; all rows of their pairs are checked like those of a table
    doubtful = [pair for pair in wrong.values() if len(pair)]
    for group, node in of_groups.by_kind().values():
        pair = group * len(ring) + node
        again = np.r_[False, pair[1:] == pair[:-1]][: len(pair)]
        doubtful.append(pair[~alive[node] | again])
    found = distinct(np.concatenate(doubtful))
    if not len(found):
        return
    rows, is_member = [events.rows(ring, number)], list[np.ndarray]()
    for kind, (group, node) in of_groups.by_kind().items():
        pair = group * len(ring) + node
        there = find_sorted(found, pair) >= 0
        of = ring.node[node[there]], EVENT_NAMES.index(kind), groups.number[group[there]]
        rows.append(EventRows.of_groups(number, *of))
        is_member.append(np.isin(pair[there], wrong.get(kind, pair[:0])) ^ (kind == "quit"))
    fault = first_impossible_in_groups(
        EventRows.join(*rows),
        BeforeRound(player.lives, ring, number),
        lambda group, node: np.ones(len(node), dtype=bool),  # the members are those who may join
        members=np.concatenate(is_member),
    )
    assert fault is not None
    raise ImpossibleRound(number, fault[-1])
