"""The groups of a world between two rounds as tables that can be queried."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.worlds.packed import unpacked

__all__ = ["children", "memberships"]


def memberships(state: DataFrame) -> DataFrame:
    """`schemas.MEMBERSHIPS`: all nodes of all trees; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    """
    rows = unpacked(state, "entries", schemas.MEMBERSHIPS)
    return rows.withColumn("parent", F.when(F.col("parent") >= 0, F.col("parent")))


def children(state: DataFrame) -> DataFrame:
    """`schemas.CHILDREN`: all entries of all children tables; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    """
    return unpacked(state, "children", schemas.CHILDREN, {"parent": "node"})
