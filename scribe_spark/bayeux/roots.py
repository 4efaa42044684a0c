"""The roots of a group: the keys of its partitions, and the nodes responsible for them.

References
----------
docs/rules.md, B1 and B2.  JSAC 2002, Section V: "splitting the root into several replicas and
partitioning members across them".
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import NONE
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry import closeness
from scribe_spark.pastry.closeness import Keys

#: The rules that select the root of a key.
PASTRY, SURROGATE = "pastry", "surrogate"


def partition_keys(group_ids: Keys, partitions: int) -> Keys:
    """Return the keys of all partitions; partition i of group g has index g * partitions + i.

    The keys of a group are evenly spaced on the ring; the first is the groupId.
    """
    steps = [i * (2**128 // partitions) for i in range(partitions)]
    step_hi = np.array([step >> 64 for step in steps], dtype=np.uint64)
    step_lo = np.array([step % 2**64 for step in steps], dtype=np.uint64)
    lo = group_ids.lo[:, None] + step_lo
    hi = group_ids.hi[:, None] + step_hi + (lo < step_lo)
    return Keys(hi.ravel(), lo.ravel())


def find_roots(ring: Ring, keys: Keys, partitions: int, rule: str, b: int) -> np.ndarray:
    """Return the root of each partition: positions, int64, shape (G, partitions).

    A partition with the same root as an earlier one does not exist: :data:`NONE`.
    """
    if rule == SURROGATE:
        found = surrogate_roots(ring, keys, b)
    else:
        found = closeness.roots(ring, np.arange(len(ring)), keys)
    roots = found.reshape(-1, partitions)
    for i in range(1, partitions):
        again = (roots[:, :i] == roots[:, i, None]).any(axis=1)
        roots[again, i] = NONE
    return roots


def surrogate_roots(ring: Ring, keys: Keys, b: int) -> np.ndarray:
    """Return the node where surrogate routing ends for each key: positions, int64.

    The search narrows the set of nodes digit by digit: it keeps the nodes with the first next digit
    that occurs among them, starting at the key's digit, cyclically.
    """
    shared = ids.shared_digits_np(ring.hi[1:], ring.lo[1:], ring.hi[:-1], ring.lo[:-1], b)
    low = np.zeros(len(keys), dtype=np.int64)
    high = np.full(len(keys), len(ring))
    for row in range(int(shared.max(initial=-1)) + 1):
        # nodes that share the first `row` digits form a run; `number` combines run and next digit
        run = np.cumsum(np.r_[True, shared < row]) * 2**b
        number = run + ids.digit_np(ring.hi, ring.lo, row, b)
        wanted = run[low] + ids.digit_np(keys.hi, keys.lo, row, b)
        first = np.searchsorted(number, wanted)
        first = np.where(first < high, first, low)
        high = np.searchsorted(number, number[first], side="right")
        low = first
    return low
