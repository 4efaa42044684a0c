"""The bottleneck remover: overloaded nodes hand children over to those children's siblings.

References
----------
JSAC 2002, Section IV.E.  docs/variants.md: ties.  docs/rules.md, S28 and S29: in worlds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import (
    NONE,
    expand,
    offsets_of,
    run_starts,
    whole_numbers,
)
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, append, bucket_of
from scribe_spark.pastry.player import Player
from scribe_spark.scribe.join import note_joins
from scribe_spark.scribe.leave import lose_parent
from scribe_spark.scribe.paths_to_root import paths_above
from scribe_spark.scribe.program import GroupRound
from scribe_spark.scribe.rejoin import (
    DROPPED,
    REFUSED_JOINS,
    DirectJoins,
    note_extra,
    rejoin,
    send_to,
)
from scribe_spark.scribe.scribe import Scribe

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.trees import LiveTreesConfig

#: So often a node drops a child in a round; if it comes back then, it stays.
MOST_DROPS = 8

#: The tables of edges that were dropped the last time, and in this round before that: ``edge``.
DROPS, DROPS_BEFORE = "scribe drops", "scribe drops before"

# kinds of messages: a child hears that it is dropped, and its parent's children table
_SHED, _TABLE = "shed", "children table"

# --- what is dropped, and whom it joins


@dataclass(frozen=True)
class Drops:
    """Children dropped, in order within a node, and the siblings that each was sent.

    Attributes
    ----------
    child : ndarray of int64, shape (m,)
        Row of each dropped child.
    offsets : ndarray of int64, shape (m + 1,)
        Ragged: where the siblings of each are.
    sibling : ndarray of int64
        Rows of the table that each was sent, without itself, in the order of their numbers.
    """

    child: np.ndarray
    offsets: np.ndarray
    sibling: np.ndarray

    def __len__(self) -> int:
        return len(self.child)


def choose_drops(columns: Mapping[str, np.ndarray], rules: LiveTreesConfig) -> Drops:
    """Choose what each overloaded node drops, one child after the other.

    Parameters
    ----------
    columns : mapping of str to ndarray of int64
        ``group, parent, child, delay_us, limit, draw``: all children tables of the nodes asked; the
        delay between parent and child, the parent's limit.  With ``stays`` (bool), children that
        are not dropped.
    """
    delay, draw = columns["delay_us"], columns["draw"]
    rank = {"farthest": -delay, "nearest": delay, "random": draw}[rules.shed_child]
    stays = columns.get("stays", np.zeros(len(draw), dtype=bool))
    # children of a table in the order in which they would be dropped
    order = np.lexsort((columns["child"], rank, stays, columns["group"], columns["parent"]))
    parent, group = columns["parent"][order], columns["group"][order]
    starts = run_starts(parent, group)
    tables = np.split(order, starts[1:])
    nodes = run_starts(parent[starts])
    child: list[int] = []
    sent: list[np.ndarray] = []
    for first, end in zip(nodes, np.r_[nodes[1:], len(starts)], strict=True):
        for row, siblings in _drops_of_node(tables[first:end], columns, stays, rules):
            child.append(row)
            sent.append(siblings)
    offsets = offsets_of(np.array([len(siblings) for siblings in sent], dtype=np.int64))
    none = np.empty(0, dtype=np.int64)
    return Drops(np.array(child, dtype=np.int64), offsets, np.concatenate([none, *sent]))


def _drops_of_node(
    tables: list[np.ndarray],
    columns: Mapping[str, np.ndarray],
    stays: np.ndarray,
    rules: LiveTreesConfig,
) -> Iterator[tuple[int, np.ndarray]]:
    """Drop children of one node, whose `tables` are in order of group, until it is at its limit."""
    excess = sum(map(len, tables)) - int(columns["limit"][tables[0][0]])
    dropped = [0] * len(tables)

    def can_drop(table: int) -> bool:
        rows, done = tables[table], dropped[table]
        return len(rows) - done > 1 and not stays[rows[done]]

    def urgency(table: int) -> tuple[int, int]:
        at = tables[table]
        left = len(at) - dropped[table]
        by_draw = rules.shed_group == "random"
        return (int(columns["draw"][at[dropped[table]]]) if by_draw else -left, table)

    queue = [urgency(table) for table in range(len(tables)) if can_drop(table)]
    heapq.heapify(queue)
    for _ in range(excess):
        if not queue:  # nothing but tables of one child
            return
        _, table = heapq.heappop(queue)
        rows, done = tables[table], dropped[table]
        left = rows[done + 1 :] if rules.shed_table == "remaining" else np.delete(rows, done)
        yield int(rows[done]), left[np.argsort(columns["child"][left])]
        dropped[table] += 1
        if can_drop(table):
            heapq.heappush(queue, urgency(table))


def choose_siblings(asking: np.ndarray, total_us: np.ndarray) -> np.ndarray:
    """Choose the sibling with the smallest combined delay, the first of several.

    Parameters
    ----------
    asking : ndarray of int64, ascending
        Which dropped child has probed each sibling.
    total_us : ndarray of int64
        The child's delay to the sibling, and the sibling's to their parent.

    Returns
    -------
    ndarray of int64
        An index of `asking` for each child that is in it.
    """
    order = np.lexsort((total_us, asking))
    return order[run_starts(asking[order])]


# --- in a round


def remove_bottlenecks(player: Player, round: GroupRound) -> None:
    """Overloaded nodes drop children until nobody drops any more."""
    player.play(RemoveBottlenecks(player.given, round))
    while player.has(DROPS):
        rejoin(player, round)
        player.play(RemoveBottlenecks(player.given, round))


def overloaded(scribe: Scribe) -> np.ndarray:
    """Return the nodes with more children, over all groups, than their limit."""
    limits = scribe.limits
    if limits is None:
        return np.empty(0, dtype=np.int64)
    pair = scribe.state.children.key // scribe.state.size
    load = np.bincount(pair % scribe.state.size, minlength=scribe.state.size)
    node = np.flatnonzero(load)
    return node[load[node] > limits.of(scribe.ring.node[node])]


class RemoveBottlenecks(DirectJoins):
    """After the round's JOINs: nodes that are overloaded drop children, which join siblings.

    It is played again until nobody drops.
    """

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        super().play(scribe, tables, inbox, superstep)
        if not superstep:
            for old in (DROPPED, REFUSED_JOINS):
                tables.pop(old, None)
            _drop(scribe, _drops_before(tables))
        if _SHED in inbox:
            _join_siblings(scribe, inbox[_SHED], inbox[_TABLE])


def _drops_before(tables: Tables) -> np.ndarray:
    """Return the edges that were dropped in this round before."""
    drops = tables.pop(DROPS, None)
    if drops is not None:
        append(tables, DROPS_BEFORE, drops)
    return tables[DROPS_BEFORE]["edge"] if DROPS_BEFORE in tables else whole_numbers()


def tables_of(
    scribe: Scribe, nodes: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """All children of some nodes: their edges, and the columns of :func:`choose_drops`.

    Parameters
    ----------
    before : ndarray of int64
        Edges that were dropped in this round already, as often as they were.
    """
    limits = scribe.limits
    assert limits is not None
    asked = np.zeros(scribe.state.size, dtype=bool)
    asked[nodes] = True
    edge = scribe.state.children.key
    pair, child = scribe.split(edge)
    group, parent = scribe.split(pair)
    mine = asked[parent]
    edge, group, parent, child = edge[mine], group[mine], parent[mine], child[mine]
    number = scribe.ring.node
    names = scribe.groups.number[group], number[parent], number[child]
    again, times = np.unique(before, return_counts=True)
    often = again[times == MOST_DROPS]
    draw = draws.bits_np(scribe.seed, "shed", *names).view(np.int64)
    return edge, {
        **dict(zip(("group", "parent", "child"), names, strict=True)),
        "delay_us": scribe.delay(parent, child),
        "limit": limits.of(number[parent]),
        "draw": draw,
        "stays": np.isin(edge, often),
    }


def _drop(scribe: Scribe, before: np.ndarray) -> None:
    """Overloaded nodes drop children, and send them their tables.

    A child that comes back when it was dropped :data:`MOST_DROPS` times stays in this round.

    Parameters
    ----------
    before : ndarray of int64
        Edges that were dropped in this round, as often as they were.
    """
    over = overloaded(scribe)
    if not len(over):
        return
    edge, columns = tables_of(scribe, over, before)
    drops = choose_drops(columns, scribe.trees)
    pair, child = scribe.split(edge)
    group, parent = scribe.split(pair)
    dropped = edge[drops.child]
    scribe.state.children.drop(scribe.state.children.find(dropped))
    scribe.note(DROPS, edge=dropped)
    # 1. children that are alive hear of it
    told = drops.child[scribe.send("shed", parent[drops.child], child[drops.child])]
    turn = np.full(len(edge), len(drops))
    turn[drops.child] = np.arange(len(drops))
    scribe.tell(_SHED, child[told], group=group[told], parent=parent[told], turn=turn[told])
    # 2. the table goes once to each bucket that has some of them
    buckets = len(scribe.bounds) - 1
    to = pair[told] * buckets + bucket_of(scribe.bounds, child[told])
    to, one = np.unique(to, return_index=True)
    first = np.searchsorted(pair, to // buckets)
    last = np.searchsorted(pair, to // buckets, side="right")
    which, row = expand(first, last)
    scribe.tell(
        _TABLE,
        child[told[one]][which],
        group=group[row],
        parent=parent[row],
        sibling=child[row],
        turn=turn[row],
        delay_us=columns["delay_us"][row],
    )


def _join_siblings(scribe: Scribe, shed: Columns, table: Columns) -> None:
    """Dropped children that have no other parent measure delays, and send JOINs to siblings."""
    entries = scribe.state.entries
    shed = take(shed, np.argsort(scribe.key(shed["group"], shed[AT]), kind="stable"))
    row = scribe.entry(shed["group"], shed[AT])
    mine = row >= 0
    mine[mine] = entries.parent[row[mine]] == shed["parent"][mine]
    shed, row = take(shed, np.flatnonzero(mine)), row[mine]
    child, top = shed[AT], _tops(scribe, row)
    lose_parent(scribe, row, "shed")
    # 1. (i) the child measures the delay between itself and the nodes in the table
    number, of = scribe.ring.node, scribe.key(table["group"], table["parent"])
    order = np.lexsort((number[table["sibling"]], of))
    table, of = take(table, order), of[order]
    parents = scribe.key(shed["group"], shed["parent"])
    asking, line = expand(np.searchsorted(of, parents), np.searchsorted(of, parents, side="right"))
    if scribe.trees.shed_table == "whole":
        sent = table["sibling"][line] != child[asking]
    else:  # those that were left when it was dropped
        sent = table["turn"][line] > shed["turn"][asking]
    asking, line = asking[sent], line[sent]
    probes = np.bincount(asking, minlength=len(child))
    alive = scribe.send("delay probe", child[asking], table["sibling"][line])
    asking, line = asking[alive], line[alive]
    sibling = table["sibling"][line]
    # 2. (ii), (iii) a JOIN to the one by which the parent is the nearest; without any it waits
    total_us = scribe.delay(child[asking], sibling) + table["delay_us"][line]
    best = choose_siblings(asking, total_us)
    source, to = asking[best], sibling[best]
    joins = note_joins(scribe, row[source])
    parent, turn = shed["parent"][source], shed["turn"][source]
    pair = scribe.key(joins.group, joins.source)
    scribe.note(DROPPED, pair=pair, parent=parent, turn=turn, to=to, top=top[source])
    note_extra(scribe, joins, to, probes[source])
    send_to(scribe, joins, to, parent, turn)


def _tops(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """Return the ends of the paths that nodes know, by rows of `Entries`; NONE: of none or own."""
    if scribe.roots is not None:
        return scribe.roots[scribe.state.entries.key[rows] // scribe.state.size]
    path = paths_above(scribe, rows)
    length = (path >= 0).sum(axis=1)
    top = np.full(len(rows), NONE)
    some = np.flatnonzero(length)
    top[some] = path[some, length[some] - 1]
    return np.where(top == scribe.state.entries.key[rows] % scribe.state.size, NONE, top)
