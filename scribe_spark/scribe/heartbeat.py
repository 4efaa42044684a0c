"""Soft state, suspicion and heartbeats.

References
----------
JSAC 2002, Section III.B.1.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.scribe.leave import lose_parent
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import cause

REFRESH, REFUSED, HEARTBEAT = "refresh", "refresh refused", "heartbeat"


def send_refreshes(scribe: Scribe) -> None:
    """Children refresh their entries every `refresh` rounds after their JOIN, all at once."""
    entries = scribe.state.entries
    due = (scribe.number - entries.number) % scribe.rules.refresh == 0
    rows = np.flatnonzero((entries.parent >= 0) & due)
    group, child = scribe.split(entries.key[rows])
    parent = entries.parent[rows]
    # only silence makes suspicious
    arrives = scribe.send("refresh", child, parent)
    columns = {"group": group, "child": child, "number": entries.number[rows], AT: parent}
    if not arrives.all():
        columns = {name: column[arrives] for name, column in columns.items()}
    scribe.tell(REFRESH, columns.pop(AT), **columns)


def receive_refreshes(scribe: Scribe, came: Columns) -> None:
    """Parents refresh entries; one that has no such entry says so."""
    children, child = scribe.state.children, came["child"]
    edge = children.find(scribe.key(scribe.key(came["group"], came[AT]), child))
    known = edge >= 0
    known[known] = children.number[edge[known]] == came["number"][known]
    children.refreshed[edge[known]] = scribe.number
    parent = came[AT][~known]
    scribe.tell(REFUSED, child[~known], group=came["group"][~known], parent=parent)


def was_refused(scribe: Scribe, came: Columns) -> None:
    """Children whose refresh was refused join again."""
    scribe.refuse("refresh", len(came[AT]))
    lose_parent(scribe, scribe.entry(came["group"], came[AT]), "refused")


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


def send_heartbeats(scribe: Scribe) -> None:
    """The end of a round: a heartbeat to each child that got no payload from this parent."""
    children = scribe.state.children
    edge = children.key[~children.got_payload]
    pair, child = scribe.split(edge)
    group, parent = scribe.split(pair)
    arrives = scribe.send("heartbeat", parent, child)
    if not arrives.all():
        group, parent, child = group[arrives], parent[arrives], child[arrives]
    scribe.tell(HEARTBEAT, child, group=group, parent=parent)


def hear_parents(scribe: Scribe, came: Columns) -> None:
    """A node that hears of its parent knows that it is alive; heartbeats of others are ignored."""
    entries = scribe.state.entries
    row = scribe.entry(came["group"], came[AT])
    there = row >= 0
    there[there] = entries.parent[row[there]] == came["parent"][there]
    row = row[there]
    entries.heard[row], entries.heeded[row] = scribe.number, True


def find_orphans(scribe: Scribe) -> np.ndarray:
    """Return orphans after the heartbeats, by rows of `Entries`.

    They are not the root, and no live node is both their parent and has them as a child: nobody
    whom they take for their parent has sent them a heartbeat or a payload.
    """
    entries = scribe.state.entries
    return np.flatnonzero(~entries.root & ((entries.parent < 0) | ~entries.heeded))
