"""Roots: failover, and hand-over to a nearer newcomer.

References
----------
JSAC 2002, Section III.B.1.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, distinct
from scribe_spark.engine import Inbox, Tables
from scribe_spark.scribe.handlers import CHANGED
from scribe_spark.scribe.leave import send_leave
from scribe_spark.scribe.nearness import leaves_by_nearness, rank
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.replicas import (
    SentStates,
    join_themselves,
    receive_replicas,
    receive_states,
    replicate,
    root_is_gone,
    tell_states,
)
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import cause

#: A group's state, from one that is not the nearest to the nearest; of a root that steps down:
#: ``hands``.
STATE = "state"

#: The table of (group, node), ``pair``, whose copies have come to live nodes in this round.
PASSED_ON = "scribe passed on"


class HandOver(RoundProgram):
    """Whoever has a group's state looks at its leaf set (Pastry's upcall newLeafs).

    A root that is not the nearest hands over; who has a copy of a root that is gone, and is not the
    nearest, passes it on: all at once, to the nearest leaf.
    """

    writes = ("entries", "children", "copies", "replicas", "values")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
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
    """Old roots, by rows of `Copies`, join under the new ones in this round's JOINs.

    They keep their subtrees.
    """
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
    """The nearest nodes with copies become roots; roots bring their replicas up to date."""

    writes = ("entries", "children", "copies", "replicas", "values")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
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
    """Nodes that have a group's state are its roots from now on.

    Those of the tree take leave of their parents.  Of one that has sent a JOIN before, a JOIN that
    repairs is delivered at itself: no child is added, and joinHandler is called with it.

    Parameters
    ----------
    pair : ndarray of int64
        (group, node), each once; roots already are passed over.
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
