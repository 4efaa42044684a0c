"""Events that happen once: mass failure, failure of nodes with adjacent nodeIds, flash crowd.

Churn is in :mod:`.churn`; which generators there are is in :mod:`.registry`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import draws, ids
from scribe_spark.errors import InputError
from scribe_spark.worlds.rows import ARRIVE, FAIL, EventRows, Extent

__all__ = ["adjacent_failure", "flash_crowd", "mass_failure", "share_of"]


def share_of(nodes: int, share: float) -> int:
    """How many nodes a share is, rounded down, exactly for the decimal that was given.

    Raises
    ------
    InputError
        It is less than one node.
    """
    count = int(nodes * Fraction(str(share)))
    if count < 1:
        raise InputError("share", share, f"is less than one of {nodes} nodes; give more")
    return count


def mass_failure(extent: Extent, at: int, share: float, seed: int) -> EventRows:
    """A share of the live nodes, drawn uniformly, fails in round `at`.

    Raises
    ------
    InputError
        There is no such round; the share is less than one node.
    """
    _refuse_no_round(at, extent)
    size = share_of(extent.initial, share)
    failing = draws.distinct_below(extent.initial, size, seed, "mass failure", at)
    return EventRows.at_once(at, failing, FAIL)


def adjacent_failure(extent: Extent, at: int, count: int, nodes: DataFrame, seed: int) -> EventRows:
    """A drawn live node and those that follow it on the ring fail in round `at`.

    If l/2 of them fail at once, a side of their neighbours' leaf sets is dead: the ring may stay
    wrong there.  If l/2 - 1 fail, it can be repaired.

    Parameters
    ----------
    count : int
        How many nodes fail; the live nodes with the next larger nodeIds, beyond the largest from
        the smallest on.
    nodes : DataFrame
        `schemas.NODES`.

    Raises
    ------
    InputError
        There is no such round; no node would be left.
    """
    _refuse_no_round(at, extent)
    if count >= extent.initial:
        remedy = f"leaves none of {extent.initial} live nodes; must be less"
        raise InputError("adjacent", count, remedy)
    raw = draws.stream(seed, "adjacent failure", at)
    first = int(draws.whole_numbers(raw, extent.initial, 1)[0])
    live = nodes.where(F.col("node") < extent.initial)
    failing = following(live, first, count)
    return EventRows.at_once(at, np.array(failing, dtype=np.int64), FAIL)


def following(nodes: DataFrame, first: int, count: int) -> list[int]:
    """`count` nodes in the order of the ring, of which `first` is the first."""
    ((hi, lo),) = nodes.where(F.col("node") == first).select("id_hi", "id_lo").collect()
    own = F.col("id_hi"), F.col("id_lo")
    passed = ids.lt(*own, F.lit(hi).cast("bigint"), F.lit(lo).cast("bigint"))
    nearest = nodes.orderBy(passed, *map(ids.unsigned, own)).limit(count)
    return [row["node"] for row in nearest.select("node").collect()]


def flash_crowd(extent: Extent, at: int) -> EventRows:
    """All nodes that are not alive at the start arrive in round `at`.

    These are the last numbers; as nodeIds and routers are drawn node by node, they are as good as
    any others.

    Raises
    ------
    InputError
        There is no such round.
    """
    _refuse_no_round(at, extent)
    return EventRows.at_once(at, np.arange(extent.initial, extent.nodes), ARRIVE)


def _refuse_no_round(at: int, extent: Extent) -> None:
    if at >= extent.rounds:
        raise InputError("event_round", at, f"is no round; rounds are 0 to {extent.rounds - 1}")
