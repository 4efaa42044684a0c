"""Programs and their supersteps: in one process, in turn, and loops that do not end."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from in_tasks import TablesInTasks
from pyspark import cloudpickle

from scribe_spark.core.errors import RunError
from scribe_spark.engine import Outbox, Tables
from scribe_spark.engine.in_task import InTask, play
from scribe_spark.engine.on_spark import ROWS, BucketTables, Layout, OnSpark, pack_rows
from scribe_spark.engine.player import IfRows, Steps, play_in_turn
from scribe_spark.engine.program import (
    AT,
    InTurn,
    Prefixed,
    Together,
    bucket_of,
    deliver,
)


@dataclass(frozen=True)
class Halve:
    """Every node sends its number to the node of half its position, until node 0 has all."""

    bounds: np.ndarray

    def step(self, bucket, tables, inbox, superstep):
        first, last = self.bounds[bucket], self.bounds[bucket + 1]
        at = value = np.arange(first, last) if not superstep else inbox["number"][AT]
        if superstep:
            value = inbox["number"]["value"]
            sums = tables["sums"]["sum"].copy()
            np.add.at(sums, at - first, value)
            tables["sums"] = {"sum": sums}
        moving = at > 0
        return {"number": {AT: at[moving] // 2, "value": value[moving]}}


def played(bounds: np.ndarray, threads: int) -> tuple[list[int], list[int]]:
    """The messages of each superstep, and what each node has summed up."""
    tables = [Tables.of({"sums": {"sum": np.zeros(n, dtype=np.int64)}}) for n in np.diff(bounds)]
    counts = play(Halve(bounds), tables, threads=threads)
    return counts, np.concatenate([mine["sums"]["sum"] for mine in tables]).tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_results_do_not_depend_on_buckets_and_threads(threads):
    expected = played(np.array([0, 50]), 1)
    assert expected[1][0] == sum(range(50))
    for bounds in ([0, 1, 50], [0, 0, 20, 50], [0, 7, 21, 33, 50]):
        assert played(np.array(bounds), threads) == expected


@pytest.mark.parametrize("buckets", [2, 4, 5, 31, 40])
def test_messages_go_to_the_bucket_of_their_node_in_their_order(buckets):
    rng = np.random.default_rng(buckets)
    bounds = np.sort(np.r_[0, 0, rng.integers(0, 300, buckets - 2), 300])  # the first is empty
    at = rng.integers(0, 300, 500).astype(np.int32)
    bucket = [max(b for b in range(buckets) if bounds[b] <= one) for one in at.tolist()]
    assert bucket_of(bounds, at).tolist() == bucket
    found = {}
    for to, kind, columns in deliver(bounds, {"kind": {AT: at, "row": np.arange(500)}, "none": {}}):
        assert (kind, columns[AT].tolist()) == ("kind", at[columns["row"]].tolist())
        found[to] = columns["row"].tolist()
    assert found == {
        to: [row for row, of in enumerate(bucket) if of == to] for to in sorted(set(bucket))
    }


# --- programs in turn share a superstep if they send nothing --------------------------------------


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # programs go to the workers

OF_THREE = np.array([0, 1, 2, 3])


@dataclass(frozen=True)
class Sends:
    """Buckets send along the ring; each writes down what it plays, and finds rows."""

    number: int
    senders: tuple[int, ...] = ()
    finders: tuple[int, ...] = ()
    silent: bool = False
    bounds = OF_THREE

    def step(self, bucket, tables, inbox, superstep):
        came = inbox["number"]["number"].tolist() if inbox else []
        before = tables["log"]["log"] if "log" in tables else np.empty(0, dtype=np.int64)
        tables["log"] = {"log": np.r_[before, self.number, superstep, came]}
        if not superstep:
            tables.pop("found", None)
            if bucket in self.finders:
                tables["found"] = {"log": np.array([self.number])}
        quiet = self.silent and bucket not in self.senders
        if quiet or superstep == 2 or (bucket not in self.senders and not came):
            return {"number": {AT: np.empty(0, dtype=np.int64)}}
        return {"number": {AT: np.array([(bucket + 1) % 3]), "number": np.array([self.number])}}


def drawn(draw: np.random.Generator) -> list[Sends | IfRows]:
    """Programs of a round, of which most send nothing."""
    steps: list[Sends | IfRows] = []
    for number in range(8):
        senders, finders = (tuple(np.flatnonzero(draw.random(3) < 0.1).tolist()) for _ in "12")
        steps.append(Sends(number, senders, finders, silent=not senders))
        if draw.random() < 0.3:
            steps.append(IfRows(("found", "nowhere"), (Sends(100 + number, senders),)))
    return steps


def call(program: int) -> Outbox:
    """A message to a program in the second bucket."""
    return {"number": {AT: np.array([1]), "number": np.array([20 + program])}}


def in_process(rounds: list[Steps], called: bool = False) -> list[list[int]]:
    """The logs of the buckets; a message goes to each program if they are `called`."""
    tables = [Tables() for _ in range(3)]
    player = InTask(tables)
    for steps in rounds:
        if not called:
            play_in_turn(player, steps)
        else:
            for number, step in enumerate(steps):
                player.play(step, call(number))
    return [mine["log"]["log"].tolist() for mine in tables]


@pytest.mark.parametrize("seed", range(3))
def test_rounds_are_those_of_one_program_at_a_time(seed, request):
    """The first case as jobs of Spark, the others as the tasks of such jobs play them."""
    draw = np.random.default_rng(seed)
    rounds = [drawn(draw) for _ in range(2)]
    player = as_tasks_do() if seed else on_spark(request.getfixturevalue("spark"))[0]
    for number, steps in enumerate(rounds):
        player.begin_round(number)
        play_in_turn(player, steps)
    found = {bucket: columns["log"].tolist() for bucket, _, columns in player.tables.take("log")}
    assert [found[bucket] for bucket in range(3)] == in_process(rounds)
    player.release()
    if not seed:
        player.tables.layout.release()


def as_tasks_do() -> OnSpark:
    """A player of three buckets whose jobs are played in this process."""
    return OnSpark(TablesInTasks([Tables.of({"some": {"log": np.arange(1)}}) for _ in range(3)]))


def on_spark(spark) -> tuple[OnSpark, Layout]:
    """A player of three buckets."""
    some = {"log": np.arange(1)}
    packed = [row for bucket in range(3) for row in pack_rows(bucket, bucket, True, "some", some)]
    rows = [row.to_pylist()[0] for row in packed]
    layout = Layout(spark, 3, 2)
    return OnSpark(BucketTables(layout, spark.createDataFrame(rows, ROWS))), layout


@pytest.mark.parametrize(("in_turn", "alone"), [(False, 18), (True, 8)])
def test_programs_that_say_that_they_send_nothing_share_a_superstep_at_once(spark, in_turn, alone):
    """They wait for one that may send, or for a reader of the tables, and messages with them."""
    supersteps = []
    for silent in (False, True):
        player = as_tasks_do() if in_turn else on_spark(spark)[0]
        steps = [Sends(number, silent=silent) for number in range(3)]
        steps += [Sends(3, senders=(1,)), Sends(4, silent=silent), Sends(5, silent=silent)]
        if in_turn:
            play_in_turn(player, steps)
        else:
            for number, step in enumerate(steps):
                player.play(step, call(number))
        supersteps.append(player.tables.costs.supersteps)
        logs = [log["log"].tolist() for _, _, log in player.tables.read("log")]
        assert logs == in_process([steps], not in_turn)
        player.release()
        if not in_turn:
            player.tables.layout.release()
    # three of the program that sends, the first with the programs before it, and one at the end
    assert supersteps == [alone, 4]


def test_a_program_that_sends_is_not_silent():
    """The programs after it would have been played too early."""
    with pytest.raises(RuntimeError, match="Sends is declared silent, and sends"):
        InTurn((Sends(0, senders=(1,), silent=True), Sends(1))).step(1, Tables(), {}, 0)


def test_a_fork_leaves_the_tables_as_they_are(spark):
    player, layout = on_spark(spark)
    player.play(Sends(0))
    forked = player.fork("fork, ")
    again = forked.fork()
    assert forked.has("log")
    play_in_turn(forked, [Sends(1), Sends(2)])
    play_in_turn(again, [Sends(3)])
    for played, numbers in ((player, [0]), (forked, [0, 1, 2]), (again, [0, 3])):
        logs = [log["log"].tolist() for _, _, log in played.tables.read("log")]
        assert logs == in_process([[Sends(number) for number in numbers]])
    for played in (again, forked, player):
        played.release()
    layout.release()


# --- loops of supersteps that do not end ----------------------------------------------------------


@dataclass(frozen=True)
class Echo:
    """Nodes 0 and 3 answer each other; supersteps are counted in `seen`."""

    bounds: np.ndarray
    seen: list[int]

    def step(self, bucket, tables, inbox, superstep):
        self.seen.append(superstep)
        at = np.array([0]) if not superstep and not bucket else inbox.get("echo", {AT: []})[AT]
        return {"echo": {AT: 3 - np.asarray(at, dtype=np.int64)}}


BOUNDS = np.array([0, 2, 4])


@pytest.mark.parametrize(
    ("program", "step"),
    [
        (Echo(BOUNDS, []), "test_supersteps Echo"),
        (Together((Echo(BOUNDS, []), Echo(BOUNDS, []))), "test_supersteps Echo, Echo"),
        (Prefixed(Echo(BOUNDS, []), "bayeux/"), "bayeux/Echo"),
    ],
)
@pytest.mark.parametrize("in_task", [False, True])
def test_nodes_that_answer_each_other_end(program, step, in_task):
    tables = [Tables(), Tables()]
    with pytest.raises(RunError, match=f"^{step}: has not ended after 1,016 supersteps; "):
        InTask(tables).play(program) if in_task else play(program, tables)


def test_jobs_end_with_the_name_of_the_system(spark, monkeypatch):
    monkeypatch.setattr("scribe_spark.engine.player._LEAST", 3)
    monkeypatch.setattr("scribe_spark.engine.player._OF_A_NODE", 0)
    layout = Layout(spark, 1, 1)
    first = spark.createDataFrame([(0, 0, True, "a", 0, None, None, 0, 1)], ROWS)
    tables = BucketTables(layout, first)
    try:
        with pytest.raises(RunError, match=r"^GossipSub PUBLISH: has not ended after 3 supersteps"):
            tables.play(Echo(np.array([0, 4]), []), "GossipSub PUBLISH")
    finally:
        tables.release()
        layout.release()
