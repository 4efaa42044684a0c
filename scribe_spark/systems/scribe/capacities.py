"""Capacities: a table with the maximal number of children of each node.

References
----------
JSAC 2002, Section IV.E: "some nodes may have less computational power or bandwidth".
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import Kind, check_each_node, is_local, not_each_node, read_table
from scribe_spark.runtime.remote_inputs import read_remote, refuse_unreadable
from scribe_spark.runtime.sessions import local_frame

_COLUMNS: dict[str, Kind] = {"node": "int", "limit": "int"}


def check_capacities(path: str, nodes: int) -> pd.DataFrame:
    """Read and check a local table of limits (``node, limit``) without Spark.

    Parameters
    ----------
    path : str
    nodes : int
        N, the number of overlay nodes.

    Raises
    ------
    InputError
        A row names no node, a node is missing or occurs twice, or a limit is below 1.
    """
    frame = read_table(path, "capacities", _COLUMNS)
    node, limit = frame["node"].to_numpy(np.int64), frame["limit"].to_numpy(np.int64)
    check_each_node(node, nodes, "capacities", path)
    if (limit < 1).any():
        row = int(np.argmax(limit < 1))
        raise InputError("capacities", path, f"limit={limit[row]} of node={node[row]} is below 1")
    return frame


def limits_by_number(capacities: DataFrame) -> np.ndarray:
    """Return the limits of :func:`read_capacities` by node number: int64, shape (N,)."""
    return capacities.select("node", "limit").toArrow().sort_by("node").column("limit").to_numpy()


def read_capacities(spark: SparkSession, path: str, nodes: int) -> DataFrame:
    """Read and check the user's table ``node, limit`` (BIGINT) at `path`, for all nodes.

    Raises
    ------
    InputError
        See :func:`check_capacities`.
    """
    if is_local(path):
        frame = check_capacities(path, nodes)
        columns = {name: frame[name].to_numpy(dtype=np.int64) for name in ("node", "limit")}
        return local_frame(spark, pa.table(columns))
    given = read_remote(spark, path, "capacities", _COLUMNS)
    valid = F.col("node").between(0, nodes - 1) & (F.col("limit") >= 1)
    with refuse_unreadable("capacities", path):
        for row in given.where(~F.coalesce(valid, F.lit(False))).take(1):
            bad = f"row node={row['node']}, limit={row['limit']} will not do"
            raise not_each_node(bad, nodes, "capacities", path)
        counts = given.agg(F.count("*").alias("rows"), F.count_distinct("node").alias("nodes"))
        rows, named = counts.collect()[0]
    if (rows, named) != (nodes, nodes):
        raise not_each_node(f"has {rows} rows for {named} nodes", nodes, "capacities", path)
    return given
