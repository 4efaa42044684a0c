"""The loop: what a step sees, when it stops, what it keeps and what it frees."""

from __future__ import annotations

import gc

import pytest
from pyspark.sql import functions as F

from scribe_spark import superstep


def numbers(spark, *values: int):
    return spark.createDataFrame([(v,) for v in values], "n bigint")


def values(frame) -> list[int]:
    return sorted(row["n"] for row in frame.collect())


def down(table, past):
    """Every number goes down by one; what reaches zero is gone."""
    return table.select((F.col("n") - 1).alias("n")).where("n > 0")


def held(spark) -> set[int]:
    """The RDDs that the block manager holds.

    Those of other tests may be collected at any time, so tests ask for those that are new.
    """
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


class Log:
    """A progress that remembers; and which RDDs were held after each round."""

    def __init__(self, spark=None) -> None:
        self.spark, self.rounds, self.held = spark, [], []

    def phase(self, name):
        raise AssertionError("a loop is no phase")

    def round(self, loop, number, messages, seconds):
        assert seconds >= 0
        self.rounds.append((loop, number, messages))
        self.held += [held(self.spark)] if self.spark else []

    def note(self, text):
        raise AssertionError("a loop has nothing to note")


def test_rounds_follow_one_another_until_there_is_no_message(spark):
    log = Log()
    rounds = superstep.run("count", numbers(spark, 1, 3, 3), down, progress=log)
    assert rounds.rows == (3, 2, 2)
    assert [values(table) for table in rounds.tables] == [[1, 3, 3], [2, 2], [1, 1]]
    assert values(rounds.union()) == [1, 1, 1, 2, 2, 3, 3]
    assert log.rounds == [("count", 0, 3), ("count", 1, 2), ("count", 2, 2)]
    rounds.release()


def test_a_step_sees_this_round_last(spark):
    seen = []

    def step(table, past):
        seen.append([values(earlier) for earlier in past])
        assert values(table) == seen[-1][-1]
        return down(table, past)

    superstep.run("count", numbers(spark, 3), step).release()
    assert seen == [[[3]], [[3], [2]], [[3], [2], [1]]]


def test_no_message_at_all(spark):
    def never(table, past):
        raise AssertionError("there was nothing to step from")

    before = held(spark)
    rounds = superstep.run("none", numbers(spark), never)
    assert (rounds.tables, rounds.rows) == ((), ())
    assert not held(spark) - before


def test_every_round_is_computed_once(spark):
    """The lineage is cut: a later round does not compute an earlier one again."""
    computed = spark.sparkContext.accumulator(0)

    def count(batches):
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    def step(table, past):
        return down(table, past).mapInArrow(count, table.schema)

    rounds = superstep.run("count", numbers(spark, 6), step)
    rounds.union().count()
    assert computed.value == 5
    rounds.release()


def test_release_frees_every_round(spark):
    before = held(spark)
    rounds = superstep.run("count", numbers(spark, 5), down)
    assert len(held(spark) - before) == 5
    rounds.release()
    assert not held(spark) - before


def test_a_harvest_keeps_its_part_only(spark):
    before = held(spark)
    start = numbers(spark, 2, 5, 5)
    rounds = superstep.run("count", start, down, harvest=lambda table: table.where("n = 1"))
    assert rounds.rows == (3, 3, 2, 2, 2)
    assert [values(table) for table in rounds.tables] == [[1], [1, 1]]
    assert len(held(spark) - before) == 2
    rounds.release()
    assert not held(spark) - before


def test_blocks_do_not_grow_with_the_rounds_of_a_harvest(spark):
    gc.disable()  # nothing may depend on Python's, or Java's, collecting in time
    try:
        log = Log(spark)
        before = held(spark)
        start = numbers(spark, 12)
        rounds = superstep.run(
            "count", start, down, harvest=lambda table: table.where("n = 1"), progress=log
        )
    finally:
        gc.enable()
    assert len(log.held) == 12
    assert max(len(after - before) for after in log.held) <= 2
    rounds.release()
    assert not held(spark) - before


def test_messages_without_end_are_an_error(spark):
    with pytest.raises(RuntimeError, match=r"round trip: .* after 3 rounds"):
        superstep.run("round trip", numbers(spark, 1), lambda table, past: table, limit=3)


def test_as_many_rounds_as_the_limit_are_enough_only_with_one_more_to_see(spark):
    superstep.run("count", numbers(spark, 2), down, limit=3).release()
    with pytest.raises(RuntimeError, match="after 2 rounds"):
        superstep.run("count", numbers(spark, 2), down, limit=2)


def test_a_checkpoint_directory_is_used(spark, tmp_path):
    context = spark.sparkContext
    assert context.getCheckpointDir() is None
    context.setCheckpointDir(str(tmp_path))
    try:
        before = held(spark)
        rounds = superstep.run("count", numbers(spark, 1, 3), down)
        assert rounds.rows == (2, 1, 1)
        assert values(rounds.union()) == [1, 1, 2, 3]
        assert not held(spark) - before  # they are in files
        assert len(list(tmp_path.glob("*/rdd-*"))) >= 3
        rounds.release()
    finally:
        none = getattr(spark._jvm.scala, "None$")
        none = getattr(none, "MODULE$")
        getattr(spark._jsc.sc(), "checkpointDir_$eq")(none)
    assert context.getCheckpointDir() is None
