"""The remedies for many small groups: path collapse and lazy growth.

*Collapse*: a node that only forwards messages to a single child leaves the tree.  *Lazy growth*: a
JOIN makes no forwarders; the first tree node that it reaches adopts the source.  A round of lazy
growth plays :class:`DrawWaves`, and for each wave :class:`AskTree` and :class:`TakeIn`.

JSAC 2002, Section IV.F: "an alternative algorithm that grows trees less eagerly".  docs/rules.md,
S30 and S32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE, distinct, index_in_run, whole_numbers
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.player import counted, most_supersteps
from scribe_spark.engine.program import AT
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe import figures, join, root, state
from scribe_spark.systems.scribe.scribe import (
    RoundOfGroups,
    RoundProgram,
    Scribe,
    joins_in,
    send_leave,
)

# --- collapse


#: The table of nodes that asked to leave in this round: ``pair``, the key of (group, node), and the
#: ``parent`` that was asked.
COLLAPSING = "scribe collapse asked"

_MAY, _YES, _LEAVES = "collapse: may I", "collapse: yes", "collapse: join my parent"


def collapse(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Let nodes that only forward to one child leave, until no node asks any more."""
    for _ in counted(
        "scribe collapse", most_supersteps(len(player.environment.facts.ring)), "passes"
    ):
        if not player.play(Collapse(player.environment, round)):
            break


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
    if COLLAPSING in tables:
        asked = scribe.key(tables[COLLAPSING]["pair"], tables[COLLAPSING]["parent"])
        new = ~np.isin(scribe.key(pair, parent), asked)
        pair, group, node, parent = pair[new], group[new], node[new], parent[new]
    scribe.note(COLLAPSING, pair=pair, parent=parent)
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
    figures.lose_parent(scribe, row, "collapse")
    joins = join.note_joins(scribe, row)
    scribe.send("JOIN", joins["source"], above)
    join.send_on(scribe, join.sent_to(joins, above))


class Collapse(join.JoinProgram):
    """Let nodes that only forward to one child leave the tree, after the round's JOINs.

    Each such node asks its parent once.  The parent agrees unless the parent has asked to leave,
    too; so the nodes next to the root leave first.
    """

    handlers = (
        *join.JoinProgram.handlers,
        (_MAY, _permit),
        (_YES, _leave),
        (_LEAVES, _join_above),
    )

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        _ask(scribe, tables)


# --- lazy growth


#: Tables.  WAVES: ``pair``, ``wave`` of nodes whose wave is still to come.  SENT: ``pair`` of nodes
#: that sent a JOIN in this wave.  ASKED: JOINs at the tree nodes that must answer them, with
#: ``before``, the previous node on the route, which may adopt the source, and ``alone``, True if
#: only the source itself may be added.
WAVES, SENT, ASKED = "scribe waves", "scribe sent in wave", "scribe asked"

# kinds of messages: the joining nodes; their waves; a JOIN; the order to the previous node to adopt
# the source; that node's own JOIN
_JOINS, _WAVE = "joins in this round", "wave"
_JOIN, _ADOPT, _OWN = "lazy JOIN", "adopt", "JOIN of who adopts"


def grow_lazily(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Let waiting nodes and new members send JOINs, in waves."""
    player.play(DrawWaves(player.environment, round))
    most = most_supersteps(len(player.environment.facts.ring))
    for wave in counted("scribe lazy growth", most, "waves"):
        if not player.has(WAVES):
            break
        player.play(AskTree(player.environment, round, wave))
        if player.has(ASKED):
            player.play(TakeIn(player.environment, round))


def rank_at_node(at: np.ndarray, *order: np.ndarray) -> np.ndarray:
    """Return the rank of each row among the rows with equal `at`, by `order`."""
    rows = np.lexsort((*order[::-1], at))
    rank = np.empty(len(at), dtype=np.int64)
    rank[rows] = index_in_run(at[rows])
    return rank


def _in_tree(scribe: Scribe, row: np.ndarray) -> np.ndarray:
    """Return True for nodes (rows of `Entries`, or NONE) that are in the tree and have a parent."""
    inside = row >= 0
    inside[inside] = ~scribe.state.entries.waits(row[inside])
    return inside


def _draw_waves(scribe: Scribe, came: Columns) -> None:
    group, node = came["group"], came["node"]
    number = scribe.ring.node[node]
    draw = draws.bits_np(scribe.seed, "arrival", scribe.groups.number[group], number)
    rank = rank_at_node(group, draw.view(np.int64), number)
    wave = np.frexp(rank + 1.0)[1] - 1  # rank 0; 1, 2; 3 to 6; ...
    scribe.tell(_WAVE, node, group=group, wave=wave)


def _note_waves(scribe: Scribe, came: Columns) -> None:
    scribe.note(WAVES, pair=scribe.key(came["group"], came[AT]), wave=came["wave"])


class DrawWaves(join.SendJoins):
    """Draw the waves of a group's joining nodes: one node, then two, then four, and so on.

    The order stands for that of users' joins, which no node knows: a node receives all joining
    nodes and tells each its wave, uncounted.  New members that do not wait are in the order, as in
    a run.
    """

    handlers = (*join.JoinProgram.handlers, (_JOINS, _draw_waves), (_WAVE, _note_waves))

    def send(self, scribe: Scribe) -> None:
        entries = scribe.state.entries
        new = entries.member & (entries.joined == scribe.number)
        new |= entries.waits(slice(None))
        group, node = scribe.split(entries.key[new])
        somewhere = group * scribe.state.size // len(scribe.groups)
        scribe.tell(_JOINS, somewhere, group=group, node=node)


def _route(scribe: Scribe, moving: Columns) -> None:
    """Route JOINs to the edge of the bucket, or to a tree node that is not below the source."""

    def hop_of(here: Columns) -> tuple[np.ndarray, Columns]:
        at, group, source = here[AT], here["group"], here["source"]
        scribe.note(join.REPAIRING, node=at[here["repairs"]])
        row = scribe.entry(group, at)
        inside = _in_tree(scribe, row)
        circular = inside & figures.on_path(scribe, row, source)
        goes = ~inside | circular
        onward = at.copy()
        onward[goes] = scribe.hop("JOIN", at[goes], group[goes])
        # (a JOIN is lost if Pastry delivers it at a tree node that does not answer it)
        onward[circular & (onward == at)] = NONE
        before = np.where((onward == at) | (onward < 0), here["before"], at)
        return onward, {**here, "alone": here["alone"] | circular, "before": before}

    if ended := join.route_joins(scribe, _JOIN, moving, hop_of):
        pair = scribe.key(ended["group"], ended[AT])
        answers = _in_tree(scribe, scribe.state.entries.find(pair))
        answers |= scribe.state.copies.has(pair)
        scribe.refuse("no group", (~answers).sum())
        asked = take(ended, answers)
        columns = {name: asked[name] for name in (AT, "before", "alone", "repairs")}
        scribe.note(ASKED, **columns, **joins_in(asked))


@dataclass(frozen=True)
class AskTree(RoundProgram):
    """Route the JOINs of a wave to the first tree node of earlier waves' tree."""

    wave: int = 0
    writes = ("entries",)

    handlers = ((_JOIN, _route),)

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        """Let nodes of this wave that still wait send JOINs."""
        tables.pop(SENT, None)
        waves = tables.pop(WAVES, None)
        if waves is None:
            return
        now = waves["wave"] == self.wave
        if not now.all():
            tables[WAVES] = take(waves, np.flatnonzero(~now))
        row = scribe.state.entries.find(np.sort(waves["pair"][now]))
        joins = join.note_joins(scribe, row[scribe.state.entries.waits(row)])
        at = joins["source"]
        scribe.note(SENT, pair=scribe.key(joins["group"], at))
        way = {AT: at, "before": at, "alone": np.zeros(len(at), dtype=bool)}
        _route(scribe, {**joins, **way, "repairs": np.isin(joins["cause"], state.FAILED)})


def _answer(scribe: Scribe, asked: Columns) -> None:
    number, limits, size = scribe.ring.node, scribe.limits, scribe.state.size
    assert limits is not None
    load = np.bincount(scribe.state.children.key // size % size, minlength=size)
    # 1. nodes with the group's state at which JOINs are delivered become roots
    pair = scribe.key(asked["group"], asked["at"])
    root.become_root(scribe, distinct(pair[~_in_tree(scribe, scribe.state.entries.find(pair))]))
    asked = take(asked, np.flatnonzero(asked["at"] != asked["source"]))
    # 2. adopt sources up to the limit, and sources that no other node may adopt
    at, source, group = asked["at"], asked["source"], asked["group"]
    room = limits.of(number[at]) - load[at]
    taken = rank_at_node(at, group, number[source]) < room
    before = np.where(asked["alone"], source, asked["before"])
    taken |= (before == source) | figures.on_path(scribe, scribe.entry(group, at), before)
    figures.forward(scribe, at[taken], take(joins_in(asked), taken), lambda _: None)
    # 3. the previous nodes on the routes adopt the others
    rest = take({**asked, "above": at}, ~taken)
    way = {name: rest[name] for name in ("above", "repairs")}
    scribe.tell(_ADOPT, rest["before"], **way, **joins_in(rest))


def _adopt(scribe: Scribe, came: Columns) -> None:
    """Let nodes adopt the children in `came`, and send a JOIN unless they have sent one."""
    sent = scribe.tables[SENT]["pair"] if SENT in scribe.tables else whole_numbers()
    entries, number = scribe.state.entries, scribe.ring.node
    pair = scribe.key(came["group"], came[AT])
    order = np.lexsort((number[came["above"]], pair))
    came, pair = take(came, order), pair[order]
    pairs, first, which = np.unique(pair, return_index=True, return_inverse=True)
    entering = ~entries.has(pairs)
    own = take(join.own_joins(scribe, pairs, which, came["extra"]), entering)
    figures.forward(scribe, came[AT], joins_in(came), lambda _: join.remember(scribe, own))
    row = entries.find(pairs)
    again = ~entering & ~np.isin(pairs, sent) & entries.waits(row)
    asks = np.r_[np.flatnonzero(entering), np.flatnonzero(again)]
    sends = concatenate([own, join.note_joins(scribe, row[again])])
    to = came["above"][first[asks]]
    scribe.send("JOIN", sends["source"], to)
    repairs = np.isin(asks, which[came["repairs"]])
    scribe.note(join.REPAIRING, node=sends["source"][repairs])
    scribe.tell(_OWN, to, **sends, repairs=repairs)


def _deliver_own(scribe: Scribe, came: Columns) -> None:
    scribe.note(join.REPAIRING, node=came[AT][came["repairs"]])
    figures.deliver_join(scribe, came[AT], joins_in(came))


class TakeIn(join.JoinProgram):
    """Tree nodes adopt sources up to their limit; previous nodes on the routes adopt the others."""

    handlers = (*join.JoinProgram.handlers, (_ADOPT, _adopt), (_OWN, _deliver_own))

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        if ASKED in tables:
            _answer(scribe, tables.pop(ASKED))
