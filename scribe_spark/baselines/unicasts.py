"""The unicast routes from each group's source to its members, which both baselines use."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import find_sorted
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.underlay.protocol import Underlay

_STAR = ", ".join(
    f"{name} bigint"
    for name in ("group", "parent", "child", "parent_router", "child_router", "delay_us")
)


def unicasts(groups: DataFrame, members: Table, underlay: Underlay) -> Batches:
    """Return a route from each group's source to each other member, with its delay; lazy.

    Parameters
    ----------
    groups : DataFrame
        ``group, source, source_router``; collected now.
    members : DataFrame or Batches
        ``group, node, router``.

    Returns
    -------
    Batches
        ``group, parent, child, parent_router, child_router, delay_us``; the parent is the source.
    """
    listed = groups.select("group", "source", "source_router").toArrow().sort_by("group")
    sources = [listed.column(name).to_numpy() for name in listed.column_names]
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def routes(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
        group, child, router = (batch.column(n).to_numpy() for n in ("group", "node", "router"))
        at = find_sorted(sources[0], group)
        others = np.flatnonzero(at >= 0)
        others = others[sources[1][at[others]] != child[others]]
        above, below = sources[2][at[others]], router[others]
        delay_us = kernel.delays(kernel.index(above), kernel.index(below)) + 2 * lan_us
        columns = group[others], sources[1][at[others]], child[others], above, below, delay_us
        return dict(zip(_NAMES, columns, strict=True))

    return Batches.of(members, ["group", "node", "router"]).each(routes, _STAR)


_NAMES = [column.split()[0] for column in _STAR.split(", ")]


def deliveries_of(star: Table) -> Batches:
    """Return ``group, node, hops, delay_us``: one delivery per route of :func:`unicasts`."""

    def delivered(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        return {
            "group": batch.column("group"),
            "node": batch.column("child"),
            "hops": np.ones(len(batch), dtype=np.int32),
            "delay_us": batch.column("delay_us"),
        }

    wanted = ["group", "child", "delay_us"]
    return Batches.of(star, wanted).each(
        delivered, "group bigint, node bigint, hops int, delay_us bigint"
    )
