"""Runs and worlds in which a copy takes its size over the narrowest link of its route."""

import numpy as np
import pytest
from small_network import NETWORK, table
from stopping import Stops

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import PHASES, run, run_world
from scribe_spark.topology.checks import refuse_network
from scribe_spark.topology.links import graph_of_links
from scribe_spark.topology.registry import load

SYSTEMS = "scribe,naive_unicast,ip_multicast,plumtree"
CONFIG = {**NETWORK, "nodes": 40, "groups": 2, "group_size": 20, "message_size": "15KB"}
#: The times of 15 KB on links of 1.5, 45 and 100 Mbit/s, in ms.
TIMES_MS = 80.0, 2.667, 1.2


@pytest.mark.slow
def test_a_run_s_copies_take_the_narrowest_link(spark, tmp_path):
    told = {}
    for link_rates in (False, True):
        execution = Execution(out=str(tmp_path / str(link_rates)), master="local[2]")
        config = RunConfig(**CONFIG, systems=SYSTEMS, link_rates=link_rates)
        with run(spark, config, execution, PHASES[:4]) as done:
            rows = done.table("deliveries").toPandas().set_index(["system", "group", "node"])
        told[link_rates] = rows["delay_ms"]
    more = (told[True] - told[False]).dropna()
    for system in ("naive_unicast", "ip_multicast"):
        found = more[system]
        far = found[found > 0]
        assert len(far) > 20
        assert np.abs(far.to_numpy()[:, None] - TIMES_MS).min(axis=1).max() < 0.01
    assert (more["scribe"] >= 0).all()
    assert (more[["scribe", "plumtree"]].groupby(level=0).mean() > 50).all()


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


def test_a_network_without_rates_is_refused():
    config = RunConfig(nodes=9, message_size="1KB", link_rates=True)
    graph = load(config)
    refuse_network(config, graph)
    unknown = graph_of_links(None, graph.edges, "links")
    with pytest.raises(InputError, match="link_rates = True: needs rates of links on kept routes"):
        refuse_network(config, unknown)
