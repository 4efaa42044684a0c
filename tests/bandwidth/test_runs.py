"""Runs with the clock with bandwidth."""

import io
import json
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from small_network import NETWORK as SMALL
from small_network import table as table_of
from stopping import Stops

from scribe_spark import RunConfig
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.core.progress import Lines
from scribe_spark.experiments import Simulation, run_world
from scribe_spark.experiments.run import run
from scribe_spark.runtime.batches import Batches
from scribe_spark.topology.checks import refuse_network
from scribe_spark.topology.links import graph_of_links
from scribe_spark.topology.registry import load

NETWORK = {
    "nodes": 80, "overlay": "perfect", "groups": 6, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3,
}  # fmt: skip


def tables(spark, shares: Simulation | None = None, **given) -> dict[str, Counter]:
    """Return the rows of deliveries and copies of each system."""
    found = {}
    with Simulation(spark, RunConfig(**NETWORK | given), shares=shares, engine="tasks") as stages:
        for made in stages.systems:
            for name, table in (("deliveries", made.deliveries), ("copies", made.table("copies"))):
                if table is not None:
                    columns = [one for one in table.schema.names if "router" not in one]
                    rows = Batches.of(table, columns).frame.select(*columns).toArrow().to_pylist()
                    found[f"{made.system} {name}"] = Counter(tuple(row.values()) for row in rows)
    return found


@pytest.fixture(scope="module")
def network(spark) -> Iterator[Simulation]:
    """The routes of all runs."""
    with Simulation(spark, RunConfig(**NETWORK)) as stages:
        yield stages


#: Trees, a flood, a mesh and links of their own; `test_scheduled_runs` has all systems.
ALL = {
    "systems": "scribe,can,gossipsub,naive_unicast", "variants": "lazy", "source": "direct",
    "gossipsub_heartbeats": 3, "gossipsub_processing_ms": 20.0, "can_processing_ms": 3.0,
    "groups": 3,
}  # fmt: skip


@pytest.mark.slow
def test_a_size_without_limits_changes_nothing(spark, network):
    before = tables(spark, network, **ALL)
    after = tables(spark, network, **ALL, message_size="128KB")
    assert {name for name, rows in before.items() if after[name] != rows} == set()
    assert {"gossipsub copies", "can copies", "scribe_lazy deliveries"} <= set(before)


def test_trees_wait_for_uplinks(spark, network):
    """One after the other, the last child of a source of so many members waits for all others."""
    given = {"systems": "naive_unicast", "groups": 1, "uplink_order": "serial"}
    given |= {"message_size": "1KB", "uplink": "8Mbit/s", "lan_delay_ms": 1.0}
    found = tables(spark, network, **given)["naive_unicast deliveries"]
    usual = tables(spark, network, systems="naive_unicast", groups=1, lan_delay_ms=1.0)
    before = {row[:2]: row[3] for row in usual["naive_unicast deliveries"]}
    waits = sorted(delay - before[group, node] for group, node, _, delay in found)
    assert waits == [1000 * (place + 1) for place in range(len(before))]


#: The times of 15 KB on links of 1.5, 45 and 100 Mbit/s, in us.
TIMES_US = 80_000, 2_667, 1_200


def test_copies_take_the_narrowest_link(spark, network):
    given = {"systems": "naive_unicast", "groups": 2, "message_size": "15KB"}
    before, after = (tables(spark, network, **given, link_rates=rate) for rate in (False, True))
    for system in ("naive_unicast deliveries", "ip_multicast deliveries"):
        usual = {row[:2]: row[3] for row in before[system]}
        more = [row[3] - usual[row[:2]] for row in after[system]]
        far = np.array([one for one in more if one])
        assert len(far) > 20
        assert np.abs(far[:, None] - TIMES_US).min(axis=1).max() <= 1


WORLD = {**SMALL, "nodes": 40, "groups": 2, "group_size": 20, "message_size": "15KB"}


@pytest.mark.slow
def test_a_world_s_copies_take_the_narrowest_link(spark, tmp_path):
    delays = []
    for link_rates in (False, True):
        out = tmp_path / str(link_rates)
        given = {**WORLD, "systems": "scribe,gossipsub,plumtree", "measures": "delay"}
        config = WorldConfig(**given, generator="publications", rounds=2, link_rates=link_rates)
        run_world(spark, config, Execution(out=str(out)), Stops())
        rows = table_of(out, "rounds").set_index(["measure", "round"])["value"]
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


def test_a_run_says_where_the_clock_is_played(spark, tmp_path):
    lines = io.StringIO()
    config = RunConfig(**NETWORK | {"systems": "gossipsub", "groups": 1, "message_size": "1KB"})
    execution = Execution(out=str(tmp_path / "out"), engine="jobs")
    run(spark, config, execution, phases=("topology", "overlay", "trees"), progress=Lines(lines))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    clocks = [entry.get("clock") for entry in manifest["phases"]]
    assert clocks[:2] == [None, None]
    assert set(clocks[2]) == {"name", "why"}
    assert clocks[2]["name"] == "tasks"  # though all else is played as jobs
    assert "clock with bandwidth: in {name} ({why})".format(**clocks[2]) in lines.getvalue()
