"""Which graph a config asks for: kinds by name, paths, URLs, the presets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from given import Untouchable, refusal, rows, written

from scribe_spark.config import RunConfig, read_toml
from scribe_spark.errors import InputError
from scribe_spark.measures.published import published
from scribe_spark.systems import all_systems
from scribe_spark.topology import load

DATA = Path(__file__).parents[2] / "data"


def test_transit_stub_takes_the_parameters_and_the_seed_of_the_run():
    config = RunConfig(transit_domains=2, transit_size=2, stubs_per_transit=1, stub_size=3)
    graph = load(config, Untouchable())
    assert len(graph.vertices) == config.topology.routers == 16
    assert not graph.edges.equals(load(RunConfig.of(config.flat(), {"seed": 2})).edges)


def test_a_name_that_is_no_topology_says_what_is():
    message = refusal("transitstub")
    assert "does not exist" in message
    assert all(way in message for way in ("transit-stub", "power-law", "topohub:NAME", "edge list"))


@pytest.mark.parametrize("path", ["x" * 300, f"{'x' * 300}/a.csv"])
def test_a_path_that_is_too_long(path):
    assert "cannot be read (File name too long)" in refusal(path)


def test_remote_without_spark_is_refused():
    with pytest.raises(InputError, match="takes a Spark session"):
        load(RunConfig(topology="s3a://bucket/links.parquet"))


def test_remote_is_read_by_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("scribe_spark.topology.registry.is_local", lambda path: False)
    path = written(tmp_path, "src,dst,delay_ms\n0,1,1.5\n")
    pd.DataFrame({"src": [0], "dst": [1], "delay_ms": [1.5]}).to_parquet(tmp_path / "l.parquet")
    for url in (path, str(tmp_path / "l.parquet")):
        assert rows(load(RunConfig(topology=url), spark)) == [(0, 1, 1.5, 1.5), (1, 0, 1.5, 1.5)]
    with pytest.raises(InputError, match="cannot be read by Spark"):
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


#: Of another topology (internet.toml) or overlay, of systems that the paper does not measure, of
#: runs in which nodes and members come and go.
ELSEWHERE = {
    *("power_law_routers", "power_law_links", "overlay_dimensions", "systems"),
    *(
        flat
        for system in all_systems()
        if system.config_section
        for flat in RunConfig.sections[system.config_section].flat_names().values()
    ),
    *(
        flat
        for section in ("bandwidth", "world", "scribe")
        for flat in RunConfig.sections[section].flat_names().values()
    ),
}


def test_the_paper_preset_is_the_default_and_states_every_field():
    """A run without flags is the paper's experiment, of which the paper's numbers are."""
    told = read_toml(DATA / "paper.toml")
    assert RunConfig.of(told) == RunConfig()
    assert published(RunConfig())["scribe.rad.median"].paper == 1.68
    assert set(RunConfig().flat()) - set(told) == {
        *(
            "classes",
            "custody",
            "routes",
            "node_routers",
            "regions",
            "region_latency",
            "region_shares",
            "region_jitter",
        ),
        "group_size",
        "members",
        "capacities",
        "knowledge",
        *(ELSEWHERE & RunConfig().flat().keys()),
    }


def test_tiny_members():
    members = pd.read_csv(DATA / "tiny_members.csv")
    assert members.groupby("group")["node"].nunique().to_dict() == {1: 12, 2: 6, 3: 3, 4: 1}
    assert members["node"].between(0, 19).all()
    assert not members.duplicated().any()
