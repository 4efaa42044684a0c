"""Generators of one-time node events: mass failure, adjacent nodes, roots, flash crowd.

Failing nodes are drawn among the nodes that are alive before the round of the event
(`lengths.event_round`) and have no event in it by an earlier generator.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import distinct
from scribe_spark.engine.ring import Keys, Ring
from scribe_spark.errors import InputError
from scribe_spark.pastry.closeness import distances
from scribe_spark.worlds.lengths import event_round
from scribe_spark.worlds.rows import ARRIVE, FAIL, EventRows, Extent
from scribe_spark.worlds.setting import Setting

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig


def share_of(nodes: int, share: float) -> int:
    """Return a share of a number of nodes, rounded down, computed in exact decimals."""
    count = int(nodes * Fraction(str(share)))
    if count < 1:
        raise InputError("share", share, f"is less than one node of {nodes}; give more")
    return count


def flash_crowd(config: WorldConfig, extent: Extent) -> EventRows:
    """Let all nodes that are not alive at the start arrive.

    These are the nodes with the largest numbers; that is no restriction, because nodeIds and
    routers are drawn independently for each node.
    """
    late = np.arange(extent.initial, extent.nodes)
    return EventRows.at_once(event_round(config), late, ARRIVE)


def mass_failure(config: WorldConfig, extent: Extent, setting: Setting) -> EventRows:
    """Let a share of the live nodes, drawn uniformly, fail."""
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
    """Refuse a round that does not exist, and a number of nodes that leaves no live node."""
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
    """Refuse a round that does not exist, and a number of nodes that leaves no live node."""
    event_round(config)
    _refuse_none_left("holders", config.world.holders, extent.initial)


def _nearest(ring: Ring, live: np.ndarray, keys: Keys, count: int) -> np.ndarray:
    """Return the live nodes nearest to each key: positions, shape (m, count), nearest first."""
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
