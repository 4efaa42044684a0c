"""What is measured of an overlay after a round.

References
----------
JSAC 2002, Section II; docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.core import u128
from scribe_spark.pastry.living.leaf_sets import ring_leaves, same_leaves
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.round import RoundResult
from scribe_spark.pastry.living.tally import MESSAGE_KINDS
from scribe_spark.pastry.ring import Ring
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.underlay.protocol import Kernel

__all__ = [
    "ROUND_MEASURES",
    "cell_delays",
    "cells_with_nodes",
    "message_measure",
    "right_leaf_sets",
    "round_measures",
]

#: More hops than any lookup takes, of which ``hops.N`` is the share.
_MOST_HOPS = 64

#: Kinds of messages that have another name in measures: ``JOIN`` is Scribe's, and case alone tells
#: nothing apart where Spark reads names.
_NAMES = {"join": "join message", "lost join": "lost join message"}


def message_measure(kind: str) -> str:
    """Return the name of the measure of a kind of messages.

    Examples
    --------
    >>> message_measure("lost repair"), message_measure("join"), message_measure("JOIN")
    ('messages.lost repair', 'messages.join message', 'messages.JOIN')
    """
    return f"messages.{_NAMES.get(kind, kind)}"


#: Every measure of a round -> its unit; see :func:`round_measures`.
ROUND_MEASURES: dict[str, str] = {
    "nodes.live": "nodes",
    "leaf_sets.right": "share",
    "leaf_sets.changed": "nodes",
    "cells.filled": "per live node",
    "cells.dead": "per live node",
    "cells.missing": "per live node",
    "cells.delay": "ms",
    "cells.nearest_delay": "ms",
    "lookups": "lookups",
    "lookups.delivered": "share",
    "lookups.right": "share",
    "lookups.hops": "hops",
    "lookups.lost": "per lookup",
    **{f"hops.{hops}": "share" for hops in range(_MOST_HOPS)},
    **{
        message_measure(f"{lost}{kind}"): "messages"
        for kind in MESSAGE_KINDS
        for lost in ("", "lost ")
    },
}

#: Nodes whose cells are compared with the nearest nodes, drawn anew in each round.
_COMPARED = 50


def round_measures(
    state: OverlayState, result: RoundResult, seed: int, kernel: Kernel
) -> dict[str, float]:
    """Measure -> value, after a round.

    ``nodes.live``; ``leaf_sets.right`` (share of the live nodes whose leaf set is the ring's);
    ``leaf_sets.changed`` (nodes); ``cells.filled``, ``cells.dead`` (entries that are dead),
    ``cells.missing`` (empty, though there is a live node for the cell), all per live node;
    ``cells.delay`` and ``cells.nearest_delay``, see :func:`cell_delays`; ``lookups``, and of them
    the shares ``lookups.delivered`` and ``lookups.right``, ``lookups.hops`` (mean of the delivered)
    and ``lookups.lost`` (lost transmissions per lookup); ``hops.N``, the share of the delivered
    that took N hops; ``messages.KIND`` and ``messages.lost KIND``.
    """
    live = state.live()
    entries = state.states.cells[live]
    filled = int((entries >= 0).sum())
    alive = int(state.is_alive(entries).sum())
    possible = cells_with_nodes(state.states.known.take(live), state.states.b)
    measures = {
        "nodes.live": float(len(live)),
        "leaf_sets.right": right_leaf_sets(state) / len(live),
        "leaf_sets.changed": float(len(result.new_leafs)),
        "cells.filled": filled / len(live),
        "cells.dead": (filled - alive) / len(live),
        "cells.missing": (possible - alive) / len(live),
    }
    drawn = draws.stream(seed, "compared cells", result.number).random_raw(_COMPARED)
    some = live[np.unique(drawn % np.uint64(len(live))).astype(np.int64)]
    known_delay, nearest = cell_delays(state, some, kernel)
    if len(nearest):
        measures["cells.delay"] = known_delay.sum() / (len(nearest) * MICROSECONDS)
        measures["cells.nearest_delay"] = nearest.sum() / (len(nearest) * MICROSECONDS)
    found = result.lookups
    count = len(found.hops)
    if count:
        delivered = int(found.delivered.sum())
        measures |= {
            "lookups": float(count),
            "lookups.delivered": delivered / count,
            "lookups.right": int(found.right.sum()) / count,
            "lookups.lost": int(found.lost.sum()) / count,
        }
        if delivered:
            hops = np.bincount(found.hops[found.delivered])
            measures["lookups.hops"] = int((hops * np.arange(len(hops))).sum()) / delivered
            measures |= {f"hops.{n}": int(of) / delivered for n, of in enumerate(hops)}
    return measures | {message_measure(kind): float(n) for kind, n in result.messages.items()}


def right_leaf_sets(state: OverlayState) -> int:
    """How many live nodes have exactly the leaf set of the ring of live nodes."""
    live, states = state.live(), state.states
    return int(same_leaves(states.leaves[live], ring_leaves(live, states.half)).sum())


def cell_delays(
    state: OverlayState, nodes: np.ndarray, kernel: Kernel
) -> tuple[np.ndarray, np.ndarray]:
    """Of the live entries of some nodes: how far each is, and how far the nearest live node is.

    Parameters
    ----------
    nodes : ndarray of int64
        Positions of live nodes.

    Returns
    -------
    known, nearest : ndarray of int64
        Delay in microseconds from the node's router to that of its entry, and to the nearest router
        of a live node that could be the entry.
    """
    states, live = state.states, state.live()
    ring, b = states.known.take(live), states.b
    known, nearest = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for node in nodes:
        own = states.known.take(np.full(len(live), node))
        row = u128.shared_digits_np(ring.hi, ring.lo, own.hi, own.lo, b)
        inside = row < states.cells.shape[1]  # not the node itself
        row, others = row[inside], ring.take(np.flatnonzero(inside))
        column = u128.digit_at_np(others.hi, others.lo, row, b)
        # those of a cell are neighbours in the order of nodeIds
        begins = np.flatnonzero(np.r_[True, (np.diff(row) != 0) | (np.diff(column) != 0)])
        if not len(others):
            continue
        delay = kernel.delays(own.router[inside], others.router)
        entry = states.cells[node, row[begins], column[begins]].astype(np.int64)
        usable = state.is_alive(entry)
        nearest.append(np.minimum.reduceat(delay, begins)[usable])
        router = states.known.router[entry[usable]]
        known.append(kernel.delays(np.full(len(router), own.router[0]), router))
    return np.concatenate(known), np.concatenate(nearest)


def cells_with_nodes(live: Ring, b: int) -> int:
    """Cells of all routing tables together for which there is a live node.

    Of the nodes that share the first `row` digits, each has in that row a cell for each other digit
    that some of them have next.

    Parameters
    ----------
    live : Ring
        The live nodes, in the order of their nodeIds.
    """
    if len(live) < 2:
        return 0
    shared = u128.shared_digits_np(live.hi[1:], live.lo[1:], live.hi[:-1], live.lo[:-1], b)
    cells = 0
    for row in range(int(shared.max()) + 1):
        # classes of nodes that share `row` digits; in each, the different next digits
        begins = np.r_[0, np.flatnonzero(shared < row) + 1]
        members = np.diff(np.r_[begins, len(live)])
        digits = np.add.reduceat(np.r_[1, shared <= row], begins)
        cells += int((members * (digits - 1)).sum())
    return cells
