"""Waves: how many nodes arrive at once, in which order.

All nodes of a wave see the overlay as it was before the wave.  One node a wave is the sequential
protocol of the papers; larger waves need fewer supersteps.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from scribe_spark import draws
from scribe_spark.core import u128 as ids

__all__ = ["arrival_rank", "wave_ends", "wave_size"]


def wave_size(before: int, growth: float) -> int:
    """Nodes of a wave: max(1, floor(n (growth - 1))), exactly for the decimal that was given.

    Parameters
    ----------
    before : int
        n, the nodes before the wave.
    """
    return max(1, int(before * (Fraction(str(growth)) - 1)))


def wave_ends(nodes: int, growth: float) -> np.ndarray:
    """Return how many nodes there are after each wave: int64, ascending, from 1 to `nodes`."""
    ends = [min(1, nodes)]
    while ends[-1] < nodes:
        ends.append(min(nodes, ends[-1] + wave_size(ends[-1], growth)))
    return np.array(ends, dtype=np.int64)


def arrival_rank(seed: int) -> Column:
    """The place (from 0) of each row of `schemas.NODES` in the order of arrival, which is drawn."""
    drawn = draws.bits(seed, "arrival order", "node")
    order = Window.orderBy(drawn, ids.unsigned(F.col("id_hi")), ids.unsigned(F.col("id_lo")))
    return F.row_number().over(order) - 1
