"""GraphFrames where both halves are there, and what is said where one is missing."""

from __future__ import annotations

import sys

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


def test_the_class_is_looked_up_as_a_class(spark, monkeypatch):
    monkeypatch.setattr(module, "_JVM_CLASS", "org.apache.spark.sql.SparkSession")
    assert module.has_graphframes(spark)
    monkeypatch.setattr(module, "_JVM_CLASS", "org.apache.spark.sql")  # a package is not enough
    assert not module.has_graphframes(spark)


def test_a_session_without_a_jvm_is_left_to_the_server():
    class Connect:
        @property
        def _jvm(self):
            raise AttributeError("no JVM over Spark Connect")

    assert module.has_graphframes(Connect())


def test_a_missing_python_half_is_said_in_one_line(frames, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphframes", None)
    with pytest.raises(GraphFramesMissing, match="pip install graphframes-py") as error:
        graph_frame(*frames)
    assert "\n" not in str(error.value)
