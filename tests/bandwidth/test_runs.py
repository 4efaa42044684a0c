"""Runs with the clock with bandwidth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from scribe_spark import RunConfig
from scribe_spark.experiments import Simulation
from scribe_spark.runtime.batches import Batches

NETWORK = {
    "nodes": 80, "overlay": "perfect", "groups": 6, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3,
}  # fmt: skip
SYSTEMS = "scribe,bayeux,flooding,can,gossipsub,naive_unicast"

DELIVERIES = ("group", "node", "hops", "delay_us")
COPIES = ("group", "sender", "receiver", "kind", "hop", "sent_us", "first")


def tables(spark, shares: Simulation | None = None, **given) -> dict[str, Counter]:
    """Return the rows of deliveries and copies of each system."""
    config = RunConfig(**NETWORK | given)
    with Simulation(spark, config, shares=shares, engine="tasks") as stages:
        return {
            f"{made.system} {name}": Counter(zip(*rows_of(table, columns), strict=True))
            for made in stages.systems
            for name, columns in (("deliveries", DELIVERIES), ("copies", COPIES))
            if (table := getattr(made, name) if name == "deliveries" else made.handed_over(name))
            is not None
        }


def rows_of(table, columns) -> list[list]:
    """Return the columns of a table."""
    found = Batches.of(table, list(columns)).frame.select(*columns).toArrow()
    return [found.column(name).to_pylist() for name in columns]


@pytest.fixture(scope="module")
def network(spark) -> Iterator[Simulation]:
    """The routes of all runs."""
    with Simulation(spark, RunConfig(**NETWORK)) as stages:
        yield stages


def test_a_size_without_limits_changes_nothing(spark, network):
    given = {"systems": SYSTEMS, "variants": "lazy", "source": "direct", "gossipsub_heartbeats": 3}
    given |= {"gossipsub_processing_ms": 20.0, "can_processing_ms": 3.0, "groups": 3}
    before = tables(spark, network, **given)
    after = tables(spark, network, **given, message_size="128KB")
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


def test_one_task_plays_what_two_would(spark, network, monkeypatch):
    given = {"systems": "scribe,gossipsub", "groups": 2, "message_size": "100KB"}
    given |= {"uplink": "10Mbit/s", "downlink": "20Mbit/s", "validation": "5ms"}
    given |= {"gossipsub_heartbeats": 3}
    in_tasks = tables(spark, network, **given)
    monkeypatch.setattr("scribe_spark.bandwidth.runs.why_no_tasks", lambda *_: "no slots")
    assert tables(spark, network, **given) == in_tasks
