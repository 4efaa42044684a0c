"""Generators of one-time node events: mass failure, adjacent nodes, roots, flash crowd.

Churn is in :mod:`.churn`, group events are in :mod:`.group_events` and other modules, and
:mod:`.registry` lists all generators.  Failing nodes are drawn among the nodes that are alive
before the round and have no event in it by an earlier generator.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark import draws
from scribe_spark.core.arrays import distinct
from scribe_spark.engine.ring import Ring
from scribe_spark.errors import InputError
from scribe_spark.pastry.closeness import Keys, distances
from scribe_spark.worlds.lifetimes import Lifetimes
from scribe_spark.worlds.rows import ARRIVE, FAIL, EventRows, Extent


def share_of(nodes: int, share: float) -> int:
    """Return a share of a number of nodes, rounded down, computed in exact decimals.

    Raises
    ------
    InputError
        The share is less than one node.
    """
    count = int(nodes * Fraction(str(share)))
    if count < 1:
        raise InputError("share", share, f"is less than one node of {nodes}; give more")
    return count


def mass_failure(
    extent: Extent, at: int, share: float, seed: int, before: EventRows | None = None
) -> EventRows:
    """Let a share of the live nodes, drawn uniformly, fail in round `at`.

    Parameters
    ----------
    before : EventRows, optional
        The events of earlier generators.

    Raises
    ------
    InputError
        The round does not exist, or the share is less than one node.
    """
    refuse_no_round(at, extent)
    live = _untouched(before, extent, at)
    size = share_of(len(live), share)
    failing = draws.distinct_below(len(live), size, seed, "mass failure", at)
    return EventRows.at_once(at, live[failing], FAIL)


def adjacent_failure(
    extent: Extent,
    at: int,
    count: int,
    nodes: DataFrame | None,
    seed: int,
    before: EventRows | None = None,
) -> EventRows:
    """Let a random live node and its successors on the ring fail in round `at`.

    If l/2 nodes fail together, one side of their neighbours' leaf sets is dead, and the ring may
    stay broken there.  If l/2 - 1 fail, it can be repaired.

    Parameters
    ----------
    count : int
        The number of failing nodes, in clockwise order around the ring.
    nodes : DataFrame
        `schemas.NODES`.
    before : EventRows, optional
        The events of earlier generators.

    Raises
    ------
    InputError
        The round does not exist, or no node would stay alive.
    """
    refuse_no_round(at, extent)
    live = _untouched(before, extent, at)
    refuse_none_left("adjacent", count, len(live))
    raw = draws.stream(seed, "adjacent failure", at)
    first = live[int(draws.whole_numbers(raw, len(live), 1)[0])]
    assert nodes is not None
    ring = node_ring(nodes)
    on_ring = ring.node[np.isin(ring.node, live)]
    begin = int(np.flatnonzero(on_ring == first)[0])
    return EventRows.at_once(at, np.roll(on_ring, -begin)[:count], FAIL)


def root_failure(
    extent: Extent,
    at: int,
    keys: Keys,
    holders: int,
    nodes: DataFrame,
    before: EventRows | None = None,
) -> EventRows:
    """Let the live nodes nearest to some groupIds fail in round `at`.

    Parameters
    ----------
    keys : Keys
        The groupIds.
    holders : int
        The number of failing nodes for each groupId: 1 is the root; with the number of replicas,
        all copies of the group's state are lost.
    nodes : DataFrame
        `schemas.NODES`.
    before : EventRows, optional
        The events of earlier generators.

    Raises
    ------
    InputError
        The round does not exist, or no node would stay alive.
    """
    refuse_no_round(at, extent)
    ring = node_ring(nodes)
    live = np.flatnonzero(np.isin(ring.node, _untouched(before, extent, at)))
    refuse_none_left("holders", holders, len(live))
    return EventRows.at_once(at, distinct(ring.node[_nearest(ring, live, keys, holders)]), FAIL)


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


def node_ring(nodes: DataFrame) -> Ring:
    """Return nodes (`schemas.NODES`) as a ring on the driver, sorted by nodeId."""
    rows = nodes.select("id_hi", "id_lo", "node", "router").toArrow()
    hi, lo, node, router = (rows.column(name).to_numpy() for name in rows.column_names)
    return Ring(hi.view(np.uint64), lo.view(np.uint64), node, router).in_order()


def flash_crowd(extent: Extent, at: int) -> EventRows:
    """Let all nodes that are not alive at the start arrive in round `at`.

    These are the nodes with the largest numbers; that is no restriction, because nodeIds and
    routers are drawn independently for each node.

    Raises
    ------
    InputError
        The round does not exist.
    """
    refuse_no_round(at, extent)
    return EventRows.at_once(at, np.arange(extent.initial, extent.nodes), ARRIVE)


def _untouched(before: EventRows | None, extent: Extent, at: int) -> np.ndarray:
    """Return the nodes that are alive before round `at` and have no event in it, ascending."""
    return Lifetimes(EventRows.none() if before is None else before, extent).untouched(at)


def refuse_none_left(field: str, failing: int, live: int) -> None:
    """Refuse a number of failing nodes that leaves no live node.

    Raises
    ------
    InputError
    """
    if failing >= live:
        raise InputError(field, failing, f"leaves none of {live} nodes alive; give less")


def refuse_no_round(at: int, extent: Extent) -> None:
    """Refuse an `event_round` that does not exist.

    Raises
    ------
    InputError
    """
    if at >= extent.rounds:
        raise InputError("event_round", at, f"is not a round; rounds are 0 to {extent.rounds - 1}")
