"""Runs over a graph that the caller has in hand."""

from __future__ import annotations

import pandas as pd
import pytest

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError
from scribe_spark.topology import Topology

from .conftest import manifest

EDGES = pd.DataFrame({"src": [4, 5, 6, 7], "dst": [5, 6, 7, 4], "delay_ms": [1.0, 2.0, 3.0, 4.0]})


def test_a_graph_goes_where_a_path_goes_and_a_run_is_resumed_by_its_content(spark, tmp_path):
    def run(topology, phases=("topology",), resume=True):
        execution = Execution(out=str(tmp_path / "out"), resume=resume)
        config = RunConfig(nodes=5, groups=1, topology=topology)
        experiments.check(config, execution)
        return experiments.run(spark, config, execution, phases=phases)

    done = run((None, EDGES), resume=False)
    links = done.table("links").toPandas().sort_values(["src", "dst"])
    assert links["delay_ms"].tolist() == [1, 4, 1, 2, 2, 3, 4, 3]
    assert (links["weight"] == links["delay_ms"]).all()
    assert manifest(done.out)["resolved"]["topology"] == str(done.simulation.config.topology.kind)

    with pytest.raises(InputError, match=r"topology = 'graph:\w{16}'"):
        run((None, EDGES.assign(delay_ms=9.0)))
    with pytest.raises(InputError, match="topology = 'transit-stub'"):
        run("transit-stub")

    before = manifest(done.out)["phases"][0]
    shuffled = spark.createDataFrame(EDGES.sample(frac=1, random_state=1)).repartition(2)
    resumed = run(Topology(spark.range(4, 8), shuffled), phases=("topology", "overlay"))
    assert manifest(done.out)["phases"][0] == before
    assert resumed.table("nodes").count() == 5
