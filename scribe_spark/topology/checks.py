"""Checks of a router graph, made once at the edge; everything behind assumes that they hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from scribe_spark.errors import InputError, listed
from scribe_spark.inputs import first_rows
from scribe_spark.topology.graph import WEIGHT_DECIMALS, Graph

#: The least weight that the resolution of weights can tell from none.
LEAST_WEIGHT = 10.0**-WEIGHT_DECIMALS
#: Bounds that keep integer sums along a route far from overflow.
MOST_DELAY_MS = 1e6
MOST_WEIGHT = 1e9
#: More routers than this are too many for matrices of all pairs (6 bytes a pair): routes are then
#: searched for, by hops.
MOST_ROUTERS = 10_000


def check(graph: Graph, field: str = "topology") -> None:
    """Refuse a graph that cannot be simulated.

    There must be a vertex (a single router without links is legal); ids whole, unique and >= 0;
    every end of a link a vertex; no self-loop; delays in [0, 1e6] ms and weights in [1e-6, 1e9],
    none missing; and the graph, seen undirected, connected.

    Parameters
    ----------
    graph : Graph
        Links may still be one-way or parallel: rows are named as the user gave them.
    field : str
        The input's name in error messages.

    Raises
    ------
    InputError
        One line for the first rule broken, with the first offending rows.
    """
    if graph.vertices.empty:
        raise InputError(field, graph.source, "has no vertices; needs at least one router")
    for rows, bad, remedy in _faults(graph):
        if bad.any():
            raise InputError(field, graph.source, f"{remedy}: {first_rows(rows, bad)}")
    islands = _islands(graph)
    if len(islands) > 1:
        _refuse_islands(islands, graph, field)


def check_routable(graph: Graph, tie: str, most: int = MOST_ROUTERS) -> None:
    """Refuse a large graph whose routes are not those of fewest hops.

    Parameters
    ----------
    graph : Graph
        As :func:`check` accepts it.
    tie : str
        `RunConfig.tie`.
    most : int
        With up to this many routers there are matrices, and every graph will do.

    Raises
    ------
    InputError
    """
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
    """(rows, which are bad, what would do), in order: each rule may assume those before it."""
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
    shown = edges[["src", "dst", "delay_ms"]]
    remedy = f"delay_ms must be a number from 0 to {MOST_DELAY_MS:,.0f}"
    yield shown, ~delay.between(0.0, MOST_DELAY_MS).to_numpy(), remedy
    shown = edges[["src", "dst", "weight"]]
    remedy = f"weight must be a number from {LEAST_WEIGHT:.6f} to {MOST_WEIGHT:,.0f}"
    yield shown, ~weight.between(LEAST_WEIGHT, MOST_WEIGHT).to_numpy(), remedy


def _whole(ids: pd.Series) -> np.ndarray:
    if pd.api.types.is_integer_dtype(ids.dtype):
        return ids.notna().to_numpy()
    numbers = pd.to_numeric(ids, errors="coerce")
    return (numbers == np.floor(numbers)).to_numpy()


def _islands(graph: Graph) -> list[np.ndarray]:
    """The ids of each connected component, largest first."""
    ids = np.sort(graph.vertices["id"].to_numpy())
    src = np.searchsorted(ids, graph.edges["src"].to_numpy())
    dst = np.searchsorted(ids, graph.edges["dst"].to_numpy())
    linked = coo_array((np.ones(len(src)), (src, dst)), shape=(len(ids), len(ids)))
    count, label = connected_components(linked, directed=False)
    islands = [ids[label == one] for one in range(count)] if count > 1 else [ids]
    return sorted(islands, key=len, reverse=True)


def _refuse_islands(islands: list[np.ndarray], graph: Graph, field: str) -> None:
    smallest = islands[-1]
    names = listed(smallest[:3]) + (", ..." if len(smallest) > 3 else "")
    others = len(graph.vertices) - len(smallest)
    remedy = (
        f"must be connected, falls into {len(islands)} parts: router {names} "
        f"({len(smallest)} in that part) has no route to the other {others}; "
        "add the missing links, or keep one part"
    )
    raise InputError(field, graph.source, remedy)
