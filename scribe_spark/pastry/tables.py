"""Perfect routing tables and leaf sets: the numpy kernel, and the state table it fills.

Every entry is the globally nearest node with the prefix it asks for; ties go to the numerically
smallest nodeId.  Nodes are taken by first digit: row 0 is the same for all nodes of a router, and
deeper rows only look among the nodes of the same first digit, so a digit's nodes are one task.

References
----------
JSAC 2002, Section II and Figure 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import ids
from scribe_spark.underlay.matrices import Kernel, Underlay

__all__ = ["STATE", "build_state", "routing_table", "table_entries"]

#: What a node knows, ready for one hop.
#:
#: - ``whole``: its leaf set is the whole ring; ``low``, ``high``: its farthest smaller and larger
#:   leaf, the ends of the leaf set's span.
#: - ``leaf``: the leaf set and the node itself, each with the last key that it is numerically
#:   closest to among them, in the order of those keys (cyclic).
#: - ``table``: the routing table, entry (row, col) at row * 2**b + col. Where there is no entry,
#:   -1 - k points to ``gaps[k]``.
#: - ``gaps``: for a missing entry, the nodes on either side of it, among leaf set and routing
#:   table, that share a prefix at least as long: ``below`` takes keys up to (u_hi, u_lo), ``above``
#:   those after.
#:
#: Keys inside arrays have their sign bits flipped (`ids.unsigned`), so that structs sort as ids.
STATE = (
    "node bigint, id_hi bigint, id_lo bigint, router bigint, whole boolean, "
    "low_hi bigint, low_lo bigint, high_hi bigint, high_lo bigint, "
    "leaf array<struct<u_hi:bigint,u_lo:bigint,node:bigint>>, table array<int>, "
    "gaps array<struct<u_hi:bigint,u_lo:bigint,below:bigint,above:bigint>>"
)

_PAIRS = 2**22  # pairs of nodes held at once


@dataclass(frozen=True)
class Ring:
    """Nodes in nodeId order: parallel arrays, hi and lo as uint64, router as index."""

    hi: np.ndarray
    lo: np.ndarray
    node: np.ndarray
    router: np.ndarray

    @classmethod
    def sorted(cls, hi, lo, node, router) -> Ring:
        """Sort by nodeId."""
        hi, lo = hi.view(np.uint64), lo.view(np.uint64)
        order = np.lexsort((lo, hi))
        return cls(hi[order], lo[order], node[order], router[order])

    def __len__(self) -> int:
        return len(self.node)

    def take(self, index: Any) -> Ring:
        return Ring(self.hi[index], self.lo[index], self.node[index], self.router[index])

    def to_bytes(self) -> bytes:
        columns = [self.hi.view(np.int64), self.lo.view(np.int64), self.node, self.router]
        return np.stack(columns).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Ring:
        hi, lo, node, router = np.frombuffer(data, np.int64).reshape(4, -1)
        return cls(hi.view(np.uint64), lo.view(np.uint64), node, router)

    @staticmethod
    def join(*parts: Ring) -> Ring:
        columns = zip(*[(p.hi, p.lo, p.node, p.router) for p in parts], strict=True)
        return Ring(*[np.concatenate(c) for c in columns])


@dataclass(frozen=True)
class Bucket:
    """What the other buckets know of one: the nodes of a first digit.

    Attributes
    ----------
    digit, size : int
    ends : Ring
        Its first and last l/2 nodes, in order.
    nearest : Ring
        For each router, in order, its nearest node of this digit.
    """

    digit: int
    size: int
    ends: Ring
    nearest: Ring


def build_state(nodes: DataFrame, underlay: Underlay, b: int, leaf_set: int) -> DataFrame:
    """Perfect state of every node.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : Underlay
    b : int
        Digits are base 2**b.
    leaf_set : int
        l, even.

    Returns
    -------
    DataFrame
        :data:`STATE`, one row per node.
    """
    kernel, routers = underlay.kernel, underlay.routers
    digit = F.call_function("shiftrightunsigned", "id_hi", F.lit(64 - b)).cast("int")
    # more partitions than cores: digits hash unevenly
    by_digit = nodes.withColumn("digit", digit).repartition(min(2**b, 64), "digit")
    # 1. each digit's summary: R-sized, gathered and handed to all
    summaries = by_digit.groupBy("digit").applyInArrow(
        lambda table: _summarise(table, kernel, len(routers), leaf_set), _SUMMARY
    )
    buckets = [_read_summary(row) for row in summaries.collect()]
    shared = nodes.sparkSession.sparkContext.broadcast(sorted(buckets, key=lambda s: s.digit))

    # 2. each digit's nodes, with what they need of the others
    def fill(table: pa.Table) -> pa.Table:
        return _state_arrow(table, kernel, shared.value, b, leaf_set)

    return by_digit.groupBy("digit").applyInArrow(fill, STATE)


def routing_table(state: DataFrame, b: int) -> DataFrame:
    """`schemas.ROUTING_TABLE`: one row per entry of every node."""
    cells = state.select("node", F.posexplode("table").alias("cell", "entry"))
    return cells.where(F.col("entry") >= 0).select(
        "node",
        F.floor(F.col("cell") / 2**b).cast("int").alias("row"),
        (F.col("cell") % 2**b).cast("int").alias("col"),
        F.col("entry").cast("bigint").alias("entry"),
    )


def table_entries(state: DataFrame, b: int) -> DataFrame:
    """`schemas.TABLE_ENTRIES`: nodes, and the entries in all their routing tables; one row.

    Of a row's 2**b cells one is the node's own and each missing entry has its gap, so lengths tell.
    """
    rows = F.size("table") / F.lit(2**b)
    entries = F.size("table") - rows - F.size("gaps")
    return state.agg(
        F.count(F.lit(1)).alias("nodes"),
        F.coalesce(F.sum(entries.cast("bigint")), F.lit(0)).cast("bigint").alias("entries"),
    )


# --- one digit's summary

_SUMMARY = "digit int, size bigint, ends binary, nearest binary"


def _summarise(table: pa.Table, kernel: Kernel, routers: int, leaf_set: int) -> pa.Table:
    ring = _ring(table, kernel)
    half = leaf_set // 2
    ends = ring.take(np.unique(np.r_[np.arange(len(ring))[:half], np.arange(len(ring))[-half:]]))
    _, first = np.unique(ring.router, return_index=True)  # smallest nodeId on each router
    first.sort()
    near = kernel.nearest(np.arange(routers), ring.router[first], np.array([0]))[:, 0]
    return pa.table(
        {
            "digit": pa.array([table.column("digit")[0].as_py()], pa.int32()),
            "size": pa.array([len(ring)]),
            "ends": pa.array([ends.to_bytes()], pa.binary()),
            "nearest": pa.array([ring.take(first[near]).to_bytes()], pa.binary()),
        }
    )


def _read_summary(row: Any) -> Bucket:
    ends, nearest = (Ring.from_bytes(row[name]) for name in ("ends", "nearest"))
    return Bucket(row["digit"], row["size"], ends, nearest)


def _ring(table: pa.Table, kernel: Kernel) -> Ring:
    columns = [table.column(name).to_numpy() for name in ("id_hi", "id_lo", "node", "router")]
    hi, lo, node, router = columns
    return Ring.sorted(hi, lo, node, kernel.index(router).astype(np.int64))


# --- leaf sets


def _leaf_sets(ring: Ring, digit: int, buckets: list[Bucket], leaf_set: int):
    """Each node's leaf set and itself, clockwise: (n, width) positions in the ring returned."""
    mine = next(i for i, bucket in enumerate(buckets) if bucket.digit == digit)
    others = [*buckets[mine + 1 :], *buckets[:mine]]  # clockwise from here
    elsewhere = Ring.join(ring.take(slice(0)), *[bucket.ends for bucket in others])
    beyond, half = sum(bucket.size for bucket in others), leaf_set // 2
    total = len(ring) + beyond
    if beyond <= half or total - 1 <= leaf_set:  # the others' ends are all their nodes
        around, before = Ring.join(ring, elsewhere), 0
    else:
        head, tail = elsewhere.take(slice(half)), elsewhere.take(slice(-half, None))
        around, before = Ring.join(tail, ring, head), half
    first, width = (-half, leaf_set + 1) if total - 1 > leaf_set else (-(total // 2), total)
    here = np.arange(len(ring)) + before + first
    return around, (here[:, None] + np.arange(width)) % len(around)


# --- routing tables


def _tables(
    ring: Ring, digit: int, buckets: list[Bucket], kernel: Kernel, b: int
) -> tuple[np.ndarray, list[Ring]]:
    """Dense routing tables of one digit's nodes: (n, rows, 2**b), -1 for none.

    Entries are positions: below n in `ring`, from n on in the other rings that are returned: of
    each bucket the nodes nearest to these nodes' routers, joined.
    """
    n, base = len(ring), 2**b
    first = np.full((n, base), -1, dtype=np.int64)
    here, back = np.unique(ring.router, return_inverse=True)
    for place, bucket in enumerate(buckets):
        if bucket.digit != digit:
            first[:, bucket.digit] = n + place * len(here) + back
    rows, own = [first], [ids.digit_np(ring.hi, ring.lo, 0, b)]
    small: list[np.ndarray] = []
    shared = ids.shared_digits_np(ring.hi[1:], ring.lo[1:], ring.hi[:-1], ring.lo[:-1], b)
    depth = 1
    while depth < ids.BITS // b:
        # classes: runs of nodes that share `depth` digits, two nodes at least
        starts = np.flatnonzero(np.r_[True, shared < depth])
        sizes = np.diff(np.r_[starts, n])
        starts, sizes = starts[sizes > 1], sizes[sizes > 1]
        if not len(starts):
            break
        row = np.full((n, base), -1, dtype=np.int64)
        own.append(ids.digit_np(ring.hi, ring.lo, depth, b))
        few = sizes <= kernel.small
        small.append(np.stack([starts[few], sizes[few], np.full(few.sum(), depth)]))
        for start, size in zip(starts[~few], sizes[~few], strict=True):
            _by_router(ring, own[-1], slice(start, start + size), kernel, row)
        rows.append(row)
        depth += 1
    tables = np.stack(rows, axis=1)
    if small:
        classes = np.concatenate(small, axis=1)
        _all_pairs(ring, np.stack(own, axis=1), classes, kernel, tables)
    last = np.flatnonzero((tables >= 0).any(axis=(0, 2))).max(initial=0)
    return tables[:, : last + 1], [bucket.nearest.take(here) for bucket in buckets]


def _all_pairs(ring: Ring, own, classes: np.ndarray, kernel: Kernel, tables: np.ndarray) -> None:
    """Fill `tables` for many small classes at once: every pair of a class is looked at.

    `classes` holds starts, sizes and depths; a class of one depth holds those of the next, so
    that in order of starts a router is asked about once or twice, not at every depth.
    """
    starts, sizes, depths = classes[:, np.argsort(classes[0], kind="stable")]
    if not len(starts):
        return
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes * sizes) // _PAIRS)) + 1
    blocks = (np.split(part, cuts) for part in (starts, sizes, depths))
    for start, size, depth in zip(*blocks, strict=True):
        squares = size * size
        which = np.repeat(np.arange(len(size)), squares)
        pair = np.arange(squares.sum()) - np.repeat(np.cumsum(squares) - squares, squares)
        i = start[which] + pair // size[which]
        j = start[which] + pair % size[which]
        row = depth[which]
        digit = own[j, row]
        other = own[i, row] != digit
        i, j, row, digit = (part[other] for part in (i, j, row, digit))
        if not len(i):
            continue
        # pairs come by class and i, then by j in nodeId order, so equal digits of j are runs
        delay = kernel.delays(ring.router[i], ring.router[j])
        changes = [part[1:] != part[:-1] for part in (i, row, digit)]
        heads = np.flatnonzero(np.r_[True, np.logical_or.reduce(changes)])
        best = np.minimum.reduceat(delay << 31 | j, heads) & (2**31 - 1)
        tables[i[heads], row[heads], digit[heads]] = best


def _by_router(ring: Ring, own, members: slice, kernel: Kernel, row: np.ndarray) -> None:
    """Fill `row` for one large class: nodes of a router share their nearest entries."""
    router, digit = ring.router[members], own[members]
    queries, back = np.unique(router, return_inverse=True)
    # within a digit only the smallest nodeId of each router can be an entry
    _, first = np.unique(digit * (ring.router.max() + 1) + router, return_index=True)
    first.sort()
    heads = np.flatnonzero(np.r_[True, np.diff(digit[first]) != 0])
    found = kernel.nearest(queries, router[first], heads)
    columns = digit[first[heads]]
    block = np.full((len(queries), row.shape[1]), -1, dtype=np.int64)
    block[:, columns] = members.start + first[found]
    mine = block[back]
    mine[np.arange(len(back)), digit] = -1
    row[members] = mine


# --- missing entries


@dataclass(frozen=True)
class Gaps:
    """Missing entries, in (node, row, col) order: their cells, and positions either side."""

    cells: np.ndarray
    below: np.ndarray
    above: np.ndarray


def _gaps(tables: np.ndarray, leaf: np.ndarray, known: Ring, own: np.ndarray, b: int) -> Gaps:
    """The nodes on either side of every missing entry.

    Parameters
    ----------
    tables : ndarray, shape (n, rows, 2**b)
        Positions in `known`, -1 for none.
    leaf : ndarray, shape (n, width)
        Positions in `known` of leaf set and self.
    own : ndarray, shape (n, rows)
        Each node's digits.
    """
    n, depth, _ = tables.shape
    order = np.lexsort((known.lo, known.hi))
    rank = np.empty(len(known), dtype=np.int64)
    rank[order] = np.arange(len(known))
    none_below, none_above = -1, len(known)
    # 1. per node, row and digit: the least and the greatest nodeId known with that prefix
    there = tables >= 0
    greatest = np.where(there, rank[tables], none_below)
    least = np.where(there, rank[tables], none_above)
    i, j = np.repeat(np.arange(n), leaf.shape[1]), leaf.ravel()
    shared = ids.shared_digits_np(known.hi[i], known.lo[i], known.hi[j], known.lo[j], b)
    i, j, shared = (a[shared < depth] for a in (i, j, shared))
    digit = ids.digit_at_np(known.hi[j], known.lo[j], shared, b)
    np.maximum.at(greatest, (i, shared, digit), rank[j])
    np.minimum.at(least, (i, shared, digit), rank[j])
    # 2. under a node's own digit stands the node, and all that deeper rows hold
    rows, self_rank = np.arange(n), rank[:n]
    high, low = self_rank.copy(), self_rank.copy()
    for row in range(depth - 1, -1, -1):
        greatest[rows, row, own[:, row]], least[rows, row, own[:, row]] = high, low
        high, low = greatest[:, row].max(axis=1), least[:, row].min(axis=1)
    # 3. either side of a digit; the ring closes on itself in row 0 only
    below = np.maximum.accumulate(greatest, axis=2)
    above = np.minimum.accumulate(least[:, :, ::-1], axis=2)[:, :, ::-1]
    last, first = below[:, 0, -1:].copy(), above[:, 0, :1].copy()
    below[:, 0] = np.where(below[:, 0] == none_below, last, below[:, 0])
    above[:, 0] = np.where(above[:, 0] == none_above, first, above[:, 0])
    cells = ~there & _kept_rows(tables)[:, :, None]
    cells[rows[:, None], np.arange(depth), own] = False
    below, above = below[cells], above[cells]
    below, above = (
        np.where(below == none_below, above, below),
        np.where(above == none_above, below, above),
    )
    return Gaps(cells, order[below], order[above])


def _split(
    gaps: Gaps, known: Ring, b: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The last key of each gap that goes below (hi, lo), and positions below and above.

    Keys of one gap share their row's digits, so that plain comparison tells the sides apart; on
    the arc across zero, where it would not, both sides are made the one that takes the whole gap.
    """
    below, above = gaps.below.copy(), gaps.above.copy()
    a, c = known.take(below), known.take(above)
    hi, lo = ids.midpoint_np(a.hi, a.lo, c.hi, c.lo)
    column = np.nonzero(gaps.cells)[2]
    wraps = ids.lt_np(c.hi, c.lo, a.hi, a.lo)
    before_zero = column > ids.digit_np(a.hi, a.lo, 0, b)
    split_before_zero = ~ids.lt_np(hi, lo, a.hi, a.lo)
    all_below, all_above = before_zero & ~split_before_zero, ~before_zero & split_before_zero
    above = np.where(wraps & all_below, below, above)
    below = np.where(wraps & all_above, gaps.above, below)
    return hi, lo, below, above


# --- as Arrow


def _state_arrow(
    table: pa.Table, kernel: Kernel, buckets: list[Bucket], b: int, leaf_set: int
) -> pa.Table:
    ring, digit = _ring(table, kernel), table.column("digit")[0].as_py()
    n, whole = len(ring), sum(bucket.size for bucket in buckets) - 1 <= leaf_set
    tables, nearest = _tables(ring, digit, buckets, kernel, b)
    around, leaf = _leaf_sets(ring, digit, buckets, leaf_set)
    low, high = around.take(leaf[:, 0]), around.take(leaf[:, -1])
    # positions below n mean the same node in `known`; the leaf set's own nodes come last
    known = Ring.join(ring, *nearest, around)
    leaf = leaf + len(known) - len(around)
    depth = tables.shape[1]
    own = np.stack([ids.digit_np(ring.hi, ring.lo, row, b) for row in range(depth)], axis=1)
    gaps = _gaps(tables, leaf, known, own, b)
    return pa.table(
        {
            "node": ring.node,
            "id_hi": ring.hi.view(np.int64),
            "id_lo": ring.lo.view(np.int64),
            "router": kernel.ids(ring.router),
            "whole": np.full(n, whole),
            "low_hi": low.hi.view(np.int64),
            "low_lo": low.lo.view(np.int64),
            "high_hi": high.hi.view(np.int64),
            "high_lo": high.lo.view(np.int64),
            "leaf": _arcs(leaf, known),
            "table": _dense(tables, gaps, known),
            "gaps": _gap_lists(gaps, known, b),
        }
    )


def _arcs(leaf: np.ndarray, known: Ring) -> pa.ListArray:
    """Each node's leaves with the last key each is closest to, in the order of those keys."""
    n, width = leaf.shape
    here, after = known.take(leaf.ravel()), known.take(np.roll(leaf, -1, axis=1).ravel())
    hi, lo = ids.midpoint_np(here.hi, here.lo, after.hi, after.lo)
    order = np.lexsort((lo, hi, np.repeat(np.arange(n), width)))
    parts = {"u_hi": _flip(hi[order]), "u_lo": _flip(lo[order]), "node": here.node[order]}
    return _lists(parts, np.full(n, width))


def _kept_rows(tables: np.ndarray) -> np.ndarray:
    """Rows up to a node's last one with an entry: bool, (n, rows).  No key needs the others."""
    filled = np.any(tables >= 0, axis=2)
    return np.logical_or.accumulate(filled[:, ::-1], axis=1)[:, ::-1]


def _dense(tables: np.ndarray, gaps: Gaps, known: Ring) -> pa.ListArray:
    """Tables as lists, each cut after its last row with an entry; NULL in a node's own column."""
    n, _, base = tables.shape
    keep = _kept_rows(tables)
    number = np.cumsum(gaps.cells.reshape(n, -1), axis=1).reshape(tables.shape)
    values = np.where(gaps.cells, -number, known.node[tables])  # the k-th from 0 is -1 - k
    cells = values[keep].ravel().astype(np.int32)
    nothing = ((tables < 0) & ~gaps.cells)[keep].ravel()
    offsets = np.r_[0, np.cumsum(keep.sum(axis=1) * base)].astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(cells, mask=nothing))


def _gap_lists(gaps: Gaps, known: Ring, b: int) -> pa.ListArray:
    hi, lo, below, above = _split(gaps, known, b)
    nodes = {"below": known.node[below], "above": known.node[above]}
    return _lists({"u_hi": _flip(hi), "u_lo": _flip(lo), **nodes}, gaps.cells.sum(axis=(1, 2)))


def _flip(half: np.ndarray) -> np.ndarray:
    return (half ^ np.uint64(2**63)).view(np.int64)


def _lists(fields: dict[str, np.ndarray], lengths: np.ndarray) -> pa.ListArray:
    """Lists of so many structs each."""
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    columns = [pa.array(values) for values in fields.values()]
    structs = pa.StructArray.from_arrays(columns, names=list(fields))
    return pa.ListArray.from_arrays(pa.array(offsets), structs)
