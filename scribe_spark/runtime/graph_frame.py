"""GraphFrames for users' own analyses, if both halves of the library are installed.

The Python half comes from PyPI with the package; the JVM half is a jar on the session's class path
(:mod:`.graphframes_jar`).  Runs need neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from scribe_spark.runtime.graphframes_jar import COORDINATES, jars
from scribe_spark.runtime.sessions import has_class, is_connect

if TYPE_CHECKING:
    from graphframes import GraphFrame

_JVM_CLASS = "org.graphframes.GraphFramePythonAPI"


class GraphFramesMissing(RuntimeError):
    """A half of GraphFrames is not installed; the message says how to add it."""


def graph_frame(vertices: DataFrame, edges: DataFrame) -> GraphFrame:
    """Return the GraphFrame of two DataFrames."""
    try:
        from graphframes import GraphFrame
    except ImportError as error:
        raise GraphFramesMissing(
            f"GraphFrames' Python half is missing ({error}); pip install graphframes-py"
        ) from None
    if is_connect(vertices.sparkSession):
        raise GraphFramesMissing(
            "a session of Spark Connect loads no jars (serverless compute of Databricks none at "
            "all); use a classic session for GraphFrames"
        )
    if not (has_graphframes(vertices.sparkSession) or _add_jars(vertices.sparkSession)):
        raise GraphFramesMissing(
            f"{COORDINATES} is not on the session's class path; run `make setup` on a "
            "network that reaches Maven Central, or start the session with "
            f"spark.jars.packages={COORDINATES} (spark-submit: --packages {COORDINATES}, or "
            "--jars with the jar's path)"
        )
    return GraphFrame(vertices, edges)


class GraphTables:
    """An object with the two tables of a graph.

    Attributes
    ----------
    vertices : DataFrame
        The vertices, with a column ``id``.
    edges : DataFrame
        The edges, with columns ``src`` and ``dst``.
    """

    vertices: DataFrame
    edges: DataFrame

    def graphframe(self) -> GraphFrame:
        """Return a GraphFrame of `vertices` and `edges`, for your own analyses.

        Raises
        ------
        GraphFramesMissing
            The Python package GraphFrames or its Java archive is not installed.
        """
        return graph_frame(self.vertices, self.edges)


def has_graphframes(spark: SparkSession) -> bool:
    """Return True if the session's JVM can load GraphFrames, by the check of its Python half."""
    return not is_connect(spark) and has_class(spark, _JVM_CLASS)


def _add_jars(spark: SparkSession) -> bool:
    """Add the jars of `make setup` to the class path of a session that started without them."""
    for jar in jars():
        spark.sql(f'ADD JAR "{Path(jar).as_uri()}"')
    return bool(jars()) and has_graphframes(spark)
