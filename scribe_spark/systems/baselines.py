"""The baselines, IP multicast and naive unicast: routes from sources to members.

References
----------
JSAC 2002, Section IV.A ("IP multicast routing used a shortest path tree formed by the merge of the
unicast routes from the source to each recipient") and Section IV.D (naive multicast);
docs/rules.md, O1 to O7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import expand, find_sorted
from scribe_spark.engine.losses import jitter_keys, late_us
from scribe_spark.engine.packing import Columns
from scribe_spark.multicast import Multicast
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.runtime.batches import Batches, Table, rows_of
from scribe_spark.underlay.protocol import Kernel, Underlay, node_delays

_NAMES = ("group", "parent", "child", "parent_router", "child_router", "delay_us")
_STAR = ", ".join(f"{name} bigint" for name in _NAMES)


def unicasts(groups: DataFrame | pa.Table, members: Table, underlay: Underlay) -> Batches:
    """Return a route from each group's source (the parent) to each other member; lazy.

    The groups are ``group, source, source_router``, the members ``group, node, router``; the result
    is ``group, parent, child, parent_router, child_router, delay_us``.
    """
    listed = rows_of(groups, ["group", "source", "source_router"]).sort_by("group")
    sources = [listed.column(name).to_numpy() for name in listed.column_names]
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def routes(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
        group, child, router = (batch.column(n).to_numpy() for n in ("group", "node", "router"))
        at = find_sorted(sources[0], group)
        others = np.flatnonzero(at >= 0)
        others = others[sources[1][at[others]] != child[others]]
        above, below = sources[2][at[others]], router[others]
        delay_us = node_delays(kernel, lan_us, kernel.index(above), kernel.index(below))
        columns = group[others], sources[1][at[others]], child[others], above, below, delay_us
        return dict(zip(_NAMES, columns, strict=True))

    return Batches.of(members, ["group", "node", "router"]).each(routes, _STAR)


def ip_multicast(star: Table) -> Multicast:
    """Return IP multicast as a `Multicast`: routers merge the routes of :func:`unicasts`.

    No node has children. `star` is the table of these routes.
    """
    return Multicast("ip_multicast", star, _deliveries_of(star), merged=True)


def naive_unicast(star: Table, kernel: Kernel | None = None) -> Multicast:
    """Return naive unicast as a `Multicast`: a packet for each of the routes :func:`unicasts`.

    `star` is the table of these routes. With a kernel, copies have its jitter.
    """
    return Multicast("naive_unicast", star, _deliveries_of(star, kernel))


def _deliveries_of(star: Table, kernel: Kernel | None = None) -> Batches:
    """Return ``group, node, hops, delay_us``: one delivery per route of :func:`unicasts`.

    With a kernel, copies have its jitter.
    """

    def delivered(batch: pa.RecordBatch) -> dict[str, pa.Array | np.ndarray]:
        group, parent, child, delay_us = (batch.column(name).to_numpy() for name in wanted)
        if kernel is not None and kernel.jitter:
            key = jitter_keys(kernel.seed, group, 0)
            delay_us = delay_us + late_us(kernel.jitter, key, parent, child, delay_us)
        return {
            "group": group,
            "node": child,
            "hops": np.ones(len(batch), dtype=np.int32),
            "delay_us": delay_us,
        }

    wanted = ["group", "parent", "child", "delay_us"]
    return Batches.of(star, wanted).each(
        delivered, "group bigint, node bigint, hops int, delay_us bigint"
    )


@dataclass(frozen=True)
class LiveUnicast(GroupOverlays):
    """Naive unicast in rounds: the source of a publication sends a copy to each member."""

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """See `GroupOverlays`."""
        begin, end = (np.searchsorted(overlays.group, overlays.of + more) for more in (0, 1))
        publication, row = expand(begin, end)
        node, peer = overlays.source[publication], overlays.node[row]
        away = node != peer
        return {"publication": publication[away], "node": node[away], "peer": peer[away]}


@dataclass(frozen=True)
class LiveIpMulticast(LiveUnicast):
    """IP multicast in rounds: each link carries one packet of a publication."""

    merged: ClassVar[bool] = True
    state: ClassVar[Mapping[str, str]] = {}  # nodes keep no children
