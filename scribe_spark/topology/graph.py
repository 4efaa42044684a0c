"""The router graph: a plain record on the driver (`Graph`), and its DataFrames (`Topology`).

Generators and readers make a :class:`Graph`, :mod:`.checks` checks it, and a :class:`Topology` is
what the rest of the package and the user's GraphFrames code see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark.runtime.graphframes_jar import COORDINATES
from scribe_spark.schemas import LINKS, ROUTERS, conform

if TYPE_CHECKING:
    from graphframes import GraphFrame

__all__ = [
    "DELAY_DECIMALS",
    "Graph",
    "GraphFramesMissing",
    "Topology",
    "WEIGHT_DECIMALS",
    "both_ways",
    "router_frame",
]

#: Delays are kept to the microsecond, so that integer sums of them are exact in any order.
DELAY_DECIMALS = 3
#: Weights are kept to a millionth, for the same reason.
WEIGHT_DECIMALS = 6

_JVM_CLASS = "org.graphframes.GraphFramePythonAPI"

_VERTICES = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("domain", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
    ]
)
_EDGES = pa.schema(
    [
        ("src", pa.int64()),
        ("dst", pa.int64()),
        ("delay_ms", pa.float64()),
        ("weight", pa.float64()),
    ]
)


class GraphFramesMissing(RuntimeError):
    """GraphFrames is asked for and one of its halves is absent; the message says how to add it."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A router graph on the driver: of size R, not N.

    Attributes
    ----------
    vertices : pandas.DataFrame, shape (R, 5)
        ``id`` (int64), ``kind`` (``transit``, ``stub`` or None), ``domain`` (Int64, NA where
        unknown), ``x``, ``y`` (float64, NaN where unknown), ascending by id.
    edges : pandas.DataFrame, shape (links, 4)
        ``src``, ``dst`` (int64), ``delay_ms`` (float64, ms, whole microseconds), ``weight``
        (float64, policy weight), one row per direction, ascending by (src, dst).
    source : str
        Where it came from, for error messages.
    """

    vertices: pd.DataFrame
    edges: pd.DataFrame
    source: str = "graph"


@dataclass(frozen=True)
class Topology:
    """A router graph as DataFrames, in GraphFrames' form.

    Attributes
    ----------
    vertices : DataFrame
        ``id`` BIGINT, ``kind`` STRING, ``domain`` BIGINT, ``x``, ``y`` DOUBLE; NULL where unknown.
    edges : DataFrame
        ``src``, ``dst`` BIGINT, ``delay_ms`` DOUBLE (ms), ``weight`` DOUBLE; one row per direction.
    """

    vertices: DataFrame
    edges: DataFrame

    @classmethod
    def from_graph(cls, spark: SparkSession, graph: Graph) -> Topology:
        """The DataFrames of `graph`, handed to Spark through Arrow."""

        def frame(rows: pd.DataFrame, schema: pa.Schema) -> DataFrame:
            table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
            return spark.createDataFrame(table)

        return cls(frame(graph.vertices, _VERTICES), frame(graph.edges, _EDGES))

    def routers(self) -> DataFrame:
        """The contract table ``routers``."""
        return conform(self.vertices.withColumn("router", F.col("id")), ROUTERS)

    def links(self) -> DataFrame:
        """The contract table ``links``."""
        return conform(self.edges, LINKS)

    def graphframe(self) -> GraphFrame:
        """The graph as a GraphFrame, for the user's own analyses.

        Raises
        ------
        GraphFramesMissing
            Where GraphFrames' Python or JVM half is absent.
        """
        try:
            from graphframes import GraphFrame
        except ImportError as error:
            raise GraphFramesMissing(
                f"GraphFrames' Python half is missing ({error}); pip install graphframes-py"
            ) from None
        if not _has_graphframes(self.vertices.sparkSession):
            raise GraphFramesMissing(
                f"{COORDINATES} is not on the session's class path; run `make setup` on a "
                "network that reaches Maven Central, or start the session with "
                f"spark.jars.packages={COORDINATES}"
            )
        return GraphFrame(self.vertices, self.edges)


def router_frame(ids: Any, kind: Any = None, domain: Any = None, x: Any = np.nan, y: Any = np.nan):
    """The ``vertices`` of a :class:`Graph`, in their types, ascending by id."""
    frame = pd.DataFrame({"id": ids, "kind": kind, "domain": domain, "x": x, "y": y})
    frame = frame.astype({"domain": "Int64", "kind": object, "x": "float64", "y": "float64"})
    return frame.sort_values("id", kind="stable", ignore_index=True)


def both_ways(edges: pd.DataFrame) -> pd.DataFrame:
    """One row per direction, at the package's resolution, ascending by (src, dst).

    Of parallel links the one of least weight, then least delay, is kept.  A link given in one
    direction gets its reverse with the same delay and weight; a link given in both keeps both.
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
    return kept[["src", "dst", "delay_ms", "weight"]].reset_index(drop=True)


def _has_graphframes(spark: SparkSession) -> bool:
    """Whether the session's JVM can load GraphFrames, asked as GraphFrames' Python half asks."""
    try:
        jvm = spark._jvm
    except AttributeError:  # Spark Connect: no JVM to ask, the server answers
        return True
    if jvm is None:
        return False
    # py4j's own errors are not imported: they differ between a missing class and a broken jar
    try:
        jvm.Thread.currentThread().getContextClassLoader().loadClass(_JVM_CLASS)
    except Exception:
        return False
    return True
