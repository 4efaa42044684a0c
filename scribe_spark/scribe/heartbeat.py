"""Soft state: children refresh their entries; parents send heartbeats; silence is a suspicion.

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
    lose_parent(scribe, scribe.entry(came["group"], came[AT]), "refused")


def expire(scribe: Scribe) -> None:
    """Parents drop children that did not refresh for `child_timeout` rounds."""
    children = scribe.state.children
    children.keep(scribe.number - children.refreshed < scribe.rules.child_timeout)


def suspect(scribe: Scribe) -> None:
    """Give up parents that were silent for `parent_timeout` rounds; measures name the cause."""
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
    """Parents send a heartbeat to each child that got no payload in this round."""
    children = scribe.state.children
    group, parent, child = scribe.ends(children.key[~children.got_payload])
    scribe.post(HEARTBEAT, "heartbeat", parent, child, group=group, parent=parent)


def hear_parents(scribe: Scribe, came: Columns) -> None:
    """Nodes record heartbeats of their parents, and ignore heartbeats of other nodes."""
    entries = scribe.state.entries
    _, row = scribe.under(came["group"], came[AT], came["parent"])
    entries.heard[row], entries.heeded[row] = scribe.number, True


def find_orphans(scribe: Scribe) -> np.ndarray:
    """Return the orphans after the heartbeats, as rows of `Entries`.

    An orphan is not the root, and has no live parent that knows it as a child: it got neither a
    heartbeat nor a payload from its parent.
    """
    entries = scribe.state.entries
    return np.flatnonzero(~entries.root & ((entries.parent < 0) | ~entries.heeded))
