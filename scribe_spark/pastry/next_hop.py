"""Pastry's next hop: where a message at a node goes, around dead nodes.

A message to a dead node is lost; its sender knows at once, and takes the next candidate of Pastry's
rule.  The tables are only read: dead entries are dropped when all messages of the round have ended.

References
----------
JSAC 2002, Section II; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.closeness import Distances, Keys, clockwise, distances, not_above
from scribe_spark.pastry.leaf_set import covers_ring
from scribe_spark.pastry.states import NONE, IsAlive, States

_MESSAGES = 2**13  # messages that make a hop together


@dataclass(frozen=True)
class Met:
    """Dead nodes that messages met in one hop, each once: message, dead node."""

    message: np.ndarray
    dead: np.ndarray


def hop(states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys) -> tuple[np.ndarray, Met]:
    """Return where messages go next, and the dead nodes that they met.

    Parameters
    ----------
    states : States
        Of an interval of the ring.
    at : ndarray of int64, shape (m,)
        Positions of nodes of it.

    Returns
    -------
    onward : ndarray of int64, shape (m,)
        The node itself delivers; :data:`NONE`: no candidate is left.
    met : Met
    """
    size, onward, met = len(states.known), [], []
    for start in range(0, max(1, len(at)), _MESSAGES):
        some = np.arange(start, min(start + _MESSAGES, len(at)))
        next_, message, dead = _hop_of_some(states, is_alive, at[some], keys.take(some))
        onward.append(next_)
        met.append((start + message) * size + dead)
    message, dead = np.divmod(distinct(np.concatenate(met)), size)
    return np.concatenate(onward), Met(message, dead)


def _hop_of_some(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    onward = np.full(len(at), NONE, dtype=np.int64)
    # 1. key within the span of the leaf set: leaf set and the node itself
    inside = _in_span(states, at, keys)
    near = np.flatnonzero(inside)
    leaves = states.leaves[at[near] - states.first]
    around = np.concatenate([leaves, at[near, None].astype(np.int32)], axis=1)
    onward[near], message, dead = _closest_alive(
        states.known, is_alive, keys.take(near), around, around >= 0
    )
    met = [(near[message], dead)]
    # 2. else the routing table's cell for the key
    far = np.flatnonzero(~inside)
    entry, shared = table_entry(states, at[far], keys.take(far))
    usable = is_alive(entry)
    onward[far[usable]] = entry[usable]
    lost = (entry >= 0) & ~usable
    met.append((far[lost], entry[lost]))
    # 3. else whoever shares as long a prefix with the key and is closer to it
    rare, shared = far[~usable], shared[~usable]
    if len(rare):
        onward[rare], message, dead = _rare_case(
            states, is_alive, at[rare], keys.take(rare), shared
        )
        met.append((rare[message], dead))
    message, dead = (np.concatenate(part) for part in zip(*met, strict=True))
    return onward, message, dead.astype(np.int64)


def _in_span(states: States, at: np.ndarray, keys: Keys) -> np.ndarray:
    """Return whether keys lie on the arc from the farthest smaller to the farthest larger leaf."""
    known, (larger_reach, smaller_reach) = states.known, states.reach(at - states.first)
    node, size = known.take(at), len(known)
    larger = known.take((at + larger_reach) % size)
    smaller = known.take((at - smaller_reach) % size)
    after = clockwise(node.hi, node.lo, keys.hi, keys.lo)
    before = clockwise(keys.hi, keys.lo, node.hi, node.lo)
    inside = not_above(after, clockwise(node.hi, node.lo, larger.hi, larger.lo))
    inside |= not_above(before, clockwise(smaller.hi, smaller.lo, node.hi, node.lo))
    return inside | covers_ring(larger_reach, smaller_reach, size)


def table_entry(states: States, at: np.ndarray, keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    """The entry of each node's cell for a key, or :data:`NONE`; and the digits that they share."""
    known, b, rows = states.known, states.b, states.cells.shape[1]
    shared = ids.shared_digits_np(known.hi[at], known.lo[at], keys.hi, keys.lo, b)
    row = np.minimum(shared, rows - 1)
    column = ids.digit_at_np(keys.hi, keys.lo, row, b)
    entry = states.cells[at - states.first, row, column].astype(np.int64)
    return np.where(shared < rows, entry, NONE), shared


def _rare_case(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys, shared: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The closest live node that fits of whom nodes know; and dead ones tried before it.

    Returns
    -------
    onward : ndarray of int64, shape (m,)
        :data:`NONE` if there is none.
    message, dead : ndarray of int64
        A dead candidate may be there twice.
    """
    known, m = states.known, len(at)
    # 1. who shares as long a prefix: of the table the rows from that length on
    leaves, tables = states.leaves[at - states.first], states.cells[at - states.first]
    row, column = np.nonzero(leaves >= 0)
    leaf = leaves[row, column].astype(np.int64)
    digits = ids.shared_digits_np(
        known.hi[leaf], known.lo[leaf], keys.hi[row], keys.lo[row], states.b
    )
    fits = digits >= shared[row]
    deep = np.arange(tables.shape[1]) >= shared[:, None]
    cell = np.flatnonzero((tables >= 0) & deep[:, :, None])
    message = np.r_[row[fits], cell // tables[0].size]
    candidate = np.r_[leaf[fits], tables.ravel()[cell].astype(np.int64)]
    # 2. who of them is closer to the key, the closest first
    own = distances(known, keys, at[:, None])
    distance = distances(known, keys.take(message), candidate[:, None])
    closer = distance.closer_than(Distances(own.hi[message], own.lo[message], at[message, None]))
    closer = np.flatnonzero(closer[:, 0])
    hi, lo = distance.hi[closer, 0], distance.lo[closer, 0]
    message, candidate = message[closer], candidate[closer]
    order = np.lexsort((candidate, lo, hi, message))
    message, candidate = message[order], candidate[order]
    # 3. the first of them that is alive
    return first_alive(is_alive, message, candidate, m)


def first_alive(
    is_alive: IsAlive, message: np.ndarray, candidate: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first live candidate of each message, and the dead ones tried before it.

    Parameters
    ----------
    message, candidate : ndarray of int64
        Of `m` messages, in the order in which each tries its candidates.

    Returns
    -------
    onward : ndarray of int64, shape (m,)
        :data:`NONE` if there is none.
    message, dead : ndarray of int64
    """
    alive = is_alive(candidate)
    usable = np.flatnonzero(alive)[::-1]
    first = np.full(m, len(candidate))
    first[message[usable]] = usable
    onward = np.r_[candidate, NONE][first]
    tried = ~alive & (np.arange(len(candidate)) < first[message])
    return onward, message[tried], candidate[tried]


def _closest_alive(
    known: Ring, is_alive: IsAlive, keys: Keys, candidates: np.ndarray, among: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The closest live candidate, :data:`NONE` if none; and dead ones tried before it.

    Returns
    -------
    onward : ndarray of int64, shape (m,)
    message, dead : ndarray of int64
        A dead candidate may be there twice.
    """
    distance = distances(known, keys, candidates)
    alive = is_alive(candidates)
    best = distance.closest(among & alive)
    onward = np.where(best >= 0, candidates[np.arange(len(best)), best], NONE)
    tried = distance.closer_than(distance.column(np.maximum(best, 0))) | (best < 0)[:, None]
    message, column = np.nonzero(tried & among & ~alive)
    return onward, message, candidates[message, column]
