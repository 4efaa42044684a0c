"""The registry of measures, and metrics from what was found, without Spark."""

from __future__ import annotations

from statistics import median

import numpy as np
import pandas as pd
import pytest
from oracle import measures

from scribe_spark.core.histogram import Histogram
from scribe_spark.measures.distributions import read_histograms
from scribe_spark.measures.measure import Found, Measure, Metric, Size
from scribe_spark.measures.metrics import (
    metric_definitions,
    metric_rows,
    register_measure,
    unregister_measure,
)
from scribe_spark.measures.published import Published
from scribe_spark.systems import systems_of_run

PLAIN = systems_of_run(["plain"])
ALL = systems_of_run(["bottleneck", "collapse", "lazy"])


def values(found: Found, systems=PLAIN) -> dict[str, float | None]:
    return {row["name"]: row["value"] for row in metric_rows(found, systems, {}, {})}


def histograms(*rows: tuple[str, str, float, int]) -> dict[tuple[str, str], Histogram]:
    """Of rows ``system, measure, value, count``."""
    return read_histograms(pd.DataFrame(rows, columns=["system", "measure", "value", "count"]))


def test_numbers_of_routes_and_topology():
    collected = {
        "network": {"core_delay_ms": 40.5},
        "overlay": {"hops": 2.0, "stretch": 1.5, "table_entries": 7.25, "arrival_messages": 99.5},
        "convergence": {"travelled": 30.0, "between": 24.0},
        "delay": {"scribe": {"mean": 1.5, "median": 1.25, "below_1": 0.0}},
    }
    found = values(Found(Size(nodes=1000, routers=10, core_links=30), 4, {}, collected))
    assert found["pastry.hops.mean"] == 2
    assert found["pastry.hops.bound"] == 3
    assert found["pastry.stretch"] == 1.5
    assert found["pastry.table_entries.mean"] == 7.25
    assert found["pastry.arrival_messages.mean"] == 99.5
    assert found["pastry.arrival_messages.bound"] == pytest.approx(3 * 16 * 2.4914, rel=1e-4)
    assert found["pastry.convergence.ratio"] == 1.25
    assert found["topology.core_delay.mean"] == 40.5
    assert found["topology.core_links"] == 30
    assert found["links.existing"] == 30 + 2 * 1000
    assert found["links.paper_slots"] == 30 + 200 * 10
    assert (found["scribe.rdp.mean"], found["scribe.rdp.below_1"]) == (1.5, 0)
    assert found["groups.size.sum"] == 0
    assert found["groups.size.max"] is None
    assert found["scribe.rad.median"] is None


@pytest.mark.parametrize(
    ("nodes", "b", "bound"), [(1, 4, 0), (2, 4, 1), (16, 4, 1), (17, 4, 2), (4096, 4, 3), (8, 1, 3)]
)
def test_the_bound_of_hops(nodes, b, bound):
    assert values(Found(Size(nodes, 1, 0), b))["pastry.hops.bound"] == bound


def test_a_mean_per_slot_needs_a_slot_for_each_link():
    """A million nodes on the paper's 5,050 routers have more links than the paper has slots."""
    packets = histograms(("scribe", "link_stress", 1.0, 900_000), ("scribe", "link_stress", 3.0, 1))
    few, many = (Size(n, 5_050, 25_294) for n in (100_000, 1_000_000))
    assert many.paper_slots < many.existing_links
    mean, median_ = "scribe.link_stress.mean", "scribe.link_stress.median"
    found = values(Found(many, 4, packets))
    assert (found[mean], found[median_]) == (None, None)
    assert found[f"{mean}_existing"] == 900_003 / many.existing_links
    assert found["links.paper_slots"] == many.paper_slots
    found = values(Found(few, 4, packets))
    assert found[mean] == 900_003 / few.paper_slots
    assert found[median_] == 1


def test_what_is_not_published_is_there_all_the_same():
    names = set(values(Found(Size(9, 1, 0), 4), ALL))
    assert {"ip_multicast.link_stress.mean_existing", "scribe_lazy.overloaded"} <= names
    assert "scribe_bottleneck.join_stress.max" in names
    # and only what makes sense of a system
    assert not names & {"ip_multicast.children_tables.max", "naive_unicast.rad.max"}
    assert not names & {"scribe_collapse.overloaded", "scribe_lazy.join_stress.max"}
    assert names == set(metric_definitions(ALL))


def test_published_values_are_put_beside_the_numbers():
    known = {"scribe.rad.max": Published(2.0, "2.8-3.9", "a note", fitted=True)}
    rows = {r["name"]: r for r in metric_rows(Found(Size(9, 1, 0), 4), PLAIN, known, {"7": "99"})}
    assert rows["scribe.rad.max"] == {
        "name": "scribe.rad.max",
        "value": None,
        "unit": "x",
        "clock": "time",
        "figure": "99",
        "paper": 2.0,
        "check": "2.8-3.9",
        "note": "a note",
        "fitted": True,
    }
    other = rows["scribe.rmd.max"]
    assert (other["paper"], other["check"], other["note"], other["fitted"]) == (
        *(None, None, None),
        False,
    )


def test_every_metric_says_what_it_is():
    for name, metric in metric_definitions().items():
        assert metric.definition.endswith("."), name
        assert metric.definition[0].isupper() or metric.definition.startswith("ceil"), name
        assert metric.unit, name


@pytest.mark.parametrize("seed", range(20))
def test_the_median_of_a_histogram_is_that_of_its_values(seed):
    rng = np.random.default_rng(seed)
    drawn = rng.integers(1, 6, rng.integers(1, 30))
    rows = pd.Series(drawn).value_counts().rename_axis("value").reset_index(name="count")
    rows = rows.sample(frac=1, random_state=seed).assign(system="scribe", measure="x")
    of = read_histograms(rows)["scribe", "x"]
    assert of.median() == median(drawn.tolist())
    for total in (len(drawn), len(drawn) + 1, 2 * len(drawn), 2 * len(drawn) + 1):
        mean, middle = measures.mean_and_median(drawn.tolist(), total)
        assert (of.mean(total), of.median(total)) == (pytest.approx(mean), middle)


# --- a measure of one's own


@pytest.fixture
def own() -> Measure:
    metric = Metric("nodes_twice", "nodes", None, "Twice N.", lambda found: 2 * found.size.nodes)
    measure = register_measure(Measure("own", (metric,)))
    yield measure
    unregister_measure("own")


def test_a_measure_of_ones_own_is_among_the_numbers(own):
    (row,) = [
        row
        for row in metric_rows(Found(Size(9, 1, 0), 4), PLAIN, {}, {"10": "14"})
        if row["name"] == "nodes_twice"
    ]
    assert (row["value"], row["unit"], row["figure"], row["paper"]) == (18, "nodes", None, None)


def test_a_number_has_one_measure(own):
    assert register_measure(own) is own
    with pytest.raises(ValueError, match="'delay' is a measure of the package"):
        register_measure(Measure("delay", ()))
    with pytest.raises(ValueError, match="'nodes_twice' belongs to the measure 'own' already"):
        register_measure(Measure("other", own.metrics))
