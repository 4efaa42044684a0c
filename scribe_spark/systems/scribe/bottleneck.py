"""The bottleneck remover: an overloaded node drops children, which join one of their siblings.

Its cycle rule sends refused JOINs again, on randomised routes.

JSAC 2002, Section IV.E.  docs/variants.md: ties.  docs/rules.md, S28 and S29: in worlds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    expand,
    find_sorted,
    index_in_run,
    row_numbers,
    run_starts,
    whole_numbers,
)
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.player import counted, most_supersteps
from scribe_spark.engine.program import AT, append, bucket_of
from scribe_spark.multicast import EDGES
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe import join
from scribe_spark.systems.scribe.figures import lose_parent, on_path, paths_above
from scribe_spark.systems.scribe.root import become_root
from scribe_spark.systems.scribe.scribe import (
    Handlers,
    RoundOfGroups,
    RoundProgram,
    Scribe,
    joins_in,
    joins_of,
)

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.groups import TreesConfig

#: A node drops the same child at most this often in a round; then the child stays.
MOST_DROPS = 8

#: The number of randomised routes that a refused JOIN tries.  All next hops of a child may be its
#: own descendants; after the last attempt the JOIN is sent to the last node of the path to the root
#: that the child knew.
ATTEMPTS = 8

#: Tables of dropped edges (``edge``): those of the latest step, and those of earlier steps of this
#: round.
DROPS, DROPS_BEFORE = "scribe drops", "scribe drops before"

#: The table of dropped children: ``pair``, the sorted keys (group, child); ``parent``, the node
#: that dropped the child; ``turn``, the rank in which the parent dropped it; ``to``, the sibling
#: that gets the child's JOIN; ``top``, the last node of the path to the root that the child knew.
DROPPED = "scribe dropped"

#: The table of sources whose JOINs were refused: ``pair``, the key of (group, source).
REFUSED_JOINS = "scribe refused joins"

#: The table of JOINs that the bottleneck remover causes: ``group``, the receiver ``at``, the sender
#: ``child``, and ``probes``, the number of siblings that the sender measured before.  Its schema as
#: a view follows.
EXTRA_JOINS = "scribe extra joins"
EXTRA_JOINS_COLUMNS = f"{EDGES}, probes bigint"

#: The table of accepted JOINs: ``way``, the nodes that the JOIN visited, and ``root``, True if the
#: last of them (``at``) becomes the root.
_ACCEPTED = "scribe accepted joins"

# kinds of messages: tell a child that it is dropped; send it the parent's children table
_SHED, _TABLE = "shed", "children table"
# a JOIN to a known node; its refusal; a JOIN on a randomised route; a JOIN that goes up the tree;
# the message to the nodes that an accepted JOIN visited
_DIRECT, _REFUSAL = "JOIN to a node", "refusal"
_ROUTED, _UPWARDS, _WAY = "JOIN routed with randomisation", "JOIN upwards", "way of a JOIN"


def remove_bottlenecks(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Let overloaded nodes drop children until no node drops any more."""
    most = most_supersteps(len(player.environment.facts.ring))
    for _ in counted("scribe bottleneck remover", most, "passes"):
        player.play(RemoveBottlenecks(player.environment, round))
        if not player.has(DROPS):
            break
        rejoin(player, round)


def rejoin(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Route the refused JOINs of dropped children on randomised routes, all in parallel.

    The first tree node on the route adopts the child, and the nodes before it become forwarders.
    If the child is above that tree node, the JOIN is refused again.  Refused JOINs are routed
    again; at last they are sent to the end of the path that the child knew.
    """
    for attempt in range(ATTEMPTS):
        if player.has(REFUSED_JOINS):
            player.play(_Reroute(player.environment, round, attempt))
        if player.has(_ACCEPTED):
            player.play(_TakeInChild(player.environment, round))
    if player.has(REFUSED_JOINS):
        player.play(_JoinTops(player.environment, round))


# --- the choice of dropped children


def overloaded(scribe: Scribe) -> np.ndarray:
    """Return the nodes (positions) with more children, over all groups, than their limit."""
    limits = scribe.limits
    if limits is None:
        return whole_numbers()
    pair = scribe.state.children.key // scribe.state.size
    load = np.bincount(pair % scribe.state.size, minlength=scribe.state.size)
    node = np.flatnonzero(load)
    return node[load[node] > limits.of(scribe.ring.node[node])]


def _tables_of(
    scribe: Scribe, nodes: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the edges to the nodes' children, and their columns; `before` are earlier drops."""
    limits, edge = scribe.limits, scribe.state.children.key
    assert limits is not None
    edge = edge[np.isin(edge // scribe.state.size % scribe.state.size, nodes)]
    group, parent, child = scribe.ends(edge)
    number = scribe.ring.node
    names = scribe.groups.number[group], number[parent], number[child]
    again, times = np.unique(before, return_counts=True)
    return edge, {
        **dict(zip(("group", "parent", "child"), names, strict=True)),
        "delay_us": scribe.delay(parent, child),
        "limit": limits.of(number[parent]),
        "draw": draws.bits_np(scribe.seed, "shed", *names).view(np.int64),
        "stays": np.isin(edge, again[times == MOST_DROPS]),
    }


def _choose_drops(columns: Mapping[str, np.ndarray], rules: TreesConfig) -> np.ndarray:
    """Return the children that overloaded nodes drop until they meet their limits, in order.

    `columns` and the rows of the result are those of :func:`_tables_of`.
    """
    delay, draw, stays = columns["delay_us"], columns["draw"], columns["stays"]
    rank = {"farthest": -delay, "nearest": delay, "random": draw}[rules.shed_child]
    # 1. the children of each table, sorted by the order in which they are dropped
    order = np.lexsort((columns["child"], rank, stays, columns["group"], columns["parent"]))
    parent, group = columns["parent"][order], columns["group"][order]
    starts = run_starts(parent, group)
    lengths = np.diff(starts, append=len(order))
    table = row_numbers(np.append(starts, len(order)))
    left = np.repeat(lengths, lengths) - index_in_run(parent, group)
    # 2. a node drops from the largest table, or the one whose next child has the least draw; a
    #    child is never dropped before those ahead of it in its table
    urgency = -left
    if rules.shed_group == "random":
        by_draw, span = np.unique(draw[order], return_inverse=True)[1], len(order)
        urgency = np.maximum.accumulate(table * span + by_draw) - table * span
    # 3. one child of each table stays
    row = np.flatnonzero((left > 1) & ~stays[order])
    row = row[np.lexsort((table[row], urgency[row], parent[row]))]
    nodes = run_starts(parent)
    load = np.diff(nodes, append=len(order))
    excess = np.repeat(load - columns["limit"][order[nodes]], load)
    return order[row[index_in_run(parent[row]) < excess[row]]]


# --- drops, and JOINs to siblings


def _drop(scribe: Scribe, before: np.ndarray) -> None:
    """Let overloaded nodes drop children, and send these the children tables they were in."""
    over = overloaded(scribe)
    if not len(over):
        return
    edge, columns = _tables_of(scribe, over, before)
    drops = _choose_drops(columns, scribe.trees)
    pair, child = scribe.split(edge)
    group, parent = scribe.split(pair)
    scribe.state.children.discard(edge[drops])
    scribe.note(DROPS, edge=edge[drops])
    # 1. notify the dropped children that are alive
    told = drops[scribe.send("shed", parent[drops], child[drops])]
    turn = np.full(len(edge), len(drops))
    turn[drops] = np.arange(len(drops))
    scribe.tell(_SHED, child[told], group=group[told], parent=parent[told], turn=turn[told])
    # 2. send each parent's children table once to every bucket with a dropped child
    buckets = len(scribe.bounds) - 1
    to = pair[told] * buckets + bucket_of(scribe.bounds, child[told])
    to, one = np.unique(to, return_index=True)
    which, row = expand(*(np.searchsorted(pair, to // buckets, side) for side in ("left", "right")))
    table = {"group": group, "parent": parent, "sibling": child, "turn": turn}
    table = take({**table, "delay_us": columns["delay_us"]}, row)
    scribe.tell(_TABLE, child[told[one]][which], **table)


def _join_siblings(scribe: Scribe, shed: Columns, table: Columns) -> None:
    """Let dropped children without another parent measure delays, and send JOINs to siblings."""
    shed = take(shed, np.argsort(scribe.key(shed["group"], shed[AT]), kind="stable"))
    mine, row = scribe.under(shed["group"], shed[AT], shed["parent"])
    shed = take(shed, mine)
    child, top = shed[AT], _tops(scribe, row)
    lose_parent(scribe, row, "shed")
    # 1. (i) the child measures the delay between itself and the nodes in the table
    number, of = scribe.ring.node, scribe.key(table["group"], table["parent"])
    order = np.lexsort((number[table["sibling"]], of))
    table, of = take(table, order), of[order]
    parents = scribe.key(shed["group"], shed["parent"])
    asking, line = expand(*(np.searchsorted(of, parents, side) for side in ("left", "right")))
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
    joins = join.note_joins(scribe, row[source])
    of_drop = {name: shed[name][source] for name in ("parent", "turn")}
    pair = scribe.key(joins["group"], joins["source"])
    scribe.note(DROPPED, pair=pair, to=to, top=top[source], **of_drop)
    _send_to(scribe, joins, to, probes[source], **of_drop)


def _tops(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """Return the last node of each node's known path to the root, or NONE if it is the node."""
    group, node = scribe.split(scribe.state.entries.key[rows])
    if scribe.roots is not None:
        return scribe.roots[group]
    path = np.c_[np.full(len(rows), NONE), paths_above(scribe, rows)]
    top = path[np.arange(len(rows)), (path >= 0).sum(axis=1)]
    return np.where(top == node, NONE, top)


def _send_to(
    scribe: Scribe,
    joins: Columns,
    to: np.ndarray,
    probes: np.ndarray | int = 0,
    parent: np.ndarray | int = NONE,
    turn: np.ndarray | int = NONE,
) -> None:
    """Send JOINs directly to nodes, and record them; sources measured `probes` delays.

    Those of dropped children have columns of :data:`DROPPED`.
    """
    probes, parent, turn = (np.broadcast_to(one, len(to)) for one in (probes, parent, turn))
    scribe.note(EXTRA_JOINS, group=joins["group"], at=to, child=joins["source"], probes=probes)
    scribe.post(_DIRECT, "JOIN", joins["source"], to, **joins, parent=parent, turn=turn)


def _refuse(scribe: Scribe, joins: Columns) -> None:
    scribe.tell(_REFUSAL, joins["source"], group=joins["group"])


def _note_refusals(scribe: Scribe, came: Columns) -> None:
    scribe.note(REFUSED_JOINS, pair=scribe.key(came["group"], came[AT]))


def _cross(scribe: Scribe, came: Columns) -> np.ndarray:
    """Return True for JOINs whose receiver has sent a JOIN to their source."""
    crosses = np.zeros(len(came[AT]), dtype=bool)
    if DROPPED in scribe.tables:
        mine = scribe.tables[DROPPED]
        row = find_sorted(mine["pair"], scribe.key(came["group"], came[AT]))
        of = np.flatnonzero(row >= 0)
        row, came = row[of], take(came, of)
        crosses[of] = (mine["to"][row] == came["source"]) & (mine["turn"][row] < came["turn"])
        crosses[of] &= mine["parent"][row] == came["parent"]
    return crosses


def _receive_direct(scribe: Scribe, came: Columns) -> None:
    row = scribe.entry(came["group"], came[AT])
    refused = on_path(scribe, row, came["source"]) | _cross(scribe, came)
    _refuse(scribe, take(came, refused))
    came = take(came, ~refused)
    join.receive_joins(scribe, join.sent_to(joins_in(came), came[AT]))


class DirectJoins(join.JoinProgram):
    """Handle JOINs to known nodes, which refuse sources on their path to the root."""

    handlers: ClassVar[Handlers] = (
        *join.JoinProgram.handlers,
        (_DIRECT, _receive_direct),
        (_REFUSAL, _note_refusals),
    )


class RemoveBottlenecks(DirectJoins):
    """Overloaded nodes drop children, which send JOINs to siblings, until no node drops."""

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if not superstep:
            for old in (DROPPED, REFUSED_JOINS):
                tables.pop(old, None)
            if DROPS in tables:
                append(tables, DROPS_BEFORE, tables.pop(DROPS))
            # the edges that were dropped earlier in this round, once for each drop
            _drop(scribe, tables.get(DROPS_BEFORE, {"edge": whole_numbers()})["edge"])
        if _SHED in inbox:
            _join_siblings(scribe, inbox[_SHED], inbox[_TABLE])


# --- the cycle rule: refused JOINs are sent again on randomised routes


def _refused_children(scribe: Scribe) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the JOINs of dropped children that were refused, with their tops; forget these."""
    none = {"pair": whole_numbers(), "top": whole_numbers()}
    refused = scribe.tables.pop(REFUSED_JOINS, none)["pair"]
    dropped = scribe.tables.get(DROPPED, none)
    entries, again = scribe.state.entries, np.isin(dropped["pair"], refused)
    pair = dropped["pair"][again]
    row = entries.find(pair)
    of = entries.number[row], entries.cause[row], entries.extra[row]
    return joins_of(*scribe.split(pair), *of), dropped["top"][again]


def _accept(scribe: Scribe, joins: Columns, *, root: bool) -> None:
    ends = np.full(len(joins[AT]), root)
    scribe.note(_ACCEPTED, at=joins[AT], way=joins["way"], root=ends, **joins_in(joins))


def _go_up(scribe: Scribe, asked: Columns) -> None:
    """Move JOINs up the tree to the root or the bucket's edge; ``above`` is the path so far."""
    entries, number = scribe.state.entries, scribe.ring.node
    while len(asked[AT]):
        at, source = asked[AT], asked["source"]
        row = scribe.entry(asked["group"], at)
        there = row >= 0
        parent = np.where(there, entries.parent[row], NONE) if len(entries) else row
        waits = there & (parent < 0)
        waits[waits] = ~entries.root[row[waits]]
        refused = (at == source) | (waits & (number[at] > number[source]))
        up = ~refused & (parent >= 0)
        refused[up] |= (asked["above"][up] == parent[up, None]).any(axis=1)
        up = np.flatnonzero(~refused & (parent >= 0))
        arrives = np.zeros(len(at), dtype=bool)
        arrives[up] = scribe.send("JOIN", at[up], parent[up])
        _refuse(scribe, take(asked, refused))
        _accept(scribe, take(asked, ~refused & ~arrives), root=False)
        above = parent[arrives]
        asked = take(asked, arrives)
        asked |= {AT: above, "above": np.c_[asked["above"], above]}
        own = scribe.is_own(above)
        away = take(asked, ~own)
        scribe.tell(_UPWARDS, away.pop(AT), **away)
        asked = take(asked, own)


@dataclass(frozen=True)
class _Reroute(RoundProgram):
    """Route refused JOINs on randomised routes to the first tree nodes, and up the tree, at once.

    A JOIN that meets its own source on the way up is refused again.
    """

    attempt: int = 0
    handlers = ((_UPWARDS, _go_up), (_REFUSAL, _note_refusals))

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if not superstep:
            joins, _ = _refused_children(scribe)
            way = np.empty((len(joins["source"]), 0), dtype=np.int64)
            self._route(scribe, {**joins, AT: joins["source"], "way": way})
        if _ROUTED in inbox:
            self._route(scribe, inbox[_ROUTED])

    def _route(self, scribe: Scribe, moving: Columns) -> None:
        """Route JOINs to the tree or the edge of the bucket; ``way`` has the nodes visited."""
        number, entries = scribe.ring.node, scribe.state.entries

        def hop_of(here: Columns) -> tuple[np.ndarray, Columns]:
            at, group, source = here[AT], here["group"], here["source"]
            goes = (at == source) | ~entries.has(scribe.key(group, at))
            attempt = np.full(len(at), scribe.number * ATTEMPTS + self.attempt)
            drawn_by = scribe.groups.number[group], number[source], attempt
            onward = at.copy()
            onward[goes] = scribe.randomised_hop(
                "JOIN", at[goes], group[goes], *[column[goes] for column in drawn_by]
            )
            return onward, {**here, "way": np.c_[here["way"], at]}

        if ended := join.route_joins(scribe, _ROUTED, moving, hop_of):
            pair = scribe.key(ended["group"], ended[AT])
            inside = entries.has(pair) & (ended[AT] != ended["source"])
            knows = scribe.state.copies.has(pair)
            scribe.refuse("no group", (~inside & ~knows).sum())
            _accept(scribe, take(ended, ~inside & knows), root=True)
            up = take(ended, inside)
            _go_up(scribe, {**up, "above": up[AT][:, None]})


def _tell_ways(scribe: Scribe, accepted: Columns) -> None:
    """Tell each node that a JOIN visited, and its source, which node is next on the route."""
    which, column = np.nonzero(accepted["way"] >= 0)
    node = accepted["way"][which, column]
    link = np.flatnonzero(which[1:] == which[:-1])
    scribe.tell(_WAY, node[link], above=node[link + 1], **take(joins_in(accepted), which[link]))


def _make_forwarders(scribe: Scribe, ways: Columns) -> None:
    own = ways[AT] == ways["source"]
    sources = take(ways, own)
    _send_to(scribe, joins_in(sources), sources["above"])
    # of several routes through a node, the one of the source with the smallest number is used
    pair = scribe.key(ways["group"], ways[AT])
    new = ~own & ~scribe.state.entries.has(pair)
    ways, pair = take(ways, new), pair[new]
    order = np.lexsort((scribe.ring.node[ways["source"]], pair))
    ways, pair = take(ways, order), pair[order]
    entering, first, which = np.unique(pair, return_index=True, return_inverse=True)
    joins = join.own_joins(scribe, entering, which, ways["extra"])
    scribe.state.entries.enter(entering, scribe.number, "forwarder")
    join.remember(scribe, joins)
    _send_to(scribe, joins, ways["above"][first])


class _TakeInChild(DirectJoins):
    """Nodes on the routes of accepted JOINs enter the trees and send JOINs to the next nodes."""

    handlers = (*DirectJoins.handlers, (_WAY, _make_forwarders))

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        if _ACCEPTED in tables:
            accepted = tables.pop(_ACCEPTED)
            new = take(accepted, accepted["root"])
            become_root(scribe, distinct(scribe.key(new["group"], new["at"])))
            _tell_ways(scribe, accepted)


class _JoinTops(DirectJoins):
    """After the last attempt, send JOINs to the ends of the paths that their sources knew."""

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        joins, top = _refused_children(scribe)
        knows = top >= 0
        _send_to(scribe, take(joins, knows), top[knows])
