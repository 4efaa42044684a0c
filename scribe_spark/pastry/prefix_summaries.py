"""Summaries that the parts of the ring exchange: each router's nearest node of each prefix.

Nodes that share their first p digits find the entries of rows p and deeper among themselves.  For
rows 0 to p - 1 all that they need of the others is each router's nearest node of each prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scribe_spark.engine.ring import Ring
from scribe_spark.underlay.protocol import Kernel

#: Of one prefix, as a number: for each router, in order, the position of its nearest node (INT),
#: and how far that is (BIGINT, microseconds; empty where p is 1).
BUCKET_SUMMARY = "prefix bigint, nearest binary, delay_us binary"

#: Cells of :attr:`Summaries.nearest` at the most: 16 MiB as INT.
_MOST_CELLS = 2**22
#: Nodes of one bucket at the most: a task's tables then take about 100 MB.
_MOST_NODES = 2**16
#: A bucket of fewer nodes than this is not worth a task of its own.
_FEWEST_NODES = 2**9


def bucket_digits(b: int, nodes: int, routers: int, cores: int) -> int:
    """Return how many digits p the nodes of one bucket share.

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
    prefix: int, first: int, ring: Ring, kernel: Kernel, routers: int, with_delay: bool
) -> pa.RecordBatch:
    """Return one row of :data:`BUCKET_SUMMARY`.

    Parameters
    ----------
    first : int
        The position of the first of the nodes.
    ring : Ring
        The nodes of the prefix in nodeId order; routers are indices.
    routers : int
        How many routers the underlay has.
    with_delay : bool
        Whether summaries are to be merged (:meth:`Summaries.of`).
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
    """The summaries of all prefixes.

    Attributes
    ----------
    b, digits : int
        Digits are base 2**b; the nodes of a prefix share this many, p.
    nearest : tuple of ndarray of int32, shape (2**(b * digits), R)
        For 1, 2, ... p digits: the position of each prefix's node nearest to each router; -1 where
        no node has the prefix.
    """

    b: int
    digits: int
    nearest: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, rows: Iterable[dict], routers: int, b: int, digits: int) -> Summaries:
        """From rows of :data:`BUCKET_SUMMARY`, in any order; `digits` is p."""
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
        """Return entries of a row before p for nodes of a prefix: int32, (2**b, len(routers)).

        Positions of the nodes nearest to each router that share `row` digits with `prefix`, by
        their next digit; -1 for none, and for the prefix's own digit.
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
    """Nearest nodes of prefixes one digit shorter: the nearest of the `base` prefixes under each.

    Of equally near ones the first, which has the smallest nodeId.
    """
    shape = (-1, base, nearest.shape[1])
    best = delay_us.reshape(shape).argmin(axis=1)[:, None]
    nearest = np.take_along_axis(nearest.reshape(shape), best, axis=1)[:, 0]
    return nearest, np.take_along_axis(delay_us.reshape(shape), best, axis=1)[:, 0]
