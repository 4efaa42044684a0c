"""Summaries that parts of the ring exchange: the nearest node of each prefix to each router.

Nodes that share their first p digits find the entries of rows p and deeper among themselves.  For
rows 0 to p - 1 they only need, of each other prefix, the node that is nearest to their router.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scribe_spark.engine.ring import Ring
from scribe_spark.underlay.protocol import Kernel

#: The summary of a prefix (given as a number): for each router, the position of its nearest node
#: with the prefix (INT) and the delay to it (BIGINT, microseconds; empty if p is 1).
BUCKET_SUMMARY = "prefix bigint, nearest binary, delay_us binary"

#: The maximal number of cells of :attr:`Summaries.nearest`: 16 MiB as INT.
_MOST_CELLS = 2**22
#: The maximal number of nodes in a bucket; a task's tables then take about 100 MB.
_MOST_NODES = 2**16
#: The minimal number of nodes in a bucket that is worth a task of its own.
_FEWEST_NODES = 2**9


def bucket_digits(b: int, nodes: int, routers: int, cores: int) -> int:
    """Return p, the number of first digits that the nodes of a bucket share.

    It is the smallest p that gives four buckets per core and at most :data:`_MOST_NODES` nodes per
    bucket, as long as buckets are worth a task and the summaries (a cell per router and prefix)
    stay small.
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
    prefix: int, first: int, ring: Ring, kernel: Kernel, routers: int, with_delay: bool
) -> pa.RecordBatch:
    """Return one row of :data:`BUCKET_SUMMARY` for the nodes of a prefix, sorted by nodeId.

    The delays are needed if summaries will be merged to shorter prefixes (:meth:`Summaries.of`).
    """
    _, index = np.unique(ring.router, return_index=True)  # the smallest nodeId on each router
    index.sort()
    everywhere = np.arange(routers)
    near = index[kernel.nearest(everywhere, ring.router[index], np.array([0]))[:, 0]]
    no_delay = np.empty(0, dtype=np.int64)
    delay_us = kernel.delays(everywhere, ring.router[near]) if with_delay else no_delay
    row = {
        "prefix": prefix,
        "nearest": (first + near).astype(np.int32).tobytes(),
        "delay_us": delay_us.astype(np.int64).tobytes(),
    }
    kinds = [pa.int64(), pa.binary(), pa.binary()]
    columns = [pa.array([cell], kind) for cell, kind in zip(row.values(), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(row))


@dataclass(frozen=True)
class Summaries:
    """The summaries of all prefixes, which have p digits in base 2**b.

    For prefixes of 1, 2, ... p digits, `nearest` has the position of the prefix's node nearest to
    each router, or -1: int32, shape (2**(b * digits), R).
    """

    b: int
    digits: int
    nearest: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, rows: Iterable[dict], routers: int, b: int, digits: int) -> Summaries:
        """Build from rows of :data:`BUCKET_SUMMARY`, in any order; `digits` is p."""
        rows = list(rows)
        nearest = np.full((2 ** (b * digits), routers), -1, dtype=np.int32)
        for row in rows:
            nearest[row["prefix"]] = np.frombuffer(row["nearest"], np.int32)
        levels = [nearest]
        if digits > 1:
            delay_us = np.full(nearest.shape, _NOWHERE)
            for row in rows:
                delay_us[row["prefix"]] = np.frombuffer(row["delay_us"], np.int64)
            while len(levels) < digits:
                merged, delay_us = _nearest_of_shorter(levels[0], delay_us, 2**b)
                levels.insert(0, merged)
        return cls(b, digits, tuple(levels))

    def siblings(self, prefix: int, row: int, routers: np.ndarray) -> np.ndarray:
        """Return the entries of a row before p for nodes of a prefix: int32, (2**b, len(routers)).

        An entry is the node nearest to the router that shares `row` digits with `prefix` and has
        the given next digit; -1 for none, and for the prefix's own digit.
        """
        base = 2**self.b
        cell = prefix >> self.b * (self.digits - row - 1)
        start = cell // base * base
        found = self.nearest[row][start : start + base, routers]
        found[cell - start] = -1
        return found


_NOWHERE = np.int64(2**62)


def _nearest_of_shorter(
    nearest: np.ndarray, delay_us: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray]:
    """Merge summaries to prefixes that are one digit shorter: the nearest of `base` nodes.

    Ties go to the first prefix, which has the smallest nodeIds.
    """
    shape = (-1, base, nearest.shape[1])
    best = delay_us.reshape(shape).argmin(axis=1)[:, None]
    nearest = np.take_along_axis(nearest.reshape(shape), best, axis=1)[:, 0]
    return nearest, np.take_along_axis(delay_us.reshape(shape), best, axis=1)[:, 0]
