"""Checks of a router graph, made once when it is loaded, and the rates of its links.

All other code relies on the checks.  Every number of a network has its :class:`Bounds` here,
whatever file or function gives the number.

References
----------
Jannotti et al., "Overcast: reliable multicasting with an overlay network", OSDI 2000, gives each
class of links of a transit-stub network one rate (recalled).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from scribe_spark.config import ExperimentConfig, TopologyConfig
from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.cells import real_number
from scribe_spark.core.errors import InputError, listed, unlike
from scribe_spark.core.inputs import first_rows
from scribe_spark.core.units import MICROSECONDS, MOST_BITS_PER_SECOND, parse
from scribe_spark.topology.graph import WEIGHT_DECIMALS, Graph


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest possible value of a number of a network."""

    least: float
    most: float

    def hold(self, values: Any) -> np.ndarray:
        """Return True for values within the bounds; False for NaN."""
        values = np.asarray(values, dtype=np.float64)
        return (values >= self.least) & (values <= self.most)

    def number(self, cell: object) -> float:
        """Return the number in a cell of a file; a ValueError names the bounds."""
        number = real_number(cell)
        if not self.hold(number):
            raise ValueError(f"must be {self}")
        return number

    def __str__(self) -> str:
        least, most = (f"{end:,.6f}".rstrip("0").rstrip(".") for end in (self.least, self.most))
        return f"a number from {least} to {most}"


#: The least weight that does not become 0 at the resolution of weights.
LEAST_WEIGHT = 10.0**-WEIGHT_DECIMALS
#: Bounds that keep integer sums along a route far from overflow.
MOST_DELAY_MS = 1e6
MOST_WEIGHT = 1e9
DELAY_MS = Bounds(0.0, MOST_DELAY_MS)
WEIGHT = Bounds(LEAST_WEIGHT, MOST_WEIGHT)
SHARE = LOSS = Bounds(0.0, 1.0)
LONGITUDE, LATITUDE = Bounds(-180.0, 180.0), Bounds(-90.0, 90.0)
_RATE = Bounds(0, MOST_BITS_PER_SECOND)
_LINK_RATE = Bounds(1, MOST_BITS_PER_SECOND)


def latency_ms(text: str, usual: str = "") -> float:
    """Return a delay (ms) from a text with a unit, or a number in the unit `usual`."""
    ms = parse("time", text, usual=usual) / MICROSECONDS
    if not DELAY_MS.hold(ms):
        raise ValueError(f"must be {DELAY_MS} ms")
    return ms


#: The sum of the shares may differ from 1 by this much, as decimals are rounded.
SHARE_TOLERANCE = 1e-6

#: The greatest number of routers with matrices of all pairs (6 bytes per pair); in larger networks,
#: routes of fewest hops are searched on demand.
MOST_ROUTERS = 10_000


def check(graph: Graph, field: str = "topology") -> None:
    """Refuse a graph that cannot be simulated; its links may still be one-way or parallel.

    A graph needs at least one vertex (a single router without links is allowed), whole and unique
    ids >= 0, links between known vertices, and no self-loop.  Delays (also within a router) are in
    [0, 1e6] ms, weights in [1e-6, 1e9], losses and shares in [0, 1], and the sum of the shares is
    1; none is missing.  As an undirected graph, it is connected.  A network of pairs has no links.
    The error names the first broken rule and the first such rows.
    """
    if graph.pairs is not None:
        return
    if graph.vertices.empty:
        raise InputError(field, graph.source, "has no vertices; needs at least one router")
    for rows, bad, remedy in _faults(graph):
        if bad.any():
            raise InputError(field, graph.source, f"{remedy}: {first_rows(rows, bad)}")
    shares = graph.hosts.shares
    if shares is not None and abs(shares.sum() - 1) > SHARE_TOLERANCE:
        remedy = f"shares of nodes must sum to 1, but sum to {unlike(shares.sum(), 1)}"
        raise InputError(field, graph.source, remedy)
    _refuse_islands(graph, field)


def check_routable(graph: Graph, tie: str, most: int = MOST_ROUTERS) -> None:
    """Refuse a graph of more than `most` routers whose routes are not the ones with fewest hops."""
    if len(graph.vertices) <= most:
        return
    for name in ("weight", "delay_ms"):
        values = graph.edges[name]
        if values.min() < values.max():
            remedy = (
                f"has {len(graph.vertices):,} routers; beyond {most:,} every link must have the "
                f"same weight and the same delay_ms, and {name} goes from {values.min():g} to "
                f"{values.max():g}"
            )
            raise InputError("topology", graph.source, remedy)
    if tie != "delay":
        raise InputError("tie", tie, f"must be delay for a network of more than {most:,} routers")


def _faults(graph: Graph) -> Iterator[tuple[pd.DataFrame, np.ndarray, str]]:
    """Yield each rule of :func:`check`: rows, a mask of bad rows, and a remedy."""
    ids, edges = graph.vertices["id"], graph.edges
    shown = graph.vertices[["id"]]
    yield shown, ~_whole(ids), "vertex ids must be whole numbers"
    yield shown, (ids < 0).to_numpy(), "vertex ids must be at least 0"
    yield shown, ids.duplicated().to_numpy(), "vertex ids must be unique"

    ends, delay, weight = edges[["src", "dst"]], edges["delay_ms"], edges["weight"]
    strange = ~(ends["src"].isin(ids) & ends["dst"].isin(ids)).to_numpy()
    yield ends, strange, "both ends of a link must be vertices"
    loops = (ends["src"] == ends["dst"]).to_numpy()
    yield ends, loops, "a link must join two different routers; leave self-loops out"
    yield edges[["src", "dst", "delay_ms"]], ~DELAY_MS.hold(delay), f"delay_ms must be {DELAY_MS}"
    yield edges[["src", "dst", "weight"]], ~WEIGHT.hold(weight), f"weight must be {WEIGHT}"
    if "rate" in edges:
        strange = ~_LINK_RATE.hold(edges["rate"])
        yield edges[["src", "dst", "rate"]], strange, f"rate (bits per second) must be {_LINK_RATE}"
    if (losses := graph.losses) is not None:
        yield losses[["src", "dst", "loss"]], ~LOSS.hold(losses["loss"]), f"loss must be {LOSS}"
    hosts = graph.hosts
    own_ms = None if hosts.own_us is None else hosts.own_us / MICROSECONDS
    of_routers = {
        "own_ms": (own_ms, DELAY_MS, "the delay within a router (ms)"),
        "share": (hosts.shares, SHARE, "the share of the nodes at a router"),
        "up": (hosts.up, _RATE, "a rate (bits per second)"),
        "down": (hosts.down, _RATE, "a rate (bits per second)"),
    }
    for name, (values, bounds, what) in of_routers.items():
        if values is not None:
            rows = pd.DataFrame({"router": ids.to_numpy(), name: values})
            yield rows, ~bounds.hold(values), f"{what} must be {bounds}"


def _whole(ids: pd.Series) -> np.ndarray:
    if pd.api.types.is_integer_dtype(ids.dtype):
        return ids.notna().to_numpy()
    numbers = pd.to_numeric(ids, errors="coerce")
    return (numbers == np.floor(numbers)).to_numpy()


def _refuse_islands(graph: Graph, field: str) -> None:
    """Refuse a graph that is not connected."""
    ids = np.sort(graph.vertices["id"].to_numpy())
    ends = tuple(index_sorted(ids, graph.edges[end].to_numpy()) for end in ("src", "dst"))
    linked = coo_array((np.ones(len(ends[0])), ends), shape=(len(ids), len(ids)))
    count, label = connected_components(linked, directed=False)
    if count > 1:
        smallest = ids[label == np.bincount(label).argmin()]
        names = listed(smallest[:3]) + (", ..." if len(smallest) > 3 else "")
        remedy = (
            f"must be connected, falls into {count} parts: router {names} ({len(smallest)} in that "
            f"part) has no route to the other {len(ids) - len(smallest)}; add the missing links, "
            "or keep one part"
        )
        raise InputError(field, graph.source, remedy)


# --- the rates of links


def link_rates(graph: Graph, config: TopologyConfig) -> np.ndarray | None:
    """Return the rate (bit/s) of each row of ``graph.edges``: int64.

    None if the rates are unknown, or if the network is too large for its routes to be kept.
    """
    edges, vertices = graph.edges, graph.vertices
    if len(vertices) > MOST_ROUTERS:
        return None
    if "rate" in edges:
        return edges["rate"].to_numpy(np.int64)
    kinds = vertices.set_index("id")["kind"]
    if not kinds.isin(("transit", "stub")).all():
        return None
    transit = [(kinds.loc[edges[end]] == "transit").to_numpy(np.int64) for end in ("src", "dst")]
    return np.array(config.rates_of_links)[sum(transit)]


def refuse_network(config: ExperimentConfig, graph: Graph) -> None:
    """Refuse settings of systems, or of links, that do not fit to a network."""
    has_rates = link_rates(graph, config.topology) is not None
    if config.bandwidth.link_rates and not has_rates:
        remedy = f"needs rates of links on kept routes, which {graph.source} does not have"
        raise InputError("link_rates", True, remedy)
    config.refuse_network(graph.source, len(graph.vertices), has_rates)
