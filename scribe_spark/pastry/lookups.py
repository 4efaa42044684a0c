"""Lookups of a round: messages from live nodes with keys, and where they end.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.closeness import Keys, roots
from scribe_spark.pastry.arrivals.routes import Routes, route
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.table_repair import drop_and_repair
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["LookupResults", "Lookups", "drawn_lookups", "look_up", "try_routes"]


@dataclass(frozen=True)
class Lookups:
    """Lookups to be made.

    Attributes
    ----------
    source : ndarray of int64, shape (m,)
        Positions of live nodes.
    keys : Keys
    """

    source: np.ndarray
    keys: Keys


@dataclass(frozen=True)
class LookupResults:
    """What became of lookups: arrays of shape (m,).

    Attributes
    ----------
    source, at : ndarray of int64
        Positions of where they began and ended.
    keys : Keys
    delivered : ndarray of bool
        False: undeliverable.
    right : ndarray of bool
        Delivered at the live node that is numerically closest to the key.
    hops, lost : ndarray of int64
        Transmissions that arrived, and that met a dead node.
    """

    source: np.ndarray
    at: np.ndarray
    keys: Keys
    delivered: np.ndarray
    right: np.ndarray
    hops: np.ndarray
    lost: np.ndarray


def drawn_lookups(state: OverlayState, count: int, number: int, seed: int) -> Lookups:
    """Lookups between random live nodes and random keys, drawn for a round."""
    live = state.live()
    drawn = draws.stream(seed, "lookup source", number).random_raw(count)
    halves = draws.stream(seed, "lookup key", number).random_raw(2 * count).reshape(-1, 2)
    source = live[(drawn % np.uint64(len(live))).astype(np.int64)]
    return Lookups(source, Keys(halves[:, 0].copy(), halves[:, 1].copy()))


def look_up(
    state: OverlayState, lookups: Lookups, rules: WorldRules, kernel: Kernel, tally: Tally
) -> LookupResults:
    """Make the lookups of a round; the dead entries that they found are dropped after all of them.

    Writes `States.cells`.
    """
    routes = route(state.states, state.is_alive, lookups.source, lookups.keys)
    tally.add_routes("lookup", routes)
    drop_and_repair(state, routes.found, rules, kernel, tally)
    return _results(state, lookups, routes)


def try_routes(state: OverlayState, lookups: Lookups) -> LookupResults:
    """Route lookups as they would go now; nothing changes and nothing is counted.

    One from a dead node goes nowhere: it is not delivered.
    """
    alive = np.flatnonzero(state.alive[lookups.source])
    some = Lookups(lookups.source[alive], lookups.keys.take(alive))
    found = _results(state, some, route(state.states, state.is_alive, some.source, some.keys))
    m = len(lookups.source)
    results = LookupResults(
        lookups.source,
        lookups.source.copy(),
        lookups.keys,
        *np.zeros((2, m), dtype=bool),
        *np.zeros((2, m), dtype=np.int64),
    )
    for name in ("at", "delivered", "right", "hops", "lost"):
        getattr(results, name)[alive] = getattr(found, name)
    return results


def _results(state: OverlayState, lookups: Lookups, routes: Routes) -> LookupResults:
    source, keys = lookups.source, lookups.keys
    right = routes.delivered & (routes.at == roots(state.states.known, state.live(), keys))
    return LookupResults(source, routes.at, keys, routes.delivered, right, routes.hops, routes.lost)
