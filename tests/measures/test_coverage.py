"""Deadlines, weights, quorums and answers against one event after the other, and by hand."""

import random
from fractions import Fraction

import numpy as np
import pytest
from oracle.coverage import Questions, coverage_measures

from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.config.coverage import CoverageConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import Sweep
from scribe_spark.measures.coverage import coverage_metrics, is_of_coverage, tables_of_run
from scribe_spark.measures.latency import (
    GROUP_OF,
    MS,
    Latencies,
    count_values,
    publication_latencies,
)
from scribe_spark.measures.measure import Found, Size, metric_values
from scribe_spark.measures.metrics import metric_rows
from scribe_spark.measures.within import (
    DOWN,
    NODE,
    REPLY,
    WEIGHT,
    Asked,
    Weights,
    check_weights,
    whole_weights,
)
from scribe_spark.systems.registry import systems_of_run

DEADLINES = {"400us": 400, "1ms": 1000}


def asked_of(weighted: bool, quorum: str = "2/3", several: bool = False) -> Asked:
    config = CoverageConfig(
        deadline=tuple(DEADLINES), weights="w" if weighted else None, quorum=quorum, replies=True
    )
    # the kernel only looks whether there are weights and answers
    return Asked(config, several, Weights("", Fraction(1)) if weighted else None, replies=object())


def metrics_of(asked: Asked, rows: dict[str, np.ndarray]) -> dict[str, float]:
    counts = count_values(np.array([], dtype=np.int64))
    found = {("it", MS): Latencies.of({**rows, GROUP_OF: rows["group"]}, counts)}
    metrics = coverage_metrics(asked.config, asked.several)
    return metric_values(metrics, Found(Size(1, 1, 1), collected={"latency": found}), "it")


def rows_of(asked: Asked, deliveries, expected, weight, back, takes) -> dict[str, np.ndarray]:
    """Return the rows of publications; deliveries are (group, node, latency), in any order."""
    group, node, latency = (np.array(c, dtype=np.int64) for c in zip(*deliveries, strict=True))
    groups = np.array(sorted(expected), dtype=np.int64)
    size = np.array([len(expected[g]) for g in groups.tolist()])
    came = {"group": group, MS: latency, NODE: node}
    came[REPLY] = latency + np.array([back[n] for n in node.tolist()])
    due = {"group": groups, "expected": size}
    due[DOWN] = np.array([takes[g] for g in groups.tolist()])
    if asked.weights is not None:
        came[WEIGHT] = np.array([weight[n] for n in node.tolist()])
        due[WEIGHT] = np.array([sum(weight[n] for n in expected[g]) for g in groups.tolist()])
    return publication_latencies(came, due, MS, asked)


@pytest.mark.parametrize("seed", range(60))
def test_random_publications_equal_an_event_queue(seed):
    rng = random.Random(seed)
    nodes = range(rng.choice((4, 8, 30)))
    asked = asked_of(seed % 2 > 0, rng.choice(("2/3", "0.5", "1")))
    weight = {node: rng.choice((0, 0, 1, 1, 7, 100)) for node in nodes}
    back = {node: rng.choice((5, 5, 50, 300)) for node in nodes}
    groups = sorted(rng.sample(range(50), rng.randrange(1, 6)))
    members = {group: rng.sample(nodes, rng.randrange(2, len(nodes))) for group in groups}
    starts = {group: rng.choice(nodes) for group in groups}
    takes = {g: rng.choice((0, 3, 40)) if seed % 4 > 1 else 0 for g in groups}
    expected = {g: {*members[g]} - {starts[g]} for g in groups}
    reached = {
        g: {
            n: (1, rng.choice((400, 401, rng.randrange(1500))))
            for n in expected[g]
            if rng.random() < 0.9
        }
        for g in groups
    }
    stray = [(99, rng.choice(nodes), 7), (-3, rng.choice(nodes), 7)]  # nobody expects these
    rows = [(g, n, at) for g, of in reached.items() for n, (_, at) in of.items()] + stray
    rng.shuffle(rows)
    by_start = {start: takes[g] for g, start in starts.items()}
    takes = {g: by_start[starts[g]] for g in groups}
    questions = Questions(
        DEADLINES, Fraction(asked.config.quorum), {n: Fraction(w) for n, w in weight.items()},
        lambda node, _: back[node], lambda start: by_start[start], asked.weights is not None,
    )  # fmt: skip
    found = metrics_of(asked, rows_of(asked, rows, expected, weight, back, takes))
    assert found == pytest.approx(coverage_measures(starts, members, reached, questions), rel=1e-12)


BACK = {node: 10_000 * node for node in range(9)}


def test_never_is_counted_and_not_dropped():
    """Of three publications, one has its quorum, one never; nobody of the third has a weight."""
    asked, some = asked_of(True), [(1, 1, 100), (1, 2, 200), (2, 1, 900), (3, 5, 1)]
    expected, weight = {1: {1, 2}, 2: {1, 2}, 3: {5}}, {1: 1, 2: 2, 5: 0}
    rows = rows_of(asked, some, expected, weight, BACK, {1: 0, 2: 0, 3: 0})
    found = metrics_of(asked, rows)
    assert (found["quorum.median"], found["quorum.never"]) == (0.2, 1)
    assert not {"quorum.p99", "quorum.max"} & found.keys()  # the percentile is never reached
    assert (found["within_400us"], found["within_1ms"]) == (3 / 5, 4 / 5)
    assert (found["within_400us.weight"], found["within_400us.weight.min"]) == (3 / 6, 0.0)
    tables = tables_of_run(
        {("it", MS): Latencies.of(rows, count_values(np.array([0])))}, asked, None
    )
    assert tables["quorums"]["quorum_ms"].to_pylist() == [0.2, None, None]
    first = tables["coverage"].slice(0, 3).drop(["system", "publication"]).to_pydict()
    assert first == {
        "group": [1, 2, 3], "deadline_ms": [0.4] * 3, "expected": [2, 2, 1], "within": [2, 0, 1],
        "expected_weight": [3.0, 3.0, 0.0], "within_weight": [3.0, 0.0, 0.0],
    }  # fmt: skip


def test_several_publications_of_a_group_are_also_one_group():
    asked = asked_of(False, several=True)
    rows = rows_of(asked, [(0, 1, 10), (1, 1, 2000), (2, 1, 10)], {0: {1}, 1: {1, 2}, 2: {1}}, {},
                   BACK, dict.fromkeys((0, 1, 2), 0))  # fmt: skip
    rows[GROUP_OF] = np.array([5, 5, 6])
    latencies = Latencies.of(rows, count_values(np.array([10])))
    found = Found(Size(1, 1, 1), collected={"latency": {("it", MS): latencies}})
    values = metric_values(coverage_metrics(asked.config, True), found, "it")
    ends = ("", ".min", ".median", ".groups.min", ".groups.median")
    assert [values[f"within_1ms{end}"] for end in ends] == [0.5, 0, 1, 1 / 3, 1 / 3]


def test_weights_are_whole_numbers_of_a_unit():
    for given, whole, unit in (
        ([1, 2], [1, 2], 1),
        ([0.1, 0.2, 0.7], [1, 2, 7], Fraction(1, 10)),
        ([0.125, 3], [125, 3000], Fraction(1, 1000)),
        ([4e17, 1e17], [4 * 10**11, 10**11], 10**6),
        ([4e16, 5], [4 * 10**11, 0], 10**5),
    ):
        found, of = whole_weights(np.array(given, dtype=float))
        assert (found.tolist(), of) == (whole, unit)
    thirds, unit = whole_weights(np.full(3, 1 / 3))
    assert 2**35 < thirds.sum() <= 2**39
    assert np.allclose(thirds * float(unit), 1 / 3, rtol=1e-10)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("0,1\n1,-2\n", "column weight must be at least 0: row 2 (node=1, weight=-2.0)"),
        ("0,0\n1,0\n", "has no weight above 0; give one"),
        ("0,1\n9,1\n", "names no node (nodes are 0 to 8): row 2 (node=9, weight=1.0)"),
        ("0,1\n0,2\n", "names a node twice: row 2 (node=0, weight=2.0)"),
        ("0,1e31\n", "column weight must be at most 1e+30"),
    ],
)
def test_bad_weights_are_refused_in_one_line(tmp_path, rows, words):
    path = tmp_path / "weights.csv"
    path.write_text(f"node,weight\n{rows}")
    with pytest.raises(InputError) as refused:
        check_weights(str(path), 9)
    assert str(refused.value).startswith("weights = ")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_nodes_file_may_have_the_weights(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("id,weight,region\n2,0.5,a\n0,3,a\n1,0,b\n")
    weights, unit = check_weights(str(path), 3, str(path))
    assert (weights * unit).tolist() == [3, 0, 0.5]
    with pytest.raises(InputError, match="node"):  # as a table of weights
        check_weights(str(path), 3, "others.csv")
    path.write_text("id,region\n0,a\n1,b\n")
    with pytest.raises(InputError, match="has no column weight; add one"):
        check_weights(str(path), 2, str(path))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"deadline": "0ms"}, "deadline = '0ms': must be above 0"),
        (
            {"deadline": "800"},
            "must have a unit, such as 800ms; the rounds until a loss are lost_after",
        ),
        ({"deadline": ",".join(f"{n}ms" for n in range(1, 18))}, "must be at most 16 deadlines"),
        ({"quorum": 0}, "quorum = 0: must be above 0 and at most 1"),
        ({"quorum": "most"}, "must be a share, such as 2/3 or 0.67"),
        ({"quorum": "0.12345678"}, "must have at most six decimals"),
        ({"replies": True}, "replies = True: needs a quorum"),
        ({"weights": "w.csv"}, "weights = 'w.csv': needs a deadline or a quorum"),
    ],
)
def test_bad_questions_are_refused_in_one_line(given, words):
    with pytest.raises(InputError) as refused:
        RunConfig(groups=3, **given)
    assert words in str(refused.value)


def test_equal_questions_are_equal():
    given = RunConfig(deadline="1000ms,0.5s", quorum="4/6")
    assert given == RunConfig(coverage={"deadline": ["500ms", "1s", "1s"], "quorum": "2/3"})
    assert CoverageConfig.of_settings(given.flat()) == given.coverage
    assert not RunConfig().coverage.on


def test_metrics_follow_from_the_config():
    config = RunConfig(deadline="800ms", quorum="2/3", publications=2)
    found = Found(Size(9, 1, 0), 4)
    plain, asked = (
        {row["name"] for row in metric_rows(found, systems_of_run(["plain"]), {}, {}, one)}
        for one in (RunConfig(publications=2), config)
    )
    more = asked - plain
    assert {"scribe.within_800ms.groups.min", "naive_unicast.quorum.never"} <= more
    assert all(map(is_of_coverage, more))
    assert not any(map(is_of_coverage, plain))
    assert len(more) == 3 * (5 + 4)


@pytest.mark.parametrize(
    ("config", "show"),
    [(RunConfig, "scribe.within_1s.min"), (WorldConfig, "scribe.quorum.median.last")],
)
def test_sweeps_show_the_metrics_of_their_configs(config, show):
    base = config(groups=2, quorum="1/2")
    found = Sweep(base, {"deadline": ("500ms", "1s")}, ("scribe.within_500ms", show))
    assert {found.units[name] for name in found.shown} <= {"of members", "ms"}
    with pytest.raises(InputError, match=r"show = 'scribe.within_2s'"):
        Sweep(base, {"deadline": ("500ms", "1s")}, ("scribe.within_2s",))
