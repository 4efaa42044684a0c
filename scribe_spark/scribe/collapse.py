"""Paths without branches are cut short: nodes that only pass messages on to one child leave.

References
----------
JSAC 2002, Section IV.F.  docs/rules.md, S30.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.pastry.player import Player
from scribe_spark.scribe.join import JoinProgram, note_joins, send_directly
from scribe_spark.scribe.leave import lose_parent, send_leave
from scribe_spark.scribe.program import GroupRound
from scribe_spark.scribe.scribe import Scribe

#: The table of the questions of this round: ``pair``, (group, node), and ``parent``.
ASKED = "scribe collapse asked"

_MAY, _YES, _LEAVES = "collapse: may I", "collapse: yes", "collapse: join my parent"


def collapse(player: Player, round: GroupRound) -> None:
    """Nodes that only pass messages on to one child leave, until nobody asks any more."""
    while player.play(Collapse(player.given, round)):
        pass


class Collapse(JoinProgram):
    """After the round's JOINs: such nodes leave, those next to the roots first.

    Each asks its parent, once; that permits it unless it would leave itself.  The program is played
    again until nobody asks.
    """

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        super().play(scribe, tables, inbox, superstep)
        if not superstep:
            _ask(scribe, tables)
        if _MAY in inbox:
            _permit(scribe, inbox[_MAY])
        if _YES in inbox:
            _leave(scribe, inbox[_YES])
        if _LEAVES in inbox:
            _join_above(scribe, inbox[_LEAVES])


def _candidates(scribe: Scribe) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes that would leave, as (group, node), ascending; and their only children."""
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
    arrives = scribe.send("collapse", node, parent)
    scribe.tell(_MAY, parent[arrives], group=group[arrives], node=node[arrives])


def _permit(scribe: Scribe, came: Columns) -> None:
    above = scribe.key(came["group"], came[AT])
    permitted = scribe.state.children.has(scribe.key(above, came["node"]))
    permitted &= ~np.isin(above, _candidates(scribe)[0])
    scribe.tell(_YES, came["node"][permitted], group=came["group"][permitted])


def _leave(scribe: Scribe, came: Columns) -> None:
    """Nodes leave, and tell their only children to join their parents."""
    entries, children = scribe.state.entries, scribe.state.children
    group, node = came["group"], came[AT]
    pair = scribe.key(group, node)
    row, edge = entries.find(pair), np.searchsorted(children.key, pair * scribe.state.size)
    parent, number = entries.parent[row], entries.number[row]
    child = children.key[edge] % scribe.state.size
    entries.drop(row)
    children.drop(edge)
    send_leave(scribe, group, node, parent, number)
    told = scribe.send("collapse", node, child)
    scribe.tell(_LEAVES, child[told], group=group[told], node=node[told], above=parent[told])


def _join_above(scribe: Scribe, came: Columns) -> None:
    """Children whose parents have left send JOINs to the parents of these."""
    entries, group = scribe.state.entries, came["group"]
    row = scribe.entry(group, came[AT])
    told = row >= 0
    told[told] = entries.parent[row[told]] == came["node"][told]
    row, above = row[told], came["above"][told]
    lose_parent(scribe, row, "collapse")
    joins = note_joins(scribe, row)
    scribe.send("JOIN", joins.source, above)
    send_directly(scribe, joins, above)
