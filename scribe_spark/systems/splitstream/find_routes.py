"""The program that follows Pastry's routes to the ids of stripes, for the builders: rule L5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scribe_spark.core.arrays import distinct, divided, find_sorted, whole_numbers
from scribe_spark.core.keys import mixed_key
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT, append, in_bucket
from scribe_spark.pastry import closeness
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.states import States
from scribe_spark.rounds.group_overlays import Network, OverlayProgram
from scribe_spark.systems.splitstream.period import Setting, begin

#: The table that the program hands to the builders: ``group, node, stripe, next`` (positions).
ROUTES = "routes"

_ROUTE = ("group", "node", "stripe", "next")

# kinds of messages: a node that has joined, a node of a channel, a visit by a route, a next hop
JOINED, _BEGIN, _VISIT, _NEXT = "joined", "begin", "visit", "next"

#: The table of a bucket with the keys (group, position, id) that routes have visited.
_VISITED = "visited"


@dataclass(frozen=True)
class FindRoutes(OverlayProgram):
    """Follow Pastry's routes from the nodes of channels to the ids of all their stripes.

    Builders begin with the nodes of channels that are not at rest (``played``), and nodes that have
    joined begin themselves.  A next hop depends on the node and the key only, so each bucket finds
    it once, and tells it to the builder: :data:`ROUTES`.
    """

    setting_of: Callable[..., Setting]  # `SplitStream.setting`
    key_lo: np.ndarray
    number: int  # of the period
    failed: np.ndarray
    #: The groups in which members join or quit, ascending.
    changed: np.ndarray

    @cached_property
    def _setting(self) -> Setting:
        round = self.round
        assert round.key_hi is not None
        network = Network(round.facts.ring, *round.network)
        return self.setting_of(network, round.number, round.key_hi, self.key_lo)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Follow routes to the edge of the bucket."""
        if not superstep:
            tables[_VISITED] = {"key": whole_numbers()}
        if _NEXT in inbox:
            append(tables, ROUTES, {name: inbox[_NEXT][name] for name in _ROUTE})
        out, width = self._begin(bucket, tables) if not superstep else {}, self._setting.width
        begun = [whole_numbers()]
        for kind in (JOINED, _BEGIN):
            if kind in inbox:
                place = inbox[kind]["group"] * self.round.size + inbox[kind][AT]
                begun.append((place[:, None] * width + np.arange(width)).ravel())
        if _VISIT in inbox:
            names = inbox[_VISIT]["group"], inbox[_VISIT][AT], inbox[_VISIT]["stripe"]
            begun.append(mixed_key(names, [self.round.size, width]))
        visits = np.concatenate(begun)
        return {**out, **self._follow(bucket, tables, visits)} if len(visits) else out

    def _begin(self, bucket: int, tables: Tables) -> Outbox:
        """Return messages to the nodes of the builder's channels that are not at rest."""
        round, setting = self.round, self._setting
        size, alive, state = (
            round.size,
            round.lives.alive,
            round.system.state_of(tables, np.arange(len(round.number))),
        )
        own = in_bucket(self.bounds, bucket, round.builders(self.changed))
        none = whole_numbers()
        begun = begin(state, setting, self.number, alive, self.failed, (none, none), (none, none))
        groups = distinct(np.concatenate([begun.played, self.changed[own]]))
        if not (len(groups) and alive.any()):
            return {}
        nodes = begun.nodes
        mine = alive[nodes["node"]] & (find_sorted(groups, nodes["group"]) >= 0)
        roots = closeness.roots(round.facts.ring, np.flatnonzero(alive), setting.keys(groups))
        key = np.repeat(groups, setting.width) * size + roots
        key = distinct(np.concatenate([key, nodes["group"][mine] * size + nodes["node"][mine]]))
        group, node = divided(key, size)
        return {_BEGIN: {AT: node, "group": group}}

    def _follow(self, bucket: int, tables: Tables, visits: np.ndarray) -> Outbox:
        """Follow routes inside the bucket; return visits of other buckets, and the next hops."""
        round, width, first = self.round, self._setting.width, int(self.bounds[bucket])
        ids = self._setting.keys(np.arange(len(round.number)))
        states = States.of_tables(round.facts.ring, first, tables)
        seen, found, leaving = tables[_VISITED]["key"], list[Columns](), [whole_numbers()]
        while len(visits):
            visits = distinct(visits)
            visits = visits[find_sorted(seen, visits) < 0]
            seen = np.sort(np.concatenate([seen, visits]), kind="stable")
            place, stripe = divided(visits, width)
            group, at = divided(place, round.size)
            onward, _ = hop(states, round.lives.is_alive, at, ids.take(group * width + stripe))
            found.append({"group": group, "node": at, "stripe": stripe, "next": onward})
            goes = (onward >= 0) & (onward != at)
            key = mixed_key([group[goes], onward[goes], stripe[goes]], [round.size, width])
            inside = in_bucket(self.bounds, bucket, onward[goes])
            leaving.append(key[~inside])
            visits = key[inside]
        tables[_VISITED] = {"key": seen}
        told = concatenate(found)
        out = {_NEXT: {AT: round.builders(told["group"]), **told}}
        away = distinct(np.concatenate(leaving))
        if len(away):
            place, stripe = divided(away, width)
            group, at = divided(place, round.size)
            out[_VISIT] = {AT: at, "group": group, "stripe": stripe}
        return out
