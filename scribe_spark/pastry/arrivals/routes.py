"""Routes of join messages in an overlay that one task has: Pastry's rule as numpy.

The same rule as :mod:`scribe_spark.pastry.next_hop`, read from what nodes know and not from its
layout: to lay out all nodes in every wave costs more than the routes of a small wave.

References
----------
JSAC 2002, Section II (routing).
"""

from __future__ import annotations

import numpy as np

from scribe_spark import ids
from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.pastry.ring import Ring

__all__ = ["join_routes"]


def join_routes(states: States, contact: np.ndarray, arriving: np.ndarray) -> np.ndarray:
    """The nodes that join messages are at, one after the other.

    Parameters
    ----------
    states : States
        Of all known nodes: ``own`` is every position.
    contact : ndarray of int64, shape (w,)
        Where each join message begins.
    arriving : ndarray of int64, shape (w,)
        The nodes whose nodeIds are the keys; nobody knows them yet.

    Returns
    -------
    ndarray of int64, shape (longest route, w)
        :data:`NONE` after the end of a route.
    """
    at, hops = contact.copy(), [contact.copy()]
    moving = np.arange(len(contact))
    while len(moving):
        onward = _next_hops(states, at[moving], arriving[moving])
        moving, onward = moving[onward != at[moving]], onward[onward != at[moving]]
        if not len(moving):
            break
        at[moving] = onward
        hops.append(np.full(len(contact), NONE, dtype=np.int64))
        hops[-1][moving] = onward
    return np.stack(hops)


def _next_hops(states: States, at: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Where messages go next; a node itself where it is the root of the key."""
    known, b = states.known, states.b
    # 1. the leaf set and the node itself, where the key is within its span
    around = np.concatenate([states.leaves[at], at[:, None]], axis=1)
    onward = _closest(known, key, around)
    # 2. else the routing table
    beyond = np.flatnonzero(~_in_span(states, at, key))
    node, target = known.take(at[beyond]), known.take(key[beyond])
    shared = ids.shared_digits_np(node.hi, node.lo, target.hi, target.lo, b)
    column = ids.digit_at_np(target.hi, target.lo, shared, b)
    entry = states.cells[at[beyond], shared, column]
    onward[beyond] = entry
    # 3. else who shares a prefix at least as long and is closer
    rare = beyond[entry < 0]
    if len(rare):
        onward[rare] = _closest_of_all(states, at[rare], key[rare], around[rare])
    return onward


def _in_span(states: States, at: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Whether each key lies between the farthest smaller and the farthest larger leaf."""
    larger, smaller = states.reach(at)
    inside = (key - at + smaller) % len(states.known) <= larger + smaller
    return inside | states.covers_ring(at)


def _closest_of_all(
    states: States, at: np.ndarray, key: np.ndarray, around: np.ndarray
) -> np.ndarray:
    """The numerically closest known node that shares no fewer digits with the key than the node."""
    known, b = states.known, states.b
    everybody = np.concatenate([around, states.cells[at].reshape(len(at), -1)], axis=1)
    node, target = known.take(at), known.take(key)
    least = ids.shared_digits_np(node.hi, node.lo, target.hi, target.lo, b)
    row, column = np.nonzero(everybody >= 0)
    one, of = known.take(everybody[row, column]), target.take(row)
    short = ids.shared_digits_np(one.hi, one.lo, of.hi, of.lo, b) < least[row]
    everybody[row[short], column[short]] = NONE
    return _closest(known, key, everybody)


def _closest(known: Ring, key: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Of each row of candidates (or `NONE`) the numerically closest to a key, none of them."""
    size = len(known)
    place = (candidates - key[:, None]) % size
    there = candidates >= 0
    after = (key + np.where(there, place, size).min(axis=1)) % size
    before = (key + np.where(there, place, -1).max(axis=1)) % size
    a, c, k = known.take(before), known.take(after), known.take(key)
    middle = ids.midpoint_np(a.hi, a.lo, c.hi, c.lo)
    # the last key that goes to the one before the key: is the key after it, clockwise?
    passed = ids.lt_np(*_minus(*middle, a.hi, a.lo), *_minus(k.hi, k.lo, a.hi, a.lo))
    return np.where(passed & (before != after), after, before)


def _minus(
    a_hi: np.ndarray, a_lo: np.ndarray, b_hi: np.ndarray, b_lo: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """a - b modulo 2**128 (uint64 halves)."""
    return a_hi - b_hi - (a_lo < b_lo).astype(np.uint64), a_lo - b_lo
