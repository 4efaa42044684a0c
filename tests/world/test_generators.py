"""Generators of events: golden draws, and what is promised of every table, alone and together."""

import functools
import hashlib
from collections import Counter, deque
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from extending import run_example
from hypothesis import given, settings
from hypothesis import strategies as st

from scribe_spark import schemas
from scribe_spark.config import RunConfig, WorldConfig, read_toml
from scribe_spark.core.errors import InputError
from scribe_spark.pastry.overlay import draw_nodes, node_rows
from scribe_spark.rounds.event_rows import (
    ALIVE_AFTER,
    ARRIVE,
    FAIL,
    JOIN,
    LEAVE,
    NODE_EVENTS,
    PUBLISH,
    QUIT,
    RECOVER,
    EventRows,
    Extent,
    live_after,
)
from scribe_spark.systems.scribe.groups import draw_members, make_groups
from scribe_spark.worlds.events import (
    check_rows,
    check_world,
    extent_of,
    generated,
    sorted_events,
    world_events,
)
from scribe_spark.worlds.generators import (
    Generator,
    Weibull,
    churn,
    generators,
    register_generator,
    unregister_generator,
)
from scribe_spark.worlds.groups import group_keys, rejoins, world_groups

DATA = Path(__file__).parents[2] / "data"

# written down once; another value means that every world ever made would change
GOLDEN_MASS = [21, 26, 27, 29, 54, 78, 79, 90, 93, 99]
GOLDEN_CHURN = "855f11c72fdfe1cf"
GOLDEN_WEIBULL = "bf0a578341f088b4"
GOLDEN_ADJACENT = {1: 9, 2: 20}  # seed -> the first node

worlds = settings(max_examples=150, deadline=None, derandomize=True, database=None)
seeds = st.integers(-(2**63), 2**63 - 1)


BASE = {"nodes": 60, "groups": 5, "rounds": 12, "seed": 3, "initial": 50}
CHURN = {**BASE, "lifetime": 8.0, "membership": 5.0}


def made(config: WorldConfig) -> EventRows:
    check_world(config)
    extent = extent_of(config)
    return generated(config, extent, world_groups(config, extent))


def digest(rows: EventRows) -> str:
    frame = sorted_events(rows).drop_columns("group").to_pandas()
    return hashlib.sha256(frame.to_csv(index=False).encode()).hexdigest()[:16]


def refusal(**given) -> str:
    with pytest.raises(InputError) as refused:
        check_world(WorldConfig(**given))
    line = str(refused.value)
    assert "\n" not in line
    return line


# --- mass failure


def test_golden_draws():
    rows = made(WorldConfig(nodes=100, generator="mass-failure", rounds=3, seed=7))
    assert rows.nodes.tolist() == GOLDEN_MASS
    plain = WorldConfig(nodes=60, initial=50, generator="churn", rounds=40, lifetime=20.0)
    assert digest(made(plain)) == GOLDEN_CHURN
    weibull = plain.replace(lifetime_distribution="weibull", replacement="recover", seed=2)
    assert digest(made(weibull)) == GOLDEN_WEIBULL


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
    rows = made(config)
    assert len(rows) == exact
    assert len(set(rows.nodes.tolist())) == len(rows)
    assert set(rows.rounds) == {at}
    assert set(rows.events) == {FAIL}


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


class Walk:
    """The rounds one after the other, in plain Python."""

    def __init__(self, config: WorldConfig) -> None:
        rows = made(config)
        self.rows = sorted(
            zip(*(c.tolist() for c in (rows.rounds, rows.events, rows.nodes, rows.groups)),
                strict=True)
        )  # fmt: skip
        self.live = set(range(extent_of(config).initial))
        self.members: dict[int, set[int]] = {g: set() for g in range(1, config.groups.count + 1)}
        self.config = config

    def __iter__(self):
        for at in range(self.config.world.rounds):
            now = [row for row in self.rows if row[0] == at]
            for _, event, node, _ in now:
                if event < NODE_EVENTS:
                    (self.live.add if ALIVE_AFTER[event] else self.live.discard)(node)
            for members in self.members.values():
                members &= self.live
            for _, event, node, group in now:
                if event == JOIN:
                    self.members[group].add(node)
                elif event == QUIT:
                    self.members[group].discard(node)
            yield at, now


def of(now, event: int) -> list[tuple[int, int]]:
    return [(group, node) for _, code, node, group in now if code == event]


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


# --- members


@pytest.mark.parametrize("replacement", ["arrive", "recover"])
def test_a_node_that_comes_back_joins_its_groups_again(replacement):
    config = WorldConfig(**CHURN, generator="churn", replacement=replacement)
    walk, had, returns = Walk(config), {}, 0
    for at, now in walk:
        joins = Counter(node for _, node in of(now, JOIN))
        for _, event, node, _ in now:
            if event < NODE_EVENTS and ALIVE_AFTER[event]:
                assert joins[node] == had.get(node, 0)
                returns += joins[node] > 0
        if at == 0:
            start = world_groups(config, extent_of(config))
            had = Counter(start.members[1].tolist())
    assert returns > 10
    assert not rejoins(config.replace(rejoin=False))
    assert all(not of(now, JOIN) for at, now in Walk(config.replace(rejoin=False)) if at)


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32), st.sampled_from(["group-churn", "churn+group-churn"]))
def test_group_churn_keeps_sizes(seed, generator):
    config = WorldConfig(**{**CHURN, "nodes": 80, "seed": seed}, generator=generator)
    sizes, quits = None, 0
    for at, now in (walk := Walk(config)):
        found = {group: len(members) for group, members in walk.members.items()}
        sizes = sizes or found
        # all are members of the first group: who quits it is the only one who could join
        assert all(found[group] == sizes[group] for group in list(found)[1:]), at
        quits += len(of(now, QUIT))
    assert quits > 100


def test_only_who_may_join_replaces_a_member(tmp_path):
    path = tmp_path / "access.csv"
    path.write_text("group,node,right\n" + "".join(f"2,{node},join\n" for node in range(30)))
    config = WorldConfig(**CHURN, generator="churn+group-churn", access=str(path))
    later = 0
    for at, now in Walk(config):
        nodes = [node for group, node in of(now, JOIN) if group == 2]
        later += len(nodes) if at else 0
        assert not at or max(nodes, default=0) < 30
    assert later > 5


def test_a_crowd_joins_one_group_at_once():
    config = WorldConfig(**BASE, generator="group-crowd", crowd=30, event_round=4)
    for at, now in (walk := Walk(config)):
        crowd = of(now, JOIN)
        assert at in (0, 4) or not crowd
        assert at != 4 or (len(crowd), {group for group, _ in crowd}) == (30, {5})
    assert len(walk.members[5]) == 37
    everybody = Walk(config.replace(crowd=None, crowd_group=3, generator="churn+group-crowd"))
    for at, _ in everybody:
        assert at != 4 or everybody.members[3] == everybody.live


# --- publications


@pytest.mark.parametrize("source", ["member", "any"])
@pytest.mark.parametrize(("publishers", "rate"), [(0, 2.5), (0, 0.25), (3, 1.0), (3, 3.0)])
def test_publications_have_the_rate_and_sources_that_are_there(source, publishers, rate):
    config = WorldConfig(
        **{**CHURN, "rounds": 20}, generator="publications+churn", publish_source=source,
        publishers=publishers, publish_rate=rate,
    )  # fmt: skip
    counts: Counter[int] = Counter()
    sources: dict[int, set[int]] = {}
    for at, now in (walk := Walk(config)):
        published = of(now, PUBLISH)
        assert len(set(published)) == len(published)
        for group, node in published:
            assert node in (walk.members[group] if source == "member" else walk.live), at
            counts[group] += 1
            sources.setdefault(group, set()).add(node)
    assert all(abs(counts[group] - 20 * rate) <= 1 for group in (1, 2))
    # sources that stay are few, and those that are gone are replaced
    assert publishers == 0 or all(3 <= len(nodes) < 20 for nodes in sources.values())


def test_publications_of_several_groups_are_not_all_in_the_same_rounds():
    config = WorldConfig(
        nodes=200, groups=100, group_size=3, rounds=10, generator="publications", publish_rate=0.1
    )
    rounds = Counter(at for at, now in Walk(config) for _ in of(now, PUBLISH))
    assert sum(rounds.values()) == 100
    assert max(rounds.values()) < 30


# --- several generators


def test_the_order_of_names_says_nothing():
    names = ["churn", "mass-failure", "group-crowd", "group-churn", "publications"]
    one, other = (
        made(WorldConfig(**CHURN, generator="+".join(order))) for order in (names, names[::-1])
    )
    assert digest(one) == digest(other)
    assert len(one) > 500


# --- what a config asks for


CROWD, TWO = {"generator": "group-crowd"}, "churn+flash-crowd"
REFUSALS = {
    "unknown": ({"generator": "chrun"}, "generator = 'chrun': is unknown; give one of mass-failure"
                ", adjacent-failure, churn, flash-crowd, root-failure, group-crowd, group-churn, "),
    "no round": ({"generator": "mass-failure", "rounds": 5, "event_round": 5},
                 "event_round = 5: is not a round; rounds are 0 to 4"),
    "nobody fails": ({"generator": "mass-failure", "nodes": 9},
                     "share = 0.1: is less than one node of 9; give more"),
    "all adjacent nodes": ({"generator": "adjacent-failure", "nodes": 8},
                           "adjacent = 8: leaves none of 8 nodes alive; give less"),
    "crowd given twice": ({"generator": "flash-crowd", "initial": 5}, "initial = 5: contradicts "
                          "share of flash-crowd, which decides it; leave it out"),
    "none waiting": ({"generator": "churn", "nodes": 50, "initial": 50, "lifetime": 5.0},
                     "initial = 50: leaves 0 of 50 nodes as replacements, but "),
    "too many events": ({"generator": "churn", "nodes": 2_000_000, "rounds": 10_000},
                        "lifetime = 100.0: makes about 360,000,000 events; must be at most 50,000"),
    "no table": ({"events": "none.csv"}, "events = 'none.csv': does not exist; give a CSV or Parq"),
}  # fmt: skip
GROUP_REFUSALS = {
    "unknown": ({"generator": "churn+publication"}, "generator = 'publication': is unknown; give"),
    "empty": ({"generator": "churn+"}, "generator = '': is unknown; give one of mass-failure"),
    "twice": ({"generator": "churn+churn"}, "generator = 'churn+churn': names churn twice"),
    "two starts": ({"generator": TWO, "initial": None}, f"generator = '{TWO}': churn and flash-cro"
                   "wd both decide which nodes live"),
    "no groups": ({"generator": "churn+publications", "groups": 0},
                  "generator = 'churn+publications': publications needs groups; give groups"),
    "too large": ({"group_size": 51}, "group_size = 51: a group cannot have more members than the"),
    "no such group": (CROWD | {"crowd_group": 6}, "crowd_group = 6: is not a group; groups are 1 "),
    "too many": (CROWD | {"crowd": 44}, "crowd = 44: is more than the 43 live nodes outside group"),
    "nobody left": (CROWD | {"crowd_group": 1}, "crowd = 0: is more than"),
    "too many publications": (
        {"generator": "publications", "publish_rate": 1000.0, "groups": 5_000, "group_size": 1},
        "publish_rate = 1000.0: makes about 60,000,000 publications; must be at most 50,000,000"),
}  # fmt: skip
CASES = {
    **{f"node {name}": case for name, case in REFUSALS.items()},
    **{f"group {name}": (BASE | given, says) for name, (given, says) in GROUP_REFUSALS.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_generator_cannot_do_is_refused_without_spark(name):
    given, says = CASES[name]
    assert refusal(**given).startswith(says)


def test_a_generator_of_ones_own_as_the_guide_says(nodes):
    run_example("rolling_restart")
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
        (ARRIVE, "row round=1, node=0, event='arrive' is impossible: the node is alive; let it "),
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


# --- ready worlds


@pytest.mark.parametrize("path", sorted(DATA.glob("groups_*.toml")), ids=lambda path: path.stem)
def test_ready_worlds_with_groups_are_possible(path):
    config = WorldConfig.of(read_toml(path))
    assert config.groups.has_groups
    small = config.replace(
        nodes=config.overlay.nodes // 20, initial=(config.world.initial or 0) // 20 or None,
        groups=30, crowd=(config.world.crowd or 0) // 20 or None,
    )  # fmt: skip
    rows = made(small)
    assert np.count_nonzero(rows.events == PUBLISH) or config.world.publish_source == "root"


# --- with nodeIds


@pytest.fixture(scope="module")
def drawn(spark):
    return draw_nodes(spark, RunConfig(nodes=60, seed=3), np.arange(3)).frame.cache()


def test_members_creators_and_groupids_are_those_of_a_run(spark, drawn):
    config = WorldConfig(**BASE)
    run = RunConfig(nodes=50, groups=5, seed=3)
    members = draw_members(spark, run).frame
    groups = world_groups(config, extent_of(config))
    expected = sorted(map(tuple, members.collect()))
    pairs = [column.tolist() for column in groups.members]
    assert list(zip(*pairs, strict=True)) == expected
    names = ["group", "key_hi", "key_lo", "creator"]
    rows_of = node_rows(run, np.arange(3))
    rows = make_groups(members, rows_of, run).select(names)
    assert group_keys(rows_of, groups, config, extent_of(config)).select(names) == rows
    created = world_events(drawn, config).where("event = 'create'").collect()
    made = {(row["group"], row["creator"]) for row in rows.to_pylist()}
    assert {(row["group"], row["node"]) for row in created} == made


def test_a_check_without_spark_returns_the_events_of_the_world(drawn):
    config = WorldConfig(**BASE, generator="mass-failure+publications", event_round=3)
    assert check_world(config).to_pylist() == world_events(drawn, config).toArrow().to_pylist()


def test_no_more_roots_fail_than_a_table_has_groups(drawn, tmp_path):
    (tmp_path / "m.csv").write_text("group,node\n1,0\n1,2\n7,3\n")
    given = {"nodes": 50, "members": str(tmp_path / "m.csv"), "generator": "root-failure"}
    check_world(WorldConfig(**given, roots=2))
    for check in (check_world, functools.partial(world_events, nodes=drawn)):
        with pytest.raises(InputError, match="roots = 3: must be at most 2: each group has one"):
            check(config=WorldConfig(**given, roots=3))


def test_roots_fail_and_publish(drawn):
    config = WorldConfig(
        **BASE, generator="root-failure+publications", roots=2, holders=3, event_round=4,
        publish_source="root",
    )  # fmt: skip
    check_world(config)
    rows = world_events(drawn, config).collect()
    groups = world_groups(config, extent_of(config))
    keys = {
        row["group"]: (row["key_hi"] % 2**64 << 64) + row["key_lo"] % 2**64
        for row in group_keys(
            node_rows(config, np.arange(3)), groups, config, extent_of(config)
        ).to_pylist()
    }
    ids = {r["node"]: (r["id_hi"] % 2**64 << 64) + r["id_lo"] % 2**64 for r in drawn.collect()}

    def nearest(group: int, live) -> list[int]:
        def far(node: int) -> tuple[int, int]:
            away = (ids[node] - keys[group]) % 2**128
            return min(away, 2**128 - away), ids[node]

        return sorted(live, key=far)

    failing = {row["node"] for row in rows if row["event"] == "fail"}
    expected = {node for group in (1, 2) for node in nearest(group, range(50))[:3]}
    assert failing == expected
    assert {row["round"] for row in rows if row["event"] == "fail"} == {4}
    published = [row for row in rows if row["event"] == "publish"]
    assert len(published) == 5 * 12
    for row in published:
        live = set(range(50)) - (failing if row["round"] >= 4 else set())
        assert row["node"] == nearest(row["group"], live)[0]
    with pytest.raises(InputError, match="holders = 50: leaves none of 50 nodes alive"):
        world_events(drawn, config.replace(holders=50))
