"""Router graphs from names, files and DataFrames, and how bad ones are refused before Spark."""

from __future__ import annotations

import builtins
import math
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from scribe_spark.config import RunConfig, read_toml
from scribe_spark.errors import InputError
from scribe_spark.topology import from_frames, from_graphframe, load
from scribe_spark.topology.graph import both_ways

DATA = Path(__file__).parents[2] / "data"


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
    assert message.startswith(f"topology = {topology!r}: ")
    assert "\n" not in message
    return message


def test_transit_stub_takes_the_parameters_and_the_seed_of_the_run():
    config = RunConfig(transit_domains=2, transit_size=2, stubs_per_transit=1, stub_size=3)
    graph = load(config, Untouchable())
    assert len(graph.vertices) == config.topology.routers == 16
    assert not graph.edges.equals(load(RunConfig.of(config.as_dict(), {"seed": 2})).edges)


# Edge lists


def test_edge_list_gets_reverses_and_default_weights(tmp_path):
    graph = loaded(written(tmp_path, "src,dst,delay_ms\n5,2,1.5\n2,9,0\n"))
    assert graph.vertices["id"].tolist() == [2, 5, 9]
    assert graph.vertices.drop(columns="id").isna().all().all()
    assert rows(graph) == [(2, 5, 1.5, 1.5), (2, 9, 0, 1e-6), (5, 2, 1.5, 1.5), (9, 2, 0, 1e-6)]


def test_a_link_given_both_ways_keeps_both(tmp_path):
    graph = loaded(written(tmp_path, "src,dst,delay_ms,weight\n0,1,1,10\n1,0,2,20\n"))
    assert rows(graph) == [(0, 1, 1, 10), (1, 0, 2, 20)]


def test_parallel_links_keep_least_weight_then_least_delay(tmp_path):
    text = "src,dst,delay_ms,weight\n0,1,1,10\n0,1,9,3\n0,1,8,3\n1,2,1,1\n1,2,1,1\n2,1,5,5\n"
    graph = loaded(written(tmp_path, text))
    assert rows(graph) == [(0, 1, 8, 3), (1, 0, 8, 3), (1, 2, 1, 1), (2, 1, 5, 5)]


def test_delays_are_kept_to_the_microsecond_and_weights_to_a_millionth(tmp_path):
    text = "src,dst,delay_ms,weight\n0,1,1.23456789,1.23456789\n"
    assert rows(loaded(written(tmp_path, text)))[0] == (0, 1, 1.235, 1.234568)


def test_the_order_of_rows_does_not_matter():
    edges = pd.DataFrame(
        [(0, 1, 1.0, 2.0), (1, 0, 3.0, 2.0), (0, 1, 0.5, 2.0), (2, 1, 1.0, 1.0)],
        columns=["src", "dst", "delay_ms", "weight"],
    )
    expected = both_ways(edges)
    for seed in range(10):
        pd.testing.assert_frame_equal(both_ways(edges.sample(frac=1, random_state=seed)), expected)


def test_parquet_edge_list(tmp_path):
    frame = pd.DataFrame({"dst": [1], "src": [0], "delay_ms": [2.5], "name": ["a"]})
    frame.to_parquet(tmp_path / "links.parquet")
    assert rows(loaded((tmp_path / "links.parquet").as_uri()))[0] == (0, 1, 2.5, 2.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("src,dst\n0,1\n", "no column 'delay_ms'"),
        ("src,dst,delay_ms\n", "no rows"),
        ("src,dst,delay_ms\n0,x,1\n", "'dst' must be a whole number: row 1"),
        ("src,dst,delay_ms\n0,1,\n", "'delay_ms' must be a finite number: row 1"),
        ("src,dst,delay_ms\n0,1,inf\n", "'delay_ms' must be a finite number: row 1"),
        ("src,dst,delay_ms\n0,1,-1\n", "row 1 (src=0, dst=1, delay_ms=-1.0)"),
        ("src,dst,delay_ms\n0,-1,1\n", "ids must be at least 0"),
        ("src,dst,delay_ms\n0,0,1\n", "self-loops"),
        ("src,dst,delay_ms,weight\n0,1,1,0\n", "weight must be"),
        ("src,dst,delay_ms,weight\n0,1,1,1e-9\n", "weight must be"),
        ("src,dst,delay_ms,weight\n0,1,1,\n", "'weight' must be a finite number"),
        ("src,dst,delay_ms\n0,1,1\n2,3,1\n", "must be connected"),
    ],
)
def test_malformed_edge_lists(tmp_path, text, says):
    assert says in refusal(written(tmp_path, text))


def test_a_name_that_is_no_topology_says_what_is():
    message = refusal("transitstub")
    assert "does not exist" in message
    assert all(way in message for way in ("transit-stub", "power-law", "topohub:NAME", "edge list"))


def test_remote_without_spark_is_refused():
    with pytest.raises(InputError, match="takes a Spark session"):
        load(RunConfig(topology="s3a://bucket/links.parquet"))


def test_remote_is_read_by_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("scribe_spark.topology.sources.is_local", lambda path: False)
    path = written(tmp_path, "src,dst,delay_ms\n0,1,1.5\n")
    pd.DataFrame({"src": [0], "dst": [1], "delay_ms": [1.5]}).to_parquet(tmp_path / "l.parquet")
    for url in (path, str(tmp_path / "l.parquet")):
        assert rows(load(RunConfig(topology=url), spark)) == [(0, 1, 1.5, 1.5), (1, 0, 1.5, 1.5)]
    with pytest.raises(InputError, match="cannot be read by Spark"):
        load(RunConfig(topology=str(tmp_path / "none.parquet")), spark)


# topohub


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


def test_topohub_with_routers_at_one_place():
    pytest.importorskip("topohub")
    graph = loaded("topohub:topozoo/Dfn")
    assert (graph.edges["delay_ms"] == 0).any()
    assert (graph.edges["weight"] > 0).all()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sndlib/germany5", "sndlib/germany50"),
        ("topozoo/abilene", "topozoo/Abilene"),
        ("../../secret", "the nearest names are"),
        ("", "the nearest names are"),
    ],
)
def test_unknown_topohub_names(name, near):
    pytest.importorskip("topohub")
    assert near in refusal(f"topohub:{name}")


def test_topohub_not_installed(monkeypatch):
    plain = builtins.__import__

    def without(name, *rest):
        if name == "topohub":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'scribe_spark[topohub]'" in refusal("topohub:sndlib/polska")


def test_a_disconnected_topohub_network_is_refused(monkeypatch):
    topohub = pytest.importorskip("topohub")
    network = topohub.get("sndlib/polska")
    network["edges"] = [e for e in network["edges"] if 0 not in (e["source"], e["target"])]
    monkeypatch.setattr(topohub, "get", lambda name: network)
    assert "must be connected" in refusal("topohub:sndlib/polska")


# DataFrames


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
    graph = from_graphframe(
        SimpleNamespace(
            vertices=spark.createDataFrame([(7,)], "id long"),
            edges=spark.createDataFrame([], edges),
        )
    )
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


# The presets under data/


@pytest.mark.parametrize("name", ["paper", "tiny", "backbone", "internet"])
def test_presets_load(name, monkeypatch):
    if name == "backbone":
        pytest.importorskip("topohub")
    monkeypatch.chdir(DATA.parent)
    config = RunConfig.of(read_toml(DATA / f"{name}.toml"))
    graph = load(config, Untouchable())
    sizes = {"paper": 5050, "tiny": 8, "backbone": 250, "internet": 102_639}
    assert len(graph.vertices) == sizes[name]


ELSEWHERE = {"power_law_routers", "power_law_links"}  # of another topology: internet.toml


def test_the_paper_preset_is_the_default_and_states_every_field():
    told = read_toml(DATA / "paper.toml")
    assert RunConfig.of(told) == RunConfig()
    assert set(RunConfig().as_dict()) - set(told) == {
        "group_size",
        "members",
        "capacities",
        *ELSEWHERE,
    }


def test_tiny_members():
    members = pd.read_csv(DATA / "tiny_members.csv")
    assert members.groupby("group")["node"].nunique().to_dict() == {1: 12, 2: 6, 3: 3, 4: 1}
    assert members["node"].between(0, 19).all()
    assert not members.duplicated().any()
