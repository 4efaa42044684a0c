"""A table with the router of each node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments import Simulation
from scribe_spark.experiments.manifest import input_digests
from scribe_spark.measures.parts import node_parts
from scribe_spark.node_classes import NodeClasses
from scribe_spark.topology import load

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
        found = rates(_no_classes(config), np.arange(5), simulation.graph.hosts.places)
        assert found.up.tolist() == [10**9, 10**9, 10**7, 10**9, 10**7]
    assert "node_routers" in input_digests(RunConfig(**given))


def _no_classes(config) -> NodeClasses:

    return NodeClasses.of(config)


def test_nodes_of_a_table_have_the_regions_of_their_routers(tmp_path):
    matrix, hosts = tmp_path / "regions.csv", tmp_path / "hosts.csv"
    matrix.write_text("from,to,ms\na,a,5\na,b,40\nb,a,40\nb,b,5\n")
    drawn = load(RunConfig(nodes=6, regions=str(matrix), groups=1))
    of_router = dict(zip(drawn.vertices["id"], drawn.hosts.region, strict=True))
    chosen = [min(r for r, region in of_router.items() if region == one) for one in (1, 0) * 3]
    rows = [f"{node},{router}" for node, router in enumerate(chosen)]
    hosts.write_text("\n".join(["node,router", *rows, ""]))
    config = RunConfig(nodes=6, regions=str(matrix), node_routers=str(hosts), groups=1)
    (parts,) = node_parts(config, load(config).hosts)
    assert parts.of_nodes(np.arange(6)).tolist() == [1, 0] * 3


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
