"""Programs in turn: those that send nothing share a superstep, and nothing else is different."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from pyspark import cloudpickle

from scribe_spark.engine import Tables
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.in_turn import IfRows, InTurn, Steps, name_of, trimmed
from scribe_spark.engine.on_spark import ROWS, BucketTables, Layout, pack_rows
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.engine.player import play_in_turn
from scribe_spark.engine.program import AT, Together

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # programs go to the workers

BOUNDS = np.array([0, 1, 2, 3])


@dataclass(frozen=True)
class Sends:
    """Buckets send along the ring; each writes down what it plays, and finds rows."""

    number: int
    senders: tuple[int, ...] = ()
    finders: tuple[int, ...] = ()
    silent: bool = False
    bounds = BOUNDS

    def step(self, bucket, tables, inbox, superstep):
        """See `engine.Program`."""
        came = inbox["number"]["number"].tolist() if inbox else []
        before = tables["log"]["log"] if "log" in tables else np.empty(0, dtype=np.int64)
        tables["log"] = {"log": np.r_[before, self.number, superstep, came]}
        if not superstep:
            tables.pop("found", None)
            if bucket in self.finders:
                tables["found"] = {"log": np.array([self.number])}
        if superstep == 2 or (bucket not in self.senders and not came):
            return {"number": {AT: np.empty(0, dtype=np.int64)}}
        return {"number": {AT: np.array([(bucket + 1) % 3]), "number": np.array([self.number])}}


def drawn(draw: np.random.Generator) -> list[Sends | IfRows]:
    """Programs of a round, of which most send nothing."""
    steps: list[Sends | IfRows] = []
    for number in range(8):
        senders, finders = (tuple(np.flatnonzero(draw.random(3) < 0.1).tolist()) for _ in "12")
        steps.append(Sends(number, senders, finders))
        if draw.random() < 0.3:
            steps.append(IfRows(("found", "nowhere"), (Sends(100 + number, senders),)))
    return steps


def in_process(rounds: list[Steps]) -> list[list[int]]:
    """The logs of the buckets."""
    tables = [Tables() for _ in range(3)]
    player = InTask(tables)
    for steps in rounds:
        play_in_turn(player, steps)
    return [mine["log"]["log"].tolist() for mine in tables]


@pytest.mark.parametrize("seed", range(3))
def test_rounds_are_those_of_one_program_at_a_time(spark, seed):
    draw = np.random.default_rng(seed)
    rounds = [drawn(draw) for _ in range(2)]
    rounds = [rounds[0], rounds[0], rounds[1]]  # what is expected comes true, and does not
    player, layout = on_spark(spark)
    tables, costs = player.tables, []
    for number, steps in enumerate(rounds):
        player.begin_round(number)
        play_in_turn(player, steps)
        costs.append(tables.costs)
    found = {bucket: columns["log"].tolist() for bucket, _, columns in tables.take("log")}
    assert [found[bucket] for bucket in range(3)] == in_process(rounds)
    assert not tables.has("stopped at 0")
    assert costs[1].messages == costs[0].messages
    assert costs[1].supersteps < costs[0].supersteps
    player.release()
    layout.release()


def on_spark(spark) -> tuple[OnSpark, Layout]:
    """A player of three buckets."""
    some = {"log": np.arange(1)}
    packed = [row for bucket in range(3) for row in pack_rows(bucket, bucket, True, "some", some)]
    rows = [row.to_pylist()[0] for row in packed]
    layout = Layout(spark, 3, 2)
    return OnSpark(BucketTables(layout, spark.createDataFrame(rows, ROWS))), layout


def test_programs_that_say_that_they_send_nothing_share_a_superstep_at_once(spark):
    """One of them is wrong, which changes the supersteps and nothing else."""
    supersteps = []
    for silent in (False, True):
        player, layout = on_spark(spark)
        steps = [Sends(number, silent=silent) for number in range(3)]
        play_in_turn(player, [*steps, Sends(3, senders=(1,), silent=silent), Sends(4)])
        supersteps.append(player.tables.costs.supersteps)
        logs = [log["log"].tolist() for _, _, log in player.tables.read("log")]
        assert logs == in_process([[*steps, Sends(3, senders=(1,)), Sends(4)]])
        player.release()
        layout.release()
    # the job of four programs stands up to the one that sends
    assert supersteps[1] < supersteps[0] - 1


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


def test_a_bucket_stops_where_it_sends_or_has_rows():
    steps = (Sends(0), Sends(1, finders=(1,)), IfRows(("found",), (Sends(9),)), Sends(2, (2,)))
    stopped = []
    for bucket in range(3):
        tables = Tables()
        InTurn(steps).step(bucket, tables, {}, 0)
        stopped += [name for name in tables if name.startswith("stopped")]
    assert stopped == ["stopped at 3", "stopped at 2", "stopped at 3"]
    assert trimmed(steps[:3]) == steps[:2]


def test_programs_are_called_by_their_classes():
    assert name_of(Together((Sends(0), Sends(1)))) == "Sends, Sends"
