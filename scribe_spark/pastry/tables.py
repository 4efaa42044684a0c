"""Perfect routing tables and leaf sets: the numpy kernel, and the state table it fills.

Every entry is the globally nearest node with the prefix it asks for; ties go to the numerically
smallest nodeId.  Nodes are taken by first digit: row 0 is the same for all nodes of a router, and
deeper rows only look among the nodes of the same first digit, so a digit's nodes are one task.

References
----------
JSAC 2002, Section II and Figure 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import ids
from scribe_spark.topology.underlay import MatrixUnderlay

__all__ = ["STATE", "build_state", "routing_table"]

_NEAR = "array<struct<u_hi:bigint,u_lo:bigint,node:bigint>>"

#: What a node knows. `whole`: its leaf set is the whole ring. `low`, `high`: nodeIds of its
#: farthest smaller and larger leaf. `leaf`: its leaf set and itself, in nodeId order. `table`: its
#: routing table, entry (row, col) at row * 2**b + col, NULL where there is none. `gaps`: the
#: entries, with nodeIds, from the first row that lacks one (the last rule of routing needs them).
#: Ids inside arrays have their sign bits flipped (`ids.unsigned`): structs sort as ids do.
STATE = (
    "node bigint, id_hi bigint, id_lo bigint, router bigint, whole boolean, "
    "low_hi bigint, low_lo bigint, high_hi bigint, high_lo bigint, "
    f"leaf {_NEAR}, table array<int>, gaps {_NEAR}"
)

_SMALL = 48  # classes up to this size are solved by all pairs, larger ones router by router


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


def build_state(nodes: DataFrame, underlay: MatrixUnderlay, b: int, leaf_set: int) -> DataFrame:
    """Perfect state of every node.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : MatrixUnderlay
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
    return cells.where(F.col("entry").isNotNull()).select(
        "node",
        F.floor(F.col("cell") / 2**b).cast("int").alias("row"),
        (F.col("cell") % 2**b).cast("int").alias("col"),
        F.col("entry").cast("bigint").alias("entry"),
    )


# --- one digit's summary

_SUMMARY = "digit int, size bigint, ends binary, nearest binary"


def _summarise(table: pa.Table, kernel, routers: int, leaf_set: int) -> pa.Table:
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


def _ring(table: pa.Table, kernel) -> Ring:
    columns = [table.column(name).to_numpy() for name in ("id_hi", "id_lo", "node", "router")]
    return Ring.sorted(*columns[:3], kernel.index(columns[3]).astype(np.int64))


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


def _tables(ring: Ring, digit: int, buckets: list[Bucket], kernel, b: int) -> np.ndarray:
    """Dense routing tables of one digit's nodes: (n, rows, 2**b), -1 for none.

    Entries are positions: below n in `ring`, from n on in the buckets' nearest nodes, joined.
    """
    n, base = len(ring), 2**b
    first = np.full((n, base), -1, dtype=np.int64)
    at = n
    for bucket in buckets:
        if bucket.digit != digit:
            first[:, bucket.digit] = at + ring.router
        at += len(bucket.nearest)
    rows = [first]
    shared = ids.prefix_digits_np(ring.hi, ring.lo, b)
    depth = 1
    while depth < ids.BITS // b:
        # classes: runs of nodes that share `depth` digits, two nodes at least
        starts = np.flatnonzero(np.r_[True, shared < depth])
        sizes = np.diff(np.r_[starts, n])
        starts, sizes = starts[sizes > 1], sizes[sizes > 1]
        if not len(starts):
            break
        row = np.full((n, base), -1, dtype=np.int64)
        own = ids.digit_np(ring.hi, ring.lo, depth, b)
        small = sizes <= _SMALL
        _all_pairs(ring, own, starts[small], sizes[small], kernel, row)
        for start, size in zip(starts[~small], sizes[~small], strict=True):
            _by_router(ring, own, slice(start, start + size), kernel, row)
        rows.append(row)
        depth += 1
    while len(rows) > 1 and (rows[-1] < 0).all():
        rows.pop()
    return np.stack(rows, axis=1)


def _all_pairs(ring: Ring, own, starts, sizes, kernel, row: np.ndarray) -> None:
    """Fill `row` for many small classes at once: every pair of a class is looked at."""
    for at in range(0, len(starts), 4096):  # bounds the pairs held at once
        start, size = starts[at : at + 4096], sizes[at : at + 4096]
        squares = size * size
        which = np.repeat(np.arange(len(size)), squares)
        pair = np.arange(squares.sum()) - np.repeat(np.cumsum(squares) - squares, squares)
        i = start[which] + pair // size[which]
        j = start[which] + pair % size[which]
        i, j = i[own[i] != own[j]], j[own[i] != own[j]]
        if not len(i):
            continue
        # pairs come by i, then by j in nodeId order, so equal digits of j are runs
        delay = kernel.delays(ring.router[i], ring.router[j])
        heads = np.flatnonzero(np.r_[True, (i[1:] != i[:-1]) | (own[j][1:] != own[j][:-1])])
        best = np.minimum.reduceat(delay << 31 | j, heads) & (2**31 - 1)
        row[i[heads], own[j[heads]]] = best


def _by_router(ring: Ring, own, members: slice, kernel, row: np.ndarray) -> None:
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


# --- as Arrow


def _state_arrow(
    table: pa.Table, kernel, buckets: list[Bucket], b: int, leaf_set: int
) -> pa.Table:
    ring, digit = _ring(table, kernel), table.column("digit")[0].as_py()
    tables = _tables(ring, digit, buckets, kernel, b)
    known = Ring.join(ring, *[bucket.nearest for bucket in buckets])
    around, leaf = _leaf_sets(ring, digit, buckets, leaf_set)
    low, high = around.take(leaf[:, 0]), around.take(leaf[:, -1])
    n, whole = len(ring), sum(bucket.size for bucket in buckets) - 1 <= leaf_set
    routers = kernel.open()[2]
    return pa.table(
        {
            "node": ring.node,
            "id_hi": ring.hi.view(np.int64),
            "id_lo": ring.lo.view(np.int64),
            "router": routers[ring.router],
            "whole": np.full(n, whole),
            "low_hi": low.hi.view(np.int64),
            "low_lo": low.lo.view(np.int64),
            "high_hi": high.hi.view(np.int64),
            "high_lo": high.lo.view(np.int64),
            "leaf": _near(around, _by_id(around, leaf).ravel(), np.full(n, leaf.shape[1])),
            "table": _dense(tables, known),
            "gaps": _gaps(tables, known),
        }
    )


def _by_id(ring: Ring, leaf: np.ndarray) -> np.ndarray:
    """Each row's positions in nodeId order."""
    order = np.empty(len(ring), dtype=np.int64)
    order[np.lexsort((ring.lo, ring.hi))] = np.arange(len(ring))
    return np.take_along_axis(leaf, np.argsort(order[leaf], axis=1, kind="stable"), axis=1)


def _near(ring: Ring, index: np.ndarray, lengths: np.ndarray) -> pa.ListArray:
    """Lists of so many nodes each, with their nodeIds."""
    flip = np.uint64(2**63)
    halves = [(half[index] ^ flip).view(np.int64) for half in (ring.hi, ring.lo)]
    parts = [*halves, ring.node[index]]
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    structs = pa.StructArray.from_arrays(
        [pa.array(p) for p in parts], names=["u_hi", "u_lo", "node"]
    )
    return pa.ListArray.from_arrays(pa.array(offsets), structs)


def _dense(tables: np.ndarray, known: Ring) -> pa.ListArray:
    """Tables as lists, each cut after its last row with an entry."""
    n, depth, base = tables.shape
    filled = (tables >= 0).any(axis=2)
    rows = np.where(filled.any(axis=1), depth - filled[:, ::-1].argmax(axis=1), 0)
    keep = np.arange(depth) < rows[:, None]
    cells = tables[keep].ravel()
    offsets = np.r_[0, np.cumsum(rows * base)].astype(np.int32)
    entries = pa.array(known.node[cells].astype(np.int32), mask=cells < 0)
    return pa.ListArray.from_arrays(pa.array(offsets), entries)


def _gaps(tables: np.ndarray, known: Ring) -> pa.ListArray:
    """Entries, with nodeIds, of each node's rows from the first that lacks an entry."""
    base = tables.shape[2]
    lacking = (tables >= 0).sum(axis=2) < base - 1
    tail = np.logical_or.accumulate(lacking, axis=1)
    cells = (tables >= 0) & tail[:, :, None]
    return _near(known, tables[cells], cells.sum(axis=(1, 2)))
