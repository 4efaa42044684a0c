"""The registry of measures, and numbers of delays, latencies and routes against plain Python."""

import random
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from oracle import latency as oracle

from scribe_spark import schemas
from scribe_spark.core.errors import RunError
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.engine.exchange import add_rows, distinct_rows
from scribe_spark.measures.delay import ratio_numbers, rdp_ratios
from scribe_spark.measures.distributions import read_histograms
from scribe_spark.measures.latency import (
    COVERAGES,
    IN_HOPS,
    LATENCY_COLUMNS,
    LATENCY_MEASURE,
    MS,
    NEVER,
    collect_latencies,
    coverage_numbers,
    latency_counts,
    latency_numbers,
    latency_rows,
    publication_latencies,
)
from scribe_spark.measures.measure import Found, Measure, Metric, Size
from scribe_spark.measures.metrics import (
    metric_definitions,
    metric_rows,
    register_measure,
    unregister_measure,
)
from scribe_spark.measures.overlay import pair_members
from scribe_spark.measures.published import PublishedNumber
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import systems_of_run

PLAIN = systems_of_run(["plain"])
ALL = systems_of_run(["bottleneck", "collapse", "lazy"])


def values(found: Found, systems=PLAIN) -> dict[str, float | None]:
    return {row["name"]: row["value"] for row in metric_rows(found, systems, {}, {})}


def histograms(*rows: tuple[str, str, float, int]) -> dict[tuple[str, str], Histogram]:
    """Of rows ``system, measure, value, count``."""
    return read_histograms(pd.DataFrame(rows, columns=["system", "measure", "value", "count"]))


def test_numbers_of_routes_and_topology():
    overlay = {"hops.mean": 2.0, "stretch": 1.5, "table_entries.mean": 7.25}
    overlay |= {"arrival_messages.mean": 99.5}
    collected = {
        "network": {"topology.core_delay.mean": 40.5},
        "overlay": {f"pastry.{name}": value for name, value in overlay.items()},
        "delay": {"scribe": {"rdp.mean": 1.5, "rdp.median": 1.25, "rdp.below_1": 0.0}},
    }
    found = values(Found(Size(nodes=1000, routers=10, core_links=30), 4, {}, collected))
    wanted = {f"pastry.{name}": value for name, value in overlay.items()} | {
        "pastry.hops.bound": 3,
        "pastry.arrival_messages.bound": pytest.approx(3 * 16 * 2.4914, rel=1e-4),
        "topology.core_delay.mean": 40.5,
        "topology.core_links": 30,
        "links.existing": 30 + 2 * 1000,
        "links.paper_slots": 30 + 200 * 10,
        **{"scribe.rdp.mean": 1.5, "scribe.rdp.below_1": 0, "scribe.rad.median": None},
        **{"groups.size.sum": 0, "groups.size.max": None},
    }
    assert {name: found[name] for name in wanted} == wanted


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


def test_of_trees_they_are_read_off_their_edges():
    """Each edge is a JOIN, and a node keeps its children."""
    children = [("scribe", 0.0, 7), ("scribe", 4.0, 3), ("naive_unicast", 0.0, 9)]
    counted = [(system, "children_entries", *of) for system, *of in children]
    counted += [("naive_unicast", "children_entries", 5.0, 1)]
    counted += [("scribe", "link_stress", 1.0, 6), ("scribe", "link_stress", 3.0, 2)]
    found = values(Found(Size(10, 5, 9), 4, histograms(*counted)))
    wanted = {
        **{"scribe.state.mean": 1.2, "scribe.state.max": 4, "naive_unicast.state.max": 5},
        **{"scribe.join_messages.mean": 1.2, "scribe.join_messages.max": 4},
        **{"scribe.control_stress.max": 3, "scribe.control_packets": 12},
    }
    assert {name: found[name] for name in wanted} == wanted
    assert "naive_unicast.join_messages.max" not in found


def test_published_values_are_put_beside_the_numbers():
    known = {"scribe.rad.max": PublishedNumber(2.0, "2.8-3.9", "a note", fitted=True)}
    rows = {r["name"]: r for r in metric_rows(Found(Size(9, 1, 0), 4), PLAIN, known, {"7": "99"})}
    row, other = rows["scribe.rad.max"], rows["scribe.rmd.max"]
    assert [*row.values()] == [
        *("scribe.rad.max", None, "x", "time", "99", 2.0, "2.8-3.9", "a note", True)
    ]
    assert [*other.values()][5:] == [None, None, None, False]


def test_every_metric_says_what_it_is():
    for name, metric in metric_definitions().items():
        assert metric.definition.endswith("."), name
        assert metric.definition[0].isupper() or metric.definition.startswith("ceil"), name
        assert metric.unit, name


# --- a measure of one's own


@pytest.fixture
def own() -> Measure:
    metric = Metric("nodes_twice", "nodes", None, "Twice N.", lambda found: 2 * found.size.nodes)
    measure = register_measure(Measure("own", (metric,)))
    yield measure
    unregister_measure("own")


def test_a_measure_of_ones_own_is_among_the_numbers(own):
    rows = {row["name"]: row for row in metric_rows(Found(Size(9, 1, 0), 4), PLAIN, {}, {})}
    assert [*rows["nodes_twice"].values()][1:6] == [18, "nodes", None, None, None]
    assert register_measure(own) is own
    with pytest.raises(ValueError, match="'delay' is a measure of the package"):
        register_measure(Measure("delay", ()))
    with pytest.raises(ValueError, match="'nodes_twice' belongs to the measure 'own' already"):
        register_measure(Measure("other", own.metrics))


def test_the_mean_of_ratios_is_right_also_where_their_sum_is_beyond_63_bits():
    ratio = np.array([2**62, 2**61, 2**62, 3])
    assert ratio_numbers(ratio)["rdp.mean"] == float(2**63 + 2**61 + 3) / 4 / 1e9
    far = rdp_ratios(np.full(100, 10**9), np.ones(100, dtype=np.int64))
    assert ratio_numbers(far)["rdp.mean"] == ratio_numbers(far)["rdp.median"] == 1e9


def test_a_ratio_that_no_whole_number_of_shares_holds_is_refused():
    delay_us = np.array([1, 9_223_372_036])
    assert rdp_ratios(delay_us, np.array([1, 1])).tolist()[0] == 10**9
    with pytest.raises(
        RunError, match=r"is 9.22e\+09 times the delay by IP multicast; increase lan_delay"
    ):
        rdp_ratios(delay_us + 1, np.array([1, 1]))


# --- rows with equal keys -------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [(0, 0, 0), (2**61, 0, 5), (-3, 7, 0), (2**40, 2**40, 2**40)])
def test_rows_are_those_of_numpy(shift):
    rng = np.random.default_rng(1)
    keys = [rng.integers(0, most, 2000) + by for most, by in zip((40, 7, 9), shift, strict=True)]
    rows, value = np.stack(keys, axis=1), rng.integers(0, 99, 2000)
    expected, of, count = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    one, found, times = distinct_rows(*keys)
    assert np.array_equal(np.stack(found, axis=1), expected)
    assert np.array_equal(rows[one], expected)
    assert np.array_equal(times, count)
    added = add_rows("value", {"a": keys[0], "b": keys[1], "c": keys[2], "value": value}, *"abc")
    assert np.array_equal(np.stack([added[name] for name in "abc"], axis=1), expected)
    assert added["value"].tolist() == np.bincount(of.ravel(), value).astype(int).tolist()


# --- latencies and times to coverage --------------------------------------------------------------


SEEDS = range(30)


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
    due = {"group": groups, "expected": [expected[group] for group in groups]}
    came = dict(zip(("group", MS), arrays(found), strict=True))
    made = publication_latencies(came, {name: np.array(of) for name, of in due.items()})
    assert list(made)[4:] == schemas.LATENCY.names[6:]
    for at, group in enumerate(groups):
        row = {name: or_none(int(column[at])) for name, column in made.items()}
        theirs = oracle.latencies(found[group]) | oracle.coverage(found[group], expected[group])
        sizes = {"group": group, "expected": expected[group], "reached": len(found[group])}
        sizes["total"] = sum(found[group])
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


@pytest.mark.parametrize("buckets", [1, 3])
def test_tables_and_metrics_of_a_run(spark, buckets: int) -> None:
    """The job of a run: IP multicast says whom a publication expects; two systems, one by hops."""
    found, expected = next(case for case in map(drawn, SEEDS) if sum(case[1].values()) > 200)
    rng = random.Random(buckets)
    hops = {group: [rng.randint(1, 9) for _ in values] for group, values in found.items()}
    base = {group: [rng.randint(1, 90_000) for _ in range(n)] for group, n in expected.items()}
    one = {group: [1] * n for group, n in expected.items()}
    rows = [
        (system, group, node, hop, value / 1000)
        for system, came, by in (("scribe", found, hops), ("ip_multicast", base, one))
        for group, values in came.items()
        for node, (value, hop) in enumerate(zip(values, by[group], strict=True))
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
            numbers = oracle.latencies(values[group])
            numbers |= oracle.coverage(values[group], expected[group])
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


# --- where the routes of two members meet ---------------------------------------------------------


MEMBERS = ("group", "node")
EDGES = ("group", "parent", "child", "parent_router", "child_router", "delay_us")


def table(rows: list[tuple], names: tuple[str, ...]) -> pa.Table:
    columns = np.array(rows, dtype=np.int64).reshape(-1, len(names)).T
    return pa.table(dict(zip(names, columns, strict=True)))


def paired(members: pa.Table, edges: pa.Table, seed: int) -> list[tuple[int, int, int]]:
    delays = edges.column("delay_us").to_numpy()
    found = pair_members(members, edges.drop_columns("delay_us"), delays, seed)
    return list(zip(*(column.tolist() for column in found), strict=True))


def travelled(up: dict, a: int, b: int) -> int:
    """By both, to the first node that is on both ways to the root."""

    def way(node: int) -> dict[int, int]:
        far, there = 0, {node: 0}
        while up[node] is not None:
            node, delay = up[node]
            far += delay
            there[node] = far
        return there

    one, other = way(a), way(b)
    meeting = next(node for node in one if node in other)
    return one[meeting] + other[meeting]


@pytest.fixture(scope="module")
def case():
    """Members, trees of groups whose nodes are their own, and node -> (parent, delay)."""
    rng, edges, members, up = random.Random(7), [], [], {}
    for group in range(40):
        nodes = [200 * group + node for node in rng.sample(range(100), rng.randint(1, 12))]
        up[nodes[0]] = None
        for place, node in enumerate(nodes[1:], 1):
            up[node] = parent, delay = rng.choice(nodes[:place]), rng.randint(1, 50)
            edges.append((group, parent, node, 1000 + parent, 1000 + node, delay))
        if len(nodes) > 1:
            members += [(group, node) for node in nodes if rng.random() < 0.7]
    return table(members, MEMBERS), table(edges, EDGES), up


def test_pairs_meet_where_their_ways_to_the_root_do(case):
    members, edges, up = case
    found = []
    for a_router, b_router, travelled_us in paired(members, edges, seed=1):
        a, b = a_router - 1000, b_router - 1000
        assert a // 200 == b // 200
        assert travelled_us == travelled(up, a, b)
        found += [a, b]
    assert len(found) == len(set(found)) > 100
    assert set(found) <= set(members.column("node").to_pylist())
    of = Counter(members.column("group").to_pylist())
    pairs = Counter(node // 200 for node in found)
    assert pairs == {group: n // 2 * 2 for group, n in of.items() if n > 1}


def test_members_that_are_not_in_the_tree_are_left_out(case):
    """Of a run with rounds, whose messages need not come to all."""
    members, edges, *_ = case
    others = table([(group, 10**6 + node) for group in range(40) for node in range(3)], MEMBERS)
    both = pa.concat_tables([members, others])
    nobody = edges.slice(0, 0)
    assert paired(both, edges, 3) == paired(members, edges, 3) != []
    assert paired(both, nobody, 3) == []
