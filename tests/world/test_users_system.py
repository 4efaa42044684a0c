"""The guide's random tree: a user's system in worlds and runs, on any buckets, by any engine."""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from extending import run_example
from identifiers import parts
from in_tasks import Jobs
from living_groups import world_of
from oracle.group_overlays import OverlaysCase, World, random_overlays
from oracle.scribe_living.cases import random_world
from world_states import Played, assert_alike

from scribe_spark import RunConfig, WorldConfig, experiments
from scribe_spark.config import Execution
from scribe_spark.core.errors import InputError
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_task import InTask
from scribe_spark.rounds.system import Publishing, SystemOnBuckets
from scribe_spark.rounds.system_checks import CheckedSystem
from scribe_spark.systems.baselines import LiveUnicast
from scribe_spark.systems.registry import System, find_system, register_system, unregister_system
from scribe_spark.worlds import round_of_run
from tests.can.played import LAN_US, draw_of
from tests.world.test_group_overlays import network_of, system_of


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


def test_its_rounds_are_equal_on_any_buckets_in_tasks_and_in_jobs(random_tree):
    ways = {"buckets": 7}, {"buckets": 2, "engine": Jobs, "rounds": 2}, WITH_TASKS
    one = assert_alike(partial(rounds_of, random_tree(2)), *ways)
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


class RunOf:
    """Round 0 of a system among the members of a case, whose group's first member publishes."""

    def __init__(self, given: OverlaysCase, capacity: np.ndarray | None = None) -> None:
        case = given.case
        self.ring, at, kernel = network_of(case)
        self.nodes = list(at)
        self.number = np.array(sorted(case.keys), dtype=np.int64)
        self.members = sorted(
            (index, at[node])
            for index, group in enumerate(self.number.tolist())
            for node in case.members[group]
        )
        first = [min(n for g, n in self.members if g == index) for index in range(len(self.number))]
        columns = np.array(self.members, dtype=np.int64).T
        hi, lo = parts(case.keys[group] for group in self.number.tolist())
        self.given = {
            **{"group": self.number, "key_hi": hi, "key_lo": lo, "capacity": capacity},
            "routers": len(case.routers),
            **{"join": (columns[0], columns[1]), "source": "root", "seed": case.seed},
            **{
                "publish": Publishing.at_begin((np.arange(len(first)), np.array(first))),
                "kernel": kernel,
            },
            "lan_us": LAN_US,
        }
        self.sources = dict(enumerate(first))

    def tables(
        self,
        system: SystemOnBuckets,
        is_mesh: bool,
        buckets: int = 1,
        engine: type = InTask,
        exchange: Any = None,
    ) -> dict[str, list[tuple]]:
        """The rows that views are made of, by the name of the table."""
        bounds = bucket_bounds(self.ring, buckets, 8)
        wanted = round_of_run.Wanted(is_mesh, not is_mesh)
        mine = [Tables() for _ in range(buckets if exchange is None else 1)]
        player = engine(mine) if exchange is None else InTask(mine, exchange)
        facts = RingInMemory(self.ring)
        round_of_run.play_round("it", system, self.given, facts, bounds, wanted, player)
        names = ("copies", "edges", "deliveries", "state", "control")
        found = player.gather(*(f"it/{name} of round 0" for name in names))
        return {
            name.split()[0].removeprefix("it/"): rows(columns) for name, columns in found.items()
        }


def rows(columns) -> list[tuple]:
    """The rows of columns in order, the columns by their names, without the measures' index."""
    names = sorted({*columns} - {"of"})
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True))


@pytest.mark.parametrize("name", ["flooding", "naive_unicast"])
def test_round_0_in_a_run_is_the_oracles(name: str):
    """That of CAN, whose source enters first, is in `can.test_can_oracle`."""
    for seed in range(8):
        given = replace(random_overlays(seed), events=[[]], clock="time")
        run, case = RunOf(given), given.case
        oracle = World(given, name, draw_of(case.seed))
        oracle.alive = {*case.ids}
        oracle.members = {group: {*members} for group, members in case.members.items()}
        found = run.tables(system_of(name, given), True, (1, 2, 7)[seed % 3])
        copies, deliveries = [], []
        for index, group in enumerate(run.number.tolist()):
            source = run.nodes[run.sources[index]]
            spread = oracle._spread(0, group, source, {source})
            copies += [
                (c.first, index, c.hops, index, c.sender, c.sent_us, c.receiver)
                for c in spread.copies
            ]
            deliveries += [
                (one.at_us, index, one.hops, node)
                for node, one in spread.first.items()
                if node != source
            ]
        node = run.ring.node
        assert sorted(copies) == sorted(
            (*row[:4], int(node[row[4]]), row[5], int(node[row[6]]))
            for row in found.get("copies", [])
        )
        assert sorted(deliveries) == sorted(
            (*row[:3], int(node[row[3]])) for row in found.get("deliveries", [])
        )


def test_a_run_is_equal_on_any_buckets_in_tasks_and_in_jobs(random_tree):
    run = RunOf(random_overlays(3))
    ways = {"buckets": 2}, {"buckets": 7}, {"buckets": 2, "engine": Jobs}, WITH_TASKS
    for system, is_mesh in ((random_tree(2), False), (system_of("can", random_overlays(3)), True)):
        one = assert_alike(partial(run.tables, system, is_mesh), *ways)
        assert {*one} >= {"copies" if is_mesh else "edges", "deliveries", "state"}


def test_its_tree_has_all_members_and_its_limits(random_tree):
    given = random_overlays(3)
    free = RunOf(given)
    size = len(free.nodes)
    for capacity in (None, np.random.default_rng(1).integers(1, 4, size)):
        run = RunOf(given, capacity)
        copies = run.tables(random_tree(2), False)["edges"]
        limit = np.full(size, 2) if capacity is None else capacity
        for index, source in run.sources.items():
            edges = [(row[4], row[6]) for row in copies if row[1] == index]
            reached = {source, *(child for _, child in edges)}
            assert reached == {node for group, node in run.members if group == index}
            assert len(edges) == len(reached) - 1
            # one neighbour more than children: the parent
            degree = Counter(node for edge in edges for node in edge)
            assert all(count <= limit[node] + 1 for node, count in degree.items())


class Chatty(LiveUnicast):
    """Counts a control message of each member."""

    control = ("hello", "bye")

    def play_round(self, player, kept, now):
        done = super().play_round(player, kept, now)
        player.play(Hello(player.bounds, now.tally.observer, now.join))
        return done


class Unmeasured(LiveUnicast):
    """Measures no multicasts."""

    def play_round(self, player, kept, now):
        return replace(super().play_round(player, kept, now), multicasts=None)


class Hello:
    """Each member of a group says bye to the next node."""

    def __init__(self, bounds, observer, join) -> None:
        self.bounds, self.observer, self.join = bounds, observer, join

    def step(self, bucket, tables, inbox, superstep):
        first, last = self.bounds[bucket : bucket + 2]
        node = self.join[1]
        mine = node[(node >= first) & (node < last)]
        to = (mine + 1) % self.bounds[-1]
        self.observer.send(tables, "bye", np.ones(len(mine), dtype=bool), mine, to)
        return {}


def test_control_messages_are_counted_by_kind_sender_and_receiver():
    run = RunOf(random_overlays(3))
    for buckets in (1, 3):
        found = run.tables(Chatty(), False, buckets)["control"]
        often = Counter(node for _, node in run.members)
        size = len(run.nodes)
        # group, kind, messages, receiver, sender
        assert found == sorted((-1, 1, n, (at + 1) % size, at) for at, n in often.items())
    with pytest.raises(InputError, match="systems = 'it': returns no multicasts in round 0"):
        run.tables(Unmeasured(), False)


def test_a_mesh_without_columns_of_its_copies_is_refused():
    class Short(LiveUnicast):
        def play_round(self, player, kept, now):
            done = super().play_round(player, kept, now)
            player.play(DropFirst(player.bounds))
            return done

    class DropFirst:
        def __init__(self, bounds) -> None:
            self.bounds = bounds

        def step(self, bucket, tables, inbox, superstep):
            copies = dict(tables.pop("multicast copies", {}))
            copies.pop("first", None)
            tables["multicast copies"] = copies
            return {}

    words = "systems = 'it': leaves copies without the column first, which the run needs"
    with pytest.raises(InputError, match=words):
        RunOf(random_overlays(3)).tables(Short(), True)


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
