"""Regions as the network, and tables with the router of each node."""

import json
from pathlib import Path

import numpy as np
import pytest

from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.experiments import Simulation
from scribe_spark.experiments.manifest import input_digests
from scribe_spark.experiments.plan import settings_of
from scribe_spark.pastry.overlay import router_index
from scribe_spark.topology.checks import check
from scribe_spark.topology.regions import SHIPPED, region_network
from scribe_spark.topology.registry import load

LONG = "from,to,ms\na,a,2\na,b,30\nb,b,4\n"
SQUARE = "ms,a,b\na,2,30\nb,30,4\n"


def written(folder: Path, text: str, name: str = "m.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def network(path: str, **more):
    graph = load(RunConfig(regions=path, **more))
    check(graph)
    return graph


def delays(graph) -> dict[tuple[int, int], float]:
    rows = graph.edges[["src", "dst", "delay_ms"]].itertuples(index=False)
    return {(src, dst): ms for src, dst, ms in rows}


@pytest.mark.parametrize(
    ("text", "there", "back"),
    [
        (LONG, 30, 30),
        (f"# a comment\n\n{LONG}b,a,31\n", 30, 31),
        (SQUARE, 30, 30),
        ("one_way_ms,a,b\na,2,30\nb,31,4\n", 30, 31),
        ("rtt_ms,a,b\na,4,60\nb,62,8\n", 30, 31),
        ("from,to,rtt_ms\na,a,4\na,b,60\nb,b,8\n", 30, 30),
        (LONG.replace("\n", ",\n"), 30, 30),  # a separator at the end of each line
        (SQUARE.replace("ms", ""), 30, 30),
        (json.dumps({"regions": ["a", "b"], "ms": [[2, 30], [31, 4]]}), 30, 31),
        (json.dumps([{"from": "a", "to": one, "ms": ms} for one, ms in (("a", 2), ("b", 30))]
                    + [{"from": "b", "to": "b", "ms": 4}]), 30, 30),
    ],
)  # fmt: skip
def test_each_form_gives_delays_one_way(tmp_path, text, there, back):
    graph = network(written(tmp_path, text))
    assert delays(graph) == {(0, 1): there, (1, 0): back}
    assert graph.hosts.own_us.tolist() == [2_000, 4_000]
    assert graph.hosts.regions == ("a", "b")
    assert graph.hosts.shares is None


@pytest.mark.parametrize(
    ("name", "given", "used", "ms"),
    [
        ("ms", None, "one-way", 30),
        ("ms", "round-trip", "round-trip", 15),
        ("one_way_ms", None, "one-way", 30),
        ("rtt_ms", "round-trip", "round-trip", 15),
    ],
)
def test_the_record_says_which_latencies_were_used(tmp_path, name, given, used, ms):
    config = RunConfig(regions=written(tmp_path, LONG.replace("ms", name)), region_latency=given)
    assert region_network(config.topology, seed=1).edges["delay_ms"].tolist() == [ms, ms]
    resolved, defaults = settings_of(config)
    assert (resolved["region_latency"], defaults["region_latency"]) == (used, None)
    assert RunConfig(**resolved).flat() == resolved


@pytest.mark.parametrize(("name", "given"), [("rtt_ms", "one-way"), ("one_way_ms", "round-trip")])
def test_a_meaning_that_contradicts_the_file_is_refused(tmp_path, name, given):
    path = written(tmp_path, LONG.replace("ms", name))
    says = f"contradicts {name}, the name of the latencies in .*; leave it out$"
    with pytest.raises(InputError, match=f"^region_latency = '{given}': {says}"):
        network(path, region_latency=given)


@pytest.mark.parametrize(
    ("text", "more", "shares"),
    [
        ("from,to,ms,share\na,a,2,0.25\na,b,30,\nb,b,4,0.75\n", {}, [0.25, 0.75]),
        ("ms,a,b,share\na,2,30,0.25\nb,30,4,0.75\n", {}, [0.25, 0.75]),
        (json.dumps({"regions": {"a": 0.25, "b": 0.75}, "ms": [[2, 30], [30, 4]]}), {},
         [0.25, 0.75]),
        (LONG, {"region_shares": "b=0.75,a=0.25"}, [0.25, 0.75]),
        (LONG, {"region_shares": ["b=1"]}, [0.0, 1.0]),
    ],
)  # fmt: skip
def test_nodes_are_in_regions_by_their_shares(tmp_path, text, more, shares):
    hosts = network(written(tmp_path, text), **more).hosts
    assert hosts.shares.tolist() == shares
    drawn = router_index(1, np.arange(20_000), 2, hosts.shares)
    assert np.abs(np.bincount(drawn, minlength=2) / 20_000 - shares).max() < 0.01


def test_jitter_is_drawn_for_each_pair_of_sites(tmp_path):
    path = written(tmp_path, LONG)
    graph = network(path, region_jitter="10ms", region_shares="a=0.5,b=0.5")
    region, ms = graph.hosts.region, delays(graph)
    assert np.bincount(region).tolist() == [16, 16]
    assert np.isclose(graph.hosts.shares.sum(), 1)
    across = [value for (src, dst), value in ms.items() if region[src] != region[dst]]
    assert min(across) >= 30
    assert max(across) <= 40
    assert len(set(across)) > 400
    own = graph.hosts.own_us[region == 0]
    assert (own >= 2_000).all()
    assert (own <= 12_000).all()
    again, other = (network(path, region_jitter="10ms", seed=seed) for seed in (1, 2))
    assert delays(again) == ms
    assert delays(other) != ms


@pytest.mark.parametrize("name", SHIPPED)
def test_the_package_has_matrices(name):
    graph = network(name)
    assert len(graph.vertices) == {"azure": 12, "continents": 6, "corrosion19": 19}[name]
    assert graph.notes == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ms,a,b\na,2,30\n", "must be square: 1 rows and 2 columns of regions; each region needs "
         "one of each, not so b"),
        ("ms,a,b\na,2,30,9\nb,30,4\n", "cannot be read as a matrix: its rows have more cells"),
        ("ms,a,b\na,2\nb,30,4\n", "row 1: the latency from 'a' to 'b' must be a number"),
        ("ms,a,b\na,0,30\nb,30,4\n", "row 1: the latency from 'a' to 'a' must be a number from "
         "0.001 to 1,000,000 ms, not '0'"),
        ("from,to,ms\na,a,2\na,b,30\n", "has no latency from 'b' to 'b'; each pair of regions"),
        (f"{LONG}a,b,31\n", "row 4: has 'a' to 'b' twice; keep one"),
        ("from,to\na,b\n", "needs one of ms, one_way_ms, rtt_ms; found from, to"),
        ("from,to,ms\n,a,2\n", "has a region without a name"),
        ("from,to,ms,share\na,a,2,0.5\na,b,30,\nb,b,4,0.4\n",
         "shares of regions must sum to 1, but sum to 0.9"),
        ("from,to,ms,share\na,a,2,0.5\na,b,30,0.5\nb,b,4,\n",
         "row 2: a share must be in the row from a region to itself"),
        ("from,to,ms,share\na,a,2,-1\na,b,30,\nb,b,4,2\n",
         "the share of 'a' must be a number from 0 to 1, not '-1'"),
        ('{"regions": ["a", "b"], "ms": [[1, 2], [3]]}',
         "must be square: ms needs 2 lists of 2 numbers"),
        ('{"ms": [[1]]}', 'needs "regions"'),
        ('{"regions": [null], "ms": [[1]]}', 'needs "regions": a list of names'),
        ("{", "is not JSON"),
        ("[]", "must be rows"),
        ("", "cannot be read as a matrix: it is empty"),
        # cells beyond the header
        ("from,to,ms\na,b,1,5\n", "its rows have more cells than its header"),
        # one of two would win
        ("from,to,ms,ms\na,a,1,5\n", "has the column 'ms' twice"),
        ('[{"from": "a", "to": "a", "ms": 1, "ms": 5}]', "the key 'ms' occurs twice in an object"),
        ('[{"from": "a", "to": "a", "ms": 1}, {"from": "a", "to": "b", "ms": 1, "rtt_ms": 2}]',
         "needs one of ms, one_way_ms, rtt_ms; found from, to, ms, rtt_ms"),
        ('[{"from": "a", "to": "a", "ms": 1}, {"from": "a", "to": "b", "rtt_ms": 2}]',
         "row 2: has rtt_ms, but row 1 has ms"),
        # other than a number, or than a name
        (SQUARE.replace("ms", "RTT"), "the first cell must be one of ms, one_way_ms, rtt_ms, or "
         "empty, not 'RTT'"),
        (SQUARE.replace("30", "3_0"), "must be a number from 0.001 to 1,000,000 ms, not '3_0'"),
        (f'{{"regions": ["a"], "ms": [[1{"0" * 5000}]]}}', "is not JSON: "),
        ('[{"from": null, "to": "a", "ms": 1}]', "row 1: names of regions must be texts"),
        ('from,to,ms\na,"a,1\n', "cannot be read as a matrix: "),
    ],
)  # fmt: skip
def test_a_bad_matrix_is_refused_in_one_line(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        network(path)
    line = str(refused.value)
    assert line.startswith(f"regions = {path!r}: ")
    assert words in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"regions": "nowhere.csv"},
         "regions = 'nowhere.csv': does not exist; give a CSV or JSON file, or one of azure, "
         "continents"),
        ({"regions": "s3a://bucket/m.csv"}, "is not on this machine"),
        ({"regions": "azure", "topology": "power-law"},
         "regions = 'azure': has no effect with topology = power-law; give one of both"),
        ({"topology": "regions"}, "topology = 'regions': needs a matrix; give --regions FILE"),
        ({"regions": "continents", "region_shares": "mars=1"},
         "region_shares = 'mars': is not a region; give some of north-america"),
        ({"regions": "continents", "region_shares": "europe"},
         "region_shares = 'europe': must be REGION=SHARE with a share from 0 to 1"),
    ],
)  # fmt: skip
def test_bad_fields_are_refused_in_one_line(given, line):
    with pytest.raises(InputError) as refused:
        load(RunConfig(**given))
    assert line in str(refused.value)


# --- a table with the router of each node ---------------------------------------------------------


GML = """graph [
  directed 0
  node [ id 4 host_bandwidth_up "10 Mbit" host_bandwidth_down "20 Mbit" ]
  node [ id 7 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
  edge [ source 4 target 4 latency "1 ms" ]
  edge [ source 7 target 7 latency "1 ms" ]
  edge [ source 4 target 7 latency "10 ms" ]
]
"""
ROUTERS = [7, 7, 4, 7, 4]


@pytest.fixture
def given(tmp_path: Path) -> dict:
    """A network of two routers, and a table that is in no order."""
    network, hosts = tmp_path / "network.gml", tmp_path / "hosts.csv"
    network.write_text(GML)
    rows = [f"{node},{router}" for node, router in enumerate(ROUTERS)]
    hosts.write_text("\n".join(["node,router", *rows[::-1], ""]))
    return {"topology": str(network), "node_routers": str(hosts), "nodes": len(ROUTERS)}


def test_nodes_are_at_their_routers(spark, given):
    """In runs and in worlds, and with the rates of their routers."""
    world = WorldConfig(**given, groups=0)
    for config in (RunConfig(**given, groups=1), world):
        with Simulation(spark, config) as simulation:
            nodes = simulation.nodes.toPandas().sort_values("node")
            rates = simulation.graph.hosts.rates
            assert nodes["router"].tolist() == ROUTERS
        found = rates(NodeClasses.of(config), np.arange(5), simulation.graph.hosts.places)
        assert found.up.tolist() == [10**9, 10**9, 10**7, 10**9, 10**7]
    assert "node_routers" in input_digests(RunConfig(**given))


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("0,4\n1,4\n2,4\n3,4\n", "node=4 is left out; give one row for each node, 0 to 4"),
        ("0,4\n1,4\n2,4\n3,4\n3,7\n4,7\n", "node=3 occurs twice"),
        ("0,4\n1,4\n2,4\n3,4\n5,7\n", "row node=5 names no node"),
        ("0,4\n1,4\n2,4\n3,5\n4,7\n", "router=5 of node=3 is not a router of the network"),
        ("0,4\n1,x\n", "x"),
    ],
)
def test_tables_that_cannot_be(given, rows, fault):
    Path(given["node_routers"]).write_text("node,router\n" + rows)
    with pytest.raises(InputError, match=fault) as found:
        load(RunConfig(**given))
    assert str(found.value).startswith("node_routers = ")
    with pytest.raises(InputError, match="copy the file to a local path"):
        load(RunConfig(**given | {"node_routers": "s3a://bucket/hosts.csv"}))
