"""Group events of a round, and effects of Pastry's events on trees: deaths and departures.

JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scribe_spark.core.arrays import distinct, without
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import JOINING, QUITTING, GroupEvents, Pairs
from scribe_spark.systems.scribe.leave import Gone, lose_parent, send_leave, take_away
from scribe_spark.systems.scribe.multicast import OF_THE_LAST_ROUND
from scribe_spark.systems.scribe.program import RoundProgram
from scribe_spark.systems.scribe.replicas import (
    SentStates,
    leaves_by_nearness,
    receive_states,
    tell_states,
)
from scribe_spark.systems.scribe.scribe import Scribe
from scribe_spark.systems.scribe.state import NOTHING, Repairs

#: Messages that serve the measures and are not counted: a root died; a parent died.
_DEAD_ROOT, _DEAD_PARENT = "root died", "parent died"

#: The table of nodes that died in this round and had children: ``node``.
FAILURES = "scribe failures"


@dataclass(frozen=True)
class PlayEvents(RoundProgram):
    """Clear the tables of dead nodes, send goodbyes, mark members that join or quit."""

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

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
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
        """Tell the children of dead nodes, and all buckets about dead roots, for measures."""
        dead = scribe.state.dead_roots
        dead.keep(dead.died >= scribe.number - scribe.rules.parent_timeout)
        scribe.tell_all(_DEAD_ROOT, pair=gone.entries.key[gone.entries.root])
        group, node, child = scribe.ends(gone.children.key)
        there = scribe.is_alive(child)
        scribe.tell(_DEAD_PARENT, child[there], group=group[there], parent=node[there])


def _begin_round(scribe: Scribe, tables: Tables) -> None:
    """Clear the tables and columns that belong to a single round."""
    for name in OF_THE_LAST_ROUND:
        tables.pop(name, None)
    entries = scribe.state.entries
    entries.extra[:], entries.heeded[:] = NOTHING, False
    scribe.state.children.got_payload[:] = False


def _remember_repairs(scribe: Scribe, came: Columns) -> None:
    """Record the children `came` whose parent has died, until a root reaches them."""
    group, child, node = came["group"], came[AT], came["parent"]
    under, _ = scribe.under(group, child, node)
    scribe.note(FAILURES, node=distinct(node[under]))
    new = Repairs(np.full(len(node), scribe.number), node, scribe.key(group, child)).take(under)
    scribe.state.repairs = Repairs.join(scribe.state.repairs, new)


def _own(scribe: Scribe, pairs: Pairs) -> Pairs:
    """Return those of some pairs (group, node) whose node is in the bucket."""
    group, node = pairs
    mine = scribe.is_own(node)
    return (group, node) if mine.all() else (group[mine], node[mine])


def _own_events(scribe: Scribe, events: GroupEvents, inbox: Inbox) -> GroupEvents:
    """Return the events of the bucket's nodes."""
    own = {kind: _own(scribe, pairs) for kind, pairs in events.by_kind().items()}
    for kind, name in ((JOINING, "join"), (QUITTING, "quit")):
        if kind in inbox:
            came = scribe.key(inbox[kind]["group"], inbox[kind][AT])
            own[name] = scribe.split(np.sort(np.r_[scribe.key(*own[name]), came]))
    return GroupEvents.of_pairs(own)


def join_trees(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> None:
    """Make nodes members, which send JOINs later; nodes without credentials are kept apart."""
    allowed = scribe.groups.allows("join", group, node)
    pair = scribe.key(group, node)
    scribe.state.unknown_members.insert(without(pair[~allowed], scribe.state.unknown_members.key))
    entries, pair = scribe.state.entries, pair[allowed]
    entries.enter(pair[~entries.has(pair)], scribe.number, "own")
    row = entries.find(pair)
    entries.member[row], entries.joined[row] = True, scribe.number


# --- announced departures: a node that leaves notifies its parents and children
#
# A departing root also hands over the states of its groups.

#: Messages of a departing node: the goodbye to a child, and a group's state from a root to its
#: nearest live leaf.
GOODBYE, HANDED_ON = "tree goodbye", "state handed on"


def say_goodbye(scribe: Scribe, gone: Gone, departing: np.ndarray) -> None:
    """Departing nodes send a LEAVE to each parent and a goodbye to each child.

    `gone` has the state of all nodes that died in this round.  The departing nodes count as dead,
    so messages that they send to each other are lost.
    """
    state, entries = scribe.state, gone.entries
    saying = np.zeros(state.size, dtype=bool)
    saying[departing] = True
    # 1. tell parents
    group, node = scribe.split(entries.key)
    up = saying[node] & (entries.parent >= 0)
    send_leave(scribe, group[up], node[up], entries.parent[up], entries.number[up])
    # 2. tell children
    group, parent, child = scribe.ends(gone.children.key)
    told = saying[parent]
    group, parent, child = group[told], parent[told], child[told]
    scribe.post(GOODBYE, "tree goodbye", parent, child, group=group, parent=parent)
    # 3. roots hand over to the nearest live leaf; they try leaves in order of nearness
    root = gone.copies.find(entries.key[entries.root])
    root = root[saying[gone.copies.key[root] % state.size]]
    _hand_on(scribe, gone, root)


def hear_goodbyes(scribe: Scribe, came: Columns) -> None:
    """Remove departed parents of children, which send a JOIN in this round."""
    _, row = scribe.under(came["group"], came[AT], came["parent"])
    lose_parent(scribe, row, "parent left")


def _hand_on(scribe: Scribe, gone: Gone, rows: np.ndarray) -> None:
    """Send group states of departed roots (rows of `gone.copies`) to their nearest live leaves."""
    if not len(rows):
        return
    group, node = scribe.split(gone.copies.key[rows])
    leaves = leaves_by_nearness(scribe, group, node)
    alive = scribe.is_alive(leaves)
    first = np.where(alive.any(axis=1), alive.argmax(axis=1), (leaves >= 0).sum(axis=1))
    lost, arrived = first.sum(), alive.any(axis=1)

    def between() -> tuple[np.ndarray, np.ndarray]:
        asked = (leaves >= 0) & (np.arange(leaves.shape[1]) < (first + arrived)[:, None])
        return node[np.nonzero(asked)[0]], leaves[asked]

    scribe.count("replica", lost + arrived.sum(), lost, between=between)
    rows, node, first = rows[arrived], node[arrived], first[arrived]
    to = leaves[arrived][np.arange(len(rows)), first]
    states = SentStates.of(scribe, gone.copies, rows, to)
    states = replace(states, root=node, incarnation=scribe.state.incarnation[node])
    tell_states(scribe, HANDED_ON, states)
