"""Generators of one-time node events: mass failure, adjacent nodes, roots, flash crowd.

Failing nodes are drawn among the nodes that are alive before the round of the event
(`lengths.event_round`) and have no event in it by an earlier generator.

Sustained churn: nodes fail after random lifetimes and are replaced in the same round.  The network
has a fixed number of seats.  The node in a seat fails when its lifetime is over, and another node
takes the seat in the same round.  So the number of live nodes is the same after every round.
Studies of DHTs under churn use the same set-up: a node is started for each node that is killed, or
the rate of arrivals equals the rate of departures.  In simulators where each node alternates
between life and death independently, only the mean of the population is constant.

The node that takes a seat was not alive at the start, or has failed before; among these nodes, the
one that has waited longest is taken.  A node that returns has its old nodeId.  Because a nodeId is
independent of time and place, an old one is as good as a new one, and the number of nodes (and
memory) stays bounded.  By default a returning node *arrives* with empty tables, like a new session
in these studies; alternatively it *recovers* with its last known leaf set.

References
----------
Rhea, Geels, Roscoe and Kubiatowicz, "Handling churn in a DHT", USENIX 2004; Castro, Costa and
Rowstron, "Performance and dependability of structured peer-to-peer overlays", DSN 2004; Stutzbach
and Rejaie, "Understanding churn in peer-to-peer networks", IMC 2006 (lifetimes in file-sharing
networks: nodes that have lived long will probably live longer).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincinv

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct
from scribe_spark.core.errors import InputError
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.pastry.next_hop import distances
from scribe_spark.rounds.event_rows import ARRIVE, FAIL, EventRows, Extent
from scribe_spark.worlds.setting import Setting, event_round

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig

#: The maximal number of events; making an event takes about 100 bytes on the driver.
MOST_EVENTS = 50_000_000


@dataclass(frozen=True)
class Weibull:
    """Weibull-distributed lifetimes in rounds; with shape 1 they are exponential."""

    mean: float
    shape: float = 1.0

    @property
    def scale(self) -> float:
        """The scale of the distribution, in rounds."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def lifetimes(self, uniform: np.ndarray) -> np.ndarray:
        """Return lifetimes of new nodes in rounds from uniform numbers in [0, 1): float64."""
        return self.scale * (-np.log1p(-uniform)) ** (1 / self.shape)

    def remaining(self, uniform: np.ndarray) -> np.ndarray:
        """Return the remaining lifetimes of live nodes in rounds (not whole): float64.

        `uniform` has numbers in [0, 1). In a network with churn in equilibrium, the density of the
        remaining lifetime is P(lifetime > t) / mean (a renewal process). For exponential lifetimes
        it equals that of new nodes.
        """
        return self.scale * gammaincinv(1 / self.shape, uniform) ** (1 / self.shape)


def refuse_many_events(field: str, value: float, expected: float, what: str = "events") -> None:
    """Refuse the value of a field with which a generator is `expected` to make too many events."""
    if expected > MOST_EVENTS:
        remedy = f"makes about {expected:,.0f} {what}; must be at most {MOST_EVENTS:,}"
        raise InputError(field, value, remedy)


def churn(extent: Extent, lifetimes: Weibull, replacement: int, seed: int) -> EventRows:
    """Return the failures of nodes and the events of their replacements, in all rounds.

    Lifetimes are real numbers.  A node fails in the round that contains the end of its lifetime, or
    in the next round if it entered in that round.  Nodes that are alive at the start have a
    remaining lifetime, so that in the first round as many fail as in any other.  A failed node
    returns by the event `replacement`: `ARRIVE` or `RECOVER`.
    """
    expected = 2 * extent.initial * extent.rounds / lifetimes.mean
    refuse_many_events("lifetime", lifetimes.mean, expected)
    rounds, seats, previous = _ends(extent.initial, extent.rounds, lifetimes, seed)
    waiting = extent.nodes - extent.initial
    failing = np.bincount(rounds, minlength=1)
    if failing.max() > waiting:  # a failed node would have to return at once
        remedy = (
            f"leaves {waiting} of {extent.nodes} nodes as replacements, but "
            f"{failing.max()} fail in round {failing.argmax()}; give less, or more nodes"
        )
        raise InputError("initial", extent.initial, remedy)
    failed = _occupants(seats, previous, extent.initial, waiting)
    place = np.arange(len(failed))
    back = extent.initial + place
    back[waiting:] = failed[: max(len(failed) - waiting, 0)]
    fails = np.full(len(failed), FAIL, dtype=np.int8)
    returns = np.where(place < waiting, ARRIVE, replacement).astype(np.int8)
    return EventRows(np.r_[rounds, rounds], np.r_[failed, back], np.r_[fails, returns])


def _ends(places: int, rounds: int, lifetimes: Weibull, seed: int) -> np.ndarray:
    """Return all ends of lifetimes: round, seat, and the row of the previous end in the seat.

    The result is int64, shape (3, E), sorted by round and seat; the row is -1 for the first end. A
    *seat* has one live node at a time: a failed node and its replacement have the same seat. The
    n-th lifetimes of all seats form one random stream; the value of a seat is at the seat's index.
    """
    place = np.arange(places)
    raw = draws.stream(seed, "remaining lifetimes")
    time = lifetimes.remaining(draws.uniform(raw, places))
    at = np.minimum(time, rounds).astype(np.int64)
    previous = np.full(places, -1)
    made: list[np.ndarray] = []
    ends = 0
    for generation in count(1):
        going_on = at < rounds
        place, time, at = place[going_on], time[going_on], at[going_on]
        if not len(place):
            break
        made.append(np.stack([at, place, previous[going_on]]))
        previous = np.arange(ends, ends + len(place))
        ends += len(place)
        drawn = draws.uniform(draws.stream(seed, "lifetimes", generation), places)[place]
        time = time + lifetimes.lifetimes(drawn)
        at = np.maximum(at + 1, np.minimum(time, rounds).astype(np.int64))
    at, place, previous = np.concatenate([np.empty((3, 0), dtype=np.int64), *made], axis=1)
    order = np.lexsort((place, at))
    row = np.empty(ends, dtype=np.int64)
    row[order] = np.arange(ends)
    previous = np.where(previous < 0, -1, row[previous]) if ends else previous
    return np.stack([at[order], place[order], previous[order]])


def _occupants(places: np.ndarray, previous: np.ndarray, initial: int, waiting: int) -> np.ndarray:
    """Return the node that fails at each end of a lifetime: int64, shape (E,).

    The first node of a seat has the seat's number.  Any other node took the seat at the previous
    end there; if that is end number q of all, the node is the q-th waiting node, or the node that
    failed at end q - `waiting`.  Following these links leads to a known node; each pass doubles
    their length.
    """
    link = np.arange(len(places))
    known = np.where(previous < 0, places, initial + previous)
    came_back = previous >= waiting
    link[came_back] = previous[came_back] - waiting
    while True:
        further = link[link]
        if (further == link).all():
            return known[link]
        link = further


# --- one-time events


def share_of(nodes: int, share: float) -> int:
    """Return a share of a number of nodes, rounded down, computed in exact decimals."""
    count = int(nodes * Fraction(str(share)))
    if count < 1:
        raise InputError("share", share, f"is less than one node of {nodes}; give more")
    return count


def flash_crowd(config: WorldConfig, extent: Extent) -> EventRows:
    """Let all nodes that are not alive at the start arrive in the round of the event."""
    late = np.arange(extent.initial, extent.nodes)
    return EventRows.at_once(event_round(config), late, ARRIVE)


def mass_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let a share of the live nodes, drawn uniformly, fail in the round of the event."""
    at = event_round(config)
    live = setting.lifetimes.untouched(at)
    size = share_of(len(live), config.world.share)
    failing = draws.distinct_below(len(live), size, config.seed, "mass failure", at)
    return EventRows.at_once(at, live[failing], FAIL)


def adjacent_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let a random live node and its successors on the ring fail.

    If l/2 nodes fail together, one side of their neighbours' leaf sets is dead, and the ring may
    stay broken there.  If l/2 - 1 fail, it can be repaired.
    """
    at, count = event_round(config), _adjacent(config)
    live = setting.lifetimes.untouched(at)
    _refuse_none_left("adjacent", count, len(live))
    raw = draws.stream(config.seed, "adjacent failure", at)
    first = live[int(draws.whole_numbers(raw, len(live), 1)[0])]
    on_ring = setting.ring.node[np.isin(setting.ring.node, live)]
    begin = int(np.flatnonzero(on_ring == first)[0])
    return EventRows.at_once(at, np.roll(on_ring, -begin)[:count], FAIL)


def check_adjacent(config: WorldConfig, extent: Extent) -> None:
    """Refuse, for adjacent failures, a round that does not exist, and failures of all nodes."""
    event_round(config)
    _refuse_none_left("adjacent", _adjacent(config), extent.initial)


def _adjacent(config: WorldConfig) -> int:
    return config.world.adjacent or config.overlay.leaf_set // 2


def root_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let the live nodes nearest to the groupIds of the largest groups fail.

    `holders` is the number of failing nodes for each groupId: 1 is the root; with the number of
    replicas, all copies of the group's state are lost.
    """
    at, holders = event_round(config), config.world.holders
    largest = setting.known_groups.largest(extent.initial)[: config.world.roots]
    keys, ring = setting.keys(config).take(largest), setting.ring
    live = np.flatnonzero(np.isin(ring.node, setting.lifetimes.untouched(at)))
    _refuse_none_left("holders", holders, len(live))
    return EventRows.at_once(at, distinct(ring.node[_nearest(ring, live, keys, holders)]), FAIL)


def check_roots(config: WorldConfig, extent: Extent) -> None:
    """Refuse, for failures of roots, a round that does not exist, and failures of all nodes."""
    event_round(config)
    _refuse_none_left("holders", config.world.holders, extent.initial)


def _nearest(ring: Ring, live: np.ndarray, keys: Keys, count: int) -> np.ndarray:
    """Return the positions of the `count` live nodes nearest to each key: shape (m, count)."""
    after = np.empty(len(keys), dtype=np.int64)
    for place in range(len(keys)):  # there are few keys: one per group whose root fails
        below = (ring.hi[live] < keys.hi[place]) | (
            (ring.hi[live] == keys.hi[place]) & (ring.lo[live] < keys.lo[place])
        )
        after[place] = np.count_nonzero(below)
    width = min(2 * count, len(live))
    columns = (after[:, None] - count + np.arange(width)) % len(live)
    far = distances(ring, keys, live[columns])
    order = np.lexsort((far.position, far.lo, far.hi), axis=1)[:, :count]
    return np.take_along_axis(far.position, order, axis=1)


def _refuse_none_left(field: str, failing: int, live: int) -> None:
    if failing >= live:
        raise InputError(field, failing, f"leaves none of {live} nodes alive; give less")
