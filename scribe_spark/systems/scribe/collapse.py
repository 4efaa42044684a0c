"""Path collapse: a node that only forwards messages to a single child leaves the tree.

References
----------
JSAC 2002, Section IV.F.  docs/rules.md, S30.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.player import counted, most_supersteps
from scribe_spark.engine.program import AT
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe.join import JoinProgram, note_joins, send_directly
from scribe_spark.systems.scribe.leave import lose_parent, send_leave
from scribe_spark.systems.scribe.scribe import RoundOfGroups, Scribe

#: The table of nodes that asked to leave in this round: ``pair``, the key of (group, node), and the
#: ``parent`` that was asked.
ASKED = "scribe collapse asked"

_MAY, _YES, _LEAVES = "collapse: may I", "collapse: yes", "collapse: join my parent"


def collapse(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Let nodes that only forward to one child leave, until no node asks any more."""
    for _ in counted(
        "scribe collapse", most_supersteps(len(player.environment.facts.ring)), "passes"
    ):
        if not player.play(Collapse(player.environment, round)):
            break


class Collapse(JoinProgram):
    """Let nodes that only forward to one child leave the tree, after the round's JOINs.

    Each such node asks its parent once.  The parent agrees unless the parent has asked to leave,
    too; so the nodes next to the root leave first.
    """

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        super().handle(scribe, tables, inbox, superstep)
        if not superstep:
            _ask(scribe, tables)
        if _MAY in inbox:
            _permit(scribe, inbox[_MAY])
        if _YES in inbox:
            _leave(scribe, inbox[_YES])
        if _LEAVES in inbox:
            _join_above(scribe, inbox[_LEAVES])


def _candidates(scribe: Scribe) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes that only forward to one child, as sorted keys (group, node), and the child."""
    entries = scribe.state.entries
    every, child = scribe.split(scribe.state.children.key)
    pair, first, children = np.unique(every, return_index=True, return_counts=True)
    pair, child = pair[children == 1], child[first[children == 1]]
    row = entries.find(pair)
    would = ~entries.member[row] & ~entries.root[row]
    would &= (entries.parent[row] >= 0) & (entries.parent[row] != child)
    return pair[would], child[would]


def _ask(scribe: Scribe, tables: Tables) -> None:
    pair, _ = _candidates(scribe)
    group, node = scribe.split(pair)
    parent = scribe.state.entries.parent[scribe.state.entries.find(pair)]
    if ASKED in tables:
        asked = scribe.key(tables[ASKED]["pair"], tables[ASKED]["parent"])
        new = ~np.isin(scribe.key(pair, parent), asked)
        pair, group, node, parent = pair[new], group[new], node[new], parent[new]
    scribe.note(ASKED, pair=pair, parent=parent)
    scribe.post(_MAY, "collapse", node, parent, group=group, node=node)


def _permit(scribe: Scribe, came: Columns) -> None:
    above = scribe.key(came["group"], came[AT])
    permitted = scribe.state.children.has(scribe.key(above, came["node"]))
    permitted &= ~np.isin(above, _candidates(scribe)[0])
    scribe.tell(_YES, came["node"][permitted], group=came["group"][permitted])


def _leave(scribe: Scribe, came: Columns) -> None:
    """Let nodes leave whose parents agreed, and tell their only child to join the parent."""
    entries, children = scribe.state.entries, scribe.state.children
    group, node = came["group"], came[AT]
    pair = scribe.key(group, node)
    row, edge = entries.find(pair), np.searchsorted(children.key, pair * scribe.state.size)
    parent, number = entries.parent[row], entries.number[row]
    child = children.key[edge] % scribe.state.size
    entries.drop(row)
    children.drop(edge)
    send_leave(scribe, group, node, parent, number)
    scribe.post(_LEAVES, "collapse", node, child, group=group, node=node, above=parent)


def _join_above(scribe: Scribe, came: Columns) -> None:
    """Let children of nodes that left send JOINs to their former grandparents."""
    told, row = scribe.under(came["group"], came[AT], came["node"])
    above = came["above"][told]
    lose_parent(scribe, row, "collapse")
    joins = note_joins(scribe, row)
    scribe.send("JOIN", joins.source, above)
    send_directly(scribe, joins, above)
