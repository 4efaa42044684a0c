"""LEAVE messages, and the removal of dead nodes' state.  JSAC 2002, Section III.A.2, Figure 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scribe_spark.core.arrays import NONE, SortedTable, distinct
from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.systems.scribe.duplicates import source_numbers
from scribe_spark.systems.scribe.scribe import Scribe
from scribe_spark.systems.scribe.state import ChildrenTable, Copies, Entries, cause

#: The message to the parent: ``group, source, number`` (the join number).
LEAVE = "LEAVE"

_Table = TypeVar("_Table", bound=SortedTable)


def leave_trees(scribe: Scribe) -> None:
    """All nodes leave trees that do not need them (Figure 4, lines 10 and 11).

    By the printed lines, a member that loses its last child would leave, and a root would send a
    LEAVE although it has no parent.  Here a node leaves if it is not a member, not the root, and
    has no child.
    """
    _leave_up(scribe, np.arange(len(scribe.state.entries)))


def left_trees(scribe: Scribe, came: Columns) -> None:
    """Nodes whose children left by LEAVEs (`came`), and that are not needed, leave, too."""
    row = distinct(scribe.entry(came["group"], came[AT]))
    _leave_up(scribe, row[row >= 0])


def _leave_up(scribe: Scribe, asked: np.ndarray) -> None:
    entries = scribe.state.entries
    idle = asked[~(entries.member[asked] | entries.root[asked])]
    # (10) if |groups[msg.group].children| = 0
    going = idle[~_has_child(scribe, entries.key[idle])]
    group, node = scribe.split(entries.key[going])
    parent, number = entries.parent[going], entries.number[going]
    entries.drop(going)
    up = parent >= 0
    # (11) send(msg, groups[msg.group].parent)
    send_leave(scribe, group[up], node[up], parent[up], number[up])


def _has_child(scribe: Scribe, pair: np.ndarray) -> np.ndarray:
    """Return whether nodes, given as keys (group, node), have a child."""
    edges = scribe.state.children.key
    first = np.searchsorted(edges, pair * scribe.state.size)
    first, beyond = np.minimum(first, len(edges) - 1), first == len(edges)
    return ~beyond & (edges[first] // scribe.state.size == pair) if len(edges) else ~beyond


def send_leave(
    scribe: Scribe, group: np.ndarray, node: np.ndarray, parent: np.ndarray, number: np.ndarray
) -> None:
    """Send LEAVEs to parents, with the senders' join numbers."""
    scribe.post(LEAVE, "LEAVE", node, parent, group=group, source=node, number=number)


def lose_parent(scribe: Scribe, rows: np.ndarray, why: str) -> None:
    """Remove the parents of nodes (rows of `Entries`), which will send JOINs of the cause `why`."""
    entries = scribe.state.entries
    entries.parent[rows], entries.cause[rows] = NONE, cause(why)
    entries.path[rows], entries.moved[rows] = NONE, True


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
    edge = state.children.key // state.size
    gone = Gone(
        _taken(state.entries, dead[state.entries.key % state.size]),
        _taken(state.children, dead[edge % state.size]),
        _taken(state.copies, dead[state.copies.key % state.size]),
    )
    _taken(state.addresses, dead[state.addresses.key % state.size])
    _taken(state.unknown_members, dead[state.unknown_members.key % state.size])
    _taken(state.replicas, dead[state.replicas.key // state.size % state.size])
    _forget_kept(scribe, dead)
    _taken(state.got, dead[state.got.key % state.size])
    if not scribe.best_effort:
        scribe.application.nodes_died(nodes)
    return gone


#: The table of publications that were lost because the source that kept them died in this round.
DIED_WITH_SOURCE = "scribe died with source"


def _forget_kept(scribe: Scribe, dead: np.ndarray) -> None:
    """Drop the publications that sources marked in `dead` kept; record them for measures."""
    kept = scribe.state.kept
    lost = dead[scribe.ring.positions(source_numbers(scribe, kept.publication))]
    scribe.note(DIED_WITH_SOURCE, **kept.take(lost).to_columns())
    scribe.state.kept = kept.take(~lost)


def _taken(table: _Table, which: np.ndarray) -> _Table:
    """Remove the rows that a mask selects from a table, and return these rows."""
    taken = table.take(which)
    table.keep(~which)
    return taken
