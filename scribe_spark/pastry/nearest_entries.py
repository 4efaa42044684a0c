"""The nearest node for each cell of a routing table, among the nodes of a part of the ring.

Nodes that share `row` digits form a class, and find their entries of that row within the class.  In
a small class all pairs are compared; in a large class, nodes on the same router share the result.

References
----------
JSAC 2002, Section II: "each entry in the routing table refers to one of potentially many nodes
whose nodeIds have the appropriate prefix; among such nodes, the one closest to the present node
(according to a scalar proximity metric) is chosen".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import expand, run_starts
from scribe_spark.engine.ring import Ring
from scribe_spark.underlay.protocol import Kernel

_PAIRS = 2**21  # pairs of nodes compared at once


def nearest_entries(
    ring: Ring, first_row: int, kernel: Kernel, b: int, begins: Sequence[int] | np.ndarray = ()
) -> np.ndarray:
    """Return rows of the routing tables of nodes that share the first `first_row` digits.

    The rows `first_row`, `first_row` + 1, ... up to the last row with an entry are positions in
    `ring`, -1 for empty cells: int32, shape (rows, n, 2**b).  If `ring` is several rings one after
    the other, `begins` has the start of each further ring; a node has entries of its own ring only.
    """
    shared = shared_with_next(ring, b, begins)
    rows = max(0, int(shared.max(initial=-1)) + 1 - first_row)
    cells = np.full((len(ring), rows, 2**b), -1, dtype=np.int32)
    fill_entries(ring, first_row, kernel, shared, cells)
    return cells.transpose(1, 0, 2)


def shared_with_next(ring: Ring, b: int, begins: Sequence[int] | np.ndarray = ()) -> np.ndarray:
    """Return the number of first digits that each node shares with the next one: int, (n - 1,).

    The number is -1 for the last node of a ring, if `ring` is several rings.
    """
    shared = ids.shared_digits_np(ring.hi[1:], ring.lo[1:], ring.hi[:-1], ring.lo[:-1], b)
    shared[np.asarray(begins, dtype=np.int64) - 1] = -1
    return shared


def fill_entries(
    ring: Ring,
    first_row: int,
    kernel: Kernel,
    shared: np.ndarray,
    cells: np.ndarray,
    first: int = 0,
) -> None:
    """Write the rows of :func:`nearest_entries` into empty tables, shape (n, rows, 2**b).

    The tables begin with row `first_row`; `shared` is the result of :func:`shared_with_next`, and
    `first` the position of the first node of `ring`.
    """
    n, b = len(ring), cells.shape[2].bit_length() - 1
    own: list[np.ndarray] = []
    small: list[np.ndarray] = []
    for row in range(first_row, ids.BITS // b):
        # classes are runs of nodes that share `row` digits, two nodes at least
        starts = np.flatnonzero(np.r_[True, shared < row])
        sizes = np.diff(np.r_[starts, n])
        starts, sizes = starts[sizes > 1], sizes[sizes > 1]
        if not len(starts):
            break
        digit = ids.digit_np(ring.hi, ring.lo, row, b)
        few = sizes <= kernel.all_pairs_limit
        small.append(np.stack([starts[few], sizes[few], np.full(few.sum(), row - first_row)]))
        for start, size in zip(starts[~few], sizes[~few], strict=True):
            members = slice(start, start + size)
            _compare_routers(ring, digit, members, kernel, cells[members, row - first_row], first)
        own.append(digit)
    if small:
        _compare_pairs(ring, own, np.concatenate(small, axis=1), kernel, cells, first)


def _compare_pairs(
    ring: Ring,
    own: list[np.ndarray],
    classes: np.ndarray,
    kernel: Kernel,
    cells: np.ndarray,
    first: int,
) -> None:
    """Fill `cells` for many small classes: compare every pair of nodes in a class.

    `classes` has the starts, sizes and rows of classes.  They are processed by start, so that a
    router's delays are requested once or twice, not once for each row.
    """
    starts, sizes, depths = classes[:, np.argsort(classes[0], kind="stable")]
    if not len(starts):
        return
    digits = np.stack(own, axis=1)
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes * sizes) // _PAIRS)) + 1
    blocks = (np.split(part, cuts) for part in (starts, sizes, depths))
    for start, size, depth in zip(*blocks, strict=True):
        which, pair = expand(np.zeros_like(size), size * size)
        i = start[which] + pair // size[which]
        j = start[which] + pair % size[which]
        row = depth[which]
        digit = digits[j, row]
        other = digits[i, row] != digit
        i, j, row, digit = (part[other] for part in (i, j, row, digit))
        if not len(i):
            continue
        # pairs come by class and i, then by j in nodeId order, so equal digits of j are runs
        delay = kernel.delays(ring.router[i], ring.router[j])
        heads = run_starts(i, row, digit)
        best = np.minimum.reduceat(delay << 31 | j, heads) & (2**31 - 1)
        cells[i[heads], row[heads], digit[heads]] = first + best


def _compare_routers(
    ring: Ring, own: np.ndarray, members: slice, kernel: Kernel, cells: np.ndarray, first: int
) -> None:
    """Fill the row `cells` of one large class: nodes on the same router share their entries."""
    router, digit = ring.router[members], own[members]
    queries, back = np.unique(router, return_inverse=True)
    # within a digit only the smallest nodeId of each router can be an entry
    _, index = np.unique(digit * (ring.router.max() + 1) + router, return_index=True)
    index.sort()
    heads = np.flatnonzero(np.r_[True, np.diff(digit[index]) != 0])
    found = kernel.nearest(queries, router[index], heads)
    block = np.full((len(queries), cells.shape[1]), -1, dtype=np.int32)
    block[:, digit[index[heads]]] = first + members.start + index[found]
    cells[:] = block[back]
    cells[np.arange(len(back)), digit] = -1
