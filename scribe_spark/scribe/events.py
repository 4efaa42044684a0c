"""Events of groups in a round: create, join, quit, publish; and what Pastry's do to trees.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.events import Events, ImpossibleRound
from scribe_spark.pastry.player import Player
from scribe_spark.scribe.departures import GOODBYE, HANDED_ON, hear_goodbyes, say_goodbye
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.leave import Gone, take_away
from scribe_spark.scribe.multicast import OF_THE_LAST_ROUND
from scribe_spark.scribe.program import GroupRound, RoundProgram
from scribe_spark.scribe.replicas import SentStates, receive_states
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import NOTHING, Repairs

#: (group, node) of events of one kind, ascending.
_Pairs = tuple[np.ndarray, np.ndarray]


def _none() -> _Pairs:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class GroupEvents:
    """The events of groups in one round, each as indices of groups and positions of nodes.

    The nodes are alive after Pastry's events; at most one of each kind for (group, node).

    Attributes
    ----------
    create, join, quit, publish : (ndarray of int64, ndarray of int64)
    """

    create: _Pairs = field(default_factory=_none)
    join: _Pairs = field(default_factory=_none)
    quit: _Pairs = field(default_factory=_none)
    publish: _Pairs = field(default_factory=_none)

    @classmethod
    def of(
        cls, known: Ring, groups: Groups, node: np.ndarray, event: np.ndarray, group: np.ndarray
    ) -> GroupEvents:
        """Events of known nodes and groups, given by their numbers; others are passed over."""
        kinds = [one.name for one in fields(cls)]
        some = np.isin(event, kinds)
        event, position = event[some], known.positions(node[some])
        index = np.searchsorted(groups.number, group[some])
        order = np.lexsort((position, index))
        event, index, position = event[order], index[order], position[order]
        return cls(**{kind: (index[event == kind], position[event == kind]) for kind in kinds})


#: What only the measurement tells: that a root has died; and that a parent has.
_DEAD_ROOT, _DEAD_PARENT = "root died", "parent died"

#: Messages in superstep 0: joins and quits that are not among the events: ``group``.
JOINING, QUITTING = "joins of the round", "quits of the round"

#: The table of nodes that died in this round and were the parents of others: ``node``.
FAILURES = "scribe failures"

#: The table of events that cannot be: ``kind`` (an index of the kinds), ``group``, ``node``.
_REFUSED, _OF_MEMBERS = "scribe refused events", ("join", "quit")


@dataclass(frozen=True)
class PlayEvents(RoundProgram):
    """Dead nodes lose what they knew, goodbyes go out, joins and quits are marked.

    Pastry's events have been played.  CREATEs and publications come later in the round.

    Attributes
    ----------
    events : Events
        Pastry's.
    group_events : GroupEvents
        Joins and quits may come to their nodes as messages instead.
    """

    events: Events
    group_events: GroupEvents
    writes = (
        *("entries", "children", "copies", "replicas", "values", "addresses", "unknown_members"),
        *("kept", "got", "dead_roots", "repairs"),
    )
    settled_writes = ("entries",)

    @property
    def silent(self) -> bool:
        """See `RoundProgram`."""
        return self.round.settled

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        if _DEAD_ROOT in inbox:
            came = inbox[_DEAD_ROOT]
            scribe.state.dead_roots.put(came["pair"], died=scribe.number)
        if _DEAD_PARENT in inbox:
            _remember_repairs(scribe, inbox[_DEAD_PARENT])
        if GOODBYE in inbox:
            hear_goodbyes(scribe, inbox[GOODBYE])
        if HANDED_ON in inbox:
            receive_states(scribe, SentStates.received(scribe, inbox[HANDED_ON]))
        if superstep:
            return
        _begin_round(scribe, tables)
        # 1. who is gone, and what was under it
        gone = take_away(scribe, np.concatenate([self.events.fail, self.events.leave]))
        self._measure(scribe, gone)
        say_goodbye(scribe, gone, self.events.leave)
        # 2. joins and quits
        events = _own_events(scribe, self.group_events, inbox)
        join_trees(scribe, *events.join)
        entries = scribe.state.entries
        entries.member[scribe.entry(*events.quit)] = False

    def _measure(self, scribe: Scribe, gone: Gone) -> None:
        """All hear of roots that died, as long as a child can suspect one; children of all dead."""
        dead = scribe.state.dead_roots
        dead.keep(dead.died >= scribe.number - scribe.rules.parent_timeout)
        scribe.tell_all(_DEAD_ROOT, pair=gone.entries.key[gone.entries.root])
        pair, child = scribe.split(gone.children.key)
        group, node = scribe.split(pair)
        there = scribe.is_alive(child)
        scribe.tell(_DEAD_PARENT, child[there], group=group[there], parent=node[there])


def _begin_round(scribe: Scribe, tables: Tables) -> None:
    """Forget what is of one round alone."""
    for name in OF_THE_LAST_ROUND:
        tables.pop(name, None)
    entries = scribe.state.entries
    entries.extra[:], entries.heeded[:] = NOTHING, False
    scribe.state.children.got_payload[:] = False


def _remember_repairs(scribe: Scribe, came: Columns) -> None:
    """Record the children that have lost their parents."""
    group, child, node = came["group"], came[AT], came["parent"]
    row = scribe.entry(group, child)
    under = row >= 0
    under[under] = scribe.state.entries.parent[row[under]] == node[under]
    scribe.note(FAILURES, node=distinct(node[under]))
    old = scribe.state.repairs
    scribe.state.repairs = Repairs(
        np.r_[old.died, np.full(under.sum(), scribe.number)],
        np.r_[old.node, node[under]],
        np.r_[old.pair, scribe.key(group, child)[under]],
    )


def _own(scribe: Scribe, pairs: _Pairs) -> _Pairs:
    """Return the pairs (group, node) with nodes in the bucket."""
    group, node = pairs
    mine = scribe.is_own(node)
    return (group, node) if mine.all() else (group[mine], node[mine])


def _own_events(scribe: Scribe, events: GroupEvents, inbox: Inbox) -> GroupEvents:
    """Return the events of the bucket's nodes."""
    own = {one.name: _own(scribe, getattr(events, one.name)) for one in fields(events)}
    for kind, name in ((JOINING, "join"), (QUITTING, "quit")):
        if kind in inbox:
            came = scribe.key(inbox[kind]["group"], inbox[kind][AT])
            own[name] = scribe.split(np.sort(np.r_[scribe.key(*own[name]), came]))
    return GroupEvents(**own)


def check_group_events(
    player: Player, round: GroupRound, events: Events, group_events: GroupEvents
) -> None:
    """Refuse events that cannot be, before anything is played.

    Parameters
    ----------
    events : Events
        Pastry's, after which the nodes have to be alive.

    Raises
    ------
    ImpossibleRound
    """
    ring = player.given.facts.ring
    alive = player.lives.alive.copy()
    alive[np.r_[events.fail, events.leave]] = False
    alive[events.entering] = True
    for kind in (one.name for one in fields(group_events)):
        group, node = getattr(group_events, kind)
        if len(distinct(group * len(ring) + node)) < len(node):
            raise ImpossibleRound(round.number, f"{kind} twice")
        _refuse(round, ring, kind, group[~alive[node]], node[~alive[node]])
    if len(group_events.join[0]) + len(group_events.quit[0]):
        player.play(_CheckMembers(player.given, round, group_events))
        if player.has(_REFUSED):
            refused = player.take(_REFUSED)[_REFUSED]
            for index, kind in enumerate(_OF_MEMBERS):
                of = np.flatnonzero(refused["kind"] == index)
                _refuse(round, ring, kind, refused["group"][of], refused["node"][of])


def _refuse(round: GroupRound, ring: Ring, kind: str, group: np.ndarray, node: np.ndarray) -> None:
    if len(node):
        at = np.lexsort((node, group))[0]
        who, which = ring.node[node[at]], round.groups.number[group[at]]
        raise ImpossibleRound(round.number, f"node {who} cannot {kind} group {which}")


@dataclass(frozen=True)
class _CheckMembers(RoundProgram):
    """Notes joins of members, also of those that wait for a refusal, and quits of others.

    Attributes
    ----------
    events : GroupEvents
    """

    events: GroupEvents

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        for index, kind in enumerate(_OF_MEMBERS):
            group, node = _own(scribe, getattr(self.events, kind))
            pair = scribe.key(group, node)
            wrong = scribe.is_member(group, node)
            wrong = wrong | scribe.state.unknown_members.has(pair) if kind == "join" else ~wrong
            kinds = np.full(np.count_nonzero(wrong), index)
            scribe.note(_REFUSED, kind=kinds, group=group[wrong], node=node[wrong])


def join_trees(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> None:
    """Nodes of a tree are members at once; others send JOINs later, unknown members apart."""
    allowed = scribe.groups.allows("join", group, node)
    pair = scribe.key(group, node)
    scribe.state.unknown_members.insert(pair[~allowed])
    entries, pair = scribe.state.entries, pair[allowed]
    entries.enter(pair[~entries.has(pair)], scribe.number, "own")
    row = entries.find(pair)
    entries.member[row], entries.joined[row] = True, scribe.number
