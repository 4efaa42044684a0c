"""Randomised routing: different routes to the same root.

References
----------
JSAC 2002, Section IV.E: "it uses Pastry to route a JOIN message towards the group identifier with
randomization".
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct
from scribe_spark.engine.ring import Keys
from scribe_spark.pastry.closeness import distances
from scribe_spark.pastry.next_hop import Met, first_alive, hop
from scribe_spark.pastry.states import IsAlive, States


def randomised_hop(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys, seed: int, *drawn_by: np.ndarray
) -> tuple[np.ndarray, Met]:
    """Return next hops that each node draws among all nodes that bring a message closer.

    The candidates are the nodes in the leaf set and routing table that share at least as long a
    prefix with the key as the node itself, and are numerically closer to the key.  The next hop is
    the first live candidate in random order.  If there is none, the usual next hop is used; then
    the node is the root, or the root is a leaf with a shorter prefix.  The columns `drawn_by`, and
    the numbers of node and candidate, are the keys of the draws.
    """
    number, size = states.known.node, len(states.known)
    message, candidate = _candidates(states, at, keys)
    here, there = number[at[message]], number[candidate]
    by = [column[message] for column in drawn_by]
    draw = draws.bits_np(seed, "randomised hop", *by, here, there).view(np.int64)
    order = np.lexsort((there, draw, message))
    onward, message, dead = first_alive(is_alive, message[order], candidate[order], len(at))
    rest = np.flatnonzero(onward < 0)
    onward[rest], met = hop(states, is_alive, at[rest], keys.take(rest))
    pairs = np.r_[message * size + dead, rest[met.message] * size + met.dead]
    return onward, Met(*np.divmod(distinct(pairs), size))


def _candidates(states: States, at: np.ndarray, keys: Keys) -> tuple[np.ndarray, np.ndarray]:
    """Return the candidates for the next hop of each message: index of the message, position."""
    ring, b = states.known, states.b
    leaves = states.leaves[at - states.first]
    cells = states.cells[at - states.first].reshape(len(at), -1)
    known = np.concatenate([leaves, cells], axis=1).astype(np.int64)
    known.sort(axis=1)
    known[:, 1:][known[:, 1:] == known[:, :-1]] = -1
    message, column = np.nonzero(known >= 0)
    candidate, here, keys = known[message, column], at[message], keys.take(message)
    other = ids.shared_digits_np(ring.hi[candidate], ring.lo[candidate], keys.hi, keys.lo, b)
    own = ids.shared_digits_np(ring.hi[here], ring.lo[here], keys.hi, keys.lo, b)
    away = distances(ring, keys, np.stack([candidate, here], axis=1))
    closer = away.column(np.zeros(len(here), dtype=np.int64)).closer_than(
        away.column(np.ones(len(here), dtype=np.int64))
    )[:, 0]
    fits = closer & (other >= own)
    return message[fits], candidate[fits]
