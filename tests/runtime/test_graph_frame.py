"""GraphFrames where both halves are there, and what is said where one is missing."""

from types import SimpleNamespace

import pytest

from scribe_spark.runtime import graph_frame as module
from scribe_spark.runtime.graph_frame import GraphFramesMissing, graph_frame


@pytest.fixture
def frames(spark):
    vertices = spark.createDataFrame([(0,), (1,)], "id long")
    return vertices, spark.createDataFrame([(0, 1)], "src long, dst long")


def test_a_missing_jar_is_said_in_one_line(frames, monkeypatch):
    pytest.importorskip("graphframes")
    monkeypatch.setattr(module, "_JVM_CLASS", "org.graphframes.NoSuchClass")
    with pytest.raises(GraphFramesMissing) as error:
        graph_frame(*frames)
    message = str(error.value)
    assert isinstance(error.value, RuntimeError)
    assert "\n" not in message
    assert "io.graphframes:graphframes-spark4_2.13:0.12.3 is not on the session" in message
    assert "make setup" in message
    assert "spark.jars.packages" in message
    assert "--jars" in message


def test_a_session_of_spark_connect_has_none(monkeypatch):
    class Connect:
        """The client of a server."""

    monkeypatch.setattr(Connect, "__module__", "pyspark.sql.connect.session")
    assert not module.has_graphframes(Connect())
    tables = SimpleNamespace(sparkSession=Connect())
    with pytest.raises(GraphFramesMissing, match="a session of Spark Connect loads no jars"):
        graph_frame(tables, tables)
