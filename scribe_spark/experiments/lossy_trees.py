"""The trees of a run whose network loses packets: the copies that are sent, and those that arrive.

References
----------
docs/rules.md, N1 and N5.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.engine.losses import are_lost, loses, publication_keys
from scribe_spark.experiments.stages import Stages
from scribe_spark.multicast import EDGES, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.underlay.protocol import Kernel

_EDGE = [column.split()[0] for column in EDGES.split(", ")]


def with_losses(run: Stages, made: Multicast) -> Multicast:
    """Return a multicast along trees without the copies that are not sent or do not arrive.

    The edges of the result are those on which a copy is sent.
    """
    kernel = run.underlay.kernel
    if made.tree_edges is None or made.merged or not loses(kernel):
        return made

    @cache
    def fates() -> DataFrame:
        assert made.edges is not None
        edges = Batches.of(made.edges, _EDGE).frame
        seed = run.config.seed

        def of_group(table: pa.Table) -> pa.Table:
            return _fates(kernel, seed, table)

        played = edges.groupBy("group").applyInArrow(of_group, f"{EDGES}, arrives boolean")
        return run.memory.materialise(played)

    def delivered() -> DataFrame:
        node = fates().groupBy("group", F.col("child").alias("node"))
        gone = node.agg(F.bool_or("arrives").alias("arrives")).where("NOT arrives")
        return Batches.of(made.deliveries).frame.join(gone, ["group", "node"], "left_anti")

    sent = lambda: fates().select(_EDGE)  # noqa: E731
    return replace(made, tree_edges=sent, delivered=delivered, partial=True)


def _fates(kernel: Kernel, seed: int, edges: pa.Table) -> pa.Table:
    """Return the edges of a group's tree on which a copy is sent, and whether the copy arrives."""
    group, parent, child, *routers = (edges.column(name).to_numpy() for name in _EDGE)
    share = kernel.losses(*map(kernel.index, routers))
    assert share is not None
    passes = ~are_lost(publication_keys(seed, group, 0), share, parent, child)
    node, index = np.unique(np.concatenate([parent, child]), return_inverse=True)
    above, below = np.split(index, 2)
    has = np.ones(len(node), dtype=bool)
    has[below] = False  # the tops of trees
    while not has[below[passes & has[above]]].all():
        has[below[passes & has[above]]] = True
    return edges.append_column("arrives", pa.array(passes)).filter(pa.array(has[above]))
