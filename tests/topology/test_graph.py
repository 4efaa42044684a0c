"""A graph as DataFrames: the contract tables and GraphFrames' form."""

from __future__ import annotations

import pytest

from scribe_spark.config import TopologyConfig
from scribe_spark.schemas import LINKS, ROUTERS
from scribe_spark.topology import GraphFramesMissing, Topology, from_frames, from_graphframe
from scribe_spark.topology import graph as module
from scribe_spark.topology.sources import edge_list
from scribe_spark.topology.transit_stub import generate

SMALL = TopologyConfig(transit_domains=2, transit_size=2, stubs_per_transit=1, stub_size=3)
DRAWN = generate(SMALL, 1)


@pytest.fixture
def topology(spark) -> Topology:
    return Topology.from_graph(spark, DRAWN)


@pytest.fixture
def with_graphframes(spark):
    pytest.importorskip("graphframes", reason="GraphFrames' Python half is not installed")
    if not module._has_graphframes(spark):
        pytest.skip(f"{module.COORDINATES} is not on the session's class path")


def plain(schema) -> list[tuple]:
    return [(f.name, f.dataType) for f in schema.fields]


def test_columns_of_vertices_and_edges(topology):
    assert topology.vertices.dtypes == [
        ("id", "bigint"),
        ("kind", "string"),
        ("domain", "bigint"),
        ("x", "double"),
        ("y", "double"),
    ]
    assert topology.edges.dtypes == [
        ("src", "bigint"),
        ("dst", "bigint"),
        ("delay_ms", "double"),
        ("weight", "double"),
    ]


def test_contract_tables(topology):
    routers, links = topology.routers(), topology.links()
    assert plain(routers.schema) == plain(ROUTERS)
    assert plain(links.schema) == plain(LINKS)
    assert [tuple(row) for row in routers.collect()] == list(
        DRAWN.vertices.itertuples(index=False, name=None)
    )
    assert [tuple(row) for row in links.collect()] == list(
        DRAWN.edges.itertuples(index=False, name=None)
    )


def test_unknown_is_null_not_nan(spark, tmp_path):
    (tmp_path / "links.csv").write_text("src,dst,delay_ms\n0,1,2\n")
    topology = Topology.from_graph(spark, edge_list(str(tmp_path / "links.csv")))
    rows = topology.routers().collect()
    assert sorted(map(tuple, rows)) == [(0, None, None, None, None), (1, None, None, None, None)]


def test_there_and_back(topology):
    again = from_frames(topology.vertices, topology.edges)
    assert again.vertices.equals(DRAWN.vertices)
    assert again.edges.equals(DRAWN.edges)


def test_a_missing_jar_is_said_in_one_line(topology, monkeypatch):
    pytest.importorskip("graphframes")
    monkeypatch.setattr(module, "_JVM_CLASS", "org.graphframes.NoSuchClass")
    with pytest.raises(GraphFramesMissing) as error:
        topology.graphframe()
    message = str(error.value)
    assert isinstance(error.value, RuntimeError)
    assert "\n" not in message
    assert "io.graphframes:graphframes-spark4_2.13:0.12.3 is not on the session" in message
    assert "make setup" in message
    assert "spark.jars.packages" in message


def test_the_class_is_looked_up_as_a_class(spark, monkeypatch):
    monkeypatch.setattr(module, "_JVM_CLASS", "org.apache.spark.sql.SparkSession")
    assert module._has_graphframes(spark)
    monkeypatch.setattr(module, "_JVM_CLASS", "org.apache.spark.sql")  # a package is not enough
    assert not module._has_graphframes(spark)


def test_a_session_without_a_jvm_is_left_to_the_server():
    class Connect:
        @property
        def _jvm(self):
            raise AttributeError("no JVM over Spark Connect")

    assert module._has_graphframes(Connect())


def test_graphframe(topology, with_graphframes):
    graphframe = topology.graphframe()
    degrees = {row["id"]: row["outDegree"] for row in graphframe.outDegrees.collect()}
    assert degrees == DRAWN.edges["src"].value_counts().to_dict()
    again = from_graphframe(graphframe)
    assert again.edges.equals(DRAWN.edges)
