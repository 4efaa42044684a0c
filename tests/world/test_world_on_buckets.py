"""A world on buckets, as jobs and in tasks, is the world of one task; what is refused."""

import subprocess
import sys

import pyarrow as pa
import pytest
from small_network import NETWORK

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import Simulation
from scribe_spark.experiments.checks import check, refuse_buckets
from scribe_spark.experiments.world_setup import Engine, engine_of, make_world
from scribe_spark.pastry import overlay as arrivals_overlay
from scribe_spark.worlds.world import World


def state_of(world: World) -> list[dict]:
    return world.state.toArrow().sort_by("node").to_pylist()


def rows_of(table: pa.Table) -> list[tuple]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_start_by_arrivals_is_that_of_one_task(spark, monkeypatch):
    """Of 24 nodes 18 arrive at the start, in waves of one task and in one of the buckets."""
    monkeypatch.setattr(arrivals_overlay, "_KEPT", 9)
    config = WorldConfig(
        **NETWORK, nodes=24, leaf_set=4, initial=18, overlay="arrivals", growth=3, rounds=2,
        lookups=0, generator="mass-failure",
    )  # fmt: skip
    with Simulation(spark, config) as simulation:
        one = make_world(simulation, config)
        many = make_world(simulation, config, one._events, buckets=3)
        assert state_of(many) == state_of(one)
        for world in (many, one):
            world.release()


def refused_as_it_was(world: World) -> None:
    """Play an event that cannot be: the world stays as it was."""
    before = state_of(world)
    alive = next(row["node"] for row in before if row["alive"])
    said = f"round = 1: cannot be played: row round=1, node={alive}, event='arrive' is impossible"
    with pytest.raises(InputError, match=said):
        played_with(world, alive, "arrive")
    assert state_of(world) == before


def played_with(world: World, node: int, event: str) -> None:
    spark = world._events.sparkSession
    rows = spark.createDataFrame([(1, node, event)], "round bigint, node bigint, event string")
    events, world._events = world._events, rows
    try:
        world.step()
    finally:
        world._events = events


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variants", "shed_table"),
    [
        (("bottleneck",), "remaining"),
        (("bottleneck",), "whole"),
        (("lazy", "collapse"), "remaining"),
    ],
)
def test_rounds_are_those_of_one_task_and_a_save_goes_on(spark, variants, shed_table):
    config = WorldConfig(
        **NETWORK, nodes=60, initial=50, groups=3, group_size=20, rounds=4, lookups=10,
        generator="churn+mass-failure+publications", event_round=1, share=0.2, lifetime=8.0,
        replacement="recover", maintenance_period=1, delivery="reliable",
        variants=variants, limit=3, shed_table=shed_table,
        measures=("delay", "link_stress", "node_stress"), link_stress_period=2,
    )  # fmt: skip
    with Simulation(spark, config) as simulation:
        one = make_world(simulation, config)
        first = make_world(simulation, config, one._events, buckets=2, engine="tasks")
        rest = simulation.nodes, one._events, simulation.underlay, first._protocols
        measured = one.step()
        assert first.step() == measured
        assert "link_stress.maintenance.max" not in measured
        with pytest.raises(ValueError, match="has not kept its messages"):
            first.messages  # noqa: B018
        have_the_same_tables(first, one)
        many = World.of_save(first.saved.localCheckpoint(), *rest, 2)  # by jobs
        refused_as_it_was(many)
        dropped = measured.get("messages.shed", 0)
        # link stress is measured, and messages stay until the next round
        measured = one.step(messages=True)
        assert many.step(messages=True) == measured
        assert "link_stress.maintenance.max" in measured
        assert measured["messages.repair"] > 0
        dropped += measured.get("messages.shed", 0)
        assert (dropped > 0) == ("bottleneck" in variants)
        have_the_same_tables(many, one)
        for table in ("memberships", "children", "messages"):
            assert rows_of(getattr(many, table).toArrow()) == rows_of(getattr(one, table).toArrow())
        saved = many.saved.localCheckpoint()
        for buckets, rows, was in ((1, saved, 2), (3, saved, 2), (2, one.saved, 1)):
            with pytest.raises(InputError, match=f"buckets = {buckets}: differs .*; give {was}"):
                World.of_save(rows, *rest, buckets)
        again = World.of_save(saved, *rest, 2, engine="tasks")
        measured = one.step()
        assert measured["scribe.deliveries.late"] >= 0
        assert again.step(messages=True) == measured
        have_the_same_tables(again, one)
        assert again.messages.count() > 100
        sent = one.nodes.selectExpr("node", "id_hi AS key_hi", "id_lo AS key_lo")
        assert rows_of(again.route(sent).toArrow()) == rows_of(one.route(sent).toArrow())
        assert again.step() == one.step()  # in a further job of tasks
        assert len(one.publications)
        have_the_same_tables(again, one)
        assert rows_of(again.memberships.toArrow()) == rows_of(one.memberships.toArrow())
        for world in (first, many, again, one):
            world.release()


def have_the_same_tables(ours: World, theirs: World) -> None:
    """Compare what a round of two worlds has left."""
    assert ours.publications.equals(theirs.publications)
    assert ours.watched_trees.equals(theirs.watched_trees)
    for table in ("tree_edges", "deliveries", "new_leafs", "lookups"):
        assert rows_of(getattr(ours, table).toArrow()) == rows_of(getattr(theirs, table).toArrow())
    assert state_of(ours) == state_of(theirs)


def test_an_engine_is_chosen_with_its_reason(spark):
    assert engine_of("auto", spark, 1) == Engine("tasks", "all nodes are in one bucket")
    assert engine_of("auto", spark, 2) == Engine("tasks", "2 tasks can stay")
    assert engine_of("jobs", spark, 1).name == "jobs"
    too_many = engine_of("auto", spark, 50)
    assert too_many.name == "jobs"
    assert "50 tasks cannot run at once" in too_many.why
    with pytest.raises(InputError, match="engine = 'tasks': cannot be used: 50 tasks cannot run"):
        engine_of("tasks", spark, 50)


def test_a_run_without_rounds_has_a_bucket_for_each_partition(tmp_path):
    execution = Execution(out=str(tmp_path / "out"), buckets=2)
    config = RunConfig(**NETWORK, overlay="perfect", nodes=80, groups=3)
    check(config.replace(delivery="reliable"), execution)
    with pytest.raises(
        InputError, match=r"buckets = 2: applies to worlds and to runs with rounds only; giv"
    ):
        check(config, execution)
    tasks = Execution(out=execution.out, engine="tasks")
    check(config, tasks)
    with pytest.raises(InputError, match="engine = 'tasks': applies to runs and worlds; leave it"):
        refuse_buckets(tasks)


@pytest.mark.slow
def test_the_heap_holds_the_save_of_many_nodes(tmp_path):
    """Two tasks write the tables of 150,000 nodes each at a time."""
    words = "--nodes 300000 --groups 1500 --rounds 2 --lookups 0 --buckets 2 --engine tasks"
    command = [sys.executable, "-m", "scribe_spark.cli", "world", *words.split()]
    subprocess.run([*command, "--master", "local[2]", "--out", str(tmp_path / "out")], check=True)
