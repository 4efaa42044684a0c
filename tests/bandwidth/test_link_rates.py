"""Runs and worlds in which a copy takes its size over the narrowest link of its route."""

import pytest
from small_network import NETWORK, table
from stopping import Stops

from scribe_spark.config import Execution, WorldConfig
from scribe_spark.experiments import run_world

CONFIG = {**NETWORK, "nodes": 40, "groups": 2, "group_size": 20, "message_size": "15KB"}


@pytest.mark.slow
def test_a_world_s_copies_take_the_narrowest_link(spark, tmp_path):
    delays = []
    for link_rates in (False, True):
        out = tmp_path / str(link_rates)
        given = {**CONFIG, "systems": "scribe,gossipsub,plumtree", "measures": "delay"}
        config = WorldConfig(**given, generator="publications", rounds=2, link_rates=link_rates)
        run_world(spark, config, Execution(out=str(out)), Stops())
        rows = table(out, "rounds").set_index(["measure", "round"])["value"]
        delays.append(rows[[name for name in rows.index if "latency.mean" in name[0]]])
    assert len(delays[0]) >= 6
    assert (delays[1] > delays[0] + 30).all()
