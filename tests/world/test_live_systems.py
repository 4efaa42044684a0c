"""Systems that live in a world beside Scribe: a plain one, told the same events."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from pyspark import cloudpickle

from scribe_spark.config import Execution, WorldConfig
from scribe_spark.core.arrays import distinct, expand, whole_numbers
from scribe_spark.errors import InputError
from scribe_spark.experiments.run_world import run_world
from scribe_spark.experiments.world_setup import check_world_run
from scribe_spark.living import (
    LivingRound,
    OwnRounds,
    Publications,
    SystemRound,
    play_own_rounds,
)
from scribe_spark.pastry.events import Events
from scribe_spark.systems import UNICAST, System, register_system, unregister_system

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the system goes to the workers

NETWORK = {"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3}
SMALL = NETWORK | {
    "nodes": 60, "groups": 5, "rounds": 6, "generator": "churn+publications", "lifetime": 8.0,
    "initial": 40, "publish_rate": 1.0, "lookups": 0, "deadline": 0, "link_stress_period": 2,
    "seed": 3, "systems": "direct",
}  # fmt: skip


class Direct:
    """All nodes know all members, who tell everybody that they join; sources send to each."""

    payload = ("copy",)
    control = ("hello",)

    def play(self, tables, now: LivingRound) -> SystemRound:
        size = len(now.ring)
        before = tables["members"]["key"] if "members" in tables else whole_numbers()
        gone = np.concatenate([now.events.fail, now.events.leave])
        kept = before[~np.isin(before % size, gone)]
        kept = np.setdiff1d(kept, now.quit[0] * size + now.quit[1])
        joined = now.join[0] * size + now.join[1]
        key = distinct(np.concatenate([kept, joined]))
        tables["members"] = {"key": key}
        # hellos go to the members of the group, itself left out
        for kind, (group, node) in (("hello", now.join), ("copy", now.publish)):
            begin, end = (np.searchsorted(key, (group + at) * size) for at in (0, 1))
            which, row = expand(begin, end)
            sender, to = node[which], key[row] % size
            away = sender != to
            now.tally.send(kind, now.alive[to[away]], sender[away], to[away])
        zero = np.zeros_like(group)
        due = Publications(zero + now.number, group, end - begin, end - begin, zero, zero, zero)
        return SystemRound({"members": float(len(key))}, due)


@pytest.fixture(scope="module", autouse=True)
def direct():
    register_system(
        System(
            "direct", "Direct", UNICAST, lambda stages: None, requested=True,
            world=lambda config: Direct(), world_measures={"members": "members"},
        )
    )  # fmt: skip
    yield
    unregister_system("direct")


def play(spark, out, **changes) -> dict[str, pd.DataFrame]:
    config = WorldConfig(**SMALL | changes)
    run_world(spark, config, Execution(out=str(out), master="local[2]", partitions=2))
    return {
        name: spark.read.parquet(f"{out}/tables/{name}").toPandas()
        for name in ("rounds", "publications")
    }


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory) -> dict[str, pd.DataFrame]:
    return play(spark, tmp_path_factory.mktemp("living") / "out")


def by_round(rounds: pd.DataFrame, measure: str) -> list[float]:
    mine = rounds[rounds["measure"] == measure].sort_values("round")
    return mine["value"].tolist()


def test_its_members_are_scribes(world):
    """Both are told the same events."""
    rounds = world["rounds"]
    members = by_round(rounds, "direct.members")
    assert members == by_round(rounds, "scribe.members")
    assert len(set(members)) > 1
    assert set(rounds[rounds["measure"] == "direct.members"]["system"]) == {"direct"}


def test_its_publications_are_told_beside_scribes(world):
    """The same ones, with the same members to be expected; Scribe loses some under churn."""
    told = world["publications"]
    mine, scribes = (
        told[told["system"] == name].sort_values(["round", "group"])
        for name in ("direct", "scribe")
    )
    keys = ["round", "group", "expected"]
    assert scribes[keys].to_numpy().tolist()
    there = mine.merge(scribes, on=keys)
    assert len(there) == len(scribes)
    assert (mine["lost"] == 0).all()
    rounds = world["rounds"]
    assert sum(by_round(rounds, "direct.publications.expected")) == mine["expected"].sum()


def test_its_messages_are_counted_by_kind_and_per_node_and_second(world):
    rounds = world["rounds"]
    live, control = (by_round(rounds, n) for n in ("nodes.live", "direct.control"))
    hellos = rounds[rounds["measure"] == "direct.messages.hello"].set_index("round")["value"]
    expected = [hellos.get(number, 0) / live[number] / 30 for number in range(len(live))]
    assert control == pytest.approx(expected)
    assert sum(by_round(rounds, "scribe.control")) > 0
    # a copy a member but the source, in rounds in which link stress is measured
    for of in ("payload", "control"):
        found = rounds[rounds["measure"] == f"direct.link_stress.{of}.max"]
        assert set(found["round"]) == {1, 3, 5}
    assert (rounds[rounds["measure"] == "direct.link_stress.payload.max"]["value"] > 0).all()


def test_the_page_draws_the_systems_side_by_side(world):
    from scribe_spark.report.world import render_world

    page = render_world(world["rounds"], {"resolved": {}, "config": {}})
    assert "Systems side by side" in page.html
    assert "Direct" in page.figures["round-systems-publications-in-time"]
    alone = world["rounds"][world["rounds"]["system"] != "direct"]
    alone = alone[alone["measure"] != "scribe.control"]
    assert "Systems side by side" not in render_world(alone, {"resolved": {}, "config": {}}).html


def test_scribe_is_what_it_is_alone(spark, tmp_path, world):
    alone = play(spark, tmp_path / "alone", systems=())
    beside = world["rounds"]
    beside = beside[(beside["system"] != "direct") & (beside["measure"] != "scribe.control")]
    keys = ["round", "measure"]
    pd.testing.assert_frame_equal(
        beside.sort_values(keys, ignore_index=True),
        alone["rounds"].sort_values(keys, ignore_index=True),
    )


def test_what_lives_in_no_world_is_refused(tmp_path):
    out = Execution(out=str(tmp_path / "out"))

    def refused(match: str, **given) -> None:
        with pytest.raises(InputError, match=match):
            check_world_run(WorldConfig(**NETWORK, nodes=30, **given), out)

    refused("systems = 'ip_multicast': lives in no world: it has no rounds; give some of scribe, b",
            groups=2, systems="scribe,ip_multicast")  # fmt: skip
    refused("systems = 'dirct': is unknown; did you mean 'direct'", groups=2, systems="dirct")
    refused("systems = 'direct': is of no group; give groups or members", systems="direct")
    given = {"groups": 2, "systems": "gossipsub,direct"}
    out = out.replace(buckets=2)
    refused("buckets = 2: is of worlds without direct, played in one task; leave it out", **given)
    out = out.replace(buckets=1, engine="jobs")
    refused("engine = 'jobs': does not play direct; give tasks, or leave it out", **given)


class Clock:
    """Notes what it is told; nobody sends anything."""

    payload = control = ()

    def __init__(self) -> None:
        self.told: list[tuple] = []

    def play(self, now: LivingRound) -> SystemRound:
        events = len(now.events.fail), *(len(pairs[0]) for pairs in (now.join, now.publish))
        ends = now.ends_round, now.is_last
        self.told.append((now.number, now.world_round, *events, *ends))
        due = Publications(*(np.full(int(ends[0]), now.number) for _ in range(7)))
        return SystemRound({"number": float(now.number)}, due, {"played": 1.0})


def test_a_system_plays_its_own_rounds_and_is_told_of_events_in_the_first():
    """Own rounds of 0.4 s in rounds of 1 s: three, two, three."""
    clock, one = Clock(), np.array([0])
    found = []
    for number in range(3):
        now = LivingRound(
            *(number, 3, None, None, Events(fail=one), one, one, one),
            *((one, one), (one, one), (one, one), None, 0, 1, 0, None, one, OwnRounds(10, 4)),
        )
        found.append(play_own_rounds(clock.play, now))
    assert clock.told == [
        (0, 0, 1, 1, 1, False, False),
        (1, 0, 0, 0, 0, False, False),
        (2, 0, 0, 0, 0, True, False),
        (3, 1, 1, 1, 1, False, False),
        (4, 1, 0, 0, 0, True, False),
        (5, 2, 1, 1, 1, False, False),
        (6, 2, 0, 0, 0, False, False),
        (7, 2, 0, 0, 0, True, True),
    ]
    assert [one.counts for one in found] == [{"played": 3.0}, {"played": 2.0}, {"played": 3.0}]
    assert [one.measures for one in found] == [{"number": 2.0}, {"number": 4.0}, {"number": 7.0}]
    assert [one.publications.round.tolist() for one in found] == [[2], [4], [7]]
