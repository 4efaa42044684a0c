"""Pastry's routes to the ids of stripes, which say where SUBSCRIBEs enter a channel: rule L5."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import mixed_key
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT, append, in_bucket
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.states import States
from scribe_spark.rounds.grown_overlays import BuilderProgram
from scribe_spark.systems.splitstream.channels import Channels, ids_of, width_of

#: The table of next hops in a builder: ``group, node, stripe, next`` (positions).
ROUTES = "routes"

_ROUTE = "group", "node", "stripe", "next"

# kinds of messages: nodes whose routes a builder needs, a visit by a route, a next hop
_ASKS, _VISIT, _NEXT = "asks", "visit", "next"

#: The table of a bucket with the keys (group, position, id) that routes have visited.
_VISITED = "visited"


@dataclass
class Routes(arrays.SortedTable):
    """The next hops (positions) of nodes towards ids, by key (group, node, id).

    Where a route ends, the next hop is the node itself or NONE.
    """

    next: np.ndarray = field(default_factory=arrays.whole_numbers)

    @classmethod
    def of(cls, handed: Columns, size: int, width: int) -> Routes:
        """Return routes from the table :data:`ROUTES`, with `width` ids of each group."""
        *parts, onward = (handed.get(name, arrays.whole_numbers()) for name in _ROUTE)
        routes = cls()
        routes.insert(mixed_key(parts, [size, width]), next=onward)
        return routes

    def onward(self, key: np.ndarray) -> np.ndarray:
        """Return the next hop of each key; NONE also if the key has none."""
        row = self.find(key)
        return np.where(row < 0, arrays.NONE, self.next[row]) if len(self) else row


@dataclass(frozen=True)
class FindRoutes(BuilderProgram):
    """Follow Pastry's routes from the nodes of channels to the ids of stripes, for builders.

    A builder tells the buckets which of their nodes are in channels that are not at rest. A *visit*
    is a node on the route to an id (of a stripe, or of the spare group). A next hop depends on the
    node and the id only, so each bucket finds it once, and tells it to the builder: :data:`ROUTES`.
    """

    @cached_property
    def _rules(self) -> Any:
        system: Any = self.round.system
        return system.rules

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Follow routes to the edge of the bucket."""
        if not superstep:
            tables[_VISITED] = {"key": arrays.whole_numbers()}
            return self._ask_for_routes(tables)
        if _NEXT in inbox:
            append(tables, ROUTES, {name: inbox[_NEXT][name] for name in _ROUTE})
        visits = [arrays.whole_numbers()]
        if _ASKS in inbox:
            group, at = (inbox[_ASKS][name][:, None] for name in ("group", AT))
            visits.append(self._key(group, at, np.arange(width_of(self._rules))).ravel())
        if _VISIT in inbox:
            visits.append(self._key(*(inbox[_VISIT][name] for name in ("group", AT, "stripe"))))
        begun = np.concatenate(visits)
        return self._follow(bucket, tables, begun) if len(begun) else {}

    def _ask_for_routes(self, tables: Tables) -> Outbox:
        """Ask for the routes of the live nodes in this builder's channels that are not at rest."""
        round = self.round
        state = round.system.state_of(tables, np.arange(len(round.number)))
        begun = Channels(self._rules, state, self.period(tables, {}))
        group, node = arrays.divided(begun.nodes.key, round.size)
        asks = round.lives.alive[node] & (arrays.find_sorted(begun.played, group) >= 0)
        return {_ASKS: {AT: node[asks], "group": group[asks]}} if asks.any() else {}

    def _follow(self, bucket: int, tables: Tables, visits: np.ndarray) -> Outbox:
        """Follow routes inside the bucket; return visits of other buckets, and next hops."""
        round, first = self.round, int(self.bounds[bucket])
        every = np.arange(len(round.number))
        ids = ids_of(self._rules, self.period(Tables(), {}).keys(every))
        states = States.of_tables(round.facts.ring, first, tables)
        seen, found, leaving = tables[_VISITED]["key"], list[Columns](), [arrays.whole_numbers()]
        while len(visits):
            visits = arrays.distinct(visits)
            visits = visits[arrays.find_sorted(seen, visits) < 0]
            seen = np.sort(np.r_[seen, visits], kind="stable")
            group, at, stripe = self._parts(visits)
            keys = ids.take(group * width_of(self._rules) + stripe)
            onward, _ = hop(states, round.lives.is_alive, at, keys)
            found.append({"group": group, "node": at, "stripe": stripe, "next": onward})
            goes = (onward >= 0) & (onward != at)
            key = self._key(group[goes], onward[goes], stripe[goes])
            inside = in_bucket(self.bounds, bucket, onward[goes])
            leaving.append(key[~inside])
            visits = key[inside]
        tables[_VISITED] = {"key": seen}
        told = concatenate(found)
        group, at, stripe = self._parts(arrays.distinct(np.concatenate(leaving)))
        away = {_VISIT: {AT: at, "group": group, "stripe": stripe}} if len(at) else {}
        return {_NEXT: {AT: round.builders(told["group"]), **told}, **away}

    def _key(self, *parts: np.ndarray) -> np.ndarray:
        """Return the keys of visits, from groups, positions, and indices of ids."""
        return mixed_key(parts, [self.round.size, width_of(self._rules)])

    def _parts(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the group, the node's position and the index of the id of visits (keys)."""
        place, stripe = arrays.divided(key, width_of(self._rules))
        return *arrays.divided(place, self.round.size), stripe
