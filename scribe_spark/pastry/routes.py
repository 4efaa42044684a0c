"""Pastry's routes to keys of groups, for the builders of groups.

A builder (`rounds.grown_overlays`) knows the nodes of a group, but no routing tables.
:class:`FindRoutes` follows the routes of the nodes that builders name through the buckets, and
hands the next hops to the builders; there, :class:`Routes` follows the routes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of, mixed_key
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT, append, in_bucket
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.states import States
from scribe_spark.rounds.group_events import Pairs
from scribe_spark.rounds.grown_overlays import BuilderProgram, Period

#: The table of next hops in a builder: the key (group, node, number of the group's key) and
#: ``next``, a position.  Where a route ends, this is the node itself or NONE.
ROUTES = "routes"

# kinds of messages: nodes whose routes a builder needs, a visit by a route, a next hop
_ASKS, _VISIT, _NEXT = "asks", "visit", "next"

#: The table of a bucket with the keys of the visits that routes have made.
_VISITED = "visited"

#: The most nodes of a route; a longer one goes in a circle.
_LONGEST = 128


@dataclass(frozen=True)
class FindRoutes(BuilderProgram):
    """Find the next hops on Pastry's routes from nodes to the keys of their groups.

    ``asks(period, tables)`` returns the nodes of a builder: groups and positions.  ``ids`` returns
    the keys of groups from the groupIds, as many of each group.  A *visit* is a node on the route
    to a key: (group, node, number of the key).  A next hop depends on these only, so each bucket
    finds it once, and tells it to the builder: :data:`ROUTES`.
    """

    asks: Callable[[Period, Tables], Pairs]
    ids: Callable[[Keys], Keys]

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Follow routes to the edge of the bucket; return visits of others, and next hops."""
        round = self.round
        if not superstep:
            tables[_VISITED] = {"key": arrays.whole_numbers()}
            group, node = self.asks(self.period(tables, {}), tables)
            return {_ASKS: {AT: node, "group": group}} if len(node) else {}
        if _NEXT in inbox:
            append(tables, ROUTES, {name: inbox[_NEXT][name] for name in ("key", "next")})
        if not {_VISIT, _ASKS} & inbox.keys():
            return {}
        ids = self.ids(Keys(self.own.key_hi, self.own.key_lo))
        width = len(ids) // len(self.own.group)
        visits = inbox[_VISIT]["key"] if _VISIT in inbox else arrays.whole_numbers()
        if _ASKS in inbox:
            place = key_of([inbox[_ASKS]["group"], inbox[_ASKS][AT]], round.size)
            visits = np.r_[visits, (place[:, None] * width + np.arange(width)).ravel()]
        states = States.of_tables(round.facts.ring, int(self.bounds[bucket]), tables)
        seen, found, leaving = tables[_VISITED]["key"], list[Columns](), list[np.ndarray]()
        while len(visits):
            visits = arrays.distinct(visits)
            visits = visits[arrays.find_sorted(seen, visits) < 0]
            seen = np.sort(np.r_[seen, visits], kind="stable")
            place, number = arrays.divided(visits, width)
            group, at = arrays.divided(place, round.size)
            onward, _ = hop(states, self.own.overlay.is_alive, at, ids.take(group * width + number))
            found.append({AT: round.builders(group), "key": visits, "next": onward})
            goes = (onward >= 0) & (onward != at)
            visits = (visits + (onward - at) * width)[goes]
            inside = in_bucket(self.bounds, bucket, onward[goes])
            leaving.append(visits[~inside])
            visits = visits[inside]
        tables[_VISITED] = {"key": seen}
        away = arrays.distinct(np.concatenate(leaving))
        sent = {_NEXT: concatenate(found), _VISIT: {AT: away // width % round.size, "key": away}}
        return sent if len(away) else {_NEXT: sent[_NEXT]}


class Routes:
    """The routes of nodes, by the table that a builder has: `told`; `size` is K."""

    def __init__(self, told: Columns, size: int, width: int) -> None:
        key, onward = (told.get(name, arrays.whole_numbers()) for name in ("key", "next"))
        order, self._sizes = np.argsort(key, kind="stable"), [size, width]
        self._key, self._next = key[order], np.append(onward[order], arrays.NONE)

    def follow(
        self,
        group: np.ndarray,
        node: np.ndarray,
        number: np.ndarray,
        meets: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Follow the routes of nodes to keys of their groups, each until it meets something.

        Parameters
        ----------
        group, node, number : ndarray of int64, shape (n,)
            The groups, the nodes (positions) and the numbers of the keys.
        meets : callable
            ``meets(index, node)`` returns numbers of what routes meet at nodes; NONE: go on.

        Returns
        -------
        tuple of ndarray
            The numbers met, NONE for routes that end before; the numbers of hops until then; and
            all transmissions: index of the route, and both ends (positions), shape (3, t).
        """
        at, (met, hops) = node.copy(), np.full((2, len(node)), arrays.NONE)
        going, passed = np.arange(len(node)), [np.empty((3, 0), dtype=np.int64)]
        for count in range(1, _LONGEST):
            key = mixed_key([group[going], at[going], number[going]], self._sizes)
            onward = self._next[arrays.find_sorted(self._key, key)]
            goes = (onward >= 0) & (onward != at[going])
            going, onward = going[goes], onward[goes]
            if not len(going):
                break
            passed.append(np.stack([going, at[going], onward]))
            at[going], met[going], hops[going] = onward, meets(going, onward), count
            going = going[met[going] < 0]
        return met, hops, np.concatenate(passed, axis=1)
