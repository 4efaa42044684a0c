"""Randomised routing: another way to the same root.

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
from scribe_spark.pastry.closeness import Keys, distances
from scribe_spark.pastry.next_hop import Met, first_alive, hop
from scribe_spark.pastry.states import IsAlive, States


def randomised_hop(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys, seed: int, *drawn_by: np.ndarray
) -> tuple[np.ndarray, Met]:
    """Return where messages go next if each node draws among all that bring a message on.

    Those are the nodes in leaf set and routing table that share a prefix with the key at least as
    long as the node's own and are numerically closer to the key.  The node takes the first of them
    that is alive.  Where there is none, it is the root, or the root is a leaf with a shorter
    prefix: the usual next hop.

    Parameters
    ----------
    states, is_alive, at, keys
        As of :func:`~scribe_spark.pastry.next_hop.hop`.
    *drawn_by : ndarray of int64, shape (m,)
        Key the draws, with the numbers of node and candidate.

    Returns
    -------
    onward : ndarray of int64, shape (m,)
    met : Met
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
    """Return the nodes that each message may be brought on to: message, position."""
    ring, b = states.known, states.b
    leaves = states.leaves[at - states.first]
    cells = states.cells[at - states.first].reshape(len(at), -1)
    known = np.concatenate([leaves, cells], axis=1).astype(np.int64)
    known.sort(axis=1)
    known[:, 1:][known[:, 1:] == known[:, :-1]] = -1
    message, column = np.nonzero(known >= 0)
    candidate, here, keys = known[message, column], at[message], keys.take(message)
    theirs = ids.shared_digits_np(ring.hi[candidate], ring.lo[candidate], keys.hi, keys.lo, b)
    mine = ids.shared_digits_np(ring.hi[here], ring.lo[here], keys.hi, keys.lo, b)
    away = distances(ring, keys, np.stack([candidate, here], axis=1))
    closer = away.column(np.zeros(len(here), dtype=np.int64)).closer_than(
        away.column(np.ones(len(here), dtype=np.int64))
    )[:, 0]
    fits = closer & (theirs >= mine)
    return message[fits], candidate[fits]
