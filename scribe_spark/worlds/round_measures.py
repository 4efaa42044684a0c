"""Measures of an overlay after a round (JSAC 2002, Section II; docs/rules.md, "Measures, by
round").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import draws, u128
from scribe_spark.core.arrays import index_sorted, whole_numbers
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine import Columns, facts, packing
from scribe_spark.pastry.round import NEW_LEAFS, LookupResults, RoundResult
from scribe_spark.pastry.states import (
    MESSAGE_KINDS,
    NONE,
    IsAlive,
    Nodes,
    SilentNodes,
    States,
    ring_leaves,
    same_leaves,
)
from scribe_spark.underlay.protocol import Kernel

#: The maximal N in the measures ``hops.N``, more than any lookup takes.
_MOST_HOPS = 64

#: Kinds of messages with other names in measures: ``JOIN`` is a message of Scribe, and Spark
#: ignores case in names.
_NAMES = {"join": "join message", "lost join": "lost join message"}


def message_measure(kind: str) -> str:
    """Return the name of the measure that counts a kind of messages.

    Examples
    --------
    >>> message_measure("lost repair"), message_measure("join"), message_measure("JOIN")
    ('messages.lost repair', 'messages.join message', 'messages.JOIN')
    """
    return f"messages.{_NAMES.get(kind, kind)}"


#: All measures of a round with their units; see :func:`round_measures`.
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

#: The number of nodes, drawn in each round, whose cells are compared with the nearest nodes.
_COMPARED = 50

_NODES = 2**14  # the number of nodes whose tables are read in one step

#: The table of a round's sums, with one row per bucket; see `MeasureNodes`.
MEASURED = "measured"


@dataclass(frozen=True)
class MeasureNodes(SilentNodes):
    """Sum properties of the tables of a bucket's live nodes: the table :data:`MEASURED`.

    ``right``: leaf sets that are correct for the ring.  ``filled``, ``alive``: table entries, and
    those that are live nodes.  ``possible``: cells for which a live node exists.  ``compared``:
    cells of drawn nodes with a live entry; ``delay`` and ``nearest``: the sums of their delays, see
    :func:`cell_delays`.  ``changed``: nodes whose leaf set has changed.
    """

    number: int

    def begin(self, nodes: Nodes) -> None:
        environment, states, own = self.environment, nodes.states(), self.live(nodes.bucket)
        live = environment.in_round.live()
        drawn = draws.stream(environment.seed, "compared cells", self.number)
        some = live[np.unique(drawn.random_raw(_COMPARED) % np.uint64(len(live))).astype(np.int64)]
        some = some[(some >= states.first) & (some < states.first + len(states.own))]
        delay, nearest = cell_delays(states, environment.is_alive, live, some, environment.kernel)
        all_alive = len(live) == len(states.known)
        filled, alive = count_entries(states, None if all_alive else environment.is_alive, own)
        sums = {
            "right": right_leaf_sets(states, live, own),
            "filled": filled,
            "alive": alive,
            "possible": cells_with_nodes(states.known.take(live), states.b, *_span(live, own)),
            "compared": len(nearest),
            "delay": delay.sum(),
            "nearest": nearest.sum(),
            "changed": packing.count_rows(nodes.tables.get(NEW_LEAFS, {})),
        }
        nodes.tables[MEASURED] = {
            name: np.array([one], dtype=np.int64) for name, one in sums.items()
        }


def _span(live: np.ndarray, own: np.ndarray) -> tuple[int, int]:
    """Return the indices, among live nodes, of the first of adjacent nodes and after the last."""
    first = int(index_sorted(live, own[:1])[0]) if len(own) else 0
    return first, first + len(own)


def round_measures(live: int, result: RoundResult, measured: Columns) -> dict[str, float]:
    """Return the measures of a round: of nodes (`MeasureNodes`), lookups and messages."""
    sums = {name: int(column.sum()) for name, column in measured.items()}
    filled, alive = sums["filled"], sums["alive"]
    measures = {
        "nodes.live": float(live),
        "leaf_sets.right": sums["right"] / live,
        "leaf_sets.changed": float(sums["changed"]),
        "cells.filled": filled / live,
        "cells.dead": (filled - alive) / live,
        "cells.missing": (sums["possible"] - alive) / live,
    }
    if compared := sums["compared"]:
        measures["cells.delay"] = sums["delay"] / (compared * MICROSECONDS)
        measures["cells.nearest_delay"] = sums["nearest"] / (compared * MICROSECONDS)
    return (
        measures
        | _lookup_measures(result.lookups)
        | {message_measure(kind): float(n) for kind, n in result.messages.items()}
    )


def _lookup_measures(found: LookupResults) -> dict[str, float]:
    count = len(found.hops)
    if not count:
        return {}
    delivered = int(found.delivered.sum())
    measures = {
        "lookups": float(count),
        "lookups.delivered": delivered / count,
        "lookups.right": int(found.right.sum()) / count,
        "lookups.lost": int(found.lost.sum()) / count,
    }
    if delivered:
        hops = np.bincount(found.hops[found.delivered])
        measures["lookups.hops"] = int((hops * np.arange(len(hops))).sum()) / delivered
        measures |= {f"hops.{n}": int(of) / delivered for n, of in enumerate(hops)}
    return measures


def count_entries(states: States, is_alive: IsAlive | None, some: np.ndarray) -> tuple[int, int]:
    """Return the numbers of entries of the nodes `some`, and of live ones (None: all are alive)."""
    filled = alive = 0
    for start in range(0, len(some), _NODES):
        entries = states.cells[some[start : start + _NODES] - states.first]
        filled += int(np.count_nonzero(entries >= 0))
        alive += 0 if is_alive is None else int(np.count_nonzero(is_alive(entries)))
    return filled, filled if is_alive is None else alive


def right_leaf_sets(states: States, live: np.ndarray, some: np.ndarray) -> int:
    """Count the live nodes among adjacent ones with exactly the leaf set of the live ring."""
    first, last = _span(live, some)
    places = ring_leaves(np.arange(first, last), states.half, len(live))
    leaves = np.append(live, NONE).astype(np.int32)[places]
    return int(same_leaves(states.leaves[some - states.first], leaves).sum())


def cell_delays(
    states: States, is_alive: IsAlive, live: np.ndarray, nodes: np.ndarray, kernel: Kernel
) -> tuple[np.ndarray, np.ndarray]:
    """Return the delay to each live entry of some nodes, and to the nearest possible entry.

    Delays are in microseconds, from the node's router to the router of its entry, and to the
    nearest router of a live node that fits the cell.  `live` are the ascending positions of all
    live nodes; the tables of `nodes` are in `states`.
    """
    known, nearest = [whole_numbers()], [whole_numbers()]
    if not len(nodes):
        return known[0], nearest[0]
    ring = states.known.take(live)
    routers, of_router = np.unique(ring.router, return_inverse=True)
    of_router = np.append(of_router, 0)  # reduceat needs an element after the last node
    for node, place in zip(nodes, index_sorted(live, nodes), strict=True):
        row, column, begin, end = _cells_of(ring, place, states.b, states.cells.shape[1])
        entry = states.cells[node - states.first, row, column].astype(np.int64)
        usable = is_alive(entry)
        if not usable.any():
            continue
        own = states.known.router[node]
        delay = kernel.delays(np.full(len(routers), own), routers)[of_router]
        # minima over cells and the gaps between them; keep those of cells
        ends = np.column_stack([begin[usable], end[usable]]).ravel()
        nearest.append(np.minimum.reduceat(delay, ends)[::2])
        router = states.known.router[entry[usable]]
        known.append(kernel.delays(np.full(len(router), own), router))
    return np.concatenate(known), np.concatenate(nearest)


def _cells_of(
    ring: facts.Ring, place: int, b: int, rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells of a node's routing table for which nodes exist: row, column, begin, end.

    The nodes that fit a cell are adjacent on the ring: they have the indices `begin` to `end` - 1.
    `place` is the index of the node; `rows` is the number of rows of the table.
    """
    found = [np.empty((4, 0), dtype=np.int64)]
    first, last = 0, len(ring)  # the nodes that share `row` digits with the node
    for row in range(rows):
        if last - first < 2:
            break
        at = slice(place, place + 1)
        own = int(u128.digit_np(ring.hi[at], ring.lo[at], row, b)[0])
        # the nodes share all digits before, so one half of their nodeIds is sorted by the digit
        half, bits = divmod(b * row, 64)
        ids, shift = (ring.hi, ring.lo)[half], np.uint64(64 - b - bits)
        begin = ((ids[place] >> shift) - np.uint64(own) + np.arange(2**b, dtype=np.uint64)) << shift
        ends = first + np.append(np.searchsorted(ids[first:last], begin), last - first)
        column = np.flatnonzero(np.diff(ends))
        others = column[column != own]
        found.append(np.stack([np.full(len(others), row), others, ends[others], ends[others + 1]]))
        first, last = int(ends[own]), int(ends[own + 1])
    row, column, begin, end = np.concatenate(found, axis=1)
    return row, column, begin, end


def cells_with_nodes(live: facts.Ring, b: int, first: int = 0, last: int | None = None) -> int:
    """Count the cells of the nodes' routing tables for which a live node exists.

    A node that shares its first `row` digits with other nodes has a possible cell in that row for
    each other next digit that occurs among them. Only the tables of the nodes with the indices
    `first` to `last` - 1 are counted.
    """
    last = len(live) if last is None else last
    if len(live) < 2 or first >= last:
        return 0
    shared = u128.shared_digits_np(live.hi[1:], live.lo[1:], live.hi[:-1], live.lo[:-1], b)
    cells = 0
    for row in range(int(shared.max()) + 1):
        # for classes of nodes that share `row` digits: members, and number of distinct next digits
        begins = np.r_[0, np.flatnonzero(shared < row) + 1]
        ends = np.r_[begins[1:], len(live)]
        members = np.maximum(np.minimum(ends, last) - np.maximum(begins, first), 0)
        digits = np.add.reduceat(np.r_[1, shared <= row], begins)
        cells += int((members * (digits - 1)).sum())
    return cells
