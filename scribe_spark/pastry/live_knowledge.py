"""The leaf sets and routing tables of live nodes without dead nodes, as `Knowledge`.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import offsets_of
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.leaf_set import LeafSets
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.pastry.states import IsAlive, States, live_only
from scribe_spark.rounds.lives import KnowsLives, is_node
from scribe_spark.underlay.protocol import Kernel


def live_knowledge(states: States, lives: KnowsLives | None, kernel: Kernel) -> Knowledge:
    """Return the tables of the live nodes of a bucket without dead leaves and entries.

    Without `lives`, all nodes are alive.
    """
    is_alive = is_node if lives is None else lives.is_alive
    index = np.flatnonzero(is_alive(states.own))
    known, cells = states.known, states.cells[index]
    return Knowledge(
        Ring(known.hi, known.lo, known.node, kernel.ids(known.router)),
        states.own[index],
        _leaf_sets(states, is_alive, index),
        RoutingTables.of_dense(live_only(is_alive, cells)),
    )


def _leaf_sets(states: States, is_alive: IsAlive, index: np.ndarray) -> LeafSets:
    size, half, live = len(states.known), states.half, states.own[index]
    # 1. sort live leaves clockwise, from the farthest smaller to the farthest larger one
    leaves = states.leaves[index]
    place = np.where(is_alive(leaves), (leaves - live[:, None]) % size, 0)
    reach = place[:, :half].max(axis=1, initial=0)[:, None]
    order = np.where(place > reach, place, np.where(place > 0, place + size, 3 * size))
    order.sort(axis=1)
    order[:, 1:][order[:, 1:] == order[:, :-1]] = 3 * size  # a leaf on both sides
    there = order < 3 * size
    lengths = there.sum(axis=1)
    # 2. a leaf set that covered the ring with its dead leaves still does, and so does an empty one
    covers = states.covers_ring(index) | (lengths == 0)
    return LeafSets(
        offsets_of(lengths),
        ((live[:, None] + order) % size)[there],
        (order < size).sum(axis=1),
        covers,
    )
