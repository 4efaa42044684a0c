"""The bottleneck remover: an overloaded node drops children, which join one of their siblings.

References
----------
JSAC 2002, Section IV.E.  docs/variants.md: ties.  docs/rules.md, S28 and S29: in worlds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import (
    NONE,
    expand,
    run_starts,
    whole_numbers,
)
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.limits import counted, most_supersteps
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, append, bucket_of
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.scribe.join import note_joins
from scribe_spark.scribe.leave import lose_parent
from scribe_spark.scribe.paths_to_root import paths_above
from scribe_spark.scribe.rejoin import (
    DROPPED,
    REFUSED_JOINS,
    DirectJoins,
    note_extra,
    rejoin,
    send_to,
)
from scribe_spark.scribe.scribe import RoundOfGroups, Scribe

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.trees import TreesConfig

#: A node drops the same child at most this often in a round; then the child stays.
MOST_DROPS = 8

#: Tables of dropped edges (``edge``): those of the latest step, and those of earlier steps of this
#: round.
DROPS, DROPS_BEFORE = "scribe drops", "scribe drops before"

# kinds of messages: tell a child that it is dropped; send it the parent's children table
_SHED, _TABLE = "shed", "children table"

# --- the choice of dropped children


def choose_drops(columns: Mapping[str, np.ndarray], rules: TreesConfig) -> np.ndarray:
    """Choose the children that overloaded nodes drop: rows of the columns, in the order of drops.

    The columns are those of :func:`tables_of`.
    """
    delay, draw, stays = columns["delay_us"], columns["draw"], columns["stays"]
    rank = {"farthest": -delay, "nearest": delay, "random": draw}[rules.shed_child]
    # the children of each table, sorted by the order in which they are dropped
    order = np.lexsort((columns["child"], rank, stays, columns["group"], columns["parent"]))
    parent, group = columns["parent"][order], columns["group"][order]
    starts = run_starts(parent, group)
    tables = np.split(order, starts[1:])
    nodes = run_starts(parent[starts])
    ends = np.r_[nodes[1:], len(starts)]
    rows = [
        row
        for first, end in zip(nodes, ends, strict=True)
        for row in _drops_of_node(tables[first:end], columns, rules)
    ]
    return np.array(rows, dtype=np.int64)


def _drops_of_node(
    tables: list[np.ndarray], columns: Mapping[str, np.ndarray], rules: TreesConfig
) -> Iterator[int]:
    """Yield the children that one node drops until it meets its limit; `tables` are by group."""
    excess = sum(map(len, tables)) - int(columns["limit"][tables[0][0]])
    dropped = [0] * len(tables)

    def can_drop(table: int) -> bool:
        rows, done = tables[table], dropped[table]
        return len(rows) - done > 1 and not columns["stays"][rows[done]]

    def urgency(table: int) -> tuple[int, int]:
        at = tables[table]
        left = len(at) - dropped[table]
        by_draw = rules.shed_group == "random"
        return (int(columns["draw"][at[dropped[table]]]) if by_draw else -left, table)

    queue = [urgency(table) for table in range(len(tables)) if can_drop(table)]
    heapq.heapify(queue)
    for _ in range(excess):
        if not queue:  # every table has one child left
            return
        _, table = heapq.heappop(queue)
        yield int(tables[table][dropped[table]])
        dropped[table] += 1
        if can_drop(table):
            heapq.heappush(queue, urgency(table))


# --- in a round


def remove_bottlenecks(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Let overloaded nodes drop children until no node drops any more."""
    most = most_supersteps(len(player.given.facts.ring))
    for _ in counted("scribe bottleneck remover", most, "passes"):
        player.play(RemoveBottlenecks(player.given, round))
        if not player.has(DROPS):
            break
        rejoin(player, round)


def overloaded(scribe: Scribe) -> np.ndarray:
    """Return the nodes that have more children, summed over all groups, than their limit."""
    limits = scribe.limits
    if limits is None:
        return np.empty(0, dtype=np.int64)
    pair = scribe.state.children.key // scribe.state.size
    load = np.bincount(pair % scribe.state.size, minlength=scribe.state.size)
    node = np.flatnonzero(load)
    return node[load[node] > limits.of(scribe.ring.node[node])]


class RemoveBottlenecks(DirectJoins):
    """Overloaded nodes drop children, which send JOINs to siblings, until no node drops."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        super().play(scribe, tables, inbox, superstep)
        if not superstep:
            for old in (DROPPED, REFUSED_JOINS):
                tables.pop(old, None)
            _drop(scribe, _drops_before(tables))
        if _SHED in inbox:
            _join_siblings(scribe, inbox[_SHED], inbox[_TABLE])


def _drops_before(tables: Tables) -> np.ndarray:
    """Return the edges that were dropped earlier in this round, once for each drop."""
    drops = tables.pop(DROPS, None)
    if drops is not None:
        append(tables, DROPS_BEFORE, drops)
    return tables[DROPS_BEFORE]["edge"] if DROPS_BEFORE in tables else whole_numbers()


def tables_of(
    scribe: Scribe, nodes: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return all edges to children of some nodes, and the columns of :func:`choose_drops`."""
    limits = scribe.limits
    assert limits is not None
    asked = np.zeros(scribe.state.size, dtype=bool)
    asked[nodes] = True
    edge = scribe.state.children.key
    group, parent, child = scribe.ends(edge)
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
    """Let overloaded nodes drop children, and send these their children tables.

    A child that was dropped :data:`MOST_DROPS` times and has come back stays for this round.
    """
    over = overloaded(scribe)
    if not len(over):
        return
    edge, columns = tables_of(scribe, over, before)
    drops = choose_drops(columns, scribe.trees)
    pair, child = scribe.split(edge)
    group, parent = scribe.split(pair)
    dropped = edge[drops]
    scribe.state.children.drop(scribe.state.children.find(dropped))
    scribe.note(DROPS, edge=dropped)
    # 1. notify the dropped children that are alive
    told = drops[scribe.send("shed", parent[drops], child[drops])]
    turn = np.full(len(edge), len(drops))
    turn[drops] = np.arange(len(drops))
    scribe.tell(_SHED, child[told], group=group[told], parent=parent[told], turn=turn[told])
    # 2. send each parent's children table once to every bucket with a dropped child
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
    """Dropped children without another parent measure delays and send JOINs to siblings."""
    shed = take(shed, np.argsort(scribe.key(shed["group"], shed[AT]), kind="stable"))
    mine, row = scribe.under(shed["group"], shed[AT], shed["parent"])
    shed = take(shed, np.flatnonzero(mine))
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
    else:  # the siblings that were in the table when the child was dropped
        sent = table["turn"][line] > shed["turn"][asking]
    asking, line = asking[sent], line[sent]
    probes = np.bincount(asking, minlength=len(child))
    alive = scribe.send("delay probe", child[asking], table["sibling"][line])
    asking, line = asking[alive], line[alive]
    sibling = table["sibling"][line]
    # 2. (ii), (iii) send a JOIN to the sibling with the smallest combined delay, if there is one
    total_us = scribe.delay(child[asking], sibling) + table["delay_us"][line]
    order = np.lexsort((total_us, asking))
    best = order[run_starts(asking[order])]
    source, to = asking[best], sibling[best]
    joins = note_joins(scribe, row[source])
    parent, turn = shed["parent"][source], shed["turn"][source]
    pair = scribe.key(joins.group, joins.source)
    scribe.note(DROPPED, pair=pair, parent=parent, turn=turn, to=to, top=top[source])
    note_extra(scribe, joins, to, probes[source])
    send_to(scribe, joins, to, parent, turn)


def _tops(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """Return the last node of each node's known path to the root, or NONE without another node."""
    if scribe.roots is not None:
        return scribe.roots[scribe.state.entries.key[rows] // scribe.state.size]
    path = paths_above(scribe, rows)
    length = (path >= 0).sum(axis=1)
    top = np.full(len(rows), NONE)
    some = np.flatnonzero(length)
    top[some] = path[some, length[some] - 1]
    return np.where(top == scribe.state.entries.key[rows] % scribe.state.size, NONE, top)
