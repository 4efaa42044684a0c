"""LEAVE going up, nodes that die, and the goodbyes of those that depart.

References
----------
JSAC 2002, Section III.A.2, Figure 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scribe_spark.core.arrays import SortedTable
from scribe_spark.scribe.duplicates import SOURCE
from scribe_spark.scribe.figures import deliver_leave
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import Children, Copies, Entries, Got, Kept, cause

__all__ = ["Gone", "leave_up", "lose_parent", "send_leave", "take_away"]

_Table = TypeVar("_Table", bound=SortedTable)


def leave_up(scribe: Scribe) -> None:
    """LEAVE hop by hop, until nobody leaves any more (Figure 4, lines 10 and 11).

    The lines as printed would take out a member that has lost its last child, and let a root send
    to no parent.  Here a node leaves when it is not a member, not the root, and has no child.
    """
    entries, children = scribe.state.entries, scribe.state.children
    asked = np.arange(len(entries))
    while len(asked):
        has_child = _has_child(scribe, entries.key[asked])
        # (10) if |groups[msg.group].children| = 0
        going = asked[~(entries.member[asked] | entries.root[asked] | has_child)]
        if not len(going):
            return
        group, node = scribe.split(entries.key[going])
        parent, number = entries.parent[going], entries.number[going]
        entries.drop(going)
        up, before = parent >= 0, len(children)
        # (11) send(msg, groups[msg.group].parent)
        send_leave(scribe, group[up], node[up], parent[up], number[up])
        if len(children) == before:
            return
        asked = scribe.entry(group[up], parent[up])
        asked = np.unique(asked[asked >= 0])


def _has_child(scribe: Scribe, place: np.ndarray) -> np.ndarray:
    """Whether nodes, by their (group, node), have a child."""
    edges = scribe.state.children.key
    first = np.searchsorted(edges, place * scribe.state.size)
    first, beyond = np.minimum(first, len(edges) - 1), first == len(edges)
    return ~beyond & (edges[first] // scribe.state.size == place) if len(edges) else ~beyond


def send_leave(
    scribe: Scribe, group: np.ndarray, node: np.ndarray, parent: np.ndarray, number: np.ndarray
) -> None:
    """Nodes send LEAVE to their parents, with their join numbers."""
    arrives = scribe.send("LEAVE", node, parent)
    deliver_leave(scribe, group[arrives], parent[arrives], node[arrives], number[arrives])


def lose_parent(scribe: Scribe, rows: np.ndarray, why: str) -> None:
    """Nodes, by rows of `Entries`, have no parent from now on, and will send a JOIN."""
    scribe.state.entries.parent[rows] = -1
    scribe.state.entries.cause[rows] = cause(why)


@dataclass(frozen=True)
class Gone:
    """Return what dead nodes had: rows of the three tables."""

    entries: Entries
    children: Children
    copies: Copies


def take_away(scribe: Scribe, nodes: np.ndarray) -> Gone:
    """Nodes die: all that they knew is forgotten, membership too."""
    state = scribe.state
    if not len(nodes):
        return Gone(Entries(), Children(), Copies())
    dead = np.zeros(state.size, dtype=bool)
    dead[nodes] = True
    edge = state.children.key // state.size
    gone = Gone(
        _taken(state.entries, dead[state.entries.key % state.size]),
        _taken(state.children, dead[edge % state.size]),
        _taken(state.copies, dead[state.copies.key % state.size]),
    )
    _taken(state.addresses, dead[state.addresses.key % state.size])
    _taken(state.strangers, dead[state.strangers.key % state.size])
    _forget_kept(scribe, dead)
    kept = ~dead[state.got.node]
    state.got = Got(state.got.group[kept], state.got.node[kept], state.got.publication[kept])
    if scribe.application is not None:
        scribe.application.nodes_died(nodes)
    return gone


def _forget_kept(scribe: Scribe, dead: np.ndarray) -> None:
    """What dead sources kept is gone with them."""
    group, publication = scribe.state.kept.group, scribe.state.kept.publication
    lost = dead[scribe.overlay.states.known.positions(publication & SOURCE)]
    scribe.died_with_source = Kept(group[lost], publication[lost])
    scribe.state.kept = Kept(group[~lost], publication[~lost])


def _taken(table: _Table, which: np.ndarray) -> _Table:
    """The marked rows, which are taken out of a table."""
    taken = type(table)(table.key[which], *[getattr(table, n)[which] for n in table.columns()])
    table.keep(~which)
    return taken
