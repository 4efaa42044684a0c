"""Generators of events: golden draws, and what is promised of every table."""

from __future__ import annotations

import hashlib
from collections import deque
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from extending import run_examples
from hypothesis import given, settings
from hypothesis import strategies as st

from scribe_spark import schemas
from scribe_spark.config import RunConfig, WorldConfig, read_toml
from scribe_spark.errors import InputError
from scribe_spark.pastry.nodes import draw_nodes
from scribe_spark.worlds import (
    EventRows,
    Extent,
    Generator,
    Setting,
    check_world,
    extent_of,
    generators,
    register_generator,
    unregister_generator,
    world_events,
)
from scribe_spark.worlds.churn import Weibull, churn
from scribe_spark.worlds.events import check_rows, events_frame
from scribe_spark.worlds.legality import live_after
from scribe_spark.worlds.node_generators import share_of
from scribe_spark.worlds.rows import ARRIVE, FAIL, LEAVE, RECOVER

DATA = Path(__file__).parents[2] / "data"

# written down once; another value means that every world ever made would change
GOLDEN_MASS = [21, 26, 27, 29, 54, 78, 79, 90, 93, 99]
GOLDEN_CHURN = "855f11c72fdfe1cf"
GOLDEN_WEIBULL = "bf0a578341f088b4"
GOLDEN_ADJACENT = {1: 9, 2: 20}  # seed -> the first node

worlds = settings(max_examples=150, deadline=None, derandomize=True, database=None)
seeds = st.integers(-(2**63), 2**63 - 1)


def rows_of(config: WorldConfig) -> EventRows:
    """What the config's generator makes, checked as a run does it."""
    check_world(config)
    setting = Setting(EventRows.none(), extent_of(config))
    return generators()[config.world.generator].events(config, setting)


def digest(rows: EventRows) -> str:
    frame = events_frame(rows).drop(columns="group")
    return hashlib.sha256(frame.to_csv(index=False).encode()).hexdigest()[:16]


def refusal(**given) -> str:
    with pytest.raises(InputError) as refused:
        check_world(WorldConfig(**given))
    line = str(refused.value)
    assert "\n" not in line
    return line


# --- mass failure, flash crowd


def test_golden_draws():
    rows = rows_of(WorldConfig(nodes=100, generator="mass-failure", rounds=3, seed=7))
    assert rows.nodes.tolist() == GOLDEN_MASS
    plain = WorldConfig(nodes=60, initial=50, generator="churn", rounds=40, lifetime=20.0)
    assert digest(rows_of(plain)) == GOLDEN_CHURN
    weibull = plain.replace(lifetime_distribution="weibull", replacement="recover", seed=2)
    assert digest(rows_of(weibull)) == GOLDEN_WEIBULL


@worlds
@given(st.integers(2, 2000), st.floats(0.001, 0.999), st.integers(0, 9), seeds)
def test_a_mass_failure_takes_the_share_that_was_given(nodes, share, at, seed):
    config = WorldConfig(
        nodes=nodes, generator="mass-failure", share=share, event_round=at, rounds=10, seed=seed
    )
    exact = int(nodes * Fraction(str(share)))  # of the decimal: 0.3333333333333333 of 3 is none
    if exact == 0:
        assert "is less than one node of" in refusal(**config.given())
        return
    rows = rows_of(config)
    assert len(rows) == exact
    assert len(set(rows.nodes.tolist())) == len(rows)
    assert set(rows.rounds) == {at}
    assert set(rows.events) == {FAIL}


@pytest.mark.parametrize(
    ("nodes", "share", "count"), [(100, 0.29, 29), (5000, 0.1, 500), (7, 0.99, 6)]
)
def test_shares_are_exact(nodes, share, count):
    assert share_of(nodes, share) == count


def test_a_mass_failure_depends_on_seed_and_round():
    config = WorldConfig(nodes=1000, rounds=5, initial=900, generator="mass-failure")
    failing = {
        tuple(rows_of(config.replace(event_round=at, seed=seed)).nodes)
        for at in range(5)
        for seed in range(5)
    }
    assert len(failing) == 25
    assert all(len(nodes) == 90 and max(nodes) < 900 for nodes in failing)


@worlds
@given(st.integers(2, 2000), st.floats(0.001, 0.999), st.integers(0, 9))
def test_a_flash_crowd_is_the_share_of_all_nodes(nodes, share, at):
    config = WorldConfig(
        nodes=nodes, generator="flash-crowd", share=share, event_round=at, rounds=10
    )
    if int(nodes * share) == 0:
        return
    rows, extent = rows_of(config), extent_of(config)
    live = live_after(rows, extent)
    assert len(rows) == nodes - extent.initial == share_of(nodes, share)
    assert live.tolist() == [extent.initial] * at + [nodes] * (10 - at)
    assert set(rows.events) == {ARRIVE}


# --- churn


def walked(rows: EventRows, waiting: list[int], replacement: int) -> None:
    """Go through the events: for each failure comes who has waited longest."""
    queue, fresh = deque(waiting), set(waiting)
    frame = pd.DataFrame({"round": rows.rounds, "node": rows.nodes, "event": rows.events})
    for _, events in frame.groupby("round", sort=True):
        failed = events[events["event"] == FAIL]["node"].tolist()
        back = events[events["event"] != FAIL]
        assert back["node"].tolist() == [queue.popleft() for _ in failed]
        for node, event in zip(back["node"], back["event"], strict=True):
            assert event == (ARRIVE if node in fresh else replacement)
        fresh -= set(back["node"])
        queue.extend(failed)


@worlds
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(1.0, 50.0),
    st.sampled_from([0.3, 0.5, 1.0, 3.0]),
    st.sampled_from([ARRIVE, RECOVER]),
    seeds,
)
def test_churn_keeps_the_population(initial, waiting, rounds, mean, shape, replacement, seed):
    extent = Extent(initial + waiting, rounds, initial)
    try:
        rows = churn(extent, Weibull(mean, shape), replacement, seed)
    except InputError:  # too few are waiting; as many as there are places suffice
        extent = Extent(2 * initial, rounds, initial)
        rows = churn(extent, Weibull(mean, shape), replacement, seed)
    check_rows(rows, extent, "generator", "churn")
    assert set(live_after(rows, extent)) == {initial}
    walked(rows, list(range(initial, extent.nodes)), replacement)


@pytest.mark.parametrize(
    ("shape", "mean"), [(1.0, 50.0), (0.5, 50.0), (3.0, 20.0), (1.0, 1.0), (0.4, 200.0)]
)
def test_as_many_nodes_fail_in_the_first_rounds_as_in_any_other(shape, mean):
    extent = Extent(nodes=40_000, rounds=60, initial=20_000)
    rows = churn(extent, Weibull(mean, shape), ARRIVE, seed=1)
    failing = np.bincount(rows.rounds[rows.events == FAIL], minlength=60)
    expected = extent.initial / mean
    # nodes that have just come live a round at least: a little less where lifetimes are short
    for part in np.split(failing, 4):
        assert part.mean() == pytest.approx(expected, rel=0.05 if mean > 1 else 0.4)


def test_lifetimes_have_the_mean_and_the_distribution():
    uniform = (np.arange(200_000) + 0.5) / 200_000
    for shape in (0.5, 1.0, 2.0):
        lifetimes = Weibull(30.0, shape)
        lived = lifetimes.lifetimes(uniform)
        assert lived.mean() == pytest.approx(30, rel=0.01)
        # the distribution of Weibull, at its scale
        assert (lived <= lifetimes.scale).mean() == pytest.approx(1 - np.exp(-1), abs=1e-4)
        # the mean remaining lifetime of a renewal process: E[X^2] / (2 E[X])
        second = (lived**2).mean() / (2 * lived.mean())
        assert lifetimes.remaining(uniform).mean() == pytest.approx(second, rel=0.02)
    exponential = Weibull(30.0)
    np.testing.assert_allclose(exponential.remaining(uniform), exponential.lifetimes(uniform))


def test_failed_nodes_come_back_by_either_event():
    for replacement in (ARRIVE, RECOVER):
        rows = churn(Extent(60, 100, 50), Weibull(20.0), replacement, seed=3)
        back = rows.nodes[rows.events == replacement]
        assert len(back) > len(set(back.tolist()))
        assert LEAVE not in rows.events


# --- adjacent nodeIds


def ring_of(nodes) -> list[int]:
    rows = nodes.select("node", "id_hi", "id_lo").collect()
    return [
        row["node"] for row in sorted(rows, key=lambda r: (r["id_hi"] % 2**64, r["id_lo"] % 2**64))
    ]


@pytest.fixture(scope="module")
def nodes(spark):
    """Forty nodes whose nodeIds are all over the ring, some equal in their high halves."""
    drawn = draw_nodes(spark, RunConfig(nodes=40), np.arange(3)).frame.toPandas()
    drawn.loc[5:8, "id_hi"] = drawn.loc[4, "id_hi"]
    return schemas.local_table(spark, drawn, schemas.NODES).cache()


@pytest.mark.parametrize("adjacent", [None, 7, 1, 29])
@pytest.mark.parametrize("seed", [1, 2])
def test_adjacent_nodes_fail(nodes, adjacent, seed):
    config = WorldConfig(
        nodes=40, initial=30, rounds=4, generator="adjacent-failure", adjacent=adjacent, seed=seed
    )
    check_world(config)
    failing = {row["node"] for row in world_events(nodes, config).where("event = 'fail'").collect()}
    assert len(failing) == (adjacent or 8)
    live = [node for node in ring_of(nodes) if node < 30]
    # one run on the ring: only one failing node follows a live one
    begins = [at for at in range(30) if live[at] in failing and live[at - 1] not in failing]
    assert len(begins) == 1
    assert sorted(failing) == sorted((live * 2)[begins[0] : begins[0] + len(failing)])
    assert live[begins[0]] == GOLDEN_ADJACENT[seed]


# --- what a config asks for


REFUSALS = {
    "unknown": (
        {"generator": "chrun"},
        "generator = 'chrun': is unknown; give one of mass-failure, adjacent-failure, churn, "
        "flash-crowd, root-failure, group-crowd, group-churn, publications",
    ),
    "no round": (
        {"generator": "mass-failure", "rounds": 5, "event_round": 5},
        "event_round = 5: is not a round; rounds are 0 to 4",
    ),
    "crowd in no round": (
        {"generator": "flash-crowd", "rounds": 1},
        "event_round = 1: is not a round; rounds are 0 to 0",
    ),
    "nobody fails": (
        {"generator": "mass-failure", "nodes": 9},
        "share = 0.1: is less than one node of 9; give more",
    ),
    "all adjacent nodes": (
        {"generator": "adjacent-failure", "nodes": 8},
        "adjacent = 8: leaves none of 8 nodes alive; give less",
    ),
    "nobody arrives": (
        {"generator": "flash-crowd", "nodes": 9},
        "share = 0.1: is less than one node of 9; give more",
    ),
    "crowd given twice": (
        {"generator": "flash-crowd", "initial": 5},
        "initial = 5: contradicts share of flash-crowd, which decides it; leave it out",
    ),
    "none waiting": (
        {"generator": "churn", "nodes": 50, "initial": 50, "lifetime": 5.0},
        "initial = 50: leaves 0 of 50 nodes as replacements, but ",
    ),
    "too many events": (
        {"generator": "churn", "nodes": 2_000_000, "rounds": 10_000},
        "lifetime = 100.0: makes about 360,000,000 events; must be at most 50,000,000",
    ),
    "no table": ({"events": "none.csv"}, "events = 'none.csv': does not exist; give a CSV or Parq"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_generator_cannot_do_is_refused_without_spark(name):
    given, says = REFUSALS[name]
    assert refusal(**given).startswith(says)


def test_a_local_table_is_checked_without_spark(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("round,node,event\n1,3,arrive\n")
    given = {"events": str(path), "nodes": 4}
    assert "event='arrive' is impossible: the node is alive from the start" in refusal(**given)
    check_world(WorldConfig(**given, initial=3))
    assert extent_of(WorldConfig(**given)) == Extent(nodes=4, rounds=20, initial=4)


def test_ready_worlds_are_possible_and_as_their_comments_say():
    files = {path.stem: read_toml(path) for path in DATA.glob("world_*.toml")}
    for file in files.values():
        file.pop("sweep", None)  # the grid of a file is read by the command
    worlds = {name: WorldConfig.of(file) for name, file in files.items()}
    mass = rows_of(worlds["world_mass_failure"])
    assert (len(mass), set(mass.rounds)) == (500, {1})
    crowd, extent = (f(worlds["world_flash_crowd"]) for f in (rows_of, extent_of))
    assert (len(crowd), extent.initial) == (5_000, 5_000)
    rows, extent = (f(worlds["world_churn"]) for f in (rows_of, extent_of))
    assert set(live_after(rows, extent)) == {10_000}
    assert (rows.events == FAIL).sum() / 200 == pytest.approx(100, rel=0.03)


def test_a_generator_of_ones_own_as_the_guide_says(nodes):
    run_examples("A generator of events")
    try:
        config = WorldConfig(nodes=40, rounds=4, generator="rolling-restart")
        check_world(config)
        restarts = [
            (at + away, at, ("leave", "recover")[away]) for at in range(3) for away in (0, 1)
        ]
        made = world_events(nodes, config).drop("group")
        assert sorted(map(tuple, made.collect())) == sorted(restarts)
    finally:
        unregister_generator("rolling-restart")
    assert "rolling-restart" not in generators()


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (LEAVE, "leaves no node alive after round 1; keep at least one"),
        (ARRIVE, "row round=1, node=0, event='arrive' is impossible: the node is alive from the "),
        (9, "row round=1, node=0, event='code 9' has no known event; events are arrive, leave"),
    ],
)
def test_what_a_generator_makes_is_checked_like_a_table(event, says):
    register_generator(Generator("own", lambda _, __: EventRows.at_once(1, np.arange(3), event)))
    try:
        assert refusal(nodes=3, generator="own").startswith(f"generator = 'own': {says}")
        assert "names no node; nodes are 0 to 1" in refusal(nodes=2, generator="own") or event == 9
    finally:
        unregister_generator("own")


def test_events_of_a_config_are_a_table(nodes, tmp_path):
    assert world_events(nodes, WorldConfig(nodes=40)).count() == 0
    path = tmp_path / "e.csv"
    path.write_text("round,node,event\n1,3,fail\n")
    given = world_events(nodes, WorldConfig(nodes=40, events=str(path)))
    assert given.schema == schemas.EVENTS
    assert list(map(tuple, given.collect())) == [(1, 3, "fail", None)]
