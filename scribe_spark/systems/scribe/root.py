"""Roots: CREATE, failover, and the hand-over of a group to a nearer node.

A CREATE is routed to the groupId; the node that it reaches becomes the root.

JSAC 2002, Sections III.A.1 and III.B.1.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, distinct
from scribe_spark.engine import Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.systems.scribe.figures import deliver_create
from scribe_spark.systems.scribe.leave import send_leave
from scribe_spark.systems.scribe.program import CHANGED, RoundProgram
from scribe_spark.systems.scribe.replicas import (
    SentStates,
    join_themselves,
    leaves_by_nearness,
    rank,
    receive_replicas,
    receive_states,
    replicate,
    root_is_gone,
    tell_states,
)
from scribe_spark.systems.scribe.scribe import Scribe
from scribe_spark.systems.scribe.state import cause

#: The message with a group's state from a node that is not the nearest to the nearest; ``hands`` is
#: True if the sender is a root that steps down.
STATE = "state"

#: The table of copies that were passed on to live nodes in this round: ``pair``, the key of (group,
#: node).
PASSED_ON = "scribe passed on"


class HandOver(RoundProgram):
    """Let nodes with a group's state compare themselves with their leaf set (upcall newLeafs).

    A root, or a replica whose root is gone, gives the state to its nearest leaf if that is nearer
    to the groupId.
    """

    writes = ("entries", "children", "copies", "replicas", "values")

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if STATE in inbox:
            came = dict(inbox[STATE])
            hands = came.pop("hands")
            states = SentStates.received(scribe, came)
            receive_states(scribe, states)
            become_root(scribe, distinct(scribe.key(states.group, states.to)[hands]))
        if superstep:
            return
        copies = scribe.state.copies
        group, node = scribe.split(copies.key)
        root = scribe.is_root(group, node)
        sends = (rank(scribe, group, node) > 0) & (root | root_is_gone(scribe))
        sends = np.flatnonzero(sends)
        leaf = leaves_by_nearness(scribe, group[sends], node[sends])[:, 0]
        arrives = scribe.send("replica", node[sends], leaf)
        sends, leaf = sends[arrives], leaf[arrives]
        hands = root[sends]
        tell_states(scribe, STATE, SentStates.of(scribe, copies, sends, leaf), hands=hands)
        scribe.note(PASSED_ON, pair=copies.key[sends[~hands]])
        _step_down(scribe, sends[hands], leaf[hands])


def _step_down(scribe: Scribe, rows: np.ndarray, successor: np.ndarray) -> None:
    """Let former roots (rows of `Copies`) join under the new roots later, with their subtrees."""
    if not len(rows):
        return
    entries, copies, replicas = scribe.state.entries, scribe.state.copies, scribe.state.replicas
    row = entries.find(copies.key[rows])
    entries.root[row], entries.tried[row] = False, True
    entries.cause[row] = cause("hand-over")
    copies.root[rows] = successor
    copies.incarnation[rows] = scribe.state.incarnation[successor]
    replicas.keep(~np.isin(replicas.key // scribe.state.size, copies.key[rows]))


class Failover(RoundProgram):
    """Let the nearest nodes with a copy of a group's state become roots, and update replicas."""

    writes = ("entries", "children", "copies", "replicas", "values")

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if not superstep:
            copies, entries = scribe.state.copies, scribe.state.entries
            nearest = rank(scribe, *scribe.split(copies.key)) == 0
            become_root(scribe, copies.key[nearest])
            scribe.notes.pop(CHANGED, None)
            if CHANGED in tables:
                del tables[CHANGED]
            replicate(scribe, entries.key[entries.root])
        receive_replicas(scribe, inbox)


def become_root(scribe: Scribe, pair: np.ndarray) -> None:
    """Make nodes with a group's state (keys, each once) its roots; skip those that are roots.

    A node in the tree sends its parent a LEAVE. A node that has sent a JOIN gets a repair JOIN
    of its own: no child is added, but joinHandler is called.
    """
    entries, copies = scribe.state.entries, scribe.state.copies
    pair = pair[~scribe.is_root(*scribe.split(pair))]
    if not len(pair):
        return
    entries.enter(pair[~entries.has(pair)], scribe.number, "own")
    group, node = scribe.split(pair)
    row = entries.find(pair)
    tried = entries.tried[row]
    join_themselves(scribe, group[tried], node[tried])
    parent = entries.parent[row]
    entries.parent[row], entries.root[row] = NONE, True
    entries.path[row], entries.moved[row] = NONE, True
    copy = copies.find(pair)
    copies.root[copy], copies.incarnation[copy] = node, scribe.state.incarnation[node]
    if not scribe.settled:
        scribe.note(CHANGED, pair=pair)
    had = parent >= 0
    send_leave(scribe, group[had], node[had], parent[had], entries.number[row[had]])


# --- CREATE

#: The table of CREATEs at the nodes where they were delivered.
CREATED = "scribe CREATEs"

#: The table of groups that were created in this round: ``group, creator``, the root (``at``), and
#: the ``hops, delay_us`` of the CREATE's route.
MADE = "scribe made"


def receive_routed_creates(scribe: Scribe, tables: Tables) -> None:
    """Handle the round's CREATEs where they arrived; the smallest creator of a group counts."""
    came = tables.pop(CREATED, None)
    if came is None:
        return
    scribe.refuse("CREATE lost", (~came["delivered"]).sum())
    order = np.lexsort((came["creator"], came["group"]))
    came = take(came, order[came["delivered"][order]])
    made = receive_creates(scribe, came["group"], came["creator"], came[AT])
    names = ("group", "creator", AT, "hops", "delay_us")
    scribe.note(MADE, **{name: came[name][made] for name in names})


def receive_creates(
    scribe: Scribe, group: np.ndarray, creator: np.ndarray, node: np.ndarray
) -> np.ndarray:
    """Handle CREATEs, sorted by (group, creator), at nodes; return which were successful."""
    pair = scribe.key(group, node)
    # check credentials; a CREATE for an existing group changes nothing
    allowed = scribe.groups.allows("create", group, creator)
    allowed &= ~scribe.state.copies.has(pair)
    _, first = np.unique(pair[allowed], return_index=True)
    made = np.flatnonzero(allowed)[first]
    scribe.refuse("CREATE", len(pair) - len(made))
    deliver_create(scribe, group[made], node[made], creator[made])
    become_root(scribe, pair[made])
    scribe.state.created[group[made]] = True
    return made
