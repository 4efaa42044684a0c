"""Graphs as they are found: Shadow's GML, the Topology Zoo's GraphML, lists of SNAP and CAIDA."""

import math

import numpy as np
import pytest
from command_line import exit_code

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.topology.registry import load, needs_spark
from scribe_spark.underlay.dijkstra import LinkArrays, route_block
from scribe_spark.underlay.hops import route_losses

#: As Shadow's documentation writes graphs: units in texts, a self-loop for hosts of one node.
SHADOW = """graph [
  directed 0
  # three places
  node [
    id 5
    label "paris"
    host_bandwidth_up "100 Mbit"
    host_bandwidth_down "1 Gbit"
  ]
  node [
    id 7
    label "tokyo"
    host_bandwidth_up "20 Mbit"
    host_bandwidth_down "50 megabit"
  ]
  node [ id 9 ]
  edge [ source 5 target 5 latency "3 ms" packet_loss 0.0 ]
  edge [
    source 5
    target 7
    latency "120 ms"
    jitter "2 ms"
    packet_loss 0.01
  ]
  edge [ source 7 target 9 latency "500 us" ]
  edge [ source 5 target 9 latency "1 s" ]
]
"""

#: As the Internet Topology Zoo writes graphs: keys, places of most nodes, speeds of links.
ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="Latitude" attr.type="double" for="node" id="d1" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d2" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d3" />
  <graph edgedefault="undirected">
    <node id="0"><data key="d1">0.0</data><data key="d2">10.0</data></node>
    <node id="1"><data key="d1">0.0</data><data key="d2">30.0</data></node>
    <node id="2"></node>
    <node id="3"></node>
    <edge source="0" target="1"><data key="d3">1e9</data></edge>
    <edge source="0" target="2"></edge>
    <edge source="1" target="2"></edge>
    <edge source="2" target="3"></edge>
  </graph>
</graphml>
"""

SNAP = "# Undirected graph: as.txt\n# FromNodeId\tToNodeId\n1\t2\n2\t1\n2\t3\n3\t3\n"
CAIDA = "# source:topology|BGP\n1|2|-1\n2|3|0|bgp\n"


def delays(graph) -> dict[tuple[int, int], float]:
    rows = graph.edges[["src", "dst", "delay_ms"]].itertuples(index=False)
    return {(src, dst): ms for src, dst, ms in rows if src < dst}


def routes(graph) -> np.ndarray:
    links = LinkArrays.of(graph.vertices["id"].to_numpy(), graph.edges, "delay", 1)
    return route_block(links, np.arange(len(graph.vertices)))[0]


# ------------------------------------------------------------------------------------ GML of Shadow


@pytest.mark.parametrize("name", ["shadow.gml", "shadow.GML.gz"])
def test_shadow_gives_delays_rates_and_self_loops(graph_of, name):
    graph = graph_of(SHADOW, name)
    assert graph.vertices["id"].tolist() == [5, 7, 9]
    assert delays(graph) == {(5, 7): 120.0, (7, 9): 0.5, (5, 9): 1000.0}
    assert graph.hosts.own_us.tolist() == [3_000, 0, 0]
    assert graph.hosts.up.tolist() == [100_000_000, 20_000_000, 0]
    assert graph.hosts.down.tolist() == [10**9, 50_000_000, 0]
    notes = "\n".join(graph.notes)
    for told in (
        "routers without a self-loop: 2;",
        "host_bandwidth_up: 20Mbit/s to 100Mbit/s; routers without it: 1",
        "the graph is not directed: each edge is a link both ways",
        "packet_loss of 2 edges (0 to 0.01): copies are lost by it",
        "jitter of edges is ignored",
        "nodes are spread over all routers evenly",
    ):
        assert told in notes


def test_shadow_has_shortest_paths_or_direct_ones(graph_of):
    assert routes(graph_of(SHADOW, "a.gml"))[0].tolist() == [0, 120_000, 120_500]
    assert routes(graph_of(SHADOW, "a.gml", routes="direct"))[0].tolist() == [0, 120_000, 10**6]


def test_direct_paths_need_each_link(graph_of):
    text = SHADOW.replace('  edge [ source 5 target 9 latency "1 s" ]\n', "")
    with pytest.raises(InputError, match=r"routes = 'direct': needs a link .* routers 5 and 9 of"):
        graph_of(text, "a.gml", routes="direct")


def test_a_directed_graph_may_differ_by_direction(graph_of):
    text = SHADOW.replace("directed 0", "directed 1")
    text = text.replace('edge [ source 7 target 9', 'edge [ source 9 target 7 latency "9 ms" ]\n'
                        'edge [ source 7 target 9')  # fmt: skip
    graph = graph_of(text, "a.gml")
    ms = {(s, d): v for s, d, v in graph.edges[["src", "dst", "delay_ms"]].itertuples(index=False)}
    assert (ms[7, 9], ms[9, 7]) == (0.5, 9.0)
    assert ms[7, 5] == ms[5, 7] == 120.0
    assert "the graph is directed; edges without a reverse: 2, which get one" in graph.notes


def test_a_route_loses_what_its_links_lose(graph_of):
    text = SHADOW.replace('latency "500 us"', 'latency "500 us" packet_loss 0.5')
    text = text.replace('latency "3 ms" packet_loss 0.0', 'latency "3 ms" packet_loss 0.25')
    graph = graph_of(text, "a.gml")
    ids = graph.vertices["id"].to_numpy()
    links = LinkArrays.of(ids, graph.edges, "delay", 1)
    pred = route_block(links, np.arange(len(ids)))[1]
    far = 1 - 0.99 * 0.5  # 5 to 9 by 7
    expected = [[0.25, 0.01, far], [0.01, 0, 0.5], [far, 0.5, 0]]
    assert np.allclose(route_losses(pred, ids, graph.losses), expected)
    assert graph_of(SHADOW.replace("packet_loss 0.01", ""), "a.gml").losses is None


# --------------------------------------------------------------------------- GraphML of the Zoo


def test_delays_are_great_circles_between_places(graph_of):
    graph = graph_of(ZOO, "zoo.graphml")
    found = delays(graph)
    km_a_degree = 2 * math.pi * 6371.0088 / 360
    assert found[0, 1] == pytest.approx(20 * km_a_degree * 0.005, abs=1e-3)
    # node 2 is between its located neighbours, node 3 where node 2 is
    assert found[0, 2] == found[1, 2] == pytest.approx(10 * km_a_degree * 0.005, abs=1e-3)
    assert found[2, 3] == pytest.approx(0, abs=1e-3)
    assert graph.vertices["x"].tolist() == pytest.approx([10, 30, 20, 20])
    notes = "\n".join(graph.notes)
    assert "no edge has a latency: delays are those of light in fibre along great circles" in notes
    assert "nodes without Latitude and Longitude: 2; each is put at the mean" in notes
    assert "LinkSpeedRaw of edges is ignored; bandwidth (10 Mbit/s) gives links rates" in notes


# ---------------------------------------------------------------------------------- bare lists


@pytest.mark.parametrize(
    ("text", "name", "note"),
    [
        (SNAP, "as.txt", "self-loops are left out: 1"),
        (SNAP, "as.txt.gz", "self-loops are left out: 1"),
        (CAIDA, "20200101.as-rel2.txt", "what stands beside the two ends of a link"),
        ("# SNAP's AS graph of CAIDA\n1\t2\t1\n2\t3\t2\n", "as.txt", "what stands beside the two"),
        ("1 2 {}\n2 3 {}\n", "networkx.edges", "the list has no delays"),
    ],
)
def test_a_bare_list_has_links_of_one_hop(graph_of, text, name, note):
    graph = graph_of(text, name)
    assert delays(graph) == {(1, 2): 1.0, (2, 3): 1.0}
    assert len(graph.edges) == 4
    assert graph.notes[0] == "the list has no delays: each link takes 1 ms, both ways"
    assert graph.notes[-1].startswith(note)


# ---------------------------------------------------------------------------------- refusals


def edge(text: str) -> str:
    return SHADOW.replace('latency "500 us"', text)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (edge(""), "a.gml", "edge 7 to 9 (line 25) has no latency; other edges have one"),
        (edge("latency 5"), "a.gml", "edge 7 to 9 (line 25): latency '5' must have a unit, such"),
        (edge('latency "5 parsec"'), "a.gml", "must be a number and a unit (s, ms, us)"),
        (edge('latency "1000001 ms"'), "a.gml", "must be a number from 0 to 1,000,000 ms"),
        (SHADOW.replace('"20 Mbit"', "20"), "a.gml",
         "node 7 (line 10): host_bandwidth_up '20' must have a unit, such as 50Mbit/s"),
        (SHADOW.replace('"20 Mbit"', '"0 Mbit"'), "a.gml", "must be above 0"),
        (SHADOW.replace("latency", "delay"), "a.gml",
         "edge 5 to 5 (line 17) has no latency; each edge needs latency (10 ms) or delay_ms, or "
         "nodes need Latitude and Longitude"),
        (SHADOW.replace('  edge [ source 7 target 9 latency "500 us" ]\n', "")
               .replace('  edge [ source 5 target 9 latency "1 s" ]\n', ""), "a.gml",
         "must be connected, falls into 2 parts: router 9"),
        (SHADOW.replace("id 5", "id 5 share 0.500002").replace("id 7", "id 7 share 0.5"), "a.gml",
         "shares of nodes must sum to 1, but sum to 1.000002"),
        (SHADOW.replace("target 7", "target 8"), "a.gml",
         "cannot be read as GML: edge 5 to 8 (line 18) needs a node 8, which the file lacks"),
        ("", "a.gml", "cannot be read as GML: "),
        ("<graphml>", "a.graphml", "cannot be read as GraphML: "),
        (ZOO.replace('<data key="d1">0.0</data>', "").replace('<data key="d2">', '<data key="d3">'),
         "a.graphml", "edge 0 to 1 (line 11) has no latency"),
        (ZOO.replace('<edge source="0" target="2"></edge>', "")
            .replace('<edge source="1" target="2"></edge>', ""), "a.graphml",
         "node 2 (line 9) has no Latitude and Longitude, nor has any node that it is linked with"),
        ("1 2\n2 x\n", "as.txt", "line 2 must be two whole numbers, and perhaps a relationship"),
        ("1,2\n2,3\n", "as.csv", "has no column 'src'"),
        ("\n1 2 7\n2 3 -1\n", "as.txt",
         "line 2 must be two whole numbers, and perhaps a relationship (-1, 0, 1 or 2), not '1 2 "
         "7'; for delays or weights, give a table with the header src,dst,delay_ms,weight"),
        ("rtt_ms,a,b\na,1,2\nb,2,1\n", "cities.csv",
         "is a matrix of latencies between regions; give --regions "),
        ('[{"from": "a", "to": "a", "ms": 1}]', "cities.json", "; give --regions "),
    ],
)  # fmt: skip
def test_what_is_missing_is_refused_by_element_and_line(graph_of, text, name, words):
    with pytest.raises(InputError) as refused:
        graph_of(text, name)
    line = str(refused.value)
    assert line.startswith("topology = ")
    assert words in line
    assert "\n" not in line


def test_a_graph_file_elsewhere_is_refused_before_spark():
    assert not needs_spark("s3a://bucket/a.gml")
    with pytest.raises(InputError, match="is not on this machine; copy the file to a local path"):
        load(RunConfig(topology="s3a://bucket/a.gml"))


# ---------------------------------------------------------------------------------- the command


def test_the_command_says_what_was_found(tmp_path, capsys):
    path = tmp_path / "shadow.gml"
    path.write_text(SHADOW)
    assert exit_code(["topology", path]) == 0
    told = capsys.readouterr().out
    for line in (
        "routers              3",
        "links (directed)     6",
        "link delays          0.5 to 1000 ms, median 120 ms",
        "connected            yes",
        "note                 host_bandwidth_down: 50Mbit/s to 1Gbit/s; routers without it: 1",
    ):
        assert line in told.splitlines()


@pytest.mark.parametrize("flag", ["--topology", "--regions"])
def test_the_command_takes_one_network(tmp_path, capsys, flag):
    assert exit_code(["topology", "a.gml", flag, "azure"]) == 2
    assert "is not expected beside" in capsys.readouterr().err
