"""The rates of nodes: of the class, or of all nodes, or of the router in the network's file."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from scribe_spark import experiments
from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError
from scribe_spark.node_classes import NodeClasses
from scribe_spark.topology import load

GML = """graph [
  node [ id 3 host_bandwidth_up "10 Mbit" host_bandwidth_down "20 Mbit" ]
  node [ id 8 host_bandwidth_up "1 bit" ]
  edge [ source 3 target 8 latency "5 ms" ]
]"""
CLASSES = ({"name": "fast", "share": 0.5, "up": "1Gbit/s"}, {"name": "usual", "share": 0.5})


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "network.gml"
    path.write_text(GML)
    return RunConfig(topology=str(path), classes=CLASSES, nodes=40, groups=2)


@pytest.mark.parametrize("down", [0, 7])
def test_the_clock_has_the_rates_of_the_file(config, down):
    ring = SimpleNamespace(node=np.arange(40) * 3, router=np.arange(40) % 2)
    classes = NodeClasses.of(config)
    links = replace(RoundLinks.of(config, load(config).hosts, 1_000), down=down, validation_us=5)
    nodes = links.clock(SimpleNamespace(ring=ring), np.array([0, 40]), None).nodes()
    is_fast = classes.of_nodes(ring.node) == 0
    of_router = np.where(ring.router == 0, 10_000_000, 1)
    assert (nodes.up == np.where(is_fast, 10**9, of_router)).all()
    assert (nodes.down == (down or np.where(ring.router == 0, 20_000_000, 0))).all()
    assert set(nodes.validation_us) == {5}


def test_a_rate_of_the_file_that_is_too_slow_is_refused(config, tmp_path):
    execution = Execution(out=str(tmp_path / "out"))
    experiments.check(config, execution)
    with pytest.raises(InputError, match=r"message_size = '1GB': takes more than .* at 1bit/s"):
        experiments.check(config.replace(message_size="1GB"), execution)
