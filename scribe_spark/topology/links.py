"""A router graph from a user's links.

Delays have a resolution of a microsecond, weights of a millionth.  Without a ``weight``, the delay
is the weight, so that routes have the least delay.  A link with one direction gets its reverse with
the same delay and weight; of parallel links, only the one with the least weight, then the least
delay, is kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from scribe_spark.core.inputs import Kind
from scribe_spark.topology.checks import LEAST_WEIGHT, check
from scribe_spark.topology.graph import (
    DELAY_DECIMALS,
    NO_HOSTS,
    WEIGHT_DECIMALS,
    Graph,
    Hosts,
    router_frame,
)

#: The input's name in error messages.
FIELD = "topology"

#: Columns of a table of links, and those of them that are optional.
EDGE_COLUMNS: dict[str, Kind] = {
    "src": "int",
    "dst": "int",
    "delay_ms": "float",
    "weight": "float",
    "rate": "float",
}
OPTIONAL = ("weight", "rate")


def graph_of_links(
    vertices: pd.DataFrame | None,
    edges: pd.DataFrame,
    source: str,
    hosts: Hosts = NO_HOSTS,
    losses: pd.DataFrame | None = None,
    notes: tuple[str, ...] = (),
    field: str = FIELD,
) -> Graph:
    """Return the checked graph of links, with one row per direction.

    Parameters
    ----------
    vertices : DataFrame or None
        The routers, from :func:`~scribe_spark.topology.graph.router_frame`.  None: the ends of the
        links.
    edges : DataFrame
        ``src, dst`` (int64), ``delay_ms`` and, optionally, ``weight`` and ``rate`` (float64).
    source : str
        The origin of the links, for messages.
    hosts, losses, notes
        Fields of the graph.
    field : str
        The input's name in messages.

    Raises
    ------
    InputError
        :func:`~scribe_spark.topology.checks.check` refuses the graph.

    Examples
    --------
    >>> links = pd.DataFrame({"src": [0, 1], "dst": [1, 2], "delay_ms": [2.0, 3.0]})
    >>> len(graph_of_links(None, links, "a path of three routers").edges)
    4
    """
    if vertices is None:
        vertices = router_frame(np.unique(edges[["src", "dst"]].to_numpy()))
    if "weight" not in edges:
        # the rounded delay; a link without delay (two routers at one place) still has a weight
        with np.errstate(over="ignore"):  # delays out of bounds are refused below
            weight = edges["delay_ms"].round(DELAY_DECIMALS).clip(lower=LEAST_WEIGHT)
        edges = edges.assign(weight=weight)
    given = Graph(vertices, edges, source, hosts, losses, notes)
    check(given, field)
    return replace(given, edges=both_ways(edges))


def no_links() -> pd.DataFrame:
    """Return an empty table ``edges`` for a graph without links."""
    frame = pd.DataFrame({"src": [], "dst": [], "delay_ms": [], "weight": []})
    return frame.astype({"src": "int64", "dst": "int64", "delay_ms": "float64"})


def both_ways(edges: pd.DataFrame) -> pd.DataFrame:
    """Return one row per direction of each link, ascending by (src, dst).

    Of parallel links, only the one with the least weight, then the least delay, is kept.  A link
    with one direction gets its reverse with the same delay and weight; a link with both keeps both.
    Delays are rounded to the microsecond, weights to a millionth.
    """
    rounded = edges.assign(
        delay_ms=edges["delay_ms"].round(DELAY_DECIMALS),
        weight=edges["weight"].round(WEIGHT_DECIMALS),
        given=0,
    )
    reverse = rounded.assign(src=edges["dst"], dst=edges["src"], given=1)
    order = ["src", "dst", "given", "weight", "delay_ms"]
    both = pd.concat([rounded, reverse], ignore_index=True).sort_values(order)
    kept = both.loc[~both.duplicated(["src", "dst"])]
    names = ["src", "dst", "delay_ms", "weight", *(["rate"] if "rate" in edges else [])]
    return kept[names].reset_index(drop=True)
