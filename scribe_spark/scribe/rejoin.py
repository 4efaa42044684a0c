"""The cycle rule: refused JOINs are routed with randomisation.

References
----------
JSAC 2002, Section IV.E: "if a node receives a JOIN message from a node in its path to the root, it
rejects the join and informs the joining node that it should join using a randomized route".
docs/rules.md, S29.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, find_sorted, whole_numbers
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.multicast import EDGES
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.route import route_to_edge, unrouted
from scribe_spark.scribe.join import (
    JoinProgram,
    Requests,
    own_joins,
    receive_joins,
    remember,
    send_on,
)
from scribe_spark.scribe.paths_to_root import on_path
from scribe_spark.scribe.program import GroupRound, RoundProgram
from scribe_spark.scribe.root import become_root
from scribe_spark.scribe.scribe import Joins, Scribe

#: All nodes that a child can route by may be descendants of the child.  After this many randomised
#: routes it sends its JOIN to the end of the path to the root that it knew.
ATTEMPTS = 8

#: The table of children that have been dropped: ``pair``, (group, child), ascending; ``parent``,
#: ``turn``: who has dropped each, and its rank in the order in which that dropped children;
#: ``to``: the sibling that it sends its JOIN to; ``top``: the end of the path that it knew.
DROPPED = "scribe dropped"

#: The table of (group, source), ``pair``, whose JOINs have been refused.
REFUSED_JOINS = "scribe refused joins"

#: The table of JOINs that the remover adds: ``group, at, child``: the receiver and the sender of
#: each; ``probes``: how many siblings its sender measured before.  And the columns of its view.
EXTRA_JOINS = "scribe extra joins"
EXTRA_JOINS_COLUMNS = f"{EDGES}, probes bigint"

#: The table of JOINs that are accepted: with ``way``, the nodes that they were at, and ``root``,
#: whether the last of them, ``at``, becomes one.
_ACCEPTED = "scribe accepted joins"

# kinds of messages: a JOIN to a node, not routed; its refusal; one that is routed with
# randomisation, that goes up the tree; and what nodes hear that an accepted one was at
_DIRECT, _REFUSAL = "JOIN to a node", "refusal"
_ROUTED, _UPWARDS, _WAY = "JOIN routed with randomisation", "JOIN upwards", "way of a JOIN"


def rejoin(player: Player, round: GroupRound) -> None:
    """Dropped children whose JOINs have been refused route them with randomisation, all at once.

    The first node of the tree on the way takes the child in, and those before it become forwarders;
    unless the child is above that node: then the JOIN is refused again.  All that were refused
    route anew, and at last send their JOINs to the ends of the paths that they knew.
    """
    for attempt in range(ATTEMPTS):
        if player.has(REFUSED_JOINS):
            player.play(_Reroute(player.given, round, attempt))
        if player.has(_ACCEPTED):
            player.play(_TakeIn(player.given, round))
    if player.has(REFUSED_JOINS):
        player.play(_JoinTops(player.given, round))


def note_extra(scribe: Scribe, joins: Joins, at: np.ndarray, probes: np.ndarray | int = 0) -> None:
    """Note JOINs that the remover adds: to siblings, and those that a refusal led to."""
    probes = np.broadcast_to(probes, len(at))
    scribe.note(EXTRA_JOINS, group=joins.group, at=at, child=joins.source, probes=probes)


def send_to(
    scribe: Scribe,
    joins: Joins,
    to: np.ndarray,
    parent: np.ndarray | int = NONE,
    turn: np.ndarray | int = NONE,
) -> None:
    """JOINs go to nodes, and are not routed.

    Parameters
    ----------
    parent, turn : ndarray of int64 or int
        Of children that have been dropped, as in :data:`DROPPED`.
    """
    arrives = scribe.send("JOIN", joins.source, to)
    dropped = {"parent": parent, "turn": turn}
    columns = {name: np.broadcast_to(one, len(to)) for name, one in dropped.items()}
    scribe.tell(_DIRECT, to[arrives], **take({**joins.to_columns(), **columns}, arrives))


def refused_children(tables: Tables) -> Columns:
    """Return the dropped children whose JOINs have been refused, and forget the refusals."""
    if DROPPED not in tables:
        tables.pop(REFUSED_JOINS, None)
        return {}
    refused = tables.pop(REFUSED_JOINS)["pair"] if REFUSED_JOINS in tables else whole_numbers()
    return take(tables[DROPPED], np.flatnonzero(np.isin(tables[DROPPED]["pair"], refused)))


def _their_joins(scribe: Scribe, pair: np.ndarray) -> Joins:
    """Return the JOINs that nodes have sent in this round and remember."""
    entries, (group, source) = scribe.state.entries, scribe.split(pair)
    row = entries.find(pair)
    return Joins(group, source, entries.number[row], entries.cause[row], entries.extra[row])


class DirectJoins(JoinProgram):
    """JOINs to nodes, which are refused by those on whose path the source is."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        super().play(scribe, tables, inbox, superstep)
        if _DIRECT in inbox:
            self._receive(scribe, tables, inbox[_DIRECT])
        if _REFUSAL in inbox:
            _note_refusals(scribe, inbox[_REFUSAL])

    def _receive(self, scribe: Scribe, tables: Tables, came: Columns) -> None:
        row = scribe.entry(came["group"], came[AT])
        refused = on_path(scribe, row, came["source"]) | _cross(scribe, tables, came)
        _refuse(scribe, take(came, np.flatnonzero(refused)))
        came = take(came, np.flatnonzero(~refused))
        sent = Requests.sent_to(Joins.from_columns(came), came[AT])
        send_on(scribe, receive_joins(scribe, sent))


def _cross(scribe: Scribe, tables: Tables, came: Columns) -> np.ndarray:
    """Return whose receivers have sent JOINs to their sources, and were dropped before these."""
    crosses = np.zeros(len(came[AT]), dtype=bool)
    if DROPPED in tables:
        mine = tables[DROPPED]
        row = find_sorted(mine["pair"], scribe.key(came["group"], came[AT]))
        of = np.flatnonzero(row >= 0)
        row, came = row[of], take(came, of)
        crosses[of] = (mine["to"][row] == came["source"]) & (mine["turn"][row] < came["turn"])
        crosses[of] &= mine["parent"][row] == came["parent"]
    return crosses


def _refuse(scribe: Scribe, joins: Columns) -> None:
    scribe.tell(_REFUSAL, joins["source"], group=joins["group"])


def _note_refusals(scribe: Scribe, came: Columns) -> None:
    scribe.note(REFUSED_JOINS, pair=scribe.key(came["group"], came[AT]))


@dataclass(frozen=True)
class _Reroute(RoundProgram):
    """Refused JOINs are routed with randomisation, all at once, to the first nodes of the tree.

    From there each goes up, from parent to parent: it is refused again if it comes to its source.
    Nothing in the trees changes meanwhile.

    Attributes
    ----------
    attempt : int
        From 0.
    """

    attempt: int = 0

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        if not superstep:
            refused = refused_children(tables)
            if refused:
                joins = _their_joins(scribe, refused["pair"])
                begin = unrouted({**joins.to_columns(), AT: joins.source})
                self._route(scribe, {**begin, "way": begin["path"]})
        if _ROUTED in inbox:
            self._route(scribe, inbox[_ROUTED])
        if _UPWARDS in inbox:
            _go_up(scribe, inbox[_UPWARDS])
        if _REFUSAL in inbox:
            _note_refusals(scribe, inbox[_REFUSAL])

    def _route(self, scribe: Scribe, moving: Columns) -> None:
        """To the tree, or to the bucket's edge; ``way``: the nodes that a JOIN was at."""
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

        ended, leaving = route_to_edge(moving, hop_of, scribe.is_own)
        if ended:
            ended = take(ended, ended["delivered"])
            pair = scribe.key(ended["group"], ended[AT])
            inside = entries.has(pair) & (ended[AT] != ended["source"])
            knows = scribe.state.copies.has(pair)
            scribe.refuse("no group", (~inside & ~knows).sum())
            _accept(scribe, take(ended, ~inside & knows), root=True)
            up = take(ended, inside)
            _go_up(scribe, {**up, "above": up[AT][:, None]})
        if leaving:
            scribe.tell(_ROUTED, leaving.pop(AT), **leaving)


def _accept(scribe: Scribe, joins: Columns, *, root: bool) -> None:
    columns = Joins.from_columns(joins).to_columns()
    ends = np.full(len(joins[AT]), root)
    scribe.note(_ACCEPTED, at=joins[AT], way=joins["way"], root=ends, **columns)


def _go_up(scribe: Scribe, asked: Columns) -> None:
    """JOINs go up the tree, to the end of the way or to the bucket's edge; ``above``: where from.

    Of two nodes that wait the one with the greater number may hang below the other.
    """
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
        _refuse(scribe, take(asked, np.flatnonzero(refused)))
        _accept(scribe, take(asked, np.flatnonzero(~refused & ~arrives)), root=False)
        asked, above = take(asked, np.flatnonzero(arrives)), parent[arrives]
        asked |= {AT: above, "above": np.c_[asked["above"], above]}
        own = scribe.is_own(above)
        away = take(asked, np.flatnonzero(~own))
        scribe.tell(_UPWARDS, away.pop(AT), **away)
        asked = take(asked, np.flatnonzero(own))


class _TakeIn(DirectJoins):
    """Nodes that accepted JOINs were at enter the trees; each sends a JOIN to the next one."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        super().play(scribe, tables, inbox, superstep)
        if not superstep and _ACCEPTED in tables:
            accepted = tables.pop(_ACCEPTED)
            new = take(accepted, np.flatnonzero(accepted["root"]))
            become_root(scribe, distinct(scribe.key(new["group"], new["at"])))
            _tell_ways(scribe, accepted)
        if _WAY in inbox:
            _make_forwarders(scribe, inbox[_WAY])


def _tell_ways(scribe: Scribe, accepted: Columns) -> None:
    """All that a JOIN was at, its source too, hear which node is above them on its way."""
    which, column = np.nonzero(accepted["way"] >= 0)
    node = accepted["way"][which, column]
    link = np.flatnonzero(which[1:] == which[:-1])
    joins = take(Joins.from_columns(accepted).to_columns(), which[link])
    scribe.tell(_WAY, node[link], above=node[link + 1], **joins)


def _make_forwarders(scribe: Scribe, ways: Columns) -> None:
    sources = take(ways, np.flatnonzero(ways[AT] == ways["source"]))
    _send_extra(scribe, Joins.from_columns(sources), sources["above"])
    # of several ways that of the source with the least number is gone
    pair = scribe.key(ways["group"], ways[AT])
    new = (ways[AT] != ways["source"]) & ~scribe.state.entries.has(pair)
    ways, pair = take(ways, np.flatnonzero(new)), pair[new]
    order = np.lexsort((scribe.ring.node[ways["source"]], pair))
    ways, pair = take(ways, order), pair[order]
    entering, first, which = np.unique(pair, return_index=True, return_inverse=True)
    own = own_joins(scribe, entering, which, Joins.from_columns(ways))
    scribe.state.entries.enter(entering, scribe.number, "forwarder")
    remember(scribe, own)
    _send_extra(scribe, own, ways["above"][first])


class _JoinTops(DirectJoins):
    """The last time refused JOINs go to the ends of the paths that their sources knew."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        super().play(scribe, tables, inbox, superstep)
        if not superstep and (refused := refused_children(tables)):
            knows = refused["top"] >= 0
            joins = _their_joins(scribe, refused["pair"][knows])
            _send_extra(scribe, joins, refused["top"][knows])


def _send_extra(scribe: Scribe, joins: Joins, to: np.ndarray) -> None:
    """Send JOINs that a refusal led to."""
    note_extra(scribe, joins, to)
    send_to(scribe, joins, to)
