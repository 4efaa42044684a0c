"""Percentiles of latencies and times to coverage, against plain sorting."""

from __future__ import annotations

import random

import numpy as np
import pytest
from oracle import latency as oracle

from scribe_spark import schemas
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.measures.latency import (
    IN_HOPS,
    LATENCY_COLUMNS,
    LATENCY_MEASURE,
    MS,
    collect_latencies,
    latency_counts,
    latency_rows,
)
from scribe_spark.measures.measure import Found, Size
from scribe_spark.measures.percentiles import (
    COVERAGES,
    NEVER,
    add_expected,
    coverage_numbers,
    latency_numbers,
    publication_latencies,
)
from scribe_spark.runtime.batches import Batches

SEEDS = range(60)


def drawn(seed: int) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return the latencies of each group's deliveries in microseconds, and whom it expects."""
    rng = random.Random(f"latency {seed}")
    most, share = rng.choice([1, 3, 10, 150, 400]), rng.choice([0.0, 0.5, 0.9, 0.99, 1.0])
    span = rng.choice([1, 5, 10_000, 3 * 10**9])
    expected = {g: rng.randint(1, most) for g in rng.sample(range(50), rng.randint(1, 12))}
    found = {
        group: [rng.randint(0, span) for _ in range(n) if rng.random() < share]
        for group, n in expected.items()
    }
    return found, expected


def arrays(found: dict[int, list[int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = [(group, value) for group, values in found.items() for value in values]
    random.Random(len(rows)).shuffle(rows)
    group, value = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return group, value


def or_none(value: int) -> int | None:
    return None if value == NEVER else value


@pytest.mark.parametrize("seed", SEEDS)
def test_publications_and_all_deliveries(seed: int) -> None:
    found, expected = drawn(seed)
    groups = sorted(expected)
    made = publication_latencies(
        *arrays(found), np.array(groups), np.array([expected[group] for group in groups])
    )
    assert list(made)[3:] == schemas.LATENCY.names[6:]
    for at, group in enumerate(groups):
        row = {name: or_none(int(column[at])) for name, column in made.items()}
        theirs = oracle.latencies(found[group]) | oracle.coverage(found[group], expected[group])
        sizes = {"group": group, "expected": expected[group], "reached": len(found[group])}
        assert row == sizes | theirs
    every = [value for values in found.values() for value in values]
    ours = latency_numbers(add_counts(np.array(every), np.ones(len(every), dtype=np.int64)))
    theirs = oracle.latencies(every)
    assert ours == {name: value / 1000 for name, value in theirs.items() if value is not None}
    over = coverage_numbers(made)
    for x in COVERAGES:
        times = [oracle.coverage(found[group], expected[group])[f"t{x}"] for group in groups]
        for name, value in oracle.over_publications(times).items():
            assert over.get(f"{x}.{name}") == (None if value is None else value / 1000)


def test_expected_of_buckets_are_added() -> None:
    groups, expected = add_expected(np.array([7, 2, 7, 9]), np.array([1, 5, 3, 0]))
    assert groups.tolist() == [2, 7, 9]
    assert expected.tolist() == [5, 4, 0]


def test_nothing_expected_and_nothing_reached() -> None:
    none = np.empty(0, dtype=np.int64)
    assert coverage_numbers(publication_latencies(none, none, none, none)) == {}
    assert latency_numbers(Histogram()) == {}


@pytest.mark.parametrize("buckets", [1, 3])
def test_tables_and_metrics_of_a_run(spark, buckets: int) -> None:
    """The job of a run: IP multicast says whom a publication expects; two systems, one by hops."""
    found, expected = next(
        (found, expected) for found, expected in map(drawn, SEEDS) if sum(expected.values()) > 200
    )
    rng = random.Random(buckets)
    hops = {group: [rng.randint(1, 9) for _ in values] for group, values in found.items()}
    rows = [
        ("scribe", group, node, hop, value / 1000)
        for group, values in found.items()
        for node, (value, hop) in enumerate(zip(values, hops[group], strict=True))
    ]
    base = {group: [rng.randint(1, 90_000) for _ in range(n)] for group, n in expected.items()}
    rows += [
        ("ip_multicast", group, node, 1, value / 1000)
        for group, values in base.items()
        for node, value in enumerate(values)
    ]
    rng.shuffle(rows)
    table = spark.createDataFrame(rows, schemas.DELIVERIES).repartition(4, "node")
    systems = ["ip_multicast", "scribe", "bayeux"]
    made = collect_latencies(Batches.of(table, LATENCY_COLUMNS), systems, ["scribe"], buckets)
    in_hops = {group: [1000 * hop for hop in some] for group, some in hops.items()}
    nobody = {group: [] for group in expected}  # no copy of Bayeux arrives
    given = {
        ("bayeux", MS): nobody,
        ("ip_multicast", MS): base,
        ("scribe", IN_HOPS): in_hops,
        ("scribe", MS): found,
    }
    assert list(made) == list(given)
    table_rows, counts = latency_rows(made), latency_counts(made)
    assert table_rows.column_names == schemas.LATENCY.names
    assert counts.column_names == schemas.LATENCY_COUNTS.names
    wanted = []
    for (system, unit), values in given.items():
        for group in sorted(expected):
            numbers = oracle.latencies(values[group]) | oracle.coverage(
                values[group], expected[group]
            )
            thousandths = [None if number is None else number / 1000 for number in numbers.values()]
            sizes = [expected[group], len(values[group])]
            wanted.append((system, group, 0, unit, *sizes, *thousandths))
        every = [value for some in values.values() for value in some]
        whole = [-(-value // 1000) for value in every]
        mine = [r for r in counts.to_pylist() if (r["system"], r["unit"]) == (system, unit)]
        assert {row["value"]: row["count"] for row in mine} == {
            value: whole.count(value) for value in whole
        }
    assert [tuple(row.values()) for row in table_rows.to_pylist()] == wanted
    values = Found(Size(9, 9, 9), 4, {}, {"latency": made})
    metrics = {m.name: m.value(values, "scribe") for m in LATENCY_MEASURE.metrics}
    every = [value for some in found.values() for value in some]
    assert metrics["reached"] == len(every) / sum(expected.values())
    assert 0 < metrics["reached"] < 1
    (reached, *others) = LATENCY_MEASURE.metrics
    assert [reached.value(values, system) for system in ("ip_multicast", "bayeux")] == [1, 0]
    assert {metric.value(values, "bayeux") for metric in others} == {None}
    assert metrics["latency.p95"] == oracle.percentile(every, 95) / 1000
    assert metrics["latency_hops.max"] == max(max(some) for some in hops.values() if some)
    times = [oracle.coverage(found[group], expected[group])["t50"] for group in expected]
    median = oracle.over_publications(times)["median"]
    assert metrics["time_to_50.median"] == (None if median is None else median / 1000)
