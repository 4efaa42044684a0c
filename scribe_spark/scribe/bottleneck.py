"""The bottleneck remover: overloaded nodes hand children over to those children's siblings.

For a round of a world (:func:`remove_bottlenecks`).  What an overloaded node drops, and which
sibling a dropped child joins, is the same for the trees of a run (`scribe.variants`).

References
----------
JSAC 2002, Section IV.E.  docs/variants.md: ties.  docs/rules.md, S28 and S29: in worlds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import offsets_of, row_numbers
from scribe_spark.engine import Inbox, Tables
from scribe_spark.scribe.join import Requests, note_joins, play_here
from scribe_spark.scribe.leave import lose_parent
from scribe_spark.scribe.paths_to_root import on_chain, tops
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.rejoin import rejoin
from scribe_spark.scribe.rules import RemoverRules
from scribe_spark.scribe.scribe import Joins, Scribe

__all__ = [
    "MOST_DROPS",
    "Drops",
    "RemoveBottlenecks",
    "ancestors",
    "choose_drops",
    "choose_parents",
    "choose_siblings",
    "overloaded",
    "refusals",
    "remove_bottlenecks",
    "tables_of",
]


#: So often a node drops a child in a round of a world; if it comes back then, it stays.
MOST_DROPS = 8


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

    @property
    def asking(self) -> np.ndarray:
        """Return the drop that each sibling was sent to: an index of `child`."""
        return row_numbers(self.offsets)


def choose_drops(columns: Mapping[str, np.ndarray], rules: RemoverRules) -> Drops:
    """Choose what each overloaded node drops, one child after the other.

    Parameters
    ----------
    columns : mapping of str to ndarray of int64
        ``group, parent, child, delay_us, limit, draw``: all children tables of the nodes asked; the
        delay between parent and child, the parent's limit.  With ``stays`` (bool), children that
        are not dropped.
    """
    delay, draw = columns["delay_us"], columns["draw"]
    rank = {"farthest": -delay, "nearest": delay, "random": draw}[rules.child]
    stays = columns.get("stays", np.zeros(len(draw), dtype=bool))
    # children of a table in the order in which they would be dropped
    order = np.lexsort((columns["child"], rank, stays, columns["group"], columns["parent"]))
    parent, group = columns["parent"][order], columns["group"][order]
    new_table = np.r_[True, (parent[1:] != parent[:-1]) | (group[1:] != group[:-1])]
    starts = np.flatnonzero(new_table[: len(order)])
    tables = np.split(order, starts[1:])
    nodes = np.flatnonzero(np.r_[True, parent[starts][1:] != parent[starts][:-1]][: len(starts)])
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
    rules: RemoverRules,
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
        by_draw = rules.group == "random"
        return (int(columns["draw"][at[dropped[table]]]) if by_draw else -left, table)

    queue = [urgency(table) for table in range(len(tables)) if can_drop(table)]
    heapq.heapify(queue)
    for _ in range(excess):
        if not queue:  # nothing but tables of one child
            return
        _, table = heapq.heappop(queue)
        rows, done = tables[table], dropped[table]
        left = rows[done + 1 :] if rules.table == "remaining" else np.delete(rows, done)
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
    asks = asking[order]
    return order[np.flatnonzero(np.r_[True, asks[1:] != asks[:-1]][: len(asks)])]


def choose_parents(
    scribe: Scribe,
    child: np.ndarray,
    dropped: np.ndarray,
    asking: np.ndarray,
    sibling: np.ndarray,
    delay_us: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the dropped children that have siblings to ask, and the siblings that they join: rows.

    Parameters
    ----------
    child, delay_us : ndarray of int64
        The children in some tables, and their delays to the parents.
    dropped : ndarray of int64
        Rows of those that were dropped.
    asking, sibling : ndarray of int64
        The siblings that each of `dropped` probes.
    """
    # (ii) the total delay to the parent via each of them
    total_us = scribe.delay(child[dropped[asking]], child[sibling]) + delay_us[sibling]
    # (iii) a JOIN to the one with the smallest
    best = choose_siblings(asking, total_us)
    return dropped[asking[best]], sibling[best]


def refusals(child: np.ndarray, sibling: np.ndarray) -> np.ndarray:
    """Return which siblings refuse the JOIN of a child: those on the path to which it is.

    JOINs of one table's children are answered in the order in which they were dropped.  All of them
    had the same parent, so a path from there to the root holds none of them: a loop can only run
    among themselves.

    Parameters
    ----------
    child, sibling : ndarray of int64
        Rows of the table, in the order in which the children were dropped.
    """
    above: dict[int, int] = {}
    refused = np.zeros(len(child), dtype=bool)
    for at, (low, high) in enumerate(zip(child.tolist(), sibling.tolist(), strict=True)):
        refused[at] = low in ancestors(above, high)
        if not refused[at]:
            above[low] = high
    return refused


def ancestors(parents: Mapping[int, int], node: int) -> Iterator[int]:
    """Yield a node and those above it, as far as `parents` tells."""
    at: int | None = node
    while at is not None:
        yield at
        at = parents.get(at)


# --- in a round of a world


def overloaded(scribe: Scribe) -> np.ndarray:
    """Return the nodes with more children, over all groups, than their limit."""
    remover = scribe.rules.remover
    if remover is None:
        return np.empty(0, dtype=np.int64)
    place = scribe.state.children.key // scribe.state.size
    load = np.bincount(place % scribe.state.size, minlength=scribe.state.size)
    node = np.flatnonzero(load)
    return node[load[node] > remover.limits(scribe.ring.node[node])]


class RemoveBottlenecks(RoundProgram):
    """After the round's JOINs: nodes that are overloaded drop children.

    It sees the paths to the root of all nodes as they are, and refuses and answers JOINs in an
    order: so it plays all nodes in one bucket.
    """

    one_bucket = True
    writes = ("entries", "children", "copies", "paths")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        scribe.sees_all = True
        if not superstep:
            remove_bottlenecks(scribe)


def remove_bottlenecks(scribe: Scribe) -> None:
    """After the round's JOINs: drop children of overloaded nodes, until none can drop any more.

    A child that comes back when it was dropped :data:`MOST_DROPS` times stays in this round.
    """
    remover = scribe.rules.remover
    if remover is None:
        return
    before = np.empty(0, dtype=np.int64)
    while len(over := overloaded(scribe)):
        edge, columns = tables_of(scribe, over, before)
        drops = choose_drops(columns, remover)
        if not len(drops):
            return
        before = np.concatenate([before, edge[drops.child]])
        moving, refused, top = _drop(scribe, edge, columns["delay_us"], drops)
        play_here(scribe, moving)
        rejoin(scribe, refused, top)


def tables_of(
    scribe: Scribe, nodes: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """All children of some nodes: their edges, and the columns of :func:`choose_drops`.

    Parameters
    ----------
    before : ndarray of int64
        Edges that were dropped in this round already, as often as they were.
    """
    remover = scribe.rules.remover
    assert remover is not None
    asked = np.zeros(scribe.state.size, dtype=bool)
    asked[nodes] = True
    edge = scribe.state.children.key
    place, child = scribe.split(edge)
    group, parent = scribe.split(place)
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
        "limit": remover.limits(number[parent]),
        "draw": draw,
        "stays": np.isin(edge, often),
    }


def _drop(
    scribe: Scribe, edge: np.ndarray, delay_us: np.ndarray, drops: Drops
) -> tuple[Requests, Joins, np.ndarray]:
    """The parents drop children, which send JOINs.

    Parameters
    ----------
    edge, delay_us : ndarray of int64
        The children that `drops` speaks of, and their delays to the parents.

    Returns
    -------
    Requests
        The JOINs that siblings do not refuse.
    Joins, ndarray of int64
        Those that are refused, and the ends of the paths that their sources know.
    """
    entries = scribe.state.entries
    place, child = scribe.split(edge)
    group, parent = scribe.split(place)
    scribe.state.children.drop(scribe.state.children.find(edge[drops.child]))
    top = tops(scribe, scribe.entry(group, parent))
    # 1. dropped children that are alive, and have no other parent, hear of it
    dropped = drops.child
    told = scribe.send("shed", parent[dropped], child[dropped])
    row = scribe.entry(group[dropped], child[dropped])
    told[told] = (row[told] >= 0) & (entries.parent[row[told]] == parent[dropped[told]])
    lose_parent(scribe, row[told], "shed")
    # 2. (i) the child measures the delay between itself and the nodes in the table
    asking, sibling = drops.asking[told[drops.asking]], drops.sibling[told[drops.asking]]
    low, high = child[dropped[asking]], child[sibling]
    alive = scribe.send("delay probe", low, high)
    asking, sibling = asking[alive], sibling[alive]
    # who has found none waits
    source, to = choose_parents(scribe, child, dropped, asking, sibling, delay_us)
    joins = note_joins(scribe, scribe.entry(group[source], child[source]))
    scribe.send("JOIN", child[source], child[to])
    # 3. who is on the way from a sibling to the root is refused
    on_way = np.zeros(len(to), dtype=bool)
    on_way[on_chain(scribe, scribe.entry(group[to], child[to]), child[source])] = True
    refused = on_way.copy()
    refused[~on_way] = refusals(source[~on_way], to[~on_way])
    sent = Requests.sent_to(joins, child[to])
    return sent.take(~refused), joins.take(refused), top[source[refused]]
