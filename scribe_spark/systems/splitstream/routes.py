"""Pastry's routes to the ids of stripes, which say where SUBSCRIBEs enter a channel: rule L5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, divided, find_sorted, whole_numbers
from scribe_spark.core.keys import mixed_key
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT, append, in_bucket
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.states import States
from scribe_spark.rounds.grown_overlays import BuilderProgram
from scribe_spark.systems.splitstream.channels import Setting, open_channels

if TYPE_CHECKING:
    from scribe_spark.systems.splitstream.forest import Forest

#: The table of next hops in a builder: ``group, node, stripe, next`` (positions).
ROUTES = "routes"

_ROUTE = "group", "node", "stripe", "next"

# kinds of messages: nodes whose routes a builder needs, a visit by a route, a next hop
_ASKS, _VISIT, _NEXT = "asks", "visit", "next"

#: The table of a bucket with the keys (group, position, id) that routes have visited.
_VISITED = "visited"

#: The most nodes of a route; a longer one goes in a circle.
_LONGEST = 128


@dataclass(frozen=True)
class Routes:
    """The next hops (positions) of nodes towards the ids of stripes.

    ``key`` has the numbers of the triples (group, node, id), ascending.  ``next[i]`` is the next
    hop of the triple ``key[i]``; where a route ends, the node itself or NONE.  One more element of
    ``next``, NONE, is what the index -1 of a triple that was not found selects.
    """

    size: int  # the number of nodes
    width: int  # the number of ids of a group
    key: np.ndarray
    next: np.ndarray

    @classmethod
    def of(cls, handed: Columns, size: int, width: int) -> Routes:
        """Return routes from the table :data:`ROUTES`.

        `size` is the number of the network's nodes, `width` that of the ids of a group.
        """
        *parts, onward = (handed.get(name, whole_numbers()) for name in _ROUTE)
        key = mixed_key(parts, [size, width])
        order = np.argsort(key, kind="stable")
        return cls(size, width, key[order], np.r_[onward[order], NONE])

    def entries(
        self,
        forest: Forest,
        rows: np.ndarray,
        stripe: np.ndarray,
        who: np.ndarray,
        to_root: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, Mapping[str, np.ndarray]]:
        """Return where the routes of nodes (rows) enter their channels.

        Returns
        -------
        entry : ndarray of int64
            The first other node (a row) in the channel that is not `who`, or the root of the stripe
            for the rows that `to_root` marks; NONE: there is none.
        hops : ndarray of int64
            The number of hops to that node.
        passed : mapping of str to ndarray
            The transmissions on the routes that enter: ``row, sender, to`` (positions).
        """
        entry, hops = np.full((2, len(rows)), NONE)
        at, group, here = forest.node[rows], forest.group[rows], forest.entered & forest.alive
        going, passed = np.arange(len(rows)), [np.empty((3, 0), dtype=np.int64)]
        for count in range(1, _LONGEST):
            key = mixed_key([group[going], at[going], stripe[going]], [self.size, self.width])
            onward = self.next[find_sorted(self.key, key)]
            goes = (onward >= 0) & (onward != at[going])
            going, onward = going[goes], onward[goes]
            if not len(going):
                break
            passed.append(np.stack([going, at[going], onward]))
            at[going] = onward
            found = find_sorted(forest.key, group[going] * self.size + onward)
            enters = (found >= 0) & here[found] & (found != rows[going]) & (found != who[going])
            if to_root is not None:
                of_root = forest.root[found * forest.stripes + stripe[going]]
                enters &= of_root | ~to_root[going]
            entry[going[enters]], hops[going[enters]] = found[enters], count
            going = going[~enters]
        row, sender, to = np.concatenate(passed, axis=1)
        ends = entry[row] >= 0
        return entry, hops, {"row": row[ends], "sender": sender[ends], "to": to[ends]}


@dataclass(frozen=True)
class FindRoutes(BuilderProgram):
    """Follow Pastry's routes from the nodes of channels to the ids of stripes, for builders.

    A builder tells the buckets which of their nodes are in channels that are not at rest. A *visit*
    is a node on the route to an id (of a stripe, or of the spare group). A next hop depends on the
    node and the id only, so each bucket finds it once, and tells it to the builder: :data:`ROUTES`.
    """

    @cached_property
    def _setting(self) -> Setting:
        system: Any = self.round.system
        return Setting(system.rules, system.b, self.period(Tables(), {}))

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Follow routes to the edge of the bucket."""
        if not superstep:
            tables[_VISITED] = {"key": whole_numbers()}
            return self._ask_for_routes(tables)
        if _NEXT in inbox:
            append(tables, ROUTES, {name: inbox[_NEXT][name] for name in _ROUTE})
        visits = [whole_numbers()]
        if _ASKS in inbox:
            group, at = (inbox[_ASKS][name][:, None] for name in ("group", AT))
            visits.append(self._key(group, at, np.arange(self._setting.width)).ravel())
        if _VISIT in inbox:
            visits.append(self._key(*(inbox[_VISIT][name] for name in ("group", AT, "stripe"))))
        begun = np.concatenate(visits)
        return self._follow(bucket, tables, begun) if len(begun) else {}

    def _ask_for_routes(self, tables: Tables) -> Outbox:
        """Ask for the routes of the live nodes in this builder's channels that are not at rest."""
        round = self.round
        state = round.system.state_of(tables, np.arange(len(round.number)))
        begun = open_channels(state, replace(self._setting, period=self.period(tables, {})))
        group, node = divided(begun.nodes.key, round.size)
        asks = round.lives.alive[node] & (find_sorted(begun.played, group) >= 0)
        return {_ASKS: {AT: node[asks], "group": group[asks]}} if asks.any() else {}

    def _follow(self, bucket: int, tables: Tables, visits: np.ndarray) -> Outbox:
        """Follow routes inside the bucket; return visits of other buckets, and next hops."""
        round, width, first = self.round, self._setting.width, int(self.bounds[bucket])
        ids, ring = self._setting.ids(np.arange(len(round.number))), round.facts.ring
        states = States.of_tables(ring, first, tables)
        seen, found, leaving = tables[_VISITED]["key"], list[Columns](), [whole_numbers()]
        while len(visits):
            visits = distinct(visits)
            visits = visits[find_sorted(seen, visits) < 0]
            seen = np.sort(np.r_[seen, visits], kind="stable")
            group, at, stripe = self._parts(visits)
            onward, _ = hop(states, round.lives.is_alive, at, ids.take(group * width + stripe))
            found.append({"group": group, "node": at, "stripe": stripe, "next": onward})
            goes = (onward >= 0) & (onward != at)
            key = self._key(group[goes], onward[goes], stripe[goes])
            inside = in_bucket(self.bounds, bucket, onward[goes])
            leaving.append(key[~inside])
            visits = key[inside]
        tables[_VISITED] = {"key": seen}
        told = concatenate(found)
        group, at, stripe = self._parts(distinct(np.concatenate(leaving)))
        away = {_VISIT: {AT: at, "group": group, "stripe": stripe}} if len(at) else {}
        return {_NEXT: {AT: round.builders(told["group"]), **told}, **away}

    def _key(self, *parts: np.ndarray) -> np.ndarray:
        """Return the keys of visits, from groups, positions, and indices of ids."""
        return mixed_key(parts, [self.round.size, self._setting.width])

    def _parts(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the group, the node's position and the index of the id of visits, given by key.

        The index is that of the stripe or, as the last one, of the spare group.
        """
        place, stripe = divided(key, self._setting.width)
        return *divided(place, self.round.size), stripe
