"""The classes and regions of nodes, and the counts of a world's round by these parts.

A node's class and region are functions of its number, so a count by part needs no join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.core.histogram import Histogram
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.measures.latency import ARRIVED, THOUSANDTHS
from scribe_spark.pastry.nodes import router_index
from scribe_spark.rounds.counts import Counted, Counts

if TYPE_CHECKING:
    from scribe_spark.topology.graph import Hosts


@dataclass(frozen=True, eq=False)
class NodeParts:
    """The classes or the regions of nodes."""

    #: Either ``class`` or ``region``.
    by: str
    names: tuple[str, ...]
    #: Returns the index in `names` of each node's part (int64), from the numbers of nodes.
    of_nodes: Callable[[np.ndarray], np.ndarray]


def node_parts(config: Any, hosts: Hosts) -> tuple[NodeParts, ...]:
    """Return the classes and the regions of nodes, if there are any."""
    parts, classes = list[NodeParts](), NodeClasses.of(config)
    if classes.names:
        parts.append(NodeParts("class", classes.names, classes.of_nodes))
    if hosts.region is not None:
        parts.append(NodeParts("region", hosts.regions, partial(_regions, config.seed, hosts)))
    return tuple(parts)


def _regions(seed: int, hosts: Hosts, nodes: np.ndarray) -> np.ndarray:
    assert hosts.region is not None
    return hosts.region[router_index(seed, nodes, len(hosts.region), hosts.shares, hosts.places)]


def numbers_of_values(found: Histogram) -> dict[str, Any]:
    """Return count, mean and percentiles (nearest rank) of counted values."""
    # integers (microseconds, for delays), because sums of floats depend on their order
    thousandths = np.rint(found.values * THOUSANDTHS).astype(np.int64)
    return {
        "count": found.total,
        "mean": int((thousandths * found.counts).sum()) / found.total / THOUSANDTHS,
        **{name: found.nearest_rank(q) for name, q in ARRIVED.items()},
        "max": found.max,
    }


# --- rounds of a world: counts of buckets


def count_in_parts(
    counts: Counts, parts: Iterable[NodeParts], name: str, nodes: np.ndarray, values: np.ndarray
) -> None:
    """Count things (such as deliveries) by value, separately for each part.

    `nodes` are the numbers of the nodes to which the things belong.
    """
    for one in parts:
        part = one.of_nodes(nodes)
        for index in range(len(one.names)):
            counts.add(_name(name, one, index), values[part == index])


def rows_of_parts(
    counted: Counted, parts: Iterable[NodeParts], system: str, measures: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the counts of `count_in_parts` as rows of `schemas.BY_PART`.

    `measures` has the number by which the counted values of each measure are divided.
    """
    rows = []
    for one in parts:
        for index, part in enumerate(one.names):
            for measure, units in measures.items():
                found = counted.histogram(_name(measure, one, index))
                if found:
                    scaled = Histogram(found.values / units, found.counts)
                    key = {"by": one.by, "part": part, "system": system, "measure": measure}
                    rows.append(key | numbers_of_values(scaled))
    return rows


def _name(measure: str, parts: NodeParts, index: int) -> str:
    return f"{measure} of {parts.by} {index}"
