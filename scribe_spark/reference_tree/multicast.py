"""The tree over all hosts as a multicast system: all groups use edges of the same tree.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Sections 2.1, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import offsets_of
from scribe_spark.multicast import EDGES, Multicast
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.lineages import lineages
from scribe_spark.reference_tree.places import places
from scribe_spark.reference_tree.pruned_trees import PrunedTrees, Subscribers
from scribe_spark.runtime.blocks import materialise, read_partition, release
from scribe_spark.underlay.protocol import Kernel, Underlay

SYSTEM = "reference_tree"

_COPY = f"{EDGES}, delay_us bigint, hops int, arrival_us bigint, is_member boolean"


def copies(
    nodes: DataFrame,
    groups: DataFrame,
    members: DataFrame,
    underlay: Underlay,
    children: int = 2,
    assignment: str = "pastry",
    progress: Progress | None = None,
) -> DataFrame:
    """Return every copy of every group's message over the one tree of all nodes, materialised.

    The message travels from the group's source to the members, along the edges of the tree, up and
    down.  It takes no other edges: each host knows from the subscriptions which of its subtrees
    have members.

    The columns are ``group, parent, child, parent_router, child_router, delay_us``: a copy, and the
    delay D between its ends; ``hops`` and ``arrival_us``: the path from the source to the child;
    ``is_member``: whether the child is a member.
    """
    ids = nodes.select("node", "id_hi", "id_lo")
    placed = places(ids, children=children, assignment=assignment, progress=progress)
    try:
        ways = lineages(placed, nodes).repartition("node")
        made, _ = materialise(_copies_over(ways, groups, members, underlay))
        return made
    finally:
        release(placed)


def _copies_over(
    ways: DataFrame, groups: DataFrame, members: DataFrame, underlay: Underlay
) -> DataFrame:
    """Return :func:`copies` over the lineages of all nodes."""
    sources = groups.select(
        "group",
        F.col("source").alias("node"),
        F.col("source_router").alias("router"),
        F.lit(True).alias("is_source"),
    )
    subscribing = members.select("group", "node", "router", F.lit(False).alias("is_source"))
    both = subscribing.unionByName(sources).repartition("node")
    climbing = both.hint("shuffle_hash").join(ways, "node", "inner").repartition("group")
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def prune(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            yield _copies(PrunedTrees.of(_subscribers(rows)), kernel, lan_us)

    return climbing.mapInArrow(prune, _COPY)


def multicast(made: DataFrame) -> Multicast:
    """Return the copies of :func:`copies` in the form in which the measures read them."""
    heard = made.where(F.col("is_member"))
    arrived = F.col("arrival_us").alias("delay_us")
    deliveries = heard.select("group", F.col("child").alias("node"), "hops", arrived)
    return Multicast(SYSTEM, made, deliveries)


def _subscribers(rows: pa.Table) -> Subscribers:
    """Return the rows of a partition as arrays."""
    group, node, router, is_source = (
        rows.column(name).to_numpy() for name in ("group", "node", "router", "is_source")
    )
    lengths, ancestors = _flat(rows.column("ancestors"))
    _, routers = _flat(rows.column("routers"))
    offsets = offsets_of(lengths)
    return Subscribers(group, node, router, is_source, offsets, ancestors, routers)


def _flat(lists: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the length of each list, and the concatenated lists."""
    lengths = [chunk.value_lengths().to_numpy() for chunk in lists.chunks]
    return np.concatenate(lengths), np.concatenate([c.flatten().to_numpy() for c in lists.chunks])


def _copies(trees: PrunedTrees, kernel: Kernel, lan_us: int) -> pa.RecordBatch:
    """Rows of :func:`copies`."""
    sender, receiver = trees.copies
    router = kernel.index(trees.router)
    delay_us = kernel.delays(router[sender], router[receiver]) + 2 * lan_us
    leg_us, leg = (np.zeros(len(trees.node), dtype=np.int64) for _ in range(2))
    lower = np.flatnonzero(trees.above >= 0)
    leg_us[lower], leg[lower] = delay_us, 1
    columns = [
        trees.group[sender],
        trees.node[sender],
        trees.node[receiver],
        trees.router[sender],
        trees.router[receiver],
        delay_us,
        trees.from_source(leg)[receiver].astype(np.int32),
        trees.from_source(leg_us)[receiver],
        trees.is_member[receiver],
    ]
    names = [column.split()[0] for column in _COPY.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)
