"""Networks of a table of nodes and a table of edges, and the preset of 19 regions."""

import re

import numpy as np
import pytest

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.core.node_classes import NodeClasses, read_nodes
from scribe_spark.topology.registry import load
from scribe_spark.underlay.dijkstra import LinkArrays, route_block

NODES = """id,region,up,down,weight,class
1,us,,1Gbit/s,2,server
0,eu,50,100Mbit/s,1.5,home
2,eu,10Mbit/s,,0,home
3,us,50,50,1,server
4,asia,,,1,home
"""
BETWEEN_REGIONS = """source,target,latency,loss
eu,us,70,0.01
eu,asia,125ms,
us,us,2,0
"""
BETWEEN_NODES = """source,target,latency
0,1,70
1,2,25ms
2,3,2.5
3,4,700us
4,3,800us
"""


@pytest.fixture
def config(tmp_path):
    """Return the config of two files."""

    def of(table: str = NODES, edges: str | None = BETWEEN_REGIONS, **more) -> RunConfig:
        (tmp_path / "nodes.csv").write_text(table)
        given = {"nodes": 5, "groups": 1, "group_size": 3, "nodes_file": f"{tmp_path}/nodes.csv"}
        if edges is not None:
            (tmp_path / "edges.csv").write_text(edges)
            given["edges_file"] = f"{tmp_path}/edges.csv"
        return RunConfig(**given | more)

    return of


def links_of(graph) -> dict[tuple[int, int], float]:
    edges = graph.edges
    return dict(zip(zip(edges["src"], edges["dst"], strict=True), edges["delay_ms"], strict=True))


def test_edges_between_regions(config):
    """A region is a router; regions are in alphabetical order: asia, eu, us."""
    graph = load(config())
    assert links_of(graph) == {(0, 1): 125, (1, 0): 125, (1, 2): 70, (2, 1): 70}
    hosts = graph.hosts
    assert (hosts.regions, hosts.region.tolist()) == (("asia", "eu", "us"), [0, 1, 2])
    assert hosts.places.tolist() == [1, 2, 1, 2, 0]
    assert hosts.own_us.tolist() == [0, 0, 2_000]
    assert graph.losses.to_numpy().tolist() == [[1, 2, 0.01], [2, 1, 0.01]]
    assert graph.notes[0].startswith("regions without an edge to themselves: 2;")


def test_edges_between_nodes(config):
    """Each node is a router, and keeps its region; an edge may have another latency back."""
    graph = load(config(edges=BETWEEN_NODES))
    there = {(0, 1): 70, (1, 2): 25, (2, 3): 2.5, (3, 4): 0.7}
    back = {(b, a): ms for (a, b), ms in there.items()} | {(4, 3): 0.8}
    assert links_of(graph) == there | back
    assert graph.hosts.places.tolist() == [0, 1, 2, 3, 4]
    assert graph.hosts.region.tolist() == [1, 2, 1, 2, 0]
    assert graph.losses is None
    routers = graph.vertices["id"].to_numpy()
    arrays = LinkArrays.of(routers, graph.edges, "delay", 1)
    assert route_block(arrays, np.array([0]))[0].tolist() == [[0, 70_000, 95_000, 97_500, 98_200]]


def test_rates_classes_and_weights_of_nodes(config):
    """A class's rate, else the cell, else the setting; a number is in Mbit/s."""
    node = np.arange(5)
    of = config()
    hosts, classes = load(of).hosts, NodeClasses.of(of)
    rates = hosts.rates(classes, node, hosts.places, up=7, down=9)
    assert rates.up.tolist() == [50_000_000, 7, 10_000_000, 50_000_000, 7]
    assert rates.down.tolist() == [100_000_000, 10**9, 9, 50_000_000, 9]
    assert (classes.names, classes.of_nodes(node).tolist()) == (("home", "server"), [0, 1, 0, 1, 0])
    assert read_nodes(of.topology.nodes_file).weight.tolist() == [1.5, 2, 0, 1, 1]
    two = [{"name": "server", "share": 0.5, "up": "1Gbit/s"}, {"name": "home", "share": 0.5}]
    of = config(classes=two)
    classes = NodeClasses.of(of)
    assert classes.of_nodes(node).tolist() == [1, 0, 1, 0, 1]
    rates = load(of).hosts.rates(classes, node, hosts.places, up=7, down=9)
    assert rates.up.tolist() == [50_000_000, 10**9, 10_000_000, 10**9, 7]


def test_nodes_of_another_network(config, tmp_path):
    """Regions of a matrix place the nodes; pairs need no places."""
    matrix = "rtt_ms,us,asia,eu\nus,1,90,70\nasia,90,1,80\neu,70,80,1\n"
    (tmp_path / "m.csv").write_text(matrix)
    graph = load(config(edges=None, regions=f"{tmp_path}/m.csv"))
    assert graph.hosts.places.tolist() == [2, 0, 2, 0, 1]
    graph = load(config(edges=None, regions=f"{tmp_path}/m.csv", region_jitter="3ms"))
    assert [graph.hosts.region[place] for place in graph.hosts.places] == [2, 0, 2, 0, 1]
    graph = load(config(edges=None, topology="pairs"))
    assert graph.hosts.places.tolist() == [0, 1, 2, 3, 4]
    assert graph.hosts.up_of_node.tolist() == [50_000_000, 0, 10_000_000, 50_000_000, 0]


@pytest.mark.parametrize(
    ("which", "old", "new", "message"),
    [
        ("table", "4,asia", "5,asia",
         "nodes.csv': column id must have each number from 0 to 4 once: row 5 (id=5)"),
        ("table", "1Gbit/s", "1Gbut",
         "such as 50Mbit/s: row 1 (down='1Gbut')"),
        ("table", "4,asia", "4,",
         "column 'region' must be a name or a number: row 5 (region=missing)"),
        ("table", "id,", "node,",
         "has no column 'id'; needs id (region, up, down, weight, class may be left out)"),
        ("edges", "125ms", "-3",
         "edges.csv': column 'latency' must be at least 0us, such as 5ms: row 2 (latency=-3)"),
        ("edges", "125ms", "",
         "column 'latency' must be a number, with or without a unit: row 2 (latency=missing)"),
        ("edges", "eu,asia,125ms,", "eu,us,4,",
         "an edge occurs twice; keep one: row 2 (source='eu', target='us')"),
        ("edges", BETWEEN_REGIONS, "source,target,latency\n0,0,3\n",
         "an edge must join two different nodes: row 1"),
        ("edges", BETWEEN_REGIONS, "source,target,latency\n0,us,3\n",
         "column target must have nodes, as the first edge: row 1 (target='us')"),
        ("edges", "latency", "ms",
         "has no column 'latency'; needs source, target, latency (loss may be left out)"),
    ],
)  # fmt: skip
def test_bad_cells(config, which, old, new, message):
    """One line with the file, the column and the row."""
    given = {"table": NODES, "edges": BETWEEN_REGIONS}
    assert old in given[which]
    given[which] = given[which].replace(old, new, 1)
    with pytest.raises(InputError, match=re.escape(message)):
        load(config(**given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topology": "edges", "edges_file": None}, "needs a table; give --edges-file FILE"),
        ({"nodes_file": None}, "needs the nodes; give nodes_file"),
        ({"topology": "power-law"}, "has no effect with topology = power-law"),
        ({"node_routers": "places.csv"},
         "node_routers = 'places.csv': has no effect with nodes_file"),
        ({"topology": "pairs", "edges_file": None, "nodes": 7},
         "nodes = 7: must be 5, the number of nodes in"),
        ({"regions": "azure", "edges_file": None}, "'asia' of node 4 is no region of the network"),
        ({"classes": [{"name": "home", "share": 1.0}]},
         "column class: 'server' of node 1 is not one of the classes"),
    ],
)  # fmt: skip
def test_bad_settings(config, given, message):
    def use() -> None:
        made = config(**given)
        load(made)
        NodeClasses.of(made)

    with pytest.raises(InputError, match=re.escape(message)):
        use()
