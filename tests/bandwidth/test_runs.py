"""Runs with the clock with bandwidth."""

from __future__ import annotations

from collections import Counter

import pytest

from scribe_spark import RunConfig
from scribe_spark.experiments import Simulation
from scribe_spark.runtime.batches import Batches

NETWORK = {
    "nodes": 120, "overlay": "perfect", "groups": 6, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3,
}  # fmt: skip
SYSTEMS = "scribe,gossipsub,flooding,naive_unicast,reference_tree"
VARIANTS = "collapse,lazy,bottleneck"

DELIVERIES = ("group", "node", "hops", "delay_us")
COPIES = ("group", "sender", "receiver", "kind", "hop", "sent_us", "first")


def tables(spark, **given) -> dict[str, Counter]:
    """Return the rows of deliveries and copies of each system."""
    with Simulation(spark, RunConfig(**NETWORK, **given)) as stages:
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


@pytest.mark.parametrize("source", ["root", "direct"])
def test_a_size_without_limits_changes_nothing(spark, source):
    given = {"systems": SYSTEMS, "variants": VARIANTS, "source": source}
    given |= {"gossipsub_processing_ms": 20.0}
    before = tables(spark, **given)
    after = tables(spark, **given, message_size="128KB")
    assert {name: after[name] == rows for name, rows in before.items()} == dict.fromkeys(
        before, True
    )
    assert "gossipsub copies" in before and "scribe_lazy deliveries" in before
