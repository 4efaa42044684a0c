"""Missing entries of routing tables: who a message goes to where there is none.

Of leaf set, routing table and the node itself, those that share a prefix with the key at least as
long as the node does are candidates, and the numerically closest is next.  For each missing entry
that is decided beforehand, for all keys that ask for it.

References
----------
JSAC 2002, Section II (routing): "to a node whose nodeId shares a prefix with the key as long as the
current node, but is numerically closer to the key than the present node's id".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import offsets_of
from scribe_spark.pastry.ring import Ring

__all__ = ["CONTINUED", "Gaps", "find_gaps"]

#: In `Gaps.above`: the missing entry's next gap tells who takes the keys above.
CONTINUED = -1


@dataclass(frozen=True)
class Gaps:
    """Gaps between candidates, on which the keys of missing entries lie.

    A missing entry's keys lie on one gap, or on several that follow one another: there are
    candidates among the keys themselves where the leaf set has a node that the table lacks.
    Missing entries side by side in one row share a gap.

    Attributes
    ----------
    missing : ndarray of bool, shape (n, rows, 2**b)
        Cells without an entry that keys can ask for.
    first : ndarray of int64, shape (missing.sum(),)
        The first gap of each missing entry, counted from the node's first.
    offsets : ndarray of int64, shape (n + 1,)
        Where each node's gaps begin in the arrays below.
    hi, lo : ndarray of uint64
        The last key that goes to the candidate below the gap.
    below, above : ndarray of int64
        Positions in a `Ring` of the candidates either side; `above` may be :data:`CONTINUED`.
    """

    missing: np.ndarray
    first: np.ndarray
    offsets: np.ndarray
    hi: np.ndarray
    lo: np.ndarray
    below: np.ndarray
    above: np.ndarray


def find_gaps(
    tables: np.ndarray,
    depth: np.ndarray,
    leaf_rows: np.ndarray,
    leaves: np.ndarray,
    own: np.ndarray,
    known: Ring,
    b: int,
) -> Gaps:
    """The gaps of n nodes.

    Parameters
    ----------
    tables : ndarray of int64, shape (n, rows, 2**b)
        Positions of entries in `known`, -1 for none.
    depth : ndarray of int64, shape (n,)
        How many rows of each node keys can ask for and have another candidate than the node.
    leaf_rows, leaves : ndarray of int64
        The node (0 to n - 1) of each leaf, and the leaf's position in `known`.
    own : ndarray of int64, shape (n,)
        Positions of the nodes themselves.
    """
    n, rows, base = tables.shape
    digits = np.empty((n, rows), dtype=np.int64)
    for row in range(rows):
        digits[:, row] = ids.digit_np(known.hi[own], known.lo[own], row, b)
    missing = (tables < 0) & (np.arange(rows) < depth[:, None])[:, :, None]
    np.put_along_axis(missing, digits[:, :, None], False, axis=2)
    # 1. the leaves' cells in the nodes' tables
    node_id, leaf_id = known.take(own[leaf_rows]), known.take(leaves)
    shared = ids.shared_digits_np(node_id.hi, node_id.lo, leaf_id.hi, leaf_id.lo, b)
    column = ids.digit_at_np(leaf_id.hi, leaf_id.lo, shared, b)
    leaf_cell = (leaf_rows * rows + shared) * base + column
    # 2. the candidates on either side of each missing entry, and those among its own keys
    least, greatest = _candidates(tables, leaf_cell, leaves, own, digits, known)
    inside = missing.reshape(-1)[leaf_cell]
    cells, chain = _chains(missing, least, greatest, leaf_cell[inside], leaves[inside], known)
    # 3. the gaps between them
    return _gaps_between(missing, cells, chain, known, b)


def _candidates(
    tables: np.ndarray,
    leaf_cell: np.ndarray,
    leaves: np.ndarray,
    own: np.ndarray,
    digits: np.ndarray,
    known: Ring,
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of the least and the greatest candidate in each cell: int32, shape of `tables`.

    Where there is none: above all ranks in `least`, -1 in `greatest`.
    """
    rank, n = known.rank, len(own)
    filled = tables >= 0
    greatest = np.where(filled, rank[tables], np.int32(-1))
    least = np.where(filled, greatest, np.int32(len(known)))
    np.maximum.at(greatest.reshape(-1), leaf_cell, rank[leaves])
    np.minimum.at(least.reshape(-1), leaf_cell, rank[leaves])
    # the column of a node's own digit covers the node itself and all entries of deeper rows
    nodes = np.arange(n)
    low = high = rank[own]
    for row in range(tables.shape[1] - 1, -1, -1):
        least[nodes, row, digits[:, row]] = low
        greatest[nodes, row, digits[:, row]] = high
        low, high = least[:, row].min(axis=1), greatest[:, row].max(axis=1)
    return least, greatest


def _chains(
    missing: np.ndarray,
    least: np.ndarray,
    greatest: np.ndarray,
    inside_cell: np.ndarray,
    inside: np.ndarray,
    known: Ring,
) -> tuple[np.ndarray, np.ndarray]:
    """For each missing entry the candidates around and among its keys, from below to above.

    Returns
    -------
    offsets : ndarray of int64, shape (missing.sum() + 1,)
    chain : ndarray of int64
        Positions in `known`.
    """
    none_below, none_above = -1, len(known)
    # 1. the nearest candidates in columns before and after; the ring closes on itself in row 0 only
    below = np.full_like(greatest, none_below)
    above = np.full_like(least, none_above)
    np.maximum.accumulate(greatest[:, :, :-1], axis=2, out=below[:, :, 1:])
    above[:, :, :-1] = np.minimum.accumulate(least[:, :, :0:-1], axis=2)[:, :, ::-1]
    first, last = least[:, :1].min(axis=2), greatest[:, :1].max(axis=2)
    below[:, :1] = np.where(below[:, :1] == none_below, last[:, :, None], below[:, :1])
    above[:, :1] = np.where(above[:, :1] == none_above, first[:, :, None], above[:, :1])
    below, above = below[missing], above[missing]
    # 2. one after the other
    number = np.cumsum(missing.reshape(-1)) - 1  # of a missing entry among all, by its cell
    inside_number = number[inside_cell]
    order = np.lexsort((known.rank[inside], inside_number))
    inside_number, inside = inside_number[order], inside[order]
    among = np.bincount(inside_number, minlength=len(below))
    has_below, has_above = below != none_below, above != none_above
    offsets = offsets_of(has_below + among + has_above)
    chain = np.empty(offsets[-1], dtype=np.int64)
    chain[offsets[:-1][has_below]] = known.by_rank[below[has_below]]
    chain[offsets[1:][has_above] - 1] = known.by_rank[above[has_above]]
    place = np.arange(len(inside)) - offsets_of(among)[inside_number]
    chain[(offsets[:-1] + has_below)[inside_number] + place] = inside
    return offsets, chain


def _gaps_between(
    missing: np.ndarray, offsets: np.ndarray, chain: np.ndarray, known: Ring, b: int
) -> Gaps:
    """The gaps between candidates that follow one another in a chain (or one, where one is all)."""
    lengths = np.diff(offsets)
    counts = np.maximum(lengths - 1, 1)
    first = offsets_of(counts)
    cell = np.repeat(np.arange(len(lengths)), counts)
    start = offsets[cell] + np.arange(first[-1]) - first[cell]
    alone = lengths[cell] == 1
    below, above = chain[start], chain[start + ~alone]
    node, _, column = np.nonzero(missing)
    hi, lo, below, above = _split(below, above, column[cell], known, b)
    # a missing entry whose only gap is that of the one before needs none of its own
    parts = (hi, lo, below, above)
    own = first[:-1]
    same = np.zeros(len(lengths), dtype=bool)
    same[1:] = (node[1:] == node[:-1]) & (counts[1:] == 1) & (counts[:-1] == 1)
    for part in parts:
        same[1:] &= part[own[1:]] == part[own[:-1]]
    keep = ~same[cell]
    kept = np.cumsum(keep)
    of_node = offsets_of(np.bincount(node[cell[keep]], minlength=len(missing)))
    above = np.where(
        np.r_[cell[1:] == cell[:-1], np.zeros(min(1, len(cell)), bool)], CONTINUED, above
    )
    hi, lo, below, above = (part[keep] for part in (hi, lo, below, above))
    return Gaps(missing, kept[own] - 1 - of_node[node], of_node, hi, lo, below, above)


def _split(
    below: np.ndarray, above: np.ndarray, column: np.ndarray, known: Ring, b: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The last key of each gap that goes below (hi, lo), and the candidates below and above.

    Keys of one gap and column share their row's digits, so that plain comparison tells the sides
    apart; on the gap across zero, where it would not, both sides are made the one that takes all of
    the column's keys.
    """
    a, c = known.take(below), known.take(above)
    hi, lo = ids.midpoint_np(a.hi, a.lo, c.hi, c.lo)
    wraps = ids.lt_np(c.hi, c.lo, a.hi, a.lo)
    before_zero = column >= ids.digit_np(a.hi, a.lo, 0, b)
    split_before_zero = ~ids.lt_np(hi, lo, a.hi, a.lo)
    all_below = wraps & before_zero & ~split_before_zero
    all_above = wraps & ~before_zero & split_before_zero
    zero = np.uint64(0)
    return (
        np.where(all_above, zero, hi),
        np.where(all_above, zero, lo),
        np.where(all_above, above, below),
        np.where(all_below, below, above),
    )
