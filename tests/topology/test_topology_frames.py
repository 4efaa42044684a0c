"""A graph as DataFrames: the contract tables, GraphFrames' form, and DataFrames as input."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
from given import rows

from scribe_spark.config import TopologyConfig
from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.errors import InputError
from scribe_spark.schemas import LINKS, ROUTERS
from scribe_spark.topology import Topology, from_frames
from scribe_spark.topology.edge_list import edge_list
from scribe_spark.topology.frames import from_given
from scribe_spark.topology.transit_stub import generate

SMALL = TopologyConfig(transit_domains=2, transit_size=2, stubs_per_transit=1, stub_size=3)
DRAWN = generate(SMALL, 1)


@pytest.fixture
def topology(spark) -> Topology:
    return Topology.from_graph(spark, DRAWN)


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


def test_graphframe(topology, with_graphframes):
    graphframe = topology.graphframe()
    degrees = {row["id"]: row["outDegree"] for row in graphframe.outDegrees.collect()}
    assert degrees == DRAWN.edges["src"].value_counts().to_dict()
    again = from_given(GivenGraph.of(graphframe))
    assert again.edges.equals(DRAWN.edges)


# DataFrames as input


def test_from_frames(spark):
    vertices = spark.createDataFrame(
        [(3, "core", 1, 0.5), (1, None, None, None)], "id int, kind string, domain int, x double"
    )
    edges = spark.createDataFrame(
        [(1, 3, "1.5", 4)], "src int, dst long, delay_ms string, weight int"
    )
    graph = from_frames(vertices, edges)
    assert rows(graph) == [(1, 3, 1.5, 4.0), (3, 1, 1.5, 4.0)]
    assert graph.vertices["id"].tolist() == [1, 3]
    assert graph.vertices["kind"].tolist() == [None, "core"]
    assert graph.vertices["domain"].tolist() == [pd.NA, 1]
    assert graph.vertices["x"].tolist()[1] == 0.5
    assert graph.vertices["y"].isna().all()
    assert from_frames(None, edges).vertices["id"].tolist() == [1, 3]


def test_from_a_graphframe(spark):
    """Only its two DataFrames are used, so any object with them will do here."""
    edges = "src long, dst long, delay_ms double"
    given = SimpleNamespace(
        vertices=spark.createDataFrame([(7,)], "id long"),
        edges=spark.createDataFrame([], edges),
    )
    graph = from_given(GivenGraph.of(given))
    assert graph.vertices["id"].tolist() == [7]
    assert graph.edges.empty
    assert list(graph.edges) == ["src", "dst", "delay_ms", "weight"]


@pytest.mark.parametrize(
    ("ids", "links", "says"),
    [
        (["a", "b"], [(0, 1, 1.0)], "column 'id' must be a whole number: row 1 (id='a')"),
        (["0", "0"], [(0, 1, 1.0)], "must be unique"),
        (["0", "1"], [(0, 2, 1.0)], "must be vertices"),
        (["0", "1"], [(0, 1, float("nan"))], "'delay_ms' must be a finite number"),
        (["0", "1"], [(0, None, 1.0)], "'dst' must be a whole number"),
        (["0", "1", "2"], [(0, 1, 1.0)], "must be connected"),
        ([], [(0, 1, 1.0)], "has no rows"),
    ],
)
def test_bad_frames(spark, ids, links, says):
    vertices = spark.createDataFrame([(i,) for i in ids], "id string")
    edges = spark.createDataFrame(links, "src long, dst long, delay_ms double")
    with pytest.raises(InputError) as error:
        from_frames(vertices, edges, "mine")
    assert says in str(error.value)
    assert "= 'mine': " in str(error.value)


def test_frames_without_their_columns(spark):
    edges = spark.createDataFrame([(0, 1)], "src long, dst long")
    with pytest.raises(InputError, match=r"topology edges = .*no column 'delay_ms'"):
        from_frames(None, edges)
    links = edges.selectExpr("src", "dst", "1.0 AS delay_ms")
    with pytest.raises(InputError, match=r"topology vertices = .*no column 'id'"):
        from_frames(edges.selectExpr("src AS router"), links)
    domain = spark.createDataFrame([(0, 0.5), (1, None)], "id long, domain double")
    with pytest.raises(InputError, match="'domain' must be a whole number"):
        from_frames(domain, links)
