"""Generators of groups: what is promised of every table, alone and beside those of nodes."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scribe_spark.config import Execution, RunConfig, WorldConfig, read_toml
from scribe_spark.errors import InputError
from scribe_spark.experiments import check_world_run, network_of
from scribe_spark.pastry.nodes import draw_nodes
from scribe_spark.runtime.blocks import release
from scribe_spark.scribe.groups import draw_members, make_groups
from scribe_spark.worlds import check_world, extent_of, group_keys, world_events, world_groups
from scribe_spark.worlds.groups import rejoins
from scribe_spark.worlds.made_events import generated
from scribe_spark.worlds.rows import (
    ALIVE_AFTER,
    CREATE,
    FAIL,
    JOIN,
    NODE_EVENTS,
    PUBLISH,
    QUIT,
    EventRows,
)

DATA = Path(__file__).parents[2] / "data"
BASE = {"nodes": 60, "groups": 5, "rounds": 12, "seed": 3, "initial": 50}
CHURN = {**BASE, "lifetime": 8.0, "membership": 5.0}


def made(config: WorldConfig) -> EventRows:
    check_world(config)
    extent = extent_of(config)
    return generated(config, extent, world_groups(config, extent))


class Walk:
    """The rounds one after the other, in plain Python."""

    def __init__(self, config: WorldConfig) -> None:
        rows = made(config)
        self.rows = sorted(
            zip(*(c.tolist() for c in (rows.rounds, rows.events, rows.nodes, rows.groups)),
                strict=True)
        )  # fmt: skip
        self.live = set(range(extent_of(config).initial))
        self.members: dict[int, set[int]] = {g: set() for g in range(1, config.scribe.count + 1)}
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


# --- members


def test_the_start_is_that_of_a_run():
    walk = Walk(WorldConfig(**BASE))
    for at, now in walk:
        assert len(of(now, CREATE)) == (5 if at == 0 else 0)
        assert bool(now) == (at == 0)
    sizes = [len(members) for members in walk.members.values()]
    assert sizes == [50, 21, 13, 9, 7]
    nobody = Walk(WorldConfig(**BASE, group_size=0))
    assert [len(of(now, JOIN)) for _, now in nobody] == 12 * [0]


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


def test_members_stay_as_long_as_they_are_drawn_to():
    config = WorldConfig(
        nodes=2_000, groups=20, group_size=100, rounds=30, generator="group-churn", membership=10.0
    )
    quits = [len(of(now, QUIT)) for _, now in Walk(config)]
    # at least a round each: a little less than a tenth of 2,000
    assert np.mean(quits[3:]) == pytest.approx(200, rel=0.1)
    again = made(config)
    assert (again.nodes == made(config).nodes).all()
    assert digest(again) != digest(made(config.replace(seed=2)))


def digest(rows: EventRows) -> bytes:
    return b"".join(column.tobytes() for column in (rows.rounds, rows.nodes, rows.groups))


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


def test_a_node_that_fails_by_one_generator_does_not_fail_by_another_too():
    alone = made(WorldConfig(**CHURN, generator="churn"))
    both = made(WorldConfig(**CHURN, generator="churn+mass-failure", share=0.5, event_round=3))
    failing = [np.count_nonzero((r.events == FAIL) & (r.rounds == 3)) for r in (alone, both)]
    assert failing[1] - failing[0] in range(20, 26)
    assert np.count_nonzero(both.events == FAIL) < np.count_nonzero(alone.events == FAIL) + 25


REFUSALS = {
    "unknown": ({"generator": "churn+publication"}, "generator = 'publication': is unknown; give"),
    "empty": ({"generator": "churn+"}, "generator = '': is unknown; give one of mass-failure"),
    "twice": ({"generator": "churn+churn"}, "generator = 'churn+churn': names churn twice"),
    "two starts": (
        {"generator": "churn+flash-crowd", "initial": None},
        "generator = 'churn+flash-crowd': churn and flash-crowd both decide which nodes live",
    ),
    "no groups": (
        {"generator": "churn+publications", "groups": 0},
        "generator = 'churn+publications': publications needs groups; give groups",
    ),
    "too large": ({"group_size": 51}, "group_size = 51: a group cannot have more members than the"),
    "no such group": (
        {"generator": "group-crowd", "crowd_group": 6},
        "crowd_group = 6: is not a group; groups are 1 to 5",
    ),
    "too many": (
        {"generator": "group-crowd", "crowd": 44},
        "crowd = 44: is more than the 43 live nodes outside group 5 in round 1",
    ),
    "nobody left": ({"generator": "group-crowd", "crowd_group": 1}, "crowd = 0: is more than"),
    "no round": (
        {"generator": "group-crowd", "event_round": 12},
        "event_round = 12: is not a round",
    ),
    "too many publications": (
        {"generator": "publications", "publish_rate": 1000.0, "groups": 50_000, "group_size": 1},
        "publish_rate = 1000.0: makes about 600,000,000 publications; must be at most 50,000,000",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_generators_cannot_do_is_refused_without_spark(name):
    given, says = REFUSALS[name]
    with pytest.raises(InputError) as refused:
        check_world(WorldConfig(**BASE | given))
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


# --- the network


def test_the_network_does_not_depend_on_groups():
    config = WorldConfig(**BASE, group_size=0, zipf_exponent=2.0, stub_size=5)
    assert network_of(config) == network_of(config.replace(groups=0, zipf_exponent=1.0))
    assert (network_of(config).topology.stub_size, network_of(config).seed) == (5, 3)


def test_worlds_with_groups_are_checked_before_anything_starts(tmp_path):
    execution = Execution(out=str(tmp_path / "out"))
    config = WorldConfig(**BASE, generator="group-crowd", crowd=44)
    with pytest.raises(InputError, match="crowd = 44"):
        check_world_run(config, execution)
    check_world_run(config.replace(crowd=9), execution)


@pytest.mark.parametrize("path", sorted(DATA.glob("groups_*.toml")), ids=lambda path: path.stem)
def test_ready_worlds_with_groups_are_possible(path):
    config = WorldConfig.of(read_toml(path))
    assert config.scribe.has_groups
    small = config.replace(
        nodes=config.overlay.nodes // 20, initial=(config.world.initial or 0) // 20 or None,
        groups=30, crowd=(config.world.crowd or 0) // 20 or None,
    )  # fmt: skip
    rows = made(small)
    assert np.count_nonzero(rows.events == PUBLISH) or config.world.publish_source == "root"


# --- with nodeIds


@pytest.fixture(scope="module")
def nodes(spark):
    return draw_nodes(spark, RunConfig(nodes=60, seed=3), np.arange(3)).frame.cache()


def test_members_creators_and_groupids_are_those_of_a_run(spark, nodes):
    config = WorldConfig(**BASE)
    run = RunConfig(nodes=50, groups=5, seed=3)
    members = draw_members(spark, run).frame
    groups = world_groups(config, extent_of(config))
    expected = sorted(map(tuple, members.collect()))
    pairs = [column.tolist() for column in groups.members]
    assert list(zip(*pairs, strict=True)) == expected
    names = ["group", "key_hi", "key_lo", "creator"]
    rows = make_groups(members, nodes, run).select(names).collect()
    found = group_keys(nodes, groups, config, extent_of(config)).select(names).collect()
    assert sorted(found) == sorted(rows)
    created = world_events(nodes, config).where("event = 'create'").collect()
    assert {(r["group"], r["node"]) for r in created} == {(r["group"], r["creator"]) for r in rows}


def test_events_of_many_members_are_made_and_checked_apart_from_the_driver(nodes, monkeypatch):
    config = WorldConfig(**BASE, generator="mass-failure+publications", event_round=3)
    here = world_events(nodes, config)
    too_many = WorldConfig(**BASE, generator="group-crowd", crowd=50)
    with pytest.raises(InputError, match="crowd = 50: is more than the") as refused:
        check_world(too_many)
    module = sys.modules["scribe_spark.worlds.made_events"]
    monkeypatch.setattr(module, "MANY", 0)
    monkeypatch.setattr(module, "events_table", None)  # the driver's way
    check_world(config)
    made = world_events(nodes, config)
    assert made.schema == here.schema
    assert sorted(map(str, made.collect())) == sorted(map(str, here.collect()))
    for check in (check_world, functools.partial(world_events, nodes=nodes)):
        with pytest.raises(InputError) as again:
            check(config=too_many)
        assert str(again.value) == str(refused.value)
    release(made)


def test_no_more_roots_fail_than_a_table_has_groups(nodes, tmp_path):
    (tmp_path / "m.csv").write_text("group,node\n1,0\n1,2\n7,3\n")
    given = {"nodes": 50, "members": str(tmp_path / "m.csv"), "generator": "root-failure"}
    check_world(WorldConfig(**given, roots=2))
    for check in (check_world, functools.partial(world_events, nodes=nodes)):
        with pytest.raises(InputError, match="roots = 3: must be at most 2: each group has one"):
            check(config=WorldConfig(**given, roots=3))


def test_roots_fail_and_publish(nodes):
    config = WorldConfig(
        **BASE, generator="root-failure+publications", roots=2, holders=3, event_round=4,
        publish_source="root",
    )  # fmt: skip
    check_world(config)
    rows = world_events(nodes, config).collect()
    groups = world_groups(config, extent_of(config))
    keys = {
        row["group"]: (row["key_hi"] % 2**64 << 64) + row["key_lo"] % 2**64
        for row in group_keys(nodes, groups, config, extent_of(config)).collect()
    }
    ids = {r["node"]: (r["id_hi"] % 2**64 << 64) + r["id_lo"] % 2**64 for r in nodes.collect()}

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
        world_events(nodes, config.replace(holders=50))
