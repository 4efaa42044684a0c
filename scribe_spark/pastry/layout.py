"""What a node knows, laid out for routing: a hop is one join and a few look-ups in arrays.

A pure function of each node's own knowledge, so that a node whose knowledge changed is laid out
again without asking anybody else.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import list_array, offsets_of, row_max
from scribe_spark.pastry.gaps import CONTINUED, Gaps, find_gaps
from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.ring import Ring

__all__ = ["LAYOUT", "pack", "pack_in_blocks"]

#: A node and its state in one column (a hop's join copies every node's row, and one column is
#: copied faster than many).
#:
#: - ``covers_ring``: every key is within the leaf set's span; ``low``, ``high``: else the ends of
#:   the span, the farthest smaller and the farthest larger leaf (without one, the node itself).
#: - ``leaf_node``: the leaf set and the node itself; ``leaf_hi, leaf_lo``: the last key that each
#:   is numerically closest to among them. In the order of these keys, which is cyclic.
#: - ``entries``: how many the routing table has.
#: - ``table``: the routing table, entry (row, col) at row * 2**b + col; NULL in the columns of the
#:   node's own digits. Where there is no entry, -1 - k points to the gap ``gap_*[k]``
#:   (:mod:`scribe_spark.pastry.gaps`): keys up to ``gap_hi, gap_lo`` go to ``gap_below``, those
#:   after to ``gap_above``; where that is -1, the next gap tells.
#:
#: Halves of keys in arrays have their sign bits flipped (`ids.unsigned`): they sort as ids.  Arrays
#: of plain numbers, and INT for nodes inside them, take half the room of arrays of structs.
LAYOUT = (
    "node bigint, node_state struct<id_hi:bigint,id_lo:bigint,router:bigint,"
    "covers_ring:boolean,low_hi:bigint,low_lo:bigint,high_hi:bigint,high_lo:bigint,"
    "leaf_hi:array<bigint>,leaf_lo:array<bigint>,leaf_node:array<int>,"
    "entries:int,table:array<int>,gap_hi:array<bigint>,gap_lo:array<bigint>,"
    "gap_below:array<int>,gap_above:array<int>>"
)

_NODES_AT_ONCE = 4096  # dense tables of this many nodes fit in the cache


def pack_in_blocks(knowledge: Knowledge, b: int) -> Iterator[pa.RecordBatch]:
    """Rows of :data:`LAYOUT` for some nodes at a time: their tables take memory while unpacked."""
    for start in range(0, len(knowledge), _NODES_AT_ONCE):
        yield pack(knowledge.take(slice(start, start + _NODES_AT_ONCE)), b)


def pack(knowledge: Knowledge, b: int) -> pa.RecordBatch:
    """Lay out what nodes know.

    Parameters
    ----------
    knowledge : Knowledge
        Of n nodes, each with any number of leaves and entries, or none.
    b : int
        Digits are base 2**b.

    Returns
    -------
    RecordBatch
        :data:`LAYOUT`, n rows.
    """
    known, leaf_sets, tables = knowledge.known, knowledge.leaf_sets, knowledge.routing_tables
    node = known.take(knowledge.own)
    around_offsets, around = leaf_sets.with_own_node(knowledge.own)
    low, high = known.take(around[around_offsets[:-1]]), known.take(around[around_offsets[1:] - 1])
    depth = _depth(knowledge, b)
    dense = tables.dense(int(depth.max(initial=0)), b)
    gaps = find_gaps(dense, depth, leaf_sets.rows, leaf_sets.leaves, knowledge.own, known, b)
    state = {
        "id_hi": node.hi.view(np.int64),
        "id_lo": node.lo.view(np.int64),
        "router": node.router,
        "covers_ring": leaf_sets.covers_ring,
        "low_hi": low.hi.view(np.int64),
        "low_lo": low.lo.view(np.int64),
        "high_hi": high.hi.view(np.int64),
        "high_lo": high.lo.view(np.int64),
        **_leaf_arrays(around_offsets, around, known),
        "entries": np.diff(tables.offsets).astype(np.int32),
        "table": _table_array(dense, depth, gaps, known),
        **_gap_arrays(gaps, known),
    }
    columns = [pa.array(values) for values in state.values()]
    packed = pa.StructArray.from_arrays(columns, names=list(state))
    return pa.RecordBatch.from_arrays([pa.array(node.node), packed], names=["node", "node_state"])


def _depth(knowledge: Knowledge, b: int) -> np.ndarray:
    """How many rows of each node's table are laid out: int64, shape (n,).

    Rows to the last one that an entry or a leaf belongs to.  A key that shares more digits with the
    node has no candidate but the node itself.
    """
    known, leaf_sets, tables = knowledge.known, knowledge.leaf_sets, knowledge.routing_tables
    rows = leaf_sets.rows
    node, leaf = known.take(knowledge.own[rows]), known.take(leaf_sets.leaves)
    shared = ids.shared_digits_np(node.hi, node.lo, leaf.hi, leaf.lo, b)
    of_leaves = row_max(leaf_sets.offsets, 1 + shared)
    return np.maximum(of_leaves, row_max(tables.offsets, 1 + tables.row))


def _leaf_arrays(offsets: np.ndarray, around: np.ndarray, known: Ring) -> dict[str, pa.ListArray]:
    """Leaf sets with the last key that each leaf is closest to, in the order of those keys.

    Clockwise these keys ascend but for one step across zero: there the order begins.
    """
    first = np.repeat(offsets[:-1], np.diff(offsets))
    widths = np.repeat(np.diff(offsets), np.diff(offsets))
    place = np.arange(len(around)) - first

    def turned(by: np.ndarray) -> np.ndarray:
        return first + (place + by) % widths

    here, after = known.take(around), known.take(around[turned(np.ones_like(place))])
    hi, lo = ids.midpoint_np(here.hi, here.lo, after.hi, after.lo)
    next_one = turned(np.ones_like(place))
    across_zero = ids.lt_np(hi[next_one], lo[next_one], hi, lo)
    begins = np.zeros(len(offsets) - 1, dtype=np.int64)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    begins[rows[across_zero]] = place[across_zero] + 1
    order = turned(begins[rows])
    return {
        "leaf_hi": list_array(offsets, _flip(hi[order])),
        "leaf_lo": list_array(offsets, _flip(lo[order])),
        "leaf_node": list_array(offsets, here.node[order].astype(np.int32)),
    }


def _table_array(tables: np.ndarray, depth: np.ndarray, gaps: Gaps, known: Ring) -> pa.ListArray:
    """Routing tables as lists, each as long as its rows."""
    rows, base = tables.shape[1:]
    cells = known.node[tables].astype(np.int32)
    cells[gaps.missing] = -1 - gaps.first
    nothing = (tables < 0) & ~gaps.missing
    laid_out = np.arange(rows) < depth[:, None]
    values = pa.array(cells[laid_out].reshape(-1), mask=nothing[laid_out].reshape(-1))
    return list_array(offsets_of(depth * base), values)


def _gap_arrays(gaps: Gaps, known: Ring) -> dict[str, pa.ListArray]:
    above = np.where(gaps.above == CONTINUED, -1, known.node[gaps.above])
    return {
        "gap_hi": list_array(gaps.offsets, _flip(gaps.hi)),
        "gap_lo": list_array(gaps.offsets, _flip(gaps.lo)),
        "gap_below": list_array(gaps.offsets, known.node[gaps.below].astype(np.int32)),
        "gap_above": list_array(gaps.offsets, above.astype(np.int32)),
    }


def _flip(half: np.ndarray) -> np.ndarray:
    return (half ^ np.uint64(2**63)).view(np.int64)
