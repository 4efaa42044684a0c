"""Soft state: children refresh their entries; parents send heartbeats; silence is a suspicion.

The programs play before the JOINs of a round.

JSAC 2002, Sections III.A.1, III.A.2 and III.B.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.rounds.applications import note_failures
from scribe_spark.systems.scribe import figures, join, multicast, root, state
from scribe_spark.systems.scribe.scribe import (
    LEAVE,
    RoundProgram,
    Routing,
    Scribe,
    call_fault_handler,
    calls_of,
    joins_of,
)

REFRESH, REFUSED, HEARTBEAT = "refresh", "refresh refused", "heartbeat"


def send_refreshes(scribe: Scribe) -> None:
    """Children refresh their entry at the parent every `refresh` rounds after their JOIN."""
    entries = scribe.state.entries
    due = (scribe.number - entries.number) % scribe.rules.refresh == 0
    rows = np.flatnonzero((entries.parent >= 0) & due)
    group, child = scribe.split(entries.key[rows])
    parent = entries.parent[rows]
    # a lost refresh has no effect: a child suspects its parent only by the lack of heartbeats
    columns = {"group": group, "child": child, "number": entries.number[rows]}
    scribe.post(REFRESH, "refresh", child, parent, **columns)


def receive_refreshes(scribe: Scribe, came: Columns) -> None:
    """Parents refresh the entries of children; unknown children get a refusal."""
    children, child = scribe.state.children, came["child"]
    edge = children.find(scribe.edge(came["group"], came[AT], child))
    known = edge >= 0
    known[known] = children.number[edge[known]] == came["number"][known]
    children.refreshed[edge[known]] = scribe.number
    parent = came[AT][~known]
    scribe.tell(REFUSED, child[~known], group=came["group"][~known], parent=parent)


def was_refused(scribe: Scribe, came: Columns) -> None:
    """Children whose refresh was refused lose their parent and join again."""
    scribe.refuse("refresh", len(came[AT]))
    figures.lose_parent(scribe, scribe.entry(came["group"], came[AT]), "refused")


def expire(scribe: Scribe) -> None:
    """Parents drop children that did not refresh for `child_timeout` rounds."""
    children = scribe.state.children
    silent = scribe.number - children.refreshed >= scribe.rules.child_timeout
    note_failures(scribe.tables, *scribe.ends(children.key[silent]))
    children.keep(~silent)


def suspect(scribe: Scribe) -> None:
    """Give up parents silent for `parent_timeout` rounds; note why nodes will send JOINs."""
    entries, dead_roots = scribe.state.entries, scribe.state.dead_roots
    silent = scribe.number - entries.heard > scribe.rules.parent_timeout
    rows = np.flatnonzero((entries.parent >= 0) & silent)
    group, child = scribe.split(entries.key[rows])
    note_failures(scribe.tables, group, child, entries.parent[rows])
    died = dead_roots.find(scribe.key(group, entries.parent[rows]))
    was_root = died >= 0
    was_root[was_root] = dead_roots.died[died[was_root]] > entries.heard[rows[was_root]]
    figures.lose_parent(scribe, rows, "parent failed")
    entries.cause[rows[was_root]] = state.cause("root failed")


def send_heartbeats(scribe: Scribe) -> None:
    """Parents send a heartbeat to each child that got no payload in this round.

    Where copies may be lost, heartbeats of an application name the last numbers of the parents.
    """
    children = scribe.state.children
    group, parent, child = scribe.ends(children.key[~children.got_payload])
    columns = {"group": group, "parent": parent}
    if scribe.losses is not None and not scribe.best_effort:
        columns["last"] = _last_numbers(scribe, group, parent)
    scribe.post(HEARTBEAT, "heartbeat", parent, child, **columns)


def _last_numbers(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return the numbers up to which nodes in trees have all messages (upcall `last_numbers`)."""
    pair, which = np.unique(scribe.key(group, node), return_inverse=True)
    calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
    return scribe.application.last_numbers(calls)[which]


def hear_parents(scribe: Scribe, came: Columns) -> None:
    """Nodes record heartbeats of their parents; those that lack messages ask (rule N3)."""
    entries = scribe.state.entries
    there, row = scribe.under(came["group"], came[AT], came["parent"])
    entries.heard[row], entries.heeded[row] = scribe.number, True
    if "last" not in came:
        return
    group, node, last = (came[name][there] for name in ("group", AT, "last"))
    lacks = _last_numbers(scribe, group, node) < last
    row, of = row[lacks], (group[lacks], node[lacks], entries.number[row[lacks]])
    joins = call_fault_handler(scribe, joins_of(*of, state.cause("ask")))
    asks = joins["extra"] != state.NOTHING
    joins, row = take(joins, asks), row[asks]
    scribe.note(join.JOINS, **joins)
    scribe.post(multicast.ASK, "JOIN", joins["source"], entries.parent[row], **joins)


def keep_questions(scribe: Scribe, came: Columns) -> None:
    """Parents keep questions until joinHandler is called in the next round."""
    edge = scribe.edge(came["group"], came[AT], came["source"])
    scribe.state.questions.insert(edge, number=came["number"], extra=came["extra"])


# --- the steps of a round before the JOINs: soft state, suspicions, LEAVEs and CREATEs

#: A table with a row for each group: True in ``here`` if the bucket has a copy of the group's
#: state, True in ``created`` if the group was created in the bucket before this round's CREATEs.
HERE = "scribe here"


class Refresh(RoundProgram):
    """Replicas that are no longer near drop their copies; then children refresh their entries."""

    writes = ("entries", "children", "copies", "replicas")

    handlers = (
        (root.REPLICA_GOODBYE, root.receive_goodbyes),
        (REFRESH, receive_refreshes),
        (REFUSED, was_refused),
    )

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        passed_on = tables.pop(root.PASSED_ON, {"pair": whole_numbers()})["pair"]
        root.drop_far_copies(scribe, passed_on)
        here = np.zeros(len(scribe.groups), dtype=bool)
        here[scribe.state.copies.key // scribe.state.size] = True
        tables[HERE] = {"here": here, "created": scribe.state.created.copy()}
        send_refreshes(scribe)


_CREATE = Routing("CREATE", ends=root.CREATED)


@dataclass(frozen=True)
class LeaveTrees(RoundProgram):
    """Entries expire, silent parents are suspected, nodes leave trees; CREATEs are routed."""

    group: np.ndarray
    creator: np.ndarray
    writes = ("entries", "children")
    settled_writes = ()
    handlers = ((LEAVE, figures.left_trees), (_CREATE.kind, _CREATE.receive))

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        if not scribe.settled:
            expire(scribe)
            suspect(scribe)
            figures.leave_trees(scribe)
        mine = scribe.is_own(self.creator)
        group, creator = self.group[mine], self.creator[mine]
        _CREATE.begin(scribe, creator, group=group, creator=creator)
