"""A router graph from a user's links, and router graphs as DataFrames.

Delays have a resolution of a microsecond, weights of a millionth.  Without a ``weight``, the delay
is the weight, so that routes have the least delay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.core.inputs import Kind, typed
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.schemas import LINKS, ROUTERS, arrow_table, conform
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

    `vertices` are the routers (`router_frame`); None: the ends of the links.  `edges` has ``src,
    dst`` (int64), ``delay_ms`` and, optionally, ``weight`` and ``rate`` (float64); `field` is the
    input's name in messages.
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
    rounded = edges.round({"delay_ms": DELAY_DECIMALS, "weight": WEIGHT_DECIMALS})
    kept = _directed(rounded, ["weight", "delay_ms"])
    names = ["src", "dst", "delay_ms", "weight", *(["rate"] if "rate" in edges else [])]
    return kept[names].reset_index(drop=True)


def lossy_links(links: pd.DataFrame) -> pd.DataFrame:
    """Return the losses of links, both ways: ``src, dst, loss``; of parallel ones, the quickest's.

    If a pair has two links, each direction has its own loss.
    """
    kept = _directed(links, ["delay_ms", "loss"])
    return kept.loc[kept["loss"] > 0, ["src", "dst", "loss"]].reset_index(drop=True)


def _directed(links: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """Return links and their reverses, one row per direction, ascending by (src, dst).

    Of parallel links, the first one by the columns `order` is kept; a reverse counts only where no
    link has its direction.
    """
    reverse = links.assign(src=links["dst"], dst=links["src"], given=1)
    both = pd.concat([links.assign(given=0), reverse], ignore_index=True)
    return both.sort_values(["src", "dst", "given", *order]).drop_duplicates(["src", "dst"])


# --- graphs as DataFrames


_ID: dict[str, Kind] = {"id": "int"}
_PLACE: dict[str, Kind] = {"domain": "int", "x": "float", "y": "float"}

#: The table ``routers`` with the column ``id`` of GraphFrames.
_VERTICES = StructType([StructField("id", LongType()), *ROUTERS.fields[1:]])


@dataclass(frozen=True)
class Topology(GraphTables):
    """A graph of routers as two DataFrames, in the form that GraphFrames needs.

    Attributes
    ----------
    vertices : DataFrame
        ``id`` BIGINT (router), ``kind`` STRING, ``domain`` BIGINT, ``x``, ``y`` DOUBLE; the last
        four are NULL if the topology does not have them.
    edges : DataFrame
        ``src``, ``dst`` BIGINT, ``delay_ms`` DOUBLE (milliseconds), ``weight`` DOUBLE (for the
        choice of routes); two rows for each link, one per direction.
    """

    vertices: DataFrame
    edges: DataFrame

    @classmethod
    def from_graph(cls, spark: SparkSession, graph: Graph) -> Topology:
        """Return the DataFrames of a graph that is on the driver."""

        tables = (graph.vertices, _VERTICES), (graph.edges, LINKS)
        return cls(*(local_frame(spark, arrow_table(*table)) for table in tables))

    def routers(self) -> DataFrame:
        """Return the vertices as a run's table ``routers``: ``router, kind, domain, x, y``."""
        return conform(self.vertices.withColumn("router", F.col("id")), ROUTERS)

    def links(self) -> DataFrame:
        """Return the edges as a run's table ``links``: ``src, dst, delay_ms, weight``."""
        return conform(self.edges, LINKS)


def from_given(given: GivenGraph) -> Graph:
    """Return the checked graph of a config's `GivenGraph`."""
    source, vertices = given.source, given.vertices
    of_edges = f"{FIELD} edges", source, EDGE_COLUMNS
    links = typed(given.edges, *of_edges, optional=OPTIONAL, empty=vertices is not None)
    return graph_of_links(None if vertices is None else _vertices(vertices, source), links, source)


def _vertices(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return a user's vertices as routers; cells beside the ids may be NULL."""
    field = f"{FIELD} vertices"
    ids, known = typed(rows, field, source, _ID)["id"], dict[str, pd.Series]()
    for name, kind in _PLACE.items():
        if name in rows:
            present = rows.loc[rows[name].notna(), [name]]
            values = typed(present, field, source, {name: kind}, empty=True)[name]
            values = values.set_axis(present.index).astype("Int64" if kind == "int" else "float64")
            known[name] = values.reindex(rows.index)
    if "kind" in rows:
        known["kind"] = rows["kind"].astype(object).where(rows["kind"].notna(), None)
    return router_frame(ids, **known)
