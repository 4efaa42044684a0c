"""Router graphs by name, from tables of links and DataFrames, and the rules that each must keep."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scribe_spark.config import RunConfig, TopologyConfig, read_toml
from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.core.errors import InputError, shown
from scribe_spark.measures.published import published
from scribe_spark.schemas import LINKS, ROUTERS
from scribe_spark.topology.checks import check
from scribe_spark.topology.graph import Graph, Hosts
from scribe_spark.topology.graph_files import edge_list
from scribe_spark.topology.links import Topology, from_given
from scribe_spark.topology.registry import load
from scribe_spark.topology.transit_stub import generate


class Untouchable:
    """A Spark session that must not be used."""

    def __getattr__(self, name):
        raise AssertionError(f"spark.{name} was used")


def loaded(topology: str):
    return load(RunConfig(topology=topology), Untouchable())


def written(folder: Path, text: str) -> str:
    (folder / "links.csv").write_text(text)
    return str(folder / "links.csv")


def rows(graph) -> list[tuple]:
    return list(graph.edges.itertuples(index=False, name=None))


def refusal(topology: str) -> str:
    with pytest.raises(InputError) as error:
        loaded(topology)
    message = str(error.value)
    assert message.startswith(f"topology = {shown(topology)}: ")
    assert "\n" not in message
    return message


DATA = Path(__file__).parents[2] / "data"


def test_a_name_that_is_no_topology_says_what_is():
    message = refusal("transitstub")
    assert "does not exist" in message
    assert all(way in message for way in ("transit-stub", "power-law", "topohub:NAME", "edge list"))


def test_remote_without_spark_is_refused():
    with pytest.raises(InputError, match="takes a Spark session"):
        load(RunConfig(topology="s3a://bucket/links.parquet"))


def test_remote_is_read_by_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("scribe_spark.topology.registry.is_local", lambda path: False)
    path = written(tmp_path, "src,dst,delay_ms\n0,1,1.5\n")
    pd.DataFrame({"src": [0], "dst": [1], "delay_ms": [1.5]}).to_parquet(tmp_path / "l.parquet")
    for url in (path, str(tmp_path / "l.parquet")):
        assert rows(load(RunConfig(topology=url), spark)) == [(0, 1, 1.5, 1.5), (1, 0, 1.5, 1.5)]
    with pytest.raises(InputError, match="does not exist"):
        load(RunConfig(topology=str(tmp_path / "none.parquet")), spark)


@pytest.mark.parametrize("name", ["paper", "tiny", "backbone", "internet"])
def test_presets_load(name, monkeypatch):
    if name == "backbone":
        pytest.importorskip("topohub")
    monkeypatch.chdir(DATA.parent)
    config = RunConfig.of(read_toml(DATA / f"{name}.toml"))
    graph = load(config, Untouchable())
    sizes = {"paper": 5050, "tiny": 8, "backbone": 250, "internet": 102_639}
    assert len(graph.vertices) == sizes[name]


def test_the_paper_preset_is_the_default():
    """A run without flags is the paper's experiment, of which the paper's numbers are."""
    assert RunConfig.of(read_toml(DATA / "paper.toml")) == RunConfig()
    assert published(RunConfig())["scribe.rad.median"].paper == 1.68


# --- real networks by name ------------------------------------------------------------------------


def test_topohub_delay_is_light_in_fibre():
    topohub = pytest.importorskip("topohub")
    graph = loaded("topohub:sndlib/germany50")
    link = topohub.get("sndlib/germany50")["edges"][0]
    assert len(graph.vertices) == 50
    assert len(graph.edges) == 2 * 88
    found = graph.edges.set_index(["src", "dst"]).loc[(link["source"], link["target"])]
    assert math.isclose(found["delay_ms"], round(link["dist"] * 5e-3, 3))  # 5 us per km
    assert found["weight"] == found["delay_ms"]
    assert graph.vertices["x"].between(5, 16).all()  # longitudes of Germany
    assert graph.vertices["y"].between(47, 56).all()


@pytest.mark.parametrize(
    ("name", "near"),
    [("sndlib/germany5", "sndlib/germany50"), ("../../secret", "is unknown to topohub; it has ")],
)
def test_unknown_topohub_names(name, near):
    pytest.importorskip("topohub")
    assert near in refusal(f"topohub:{name}")


# --- tables of links ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows_of_file", "links"),
    [
        ("5,2,1.5,\n2,9,0,",
         [(2, 5, 1.5, 1.5), (2, 9, 0, 1e-6), (5, 2, 1.5, 1.5), (9, 2, 0, 1e-6)]),
        ("0,1,1,10\n1,0,2,20", [(0, 1, 1, 10), (1, 0, 2, 20)]),
        ("0,1,1.23456789,1.23456789", [(0, 1, 1.235, 1.234568), (1, 0, 1.235, 1.234568)]),
        ("0,1,1,10\n0,1,9,3\n0,1,8,3\n1,2,1,1\n1,2,1,1\n2,1,5,5",
         [(0, 1, 8, 3), (1, 0, 8, 3), (1, 2, 1, 1), (2, 1, 5, 5)]),
    ],
    ids=["reverses and weights are added", "both ways are kept", "rounded", "parallel links"],
)  # fmt: skip
def test_edge_lists(tmp_path, rows_of_file, links):
    given = [row.rstrip(",") for row in rows_of_file.split("\n")]
    head = ["src,dst,delay_ms"] if rows_of_file.endswith(",") else ["src,dst,delay_ms,weight"]
    graph = loaded(written(tmp_path, "\n".join([*head, *given, ""])))
    assert rows(graph) == links
    assert graph.vertices["id"].tolist() == sorted({end for link in links for end in link[:2]})
    assert graph.vertices.drop(columns="id").isna().all().all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", ["", ",1e308"])
def test_a_delay_out_of_bounds_is_refused_without_a_warning(tmp_path, weight):
    header = "src,dst,delay_ms" + (",weight" if weight else "")
    (tmp_path / "links.csv").write_text(f"{header}\n0,1,1e308{weight}\n")
    with pytest.raises(InputError, match="delay_ms must be a number from 0 to 1,000,000: row 1"):
        edge_list(str(tmp_path / "links.csv"))


# --- DataFrames -----------------------------------------------------------------------------------


SMALL = TopologyConfig(transit_domains=2, transit_size=2, stubs_per_transit=1, stub_size=3)
DRAWN = generate(SMALL, 1)


@pytest.fixture
def topology(spark) -> Topology:
    return Topology.from_graph(spark, DRAWN)


def plain(schema) -> list[tuple]:
    return [(f.name, f.dataType) for f in schema.fields]


def test_contract_tables(topology):
    for found, schema, frame in (
        (topology.routers(), ROUTERS, DRAWN.vertices),
        (topology.links(), LINKS, DRAWN.edges),
    ):
        assert plain(found.schema) == plain(schema)
        assert [tuple(row) for row in found.collect()] == list(frame.itertuples(False, None))
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


def from_frames(vertices, edges, source: str = "DataFrames") -> Graph:
    return from_given(replace(GivenGraph.of((vertices, edges)), source=source))


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


@pytest.mark.parametrize(
    ("ids", "links", "says"),
    [
        (["a", "b"], [(0, 1, 1.0)], "column 'id' must be a whole number: row 1 (id='a')"),
        (["0", "0"], [(0, 1, 1.0)], "must be unique"),
        (["0", "1"], [(0, 1, float("nan"))], "'delay_ms' must be a finite number"),
        (["0", "1"], [(0, None, 1.0)], "'dst' must be a whole number"),
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


# --- every rule that a router graph can break, and the line that says so --------------------------


def graph(links, ids=(0, 1, 2, 3)) -> Graph:
    edges = pd.DataFrame(links, columns=["src", "dst", "delay_ms", "weight"])
    vertices = pd.DataFrame({"id": list(ids), "kind": None, "domain": None, "x": None, "y": None})
    return Graph(vertices, edges, "mine.csv")


RING = [(0, 1, 1.0, 1.0), (1, 2, 0.0, 2.0), (2, 3, 1e6, 1e-6), (3, 0, 3.5, 1e9)]
NAN = float("nan")


@pytest.mark.parametrize(
    ("links", "ids", "says"),
    [
        ([], [], "no vertices"),
        (RING, [0, 1.5, 2, 3], "must be whole numbers: row 2 (id=1.5)"),
        (RING, [0, 1, 2, 3, -4], "at least 0: row 5 (id=-4)"),
        (RING, [0, 1, 2, 3, 1, 2], "unique: row 5 (id=1), row 6 (id=2)"),
        ([*RING, (0, 9, 1, 1)], None, "must be vertices: row 5 (src=0, dst=9)"),
        ([*RING, (2, 2, 1, 1)], None, "self-loops out: row 5 (src=2, dst=2)"),
        ([*RING, (0, 2, NAN, 1)], None, "delay_ms must be a number from 0 to 1,000,000: row 5"),
        ([*RING, (0, 2, 1, 0)], None, "weight must be a number from 0.000001 to 1,000,000,000"),
        ([(0, 1, -1, 1)] * 5, None, ", row 3 (src=0, dst=1, delay_ms=-1) and 2 more"),
        (RING, [0, 1, 2, 3, 8], "falls into 2 parts: router 8 (1 in that part) has no route"),
    ],
)  # fmt: skip
def test_each_rule(links, ids, says):
    with pytest.raises(InputError) as error:
        check(graph(links, (0, 1, 2, 3) if ids is None else ids), "topology")
    message = str(error.value)
    assert says in message
    assert message.startswith("topology = 'mine.csv': ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("hosts", "loss", "says"),
    [
        ({"own_us": [0, -5_000, 1, 1]}, 0.0,
         "the delay within a router (ms) must be a number from 0 to 1,000,000: row 2 (router=1, "
         "own_ms=-5.0)"),
        ({"shares": [0.5, 0.75, -0.25, 0.0]}, 0.0,
         "the share of the nodes at a router must be a number from 0 to 1: row 3 (router=2, "),
        ({"shares": [0.5, 0.250002, 0.25, 0.0]}, 0.0, "must sum to 1, but sum to 1.000002"),
        ({"up": [1, -1, 0, 0]}, 0.0, "a rate (bits per second) must be a number from 0 to 1,0"),
        ({}, 1.5, "loss must be a number from 0 to 1: row 1 (src=0, dst=1, loss=1.5)"),
    ],
)  # fmt: skip
def test_the_numbers_of_nodes_and_losses_have_bounds(hosts, loss, says):
    rows = pd.DataFrame({"src": [0], "dst": [1], "loss": [loss]})
    arrays = {name: np.array(values) for name, values in hosts.items()}
    with pytest.raises(InputError) as error:
        check(replace(graph(RING), hosts=Hosts(**arrays), losses=rows))
    assert says in str(error.value)
