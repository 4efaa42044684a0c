"""Rounds that are played in one job are those that are played one by one."""

import sys

import pandas as pd
import pytest
from pyspark.sql import functions as F
from small_network import NETWORK, table
from stopping import Stops

from scribe_spark.config import Execution, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import run_world

CONFIG = WorldConfig(
    **NETWORK, nodes=90, leaf_set=8, initial=70, groups=5, replicas=3, rounds=7, lookups=20,
    generator="churn+publications", lifetime=8.0, delivery="reliable", lost_after=2,
    link_stress_period=3,
)  # fmt: skip

#: More seconds than any test takes.
LONG = 3_600.0


@pytest.fixture
def worlds(begin):
    return [begin(CONFIG) for _ in range(2)]


def left(world) -> dict[str, list]:
    """All that can be asked of a world after a round."""
    frames = (world.state, world.memberships, world.children, world.lookups, world.new_leafs)
    return {
        "publications": world.publications.to_numpy().tolist(),
        "watched_trees": str(world.watched_trees),
        **{str(frame.columns): sorted(frame.collect(), key=str) for frame in frames},
    }


def test_rounds_of_one_job_are_those_of_single_ones(worlds):
    together, single = worlds
    told = []
    played = together.play(4, LONG, lambda number, one: told.append((number, one.measures)))
    assert list(played) == [0, 1, 2, 3]
    assert told == [(number, one.measures) for number, one in played.items()]
    publications = []
    for number in range(4):
        assert single.step() == played[number].measures
        publications.append(single.publications)
    assert together.number == single.number == 4
    due = pd.concat([some for some in publications if len(some)])
    assert len(due) > 4
    assert together.publications.to_numpy().tolist() == due.to_numpy().tolist()
    single.publications, single.watched_trees = due, together.watched_trees  # told of the last
    assert left(together) == left(single)
    # and on from there
    after = together.play(7, LONG)
    assert {number: one.measures for number, one in after.items()} == {
        number: single.step() for number in range(4, 7)
    }


def test_no_round_begins_when_time_is_up(worlds):
    world = worlds[0]
    assert list(world.play(7, 0.0)) == [0]
    assert list(world.play(7, -1.0)) == [1]


def test_a_later_round_that_cannot_be_is_refused_when_it_is_the_next(simulation, begin):
    """It is refused after much of the state has changed: the rounds before it are kept."""
    generated = begin(CONFIG)
    first = generated._events.where("round < 3")
    world = begin(CONFIG, first)
    world.play(3, LONG)
    live = world.state.where("alive").select("node").collect()
    kept = left(world)
    assert len(live) == 70
    deaths = simulation.spark.createDataFrame([(3, row["node"], "fail") for row in live])
    deaths = deaths.toDF("round", "node", "event").withColumn("group", F.lit(None).cast("bigint"))
    world = begin(CONFIG, first.unionByName(deaths))
    told = []
    assert list(world.play(7, LONG, lambda number, one: told.append(number))) == [0, 1, 2]
    assert told == [0, 1, 2]
    assert left(world) == kept
    with pytest.raises(InputError) as refused:
        world.play(7, LONG)
    assert str(refused.value) == "round = 3: cannot be played: no node is left; keep at least one"
    assert world.number == 3
    assert left(world) == kept


# --- runs of worlds


@pytest.mark.slow
def test_a_run_is_the_same_however_many_rounds_a_job_plays(simulation, tmp_path, monkeypatch):
    """One job for all, or rounds that cannot be reported."""

    def play(name: str, told: Stops) -> None:
        how = Execution(out=str(tmp_path / name), resume=True)
        run_world(simulation.spark, CONFIG, how, told, simulation)

    module = sys.modules[run_world.__module__]
    monkeypatch.setattr(module, "SAVE_EVERY", LONG)
    told = Stops()
    play("one", told)
    lines = [line for line in told.lines if "live nodes" in line]
    assert [line.split(":")[0] for line in lines] == [f"  round {number}" for number in range(7)]
    monkeypatch.setattr(sys.modules["scribe_spark.runtime.task_reports"], "_WELCOME", b"other\n")
    told = Stops()
    play("unheard", told)
    assert [line for line in told.lines if "live nodes" in line]
    for name in ("rounds", "publications", "memberships", "watched_trees"):
        first = table(tmp_path / "one", name)
        assert len(first)
        assert table(tmp_path / "unheard", name).equals(first)


def test_rounds_are_told_of_while_the_job_is_going(worlds, spark):
    jobs = []

    def tell(number: int, one) -> None:
        jobs.append(list(spark.sparkContext.statusTracker().getActiveJobsIds()))

    assert len(worlds[0].play(4, LONG, tell)) == len(jobs) == 4
    assert jobs[0]
