"""Routes by direct links only, as in Shadow without ``use_shortest_path``."""

from __future__ import annotations

import dataclasses

from scribe_spark.errors import InputError
from scribe_spark.topology.graph import Graph

_FIELD = "routes"


def direct(graph: Graph) -> Graph:
    """Return the graph with links of equal weight, so that the route of a pair is its link."""
    ids, edges = graph.vertices["id"], graph.edges
    lacking = len(ids) * (len(ids) - 1) - len(edges)
    if lacking:
        degree = edges["src"].value_counts()
        one = int(ids[ids.map(degree).fillna(0) < len(ids) - 1].iloc[0])
        others = ids[(ids != one) & ~ids.isin(edges.loc[edges["src"] == one, "dst"])]
        remedy = (
            f"needs a link between any two routers; routers {one} and {int(others.iloc[0])} of "
            f"{graph.source} have none (pairs without one: {lacking // 2:,}); give shortest"
        )
        raise InputError(_FIELD, "direct", remedy)
    return dataclasses.replace(graph, edges=edges.assign(weight=1.0))
