"""Soft state, suspicion and heartbeats.

References
----------
JSAC 2002, Section III.B.1.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.scribe.leave import lose_parent
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import cause

__all__ = ["expire", "refresh", "send_heartbeats", "suspect"]


def refresh(scribe: Scribe) -> None:
    """Children refresh their entries every `refresh` rounds after their JOIN, all at once.

    A parent that has no such entry says so, and the child joins again.
    """
    entries, children = scribe.state.entries, scribe.state.children
    due = (scribe.number - entries.number) % scribe.rules.refresh == 0
    rows = np.flatnonzero((entries.parent >= 0) & due)
    child = entries.key[rows] % scribe.state.size
    # only silence makes suspicious
    rows = rows[scribe.send("refresh", child, entries.parent[rows])]
    edge = _edges_to_parents(scribe, rows)
    known = edge >= 0
    known[known] = children.number[edge[known]] == entries.number[rows[known]]
    children.refreshed[edge[known]] = scribe.number
    scribe.refused["refresh"] += int((~known).sum())
    lose_parent(scribe, rows[~known], "refused")


def _edges_to_parents(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """The rows of `Children` at the parents of nodes, by rows of `Entries`, or NONE."""
    entries = scribe.state.entries
    group, node = scribe.split(entries.key[rows])
    edge = scribe.key(scribe.key(group, entries.parent[rows]), node)
    return scribe.state.children.find(edge)


def expire(scribe: Scribe) -> None:
    """Entries that were not refreshed for `child_timeout` rounds are dropped."""
    children = scribe.state.children
    children.keep(scribe.number - children.refreshed < scribe.rules.child_timeout)


def suspect(scribe: Scribe) -> None:
    """A node that heard nothing for `parent_timeout` rounds has no parent any more.

    Whether that was the root (which only the measurement knows) is the cause that is counted.
    """
    entries, dead_roots = scribe.state.entries, scribe.state.dead_roots
    silent = scribe.number - entries.heard > scribe.rules.parent_timeout
    rows = np.flatnonzero((entries.parent >= 0) & silent)
    group, _ = scribe.split(entries.key[rows])
    died = dead_roots.find(scribe.key(group, entries.parent[rows]))
    was_root = died >= 0
    was_root[was_root] = dead_roots.died[died[was_root]] > entries.heard[rows[was_root]]
    lose_parent(scribe, rows, "parent failed")
    entries.cause[rows[was_root]] = cause("root failed")


def send_heartbeats(scribe: Scribe) -> np.ndarray:
    """The end of a round: a heartbeat to each child that got no payload from this parent.

    Who hears of its parent, by either, knows that it is alive.

    Returns
    -------
    ndarray of int64
        Orphans, by rows of `Entries`: not the root, and no live node is both their parent and has
        them as a child.
    """
    entries, children = scribe.state.entries, scribe.state.children
    unpaid = np.ones(len(children), dtype=bool)
    for edges in scribe.paid:
        paid = children.find(edges)
        unpaid[paid[paid >= 0]] = False
    place, child = scribe.split(children.key[unpaid])
    scribe.send("heartbeat", place % scribe.state.size, child)
    attached = entries.parent >= 0
    rows = np.flatnonzero(attached)
    there = _edges_to_parents(scribe, rows) >= 0
    entries.heard[rows[there]] = scribe.number
    attached[rows[~there]] = False
    return np.flatnonzero(~attached & ~entries.root)
