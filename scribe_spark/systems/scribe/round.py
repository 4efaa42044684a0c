"""Scribe's part of a round: events, deaths and departures, and the order of all programs.

The part is played within Pastry's round (`pastry.round`): after the events and repairs of nodes and
before their lookups.  A settled round (`settled`) omits the programs that only a later round needs,
because no node fails, arrives or leaves in it.

JSAC 2002, Section III; NGC 2001, Section 3; docs/rules.md, "Scribe in worlds".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.core.arrays import distinct, without
from scribe_spark.engine import Columns, Inbox, Program, Tables
from scribe_spark.engine.player import IfRows, play_in_turn
from scribe_spark.engine.program import AT
from scribe_spark.pastry.repair import close_phase
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.group_events import JOINING, GroupEvents, Pairs, Publishing
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe import bottleneck, figures, join, root, small_groups, sources
from scribe_spark.systems.scribe.end_of_round import EndRound
from scribe_spark.systems.scribe.heartbeat import LeaveTrees, Refresh
from scribe_spark.systems.scribe.measures import FAILURES, CountRepairs, FindReached
from scribe_spark.systems.scribe.multicast import OF_THE_LAST_ROUND, Disseminate, FinishTrees
from scribe_spark.systems.scribe.scribe import RoundOfGroups, RoundProgram, Scribe, send_leave
from scribe_spark.systems.scribe.small_groups import collapse
from scribe_spark.systems.scribe.state import (
    NOTHING,
    ChildrenTable,
    Copies,
    Entries,
    Repairs,
    table_of,
)

#: Messages that serve the measures and are not counted: a root died; a parent died.
_DEAD_ROOT, _DEAD_PARENT = "root died", "parent died"


@dataclass(frozen=True)
class Gone:
    """The rows of dead nodes in the tables of entries, of children and of group states."""

    entries: Entries
    children: ChildrenTable
    copies: Copies


def take_away(scribe: Scribe, nodes: np.ndarray) -> Gone:
    """Remove all state of dead nodes, memberships included; return the rows that others need."""
    state = scribe.state
    if not len(nodes):
        return Gone(Entries(), ChildrenTable(), Copies())
    dead = np.zeros(state.size, dtype=bool)
    dead[nodes] = True

    def taken(name: str) -> Any:
        table = getattr(state, name)
        node = table.key // state.size if name in ("children", "replicas") else table.key
        which = dead[node % state.size]
        gone = table.take(which)
        table.keep(~which)
        return gone

    for name in ("addresses", "unknown_members", "replicas", "got"):
        taken(name)
    sources.forget_kept(scribe, dead)
    if not scribe.best_effort:
        scribe.application.nodes_died(nodes)
    return Gone(*map(taken, ("entries", "children", "copies")))


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
    own: dict[str, Any] = {k: _own(scribe, pairs) for k, pairs in events.by_kind().items()}
    if JOINING in inbox:  # in a run
        came = scribe.key(inbox[JOINING]["group"], inbox[JOINING][AT])
        own["join"] = scribe.split(np.sort(np.r_[scribe.key(*own["join"]), came]))
    return GroupEvents(**own)


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
    own = gone.copies.find(entries.key[entries.root])
    own = own[saying[gone.copies.key[own] % state.size]]
    _hand_on(scribe, gone, own)


def hear_goodbyes(scribe: Scribe, came: Columns) -> None:
    """Remove departed parents of children, which send a JOIN in this round."""
    _, row = scribe.under(came["group"], came[AT], came["parent"])
    figures.lose_parent(scribe, row, "parent left")


def _hand_on(scribe: Scribe, gone: Gone, rows: np.ndarray) -> None:
    """Send group states of departed roots (rows of `gone.copies`) to their nearest live leaves."""
    if not len(rows):
        return
    group, node = scribe.split(gone.copies.key[rows])
    leaves = root.leaves_by_nearness(scribe, group, node)
    alive = scribe.is_alive(leaves)
    tried = (leaves >= 0) & (np.cumsum(alive, axis=1) == alive)  # up to the first live one
    which, column = np.nonzero(tried)
    node, to = node[which], leaves[which, column]
    arrives = scribe.send("replica", node, to)
    which, node, to = which[arrives], node[arrives], to[arrives]
    root_now = {"root": node, "incarnation": scribe.state.incarnation[node]}
    root.tell_states(scribe, HANDED_ON, gone.copies, rows[which], to, **root_now)


# --- the events of a round


def _hear_dead_roots(scribe: Scribe, came: Columns) -> None:
    scribe.state.dead_roots.put(came["pair"], died=scribe.number)


@dataclass(frozen=True)
class PlayEvents(RoundProgram):
    """Clear the tables of dead nodes, send goodbyes, mark members that join or quit."""

    events: Events
    group_events: GroupEvents
    writes = (
        *("entries", "children", "copies", "replicas", "addresses", "unknown_members"),
        *("kept", "got", "dead_roots", "repairs"),
    )
    settled_writes = ("entries",)
    handlers = (
        (_DEAD_ROOT, _hear_dead_roots),
        (_DEAD_PARENT, _remember_repairs),
        (GOODBYE, hear_goodbyes),
        (HANDED_ON, root.receive_states),
    )

    @property
    def silent(self) -> bool:
        return self.round.settled

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
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


# --- the order of programs


#: The variants that change the trees after the JOINs of a round.
_VARIANTS = {
    "lazy": small_groups.grow_lazily,
    "bottleneck": bottleneck.remove_bottlenecks,
    "collapse": collapse,
}


def play_groups(
    player: RoundPlayer, round: RoundOfGroups, events: Events, of_groups: GroupEvents
) -> None:
    """Play Scribe's part of a round, after Pastry has played the events of nodes."""
    environment = player.environment
    # 1. events; 2. maintenance of trees
    steps = growing(player, round, events, of_groups)
    for name, change_trees in _VARIANTS.items():
        if name in round.trees.variants:
            play_in_turn(player, steps)
            steps = []
            change_trees(player, round)
    refuse = join.RefuseUnknownMembers(environment, round)
    count_repairs = FindReached(environment, round), CountRepairs(environment, round)
    steps += [
        IfRows((table_of("unknown_members"),), (refuse,)),
        close_phase(environment),
        FinishTrees(environment, round),
        # 3. publications go to the roots and down the trees; heartbeats
        *publishing(player, round, of_groups.published()),
        EndRound(environment, round),
        # 4. measure the repairs: do roots reach the children of dead nodes again?
        IfRows((table_of("repairs"),), count_repairs),
    ]
    play_in_turn(player, steps)


def growing(
    player: RoundPlayer, round: RoundOfGroups, events: Events, of_groups: GroupEvents
) -> list[Program | IfRows]:
    """Return the programs of a round in order, from its events to its JOINs."""
    environment = player.environment
    steps: list[Program | IfRows] = [PlayEvents(environment, round, events, of_groups)]
    if not round.settled:
        steps += [
            program(environment, round) for program in (root.HandOver, root.Failover, Refresh)
        ]
    steps += [LeaveTrees(environment, round, *of_groups.create)]
    # lazy growth sends JOINs in waves of its own
    return steps if "lazy" in round.trees.variants else [*steps, join.SendJoins(environment, round)]


def publishing(
    player: RoundPlayer, round: RoundOfGroups, publish: Publishing
) -> list[Program | IfRows]:
    """Return the programs that route the publications `publish` to roots, and down the trees."""
    environment = player.environment
    steps: list[Program | IfRows] = [sources.FindRoots(environment, round, publish)]
    if not round.settled:
        steps += [close_phase(environment)]
    return [*steps, FinishTrees(environment, round), Disseminate(environment, round)]
