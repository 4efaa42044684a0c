"""Users' systems in worlds and runs: the guide's random tree, a simple one, and wrong ones."""

import re
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from extending import run_example
from in_tasks import Jobs
from living_groups import world_of
from oracle.group_overlays import random_overlays
from oracle.scribe_living.cases import random_world
from pyspark import cloudpickle
from round_0 import Round0
from small_network import NETWORK
from world_states import Played, assert_alike

from scribe_spark import RunConfig, WorldConfig, experiments
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import Execution
from scribe_spark.core.errors import InputError
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import bucket_bounds
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import SilentProgram
from scribe_spark.experiments.run_world import run_world
from scribe_spark.experiments.world_setup import check_world_run
from scribe_spark.rounds.system import (
    CARRIED,
    LivingRound,
    Multicasts,
    Publications,
    SystemOnBuckets,
    SystemRound,
    count_messages,
)
from scribe_spark.rounds.system_checks import CheckedSystem
from scribe_spark.systems.baselines import LiveUnicast
from scribe_spark.systems.registry import (
    UNICAST,
    System,
    find_system,
    register_system,
    unregister_system,
)
from scribe_spark.worlds.world_state import LiveSystems
from tests.can.played import LAN_US
from tests.world.test_group_overlays import network_of, system_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # systems go to the workers


@dataclass(frozen=True)
class Hello:
    """The program by which each node that joins greets the next node."""

    bounds: np.ndarray
    now: LivingRound
    kind: str

    def step(self, bucket, tables, inbox, superstep):
        node, (first, last) = self.now.join[1], self.bounds[bucket : bucket + 2]
        mine = node[(node >= first) & (node < last)]
        to = (mine + 1) % self.bounds[-1]
        self.now.tally.observer.send(tables, self.kind, self.now.alive[to], mine, to)
        return {}


@pytest.fixture(scope="module", autouse=True)
def random_tree():
    """The class of the guide's system."""
    names = run_example("random_tree")
    yield names["RandomTree"]
    unregister_system("random_tree")


#: The way in which each of two tasks has a bucket.
WITH_TASKS = {"exchange": True, "buckets": 2}

# --- worlds


def rounds_of(tree: SystemOnBuckets, units: Any = None, rounds: int = 3, **given: Any) -> list:
    """What each round of a small world leaves."""
    world = world_of(random_world(5, most=20, rounds=3))
    more = {"random_tree": CheckedSystem("random_tree", tree, units or {})}
    played = Played(world, more=more, only=more.keys(), **given)
    return played.play(saves="engine" not in given, rounds=rounds)


def test_its_rounds_are_equal_on_any_buckets_and_in_tasks(random_tree):
    one = assert_alike(partial(rounds_of, random_tree(2)), {"buckets": 7}, WITH_TASKS)
    measures = [name for measures, *_ in one for name in measures if name.startswith("random_")]
    assert {"random_tree.rad.median", "random_tree.children_entries.max"} <= {*measures}


def test_a_system_with_memory_keeps_its_tables_on_any_buckets():
    """The elders of the page: a parent is drawn once, and again only if it fails."""
    elders = run_example("elders")["Elders"]()
    unregister_system("elders")
    one = assert_alike(partial(rounds_of, elders, {"repairs": "events"}), {"buckets": 7})
    drawn, sent = (
        [measures.get(f"random_tree.messages.{kind}", 0) for measures, *_ in one]
        for kind in ("join", "payload")
    )
    assert min(sent) > 0
    assert drawn[0] > 2 * max(drawn[1:])


# --- round 0 in a run


CASE = random_overlays(3).case
RING, AT, KERNEL = network_of(CASE)

#: The pairs of a group and a member; the first member of a group publishes.
MEMBERS = [(g, n) for g in sorted(CASE.keys) for n in sorted(CASE.members[g], key=AT.__getitem__)]


def tables_of(
    system: SystemOnBuckets, buckets: int = 1, engine: type = InTask, exchange: Any = None
) -> dict[str, list[tuple]]:
    """The rows that views of a run are made of, by the name of the table."""

    def player(every: list[Tables]) -> InTask:
        return engine(every) if exchange is None else InTask([every[exchange.rank]], exchange)

    first = {group: node for group, node in reversed(MEMBERS)}
    publish = [(group, node, 0, 0) for group, node in sorted(first.items())]
    given = {"routers": len(CASE.routers), "seed": CASE.seed, "kernel": KERNEL, "lan_us": LAN_US}
    of = RING, bucket_bounds(RING, buckets, 8), CASE.keys, MEMBERS, publish, given
    found = Round0(system, *of, player=player).play()
    return {name: rows(columns) for name, columns in found.items()}


def rows(columns) -> list[tuple]:
    """The rows of columns in order, the columns by their names, without the measures' index."""
    names = sorted({*columns} - {"of"})
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True))


def test_a_run_is_equal_on_any_buckets_in_tasks_and_in_jobs(random_tree):
    ways = {"buckets": 2}, {"buckets": 7}, {"buckets": 2, "engine": Jobs}, WITH_TASKS
    for system in (random_tree(2), system_of("can", random_overlays(3))):
        one = assert_alike(partial(tables_of, system), *ways)
        assert {*one} >= {"copies", "deliveries", "state"}


class Chatty(LiveUnicast):
    """Counts a control message of each member."""

    control = ("hello", "bye")

    def play_round(self, player, kept, now):
        done = super().play_round(player, kept, now)
        player.play(Hello(player.bounds, now, "bye"))
        return done


def test_control_messages_are_counted_by_kind_sender_and_receiver():
    often = Counter(AT[node] for _, node in MEMBERS)
    # group, kind, messages, receiver, sender
    wanted = sorted((-1, 1, n, (at + 1) % len(RING), at) for at, n in often.items())
    assert tables_of(Chatty(), 3)["control"] == wanted


class Unmeasured(LiveUnicast):
    """Measures no multicasts."""

    def play_round(self, player, kept, now):
        return replace(super().play_round(player, kept, now), multicasts=None)


class Short(LiveUnicast):
    """Leaves copies without a column."""

    def play_round(self, player, kept, now):
        done = super().play_round(player, kept, now)
        player.play(DropFirst(player.bounds))
        return done


@dataclass(frozen=True)
class DropFirst(SilentProgram):
    bounds: np.ndarray

    def change(self, bucket, tables):
        copies = tables.pop(CARRIED, {})
        tables[CARRIED] = {name: copies[name] for name in copies if name != "first"}


def test_a_round_0_without_what_the_run_needs_is_refused():
    with pytest.raises(InputError, match="systems = 'it': returns no multicasts in round 0"):
        tables_of(Unmeasured())
    words = "systems = 'it': leaves copies without the column first, which the run needs"
    with pytest.raises(InputError, match=words):
        tables_of(Short())


# --- its section of the config


def test_its_section_is_understood_everywhere(tmp_path):
    for kind in (RunConfig, WorldConfig):
        config = kind(random_tree_children=3, nodes=50)
        assert config.random_tree.children == 3
        assert config == kind(random_tree={"children": 3}, nodes=50) != kind(nodes=50)
        assert config.replace(nodes=60).flat()["random_tree_children"] == 3
        assert kind().random_tree.children == 4
        with pytest.raises(InputError, match=r"random_tree_children = 0: must be at least 1"):
            kind(random_tree_children=0)
    from scribe_spark.cli import commands, flags

    (tmp_path / "c.toml").write_text("[random_tree]\nchildren = 7\n")
    command = flags.with_added(commands.run, "run")
    given = ["--systems", "random_tree", "--out", str(tmp_path / "out"), "--dry-run"]
    for more, found in (
        (["--random-tree-children", "9"], 9),
        (["--config", str(tmp_path / "c.toml")], 7),
    ):
        done = CliRunner().invoke(command, [*given, *more])
        assert f"random_tree_children = {found}" in done.output
    assert not any(param.name == "random_tree_children" for param in commands.run.params)
    out = Execution(out=str(tmp_path / "out"))
    config = RunConfig(systems="random_tree", nodes=30, leaf_set=8, topology="transit-stub")
    experiments.check(config, out)


def test_a_section_that_would_hide_another_is_refused():
    section = find_system("random_tree").config
    fault = pytest.raises(ValueError, match="'random_tree_children' is a name in RunConfig")
    with fault:
        register_system(System("other", "Other", "tree", world=lambda config: None, config=section))
    assert find_system("other") is None
    with pytest.raises(ValueError, match="world of neither must be a function, not None"):
        System("neither", "Neither", "tree")


# --- a simple system beside Scribe, which gets the same events

SMALL = NETWORK | {
    "nodes": 60, "groups": 5, "rounds": 6, "generator": "churn+publications", "lifetime": 8.0,
    "initial": 40, "publish_rate": 1.0, "lookups": 0, "lost_after": 0, "link_stress_period": 2,
    "seed": 3, "systems": "scribe,direct", "measures": "delay,node_stress,link_stress",
}  # fmt: skip


@pytest.mark.parametrize("played", [(), ("naive_unicast",), ("ip_multicast", "naive_unicast")])
def test_a_baseline_that_is_played_is_not_counted_beside_another_system(played):
    every = ("ip_multicast", "naive_unicast")
    one: Any = SimpleNamespace(beside=every)
    systems = LiveSystems({"scribe": one, **dict.fromkeys(played, one)})
    counted = systems.tables("scribe", Multicasts(), Parts()).beside
    assert counted == tuple(name for name in every if name not in played)


class Direct(LiveUnicast):
    """Sources send to each member; nodes that join say hello to the next node."""

    control = ("hello",)

    def play_round(self, player, kept, now: LivingRound) -> SystemRound:
        done = super().play_round(player, kept, now)
        player.play(Hello(player.bounds, now, "hello"))
        count_messages(player, now)
        members = player.gather(self.member_table)[self.member_table]["key"]
        return replace(done, measures={"members": float(len(members))})


@pytest.fixture(scope="module", autouse=True)
def direct():
    register_system(
        System(
            "direct", "Direct", UNICAST, lambda config: Direct(), requested=True,
            world_measures={"members": "members"},
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


@pytest.mark.parametrize(
    "delivery", ["best-effort", pytest.param("reliable", marks=pytest.mark.slow)]
)
def test_deliveries_are_open_before_their_deadline_for_every_system(spark, tmp_path, delivery):
    """A failure in the last round but one, and a deadline of 3 rounds: it is in no due round.

    Flooding declares no kinds of control messages, so no round has a number of them.
    """
    found = play(
        spark, tmp_path / "out", generator="mass-failure+publications", share=0.3, event_round=4,
        lost_after=3, link_stress_period=1, delivery=delivery, initial=None, lifetime=20.0,
        nodes=40, groups=3, systems="scribe,flooding,gossipsub,bayeux", message_size="1KB",
        round_seconds=5.0,
    )  # fmt: skip
    told, rounds = found["publications"], found["rounds"]
    missing = told["expected"] - told["in_time"] - told["late"]
    is_due = told["round"] + 3 <= 5
    assert told["lost"].tolist() == missing.where(is_due, 0).tolist() == [0] * len(told)
    assert told["open"].tolist() == missing.where(~is_due, 0).tolist()
    assert told["due"].tolist() == told["expected"].where(is_due, 0).tolist()
    by_system = told[told["open"] > 0].groupby("system")["round"].agg(set)
    assert by_system["flooding"] == {4}
    assert by_system["scribe"] >= {4}
    for system in set(told["system"]):
        lost = rounds[rounds["measure"] == f"{system}.publications.lost"]
        assert set(lost["round"]) == {0, 1, 2}
    names = {name.partition(".")[::2] for name in rounds["measure"]}
    control = {system for system, name in names if name.startswith(("control", "link_stress.con"))}
    assert control == {"scribe", "gossipsub", "bayeux"}


def test_what_lives_in_no_world_is_refused(tmp_path):
    out = Execution(out=str(tmp_path / "out"))

    def refused(match: str, **given) -> None:
        with pytest.raises(InputError, match=match):
            check_world_run(WorldConfig(**NETWORK, nodes=30, **given), out)

    refused("systems = 'reference_tree': is for runs only; give some",
            groups=2, systems="scribe,reference_tree")  # fmt: skip
    refused("systems = 'dirct': is unknown; did you mean 'direct'", groups=2, systems="dirct")
    refused(
        "systems = 'direct': has no effect without groups; give groups or members", systems="direct"
    )


# --- a system that is wrong


class Wrong(SystemOnBuckets):
    """Hands over the same in every round."""

    member_table = "members"
    payload, control = ("copy",), ("hello",)
    kept_in_buckets, kept, reads = {"links": 1}, ("members",), ("leaf sets",)

    def __init__(self, measures=None, due=None, left=None, made=None, multicasts=None, **kinds):
        zero = np.zeros(2, dtype=np.int64)
        self.measures = {"members": 3.0} if measures is None else measures
        self.due = Publications(zero, zero, zero + 4, zero + 3, zero, zero + 3, zero)
        self.due = replace(self.due, **due) if isinstance(due, dict) else due or self.due
        if isinstance(multicasts, tuple):
            group, start = map(np.array, multicasts)
            multicasts = Multicasts.from_start(group, np.zeros_like(start), start)
        self.multicasts = multicasts
        self.left, self.made = left or {"members": {"key": zero, "at": zero * 0.5}}, made
        vars(self).update(kinds)

    def play_round(self, player, kept, now: LivingRound) -> SystemRound:
        for name, columns in self.left.items():
            kept[name] = columns
        done = SystemRound(self.measures, self.due, multicasts=self.multicasts)
        return done if self.made is None else self.made


class Before(Wrong):
    """Its runs publish before they begin."""

    rounds_before = -1


@dataclass(frozen=True)
class Now:
    """What is looked at of a round."""

    number: int = 5
    world_round: int = 2
    group: np.ndarray = field(default_factory=lambda: np.array([7, 9]))
    ring: tuple = tuple(range(7))
    in_run: bool = False
    scheduled: bool = False


def numbers(*values, kind="int64"):
    return np.array(values, dtype=kind)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"measures": {"member": 3.0}}, "measures 'member', which world_measures does not have ("),
        ({"measures": {"members": float("nan")}}, "measures members = nan; give a number that is"),
        ({"measures": {"members": -1}}, "measures members = -1; give"),
        ({"measures": {"members": "3"}}, "measures members = '3'; give"),
        ({"made": {"members": 3.0}}, "play_round returns a dict, not a SystemRound"),
        ({"due": [4]}, "publications are a list, not Publications"),
        ({"multicasts": [4]}, "multicasts are a list, not Multicasts"),
        ({"multicasts": ([1, 0], [5, 6])}, "multicasts: group is not ascending, each group once"),
        ({"multicasts": ([0, 2], [5, 6])}, "multicasts: group is not from 0 to 1"),
        ({"multicasts": ([0, 1], [5, 7])}, "multicasts: start is not from 0 to 6"),
        ({"multicasts": ([0.5], [0])}, "multicasts: column group has type float64"),
        ({"multicasts": ([0], [0]), "member_table": ""}, "multicasts need a member_table"),
        ({"due": {"late": numbers(0, -1)}}, "publications: late is negative in row 1: round 0,"),
        ({"due": {"late": numbers(1, 2)}},
         "publications: expected is less than in_time + late in row 1: round 0, group 0"),
        ({"due": {"group": numbers(2, 0)}}, "group is the index of no group in row 0: round 0"),
        ({"due": {"group": numbers(0, -1)}}, "publications: group is negative in row 1"),
        ({"due": {"round": numbers(0, 3)}}, "round is later than this round in row 1: round 3"),
        ({"due": {"first_copies": numbers(1)}}, "publications: columns have 1, 2 rows"),
        ({"due": {"duplicates": numbers(1, 1, kind=float)}}, "column duplicates has type float64"),
        ({"due": {"late": [1, 1]}}, "publications: column late is no array of one dimension"),
        ({"left": {"members": {"key": numbers(1), "at": numbers(1, 2)}}}, "columns have 1, 2"),
        ({"left": {"members": {"key": np.array(["x"])}}}, "table members: column key has type <U1"),
        ({"left": {"members": {"key": np.zeros((2, 2))}}}, "column key is no array of one"),
        ({"kept": ("of",)}, "play_round writes no table of, which is in kept"),
    ],
)  # fmt: skip
def test_a_round_that_is_wrong_is_refused(wrong, words):
    good = CheckedSystem("wrong", Wrong(), {"members": "members"})
    assert good.play_round(None, Tables.of({}), Now()).measures == {"members": 3.0}
    faulty = CheckedSystem("wrong", Wrong(**wrong), {"members": "members"})
    with pytest.raises(InputError, match=re.escape(words)) as raised:
        faulty.play_round(None, Tables.of({}), Now())
    assert str(raised.value).startswith("systems = 'wrong': round 5")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (None, "its world returns a NoneType; return a SystemOnBuckets"),
        (Before(), "has rounds_before = -1; give a whole number from 0, or None"),
        (Wrong(payload=None), "has payload = None; give a tuple of kinds of messages"),
        (Wrong(control=[1]), "has control = [1]; give"),
        (Wrong(control=("copy",)), "has the kind 'copy' in payload and in control; give one"),
    ],
)
def test_what_cannot_be_played_is_refused_before_a_world_begins(tmp_path, made, words):
    out = Execution(out=str(tmp_path / "out"))
    with living(lambda config: made), pytest.raises(InputError, match=re.escape(words)):
        check_world_run(WorldConfig(**SMALL | {"systems": "wrong"}), out)


def test_a_world_ends_with_one_line(spark, tmp_path):
    """Though a task has found the fault."""
    wrong = living(lambda config: Wrong(measures={"members": -2.5}))
    with wrong, pytest.raises(InputError) as raised:
        play(spark, tmp_path / "out", systems="wrong")
    assert str(raised.value) == (
        "systems = 'wrong': round 0: measures members = -2.5; give a number that is not negative"
    )


@contextmanager
def living(made):
    """A system that lives in worlds, for a time."""
    units = {"members": "members"}
    register_system(System("wrong", "Wrong", UNICAST, made, requested=True, world_measures=units))
    try:
        yield
    finally:
        unregister_system("wrong")
