"""GraphFrames where both halves are there, and what is said where one is missing."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from scribe_spark.runtime import graph_frame as module
from scribe_spark.runtime import graphframes_jar
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


def test_a_missing_python_half_is_said_in_one_line(frames, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphframes", None)
    with pytest.raises(GraphFramesMissing, match="pip install graphframes-py") as error:
        graph_frame(*frames)
    assert "\n" not in str(error.value)


# --- the look-up of the jar -----------------------------------------------------------------------


def answer(monkeypatch, code=0, stderr="", jar=None, error=None):
    """What spark-submit would do."""

    def run(command, **_):
        if error is not None:
            raise error
        if jar is not None:
            jar.parent.mkdir(parents=True)
            jar.touch()
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"code": 1, "stderr": "io.graphframes#x: not found"}, "(not found)"),
        ({"code": 3}, "(spark-submit exit 3)"),
        ({"error": subprocess.TimeoutExpired("x", 5)}, "(no answer in 5 s)"),
        ({"error": OSError(2, "No such file")}, "(spark-submit: No such file)"),
    ],
)
def test_not_found_is_told_and_no_failure(monkeypatch, tmp_path, how, why):
    answer(monkeypatch, **how)
    line = graphframes_jar.fetch(tmp_path, patience=5)
    assert why in line
    assert "make graphframes" in line
    assert "\n" not in line
    assert (tmp_path / "asked").read_text() == line + "\n"
