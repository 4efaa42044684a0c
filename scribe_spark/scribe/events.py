"""Group events of a round (create, join, quit, publish), and effects of Pastry's events on trees.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import (
    OF_MEMBERS,
    GroupEvents,
    Pairs,
    check_group_events,
)
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.scribe.departures import GOODBYE, HANDED_ON, hear_goodbyes, say_goodbye
from scribe_spark.scribe.leave import Gone, take_away
from scribe_spark.scribe.multicast import OF_THE_LAST_ROUND
from scribe_spark.scribe.program import RoundOfGroups, RoundProgram
from scribe_spark.scribe.replicas import SentStates, receive_states
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import NOTHING, Repairs

#: Messages that serve the measures and are not counted: a root died; a parent died.
_DEAD_ROOT, _DEAD_PARENT = "root died", "parent died"

#: Messages with more joins and quits (``group``) for superstep 0, besides the events.
JOINING, QUITTING = "joins of the round", "quits of the round"

#: The table of nodes that died in this round and had children: ``node``.
FAILURES = "scribe failures"

#: The table of impossible events: ``kind`` (an index of `OF_MEMBERS`), ``group``, ``node``.
_REFUSED = "scribe refused events"


@dataclass(frozen=True)
class PlayEvents(RoundProgram):
    """Clear the tables of dead nodes, send goodbyes, and mark members that join or quit.

    CREATEs and publications follow later in the round.  Joins and quits may also come as messages.
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
        return self.round.settled

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
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
        # 1. dead nodes, and the children that they had
        gone = take_away(scribe, np.concatenate([self.events.fail, self.events.leave]))
        self._measure(scribe, gone)
        say_goodbye(scribe, gone, self.events.leave)
        # 2. joins and quits
        events = _own_events(scribe, self.group_events, inbox)
        join_trees(scribe, *events.join)
        entries = scribe.state.entries
        entries.member[scribe.entry(*events.quit)] = False

    def _measure(self, scribe: Scribe, gone: Gone) -> None:
        """Announce dead roots, which children may suspect, and dead parents, for the measures."""
        dead = scribe.state.dead_roots
        dead.keep(dead.died >= scribe.number - scribe.rules.parent_timeout)
        scribe.tell_all(_DEAD_ROOT, pair=gone.entries.key[gone.entries.root])
        group, node, child = scribe.ends(gone.children.key)
        there = scribe.is_alive(child)
        scribe.tell(_DEAD_PARENT, child[there], group=group[there], parent=node[there])


def _begin_round(scribe: Scribe, tables: Tables) -> None:
    """Clear the tables and columns that belong to one round."""
    for name in OF_THE_LAST_ROUND:
        tables.pop(name, None)
    entries = scribe.state.entries
    entries.extra[:], entries.heeded[:] = NOTHING, False
    scribe.state.children.got_payload[:] = False


def _remember_repairs(scribe: Scribe, came: Columns) -> None:
    """Record the children that have lost their parents."""
    group, child, node = came["group"], came[AT], came["parent"]
    under, _ = scribe.under(group, child, node)
    scribe.note(FAILURES, node=distinct(node[under]))
    new = Repairs(np.full(len(node), scribe.number), node, scribe.key(group, child)).take(under)
    scribe.state.repairs = Repairs.join(scribe.state.repairs, new)


def _own(scribe: Scribe, pairs: Pairs) -> Pairs:
    """Return the pairs (group, node) whose node is in the bucket."""
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


def check_events_of_groups(
    player: RoundPlayer, round: RoundOfGroups, events: Events, group_events: GroupEvents
) -> None:
    """Raise ImpossibleRound for impossible group events, before anything is played."""
    check = _CheckMembers(player.given, round, group_events)
    of_round = round.number, round.groups, events, group_events
    check_group_events(player, *of_round, check, _REFUSED)


@dataclass(frozen=True)
class _CheckMembers(RoundProgram):
    """Record joins of members (or of nodes that wait for a refusal), and quits of non-members."""

    events: GroupEvents

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        for index, kind in enumerate(OF_MEMBERS):
            group, node = _own(scribe, getattr(self.events, kind))
            pair = scribe.key(group, node)
            wrong = scribe.is_member(group, node)
            wrong = wrong | scribe.state.unknown_members.has(pair) if kind == "join" else ~wrong
            kinds = np.full(np.count_nonzero(wrong), index)
            scribe.note(_REFUSED, kind=kinds, group=group[wrong], node=node[wrong])


def join_trees(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> None:
    """Make nodes members, who send JOINs later; keep nodes without credentials apart."""
    allowed = scribe.groups.allows("join", group, node)
    pair = scribe.key(group, node)
    scribe.state.unknown_members.insert(pair[~allowed])
    entries, pair = scribe.state.entries, pair[allowed]
    entries.enter(pair[~entries.has(pair)], scribe.number, "own")
    row = entries.find(pair)
    entries.member[row], entries.joined[row] = True, scribe.number
