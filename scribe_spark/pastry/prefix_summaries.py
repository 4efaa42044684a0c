"""What the parts of the ring tell one another: summaries of the nodes of each prefix.

The ring is cut into buckets, the nodes that share their first p digits, so that each is a task of
its own.  Of the others a bucket needs only this: for rows 0 to p - 1 of its nodes' tables, each
router's nearest node of each prefix; and for leaf sets, the first and last nodes of each bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import offsets_of
from scribe_spark.pastry.ring import Ring
from scribe_spark.underlay.protocol import Kernel

__all__ = ["BUCKET_SUMMARY", "Summaries", "prefix_digits", "summarise_bucket"]

#: Of one bucket: its prefix as a number and how many nodes it has; its first and last l/2 nodes;
#: the nodes that are nearest to any router; and for each router, in order, which of these is its
#: nearest (INT, a position) and how far (BIGINT, microseconds; empty where p is 1).
BUCKET_SUMMARY = (
    "prefix bigint, size bigint, ends binary, candidates binary, nearest binary, delay_us binary"
)

#: Cells of :attr:`Summaries.nearest` at the most: 16 MiB as INT.
_MOST_CELLS = 2**22
#: Nodes of one bucket at the most: a task's tables then take about 100 MB.
_MOST_NODES = 2**16
#: A bucket of fewer nodes than this is not worth a task of its own.
_FEWEST_NODES = 2**9


def prefix_digits(b: int, nodes: int, routers: int, cores: int) -> int:
    """How many digits p the nodes of one bucket share.

    As few as make four buckets a core and keep buckets below :data:`_MOST_NODES`, while they are
    worth a task and their summaries, a cell for each router and prefix, stay small.
    """
    p = 1
    while (
        (2 ** (b * p) < 4 * cores or nodes / 2 ** (b * p) > _MOST_NODES)
        and nodes / 2 ** (b * (p + 1)) >= _FEWEST_NODES
        and routers * 2 ** (b * (p + 1)) <= _MOST_CELLS
    ):
        p += 1
    return p


def summarise_bucket(
    prefix: int, ring: Ring, kernel: Kernel, routers: int, leaf_set: int, with_delay: bool
) -> pa.RecordBatch:
    """One row of :data:`BUCKET_SUMMARY`.

    Parameters
    ----------
    ring : Ring
        The bucket's nodes in nodeId order; routers are indices.
    routers : int
        How many routers the underlay has.
    leaf_set : int
        l.
    with_delay : bool
        Whether summaries are to be merged (:meth:`Summaries.of`).
    """
    half, n = leaf_set // 2, len(ring)
    ends = ring.take(np.unique(np.r_[np.arange(n)[:half], np.arange(n)[-half:]]))
    _, first = np.unique(ring.router, return_index=True)  # the smallest nodeId on each router
    first.sort()
    everywhere = np.arange(routers)
    near = first[kernel.nearest(everywhere, ring.router[first], np.array([0]))[:, 0]]
    candidates, nearest = np.unique(near, return_inverse=True)
    no_delay = np.empty(0, dtype=np.int64)
    delay_us = kernel.delays(everywhere, ring.router[near]) if with_delay else no_delay
    row = {
        "prefix": prefix,
        "size": n,
        "ends": ends.to_bytes(),
        "candidates": ring.take(candidates).to_bytes(),
        "nearest": nearest.astype(np.int32).tobytes(),
        "delay_us": delay_us.astype(np.int64).tobytes(),
    }
    kinds = [pa.int64(), pa.int64(), *[pa.binary()] * 4]
    columns = [pa.array([cell], kind) for cell, kind in zip(row.values(), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(row))


@dataclass(frozen=True)
class Summaries:
    """The summaries of all buckets.

    Attributes
    ----------
    b, digits : int
        Digits are base 2**b; the nodes of a bucket share this many, p.
    prefix, size : ndarray of int64, shape (m,)
        Of each bucket that has nodes, ascending: its prefix as a number, how many nodes it has.
    ends : Ring
        The first and last l/2 nodes of each bucket (or all, if there are not more), in order.
    end_offsets : ndarray of int64, shape (m + 1,)
        Where each bucket's begin in `ends`.
    candidates : Ring
        Nodes that are nearest to some router.
    nearest : tuple of ndarray of int32, shape (2**(b * digits), R)
        For 1, 2, ... p digits: each prefix's node nearest to each router, as a position in
        `candidates`; -1 where no node has the prefix.
    """

    b: int
    digits: int
    prefix: np.ndarray
    size: np.ndarray
    ends: Ring
    end_offsets: np.ndarray
    candidates: Ring
    nearest: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, rows: Iterable[dict], routers: int, b: int, digits: int) -> Summaries:
        """From rows of :data:`BUCKET_SUMMARY`, in any order; `digits` is p."""
        rows = sorted(rows, key=lambda row: row["prefix"])
        prefix = np.array([row["prefix"] for row in rows], dtype=np.int64)
        ends = [Ring.from_bytes(row["ends"]) for row in rows]
        candidates = [Ring.from_bytes(row["candidates"]) for row in rows]
        first = offsets_of(np.array([len(part) for part in candidates]))[:-1]
        nearest = np.full((2 ** (b * digits), routers), -1, dtype=np.int32)
        for number, start, row in zip(prefix, first, rows, strict=True):
            nearest[number] = start + np.frombuffer(row["nearest"], np.int32)
        levels = [nearest]
        if digits > 1:
            delay_us = np.full(nearest.shape, _NOWHERE)
            for number, row in zip(prefix, rows, strict=True):
                delay_us[number] = np.frombuffer(row["delay_us"], np.int64)
            while len(levels) < digits:
                merged, delay_us = _nearest_of_shorter(levels[0], delay_us, 2**b)
                levels.insert(0, merged)
        return cls(
            b=b,
            digits=digits,
            prefix=prefix,
            size=np.array([row["size"] for row in rows], dtype=np.int64),
            ends=Ring.join(_NOBODY, *ends),
            end_offsets=offsets_of(np.array([len(part) for part in ends])),
            candidates=Ring.join(_NOBODY, *candidates),
            nearest=tuple(levels),
        )

    def others_ends(self, prefix: int) -> tuple[Ring, int]:
        """The ends of all other buckets, clockwise from the bucket of `prefix`; their nodes."""
        mine = int(np.searchsorted(self.prefix, prefix))
        start, stop = self.end_offsets[mine], self.end_offsets[mine + 1]
        clockwise = np.r_[stop : len(self.ends), 0:start]
        return self.ends.take(clockwise), int(self.size.sum() - self.size[mine])

    def siblings(self, prefix: int, row: int, routers: np.ndarray) -> np.ndarray:
        """Entries of a row before p for nodes of a bucket: int32, shape (2**b, len(routers)).

        Positions in `candidates` of the nodes nearest to each router that share `row` digits with
        `prefix`, by their next digit; -1 for none, and for the bucket's own digit.
        """
        base = 2**self.b
        cell = prefix >> self.b * (self.digits - row - 1)
        start = cell // base * base
        found = self.nearest[row][start : start + base, routers]
        found[cell - start] = -1
        return found


_NOWHERE = np.int64(2**62)
_NOBODY = Ring.from_bytes(b"")


def _nearest_of_shorter(
    nearest: np.ndarray, delay_us: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest nodes of prefixes one digit shorter: the nearest of the `base` prefixes under each.

    Of equally near ones the first, which has the smallest nodeId.
    """
    shape = (-1, base, nearest.shape[1])
    best = delay_us.reshape(shape).argmin(axis=1)[:, None]
    nearest = np.take_along_axis(nearest.reshape(shape), best, axis=1)[:, 0]
    return nearest, np.take_along_axis(delay_us.reshape(shape), best, axis=1)[:, 0]
