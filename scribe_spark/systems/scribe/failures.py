"""The cost of a node failure for the trees that contain the node, by the node's depth.

The cost is computed from static trees.  A failed node breaks the link to its parent and the links
to its children.  Each child joins again, which costs at least one new link and one JOIN, and the
parent drops the failed child.

References
----------
JSAC 2002, Section III.C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import depths, numbered
from scribe_spark.multicast import FAILURES, failure_sums
from scribe_spark.runtime.blocks import read_partition


def costs_of_rejoining(edges: DataFrame) -> DataFrame:
    """Sum the costs of a failure of each (group, node), by the depth of the node: `FAILURES`."""
    whole = edges.select("group", "parent", "child").repartition("group")
    sums = [F.sum(name).alias(name) for name in ("failures", "links", "acting", "messages")]
    return whole.mapInArrow(_rejoin, FAILURES).groupBy("depth").agg(*sums)


def _rejoin(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = read_partition(batches)
    if rows is None:
        return
    group, parent, child = (rows.column(n).to_numpy() for n in ("group", "parent", "child"))
    ends = np.stack([np.r_[group, group], np.r_[parent, child]])
    number = numbered(*ends)
    upper, lower = np.split(number, 2)
    above = np.full(number.max() + 1, -1)
    above[lower] = upper
    children = np.bincount(upper, minlength=len(above))
    below_root = (above >= 0).astype(np.int64)
    yield failure_sums(depths(above), 2 * children + below_root, children + below_root, children)
