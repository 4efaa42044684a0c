"""The loop: what a step sees, when it stops, what it keeps and what it frees."""

from __future__ import annotations

import gc

import pytest
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.superstep import Step, Table


def numbers(spark, *values: int):
    """Messages at nodes 0, 1, ...: a row (node, n) each."""
    rows = [(node, n) for node, n in enumerate(values)]
    return spark.createDataFrame(rows, "node bigint, n bigint").repartition("node")


def values(frame) -> list[int]:
    return sorted(row["n"] for row in frame.collect())


def lowered(inbox):
    """Every number goes down by one; what reaches zero is gone."""
    return inbox.select("node", (F.col("n") - 1).alias("n")).where("n > 0")


def down(state, inbox, round):
    return Step(lowered(inbox), outcomes=inbox)


def persistent(spark) -> set[int]:
    """The RDDs in the block manager.

    Those of other tests may be collected at any time, so tests ask for those that are new.
    """
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


class Log:
    """A progress that remembers; and which RDDs there were after each round."""

    def __init__(self, spark=None) -> None:
        self.spark, self.rounds, self.persistent = spark, [], []

    def phase(self, name):
        raise AssertionError("a loop is no phase")

    def round(self, loop, number, messages, seconds):
        assert seconds >= 0
        self.rounds.append((loop, number, messages))
        self.persistent += [persistent(self.spark)] if self.spark else []

    def note(self, text):
        raise AssertionError("a loop has nothing to note")


def test_rounds_follow_one_another_until_there_is_no_message(spark):
    log = Log()
    done = superstep.run("count", numbers(spark, 1, 3, 3), down, progress=log)
    assert done.messages == (3, 2, 2)
    assert values(done.outcomes()) == [1, 1, 1, 2, 2, 3, 3]
    assert log.rounds == [("count", 0, 3), ("count", 1, 2), ("count", 2, 2)]
    done.release()


def test_a_step_without_an_outbox_ends_the_loop(spark):
    done = superstep.run("once", numbers(spark, 5), lambda *_: Step())
    assert done.messages == (1,)
    assert done.outcomes() is None


def test_a_step_sees_its_round_and_the_counts_it_asked_for(spark):
    seen = []

    def step(state, inbox, round):
        seen.append((round.number, round.messages, dict(round.counts)))
        return down(state, inbox, round)

    conditions = {"last": F.col("n") == 1, "large": F.col("n") > 2}
    superstep.run("count", numbers(spark, 1, 3), step, counts=conditions).release()
    assert seen == [
        (0, 2, {"last": 1, "large": 1}),
        (1, 1, {"last": 0, "large": 0}),
        (2, 1, {"last": 1, "large": 0}),
    ]


def test_a_step_sees_the_state_of_before_the_round(spark):
    table, seen = Table(["node"], ["n"]), []

    def step(state, inbox, round):
        rows = state["last"].rows()
        seen.append(None if rows is None else values(rows))
        return Step(lowered(inbox), {"last": inbox})

    superstep.run("count", numbers(spark, 3, 1), step, state={"last": table})
    assert seen == [None, [1, 3], [1, 2]]
    assert values(table.rows()) == [1, 1]
    table.release()


def test_no_message_at_all(spark):
    def never(state, inbox, round):
        raise AssertionError("there was nothing to step from")

    before = persistent(spark)
    done = superstep.run("none", numbers(spark), never)
    assert (done.messages, done.outcomes()) == ((), None)
    assert not persistent(spark) - before


def test_every_round_is_computed_once(spark):
    """The lineage is cut: a later round does not compute an earlier one again."""
    computed = spark.sparkContext.accumulator(0)

    def count(batches):
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    def step(state, inbox, round):
        return Step(lowered(inbox).mapInArrow(count, inbox.schema), outcomes=inbox)

    done = superstep.run("count", numbers(spark, 6), step)
    done.outcomes().count()
    assert computed.value == 5
    done.release()


def test_blocks_do_not_grow_with_the_rounds(spark):
    gc.disable()  # nothing may depend on Python's, or Java's, collecting in time
    try:
        log, before = Log(spark), persistent(spark)
        table = Table(["node"], ["n"])
        superstep.run(
            "count",
            numbers(spark, 12),
            lambda state, inbox, round: Step(lowered(inbox), {"last": inbox}),
            state={"last": table},
            progress=log,
        )
    finally:
        gc.enable()
    assert len(log.persistent) == 12
    # the inbox, the changes of the round, and at most two segments of a table of one row
    assert max(len(after - before) for after in log.persistent) <= 4
    table.release()
    assert not persistent(spark) - before


def test_release_frees_the_outcomes(spark):
    before = persistent(spark)
    done = superstep.run("count", numbers(spark, 5), down)
    assert persistent(spark) - before
    done.release()
    assert not persistent(spark) - before


def test_tables_that_a_step_materialised_are_freed_with_the_round(spark):
    from scribe_spark.runtime.blocks import materialise

    before = persistent(spark)

    def step(state, inbox, round):
        copy, _ = materialise(inbox)
        return Step(lowered(copy), temporary=[copy])

    superstep.run("count", numbers(spark, 4), step)
    assert not persistent(spark) - before


def test_a_step_that_fails_leaves_nothing_behind(spark):
    before = persistent(spark)

    def step(state, inbox, round):
        if round.number == 2:
            raise OSError("broken")
        return down(state, inbox, round)

    with pytest.raises(OSError, match="broken"):
        superstep.run("count", numbers(spark, 5), step)
    assert not persistent(spark) - before


def test_messages_without_end_are_an_error(spark):
    def forever(state, inbox, round):
        return Step(inbox)

    before = persistent(spark)
    with pytest.raises(RuntimeError, match=r"round trip: .* after 3 rounds"):
        superstep.run("round trip", numbers(spark, 1), forever, limit=3)
    assert not persistent(spark) - before


def test_a_checkpoint_directory_is_used(spark, tmp_path):
    context, java = spark.sparkContext, spark._jsc.sc()
    before_directory = java.getCheckpointDir()
    context.setCheckpointDir(str(tmp_path))
    try:
        before = persistent(spark)
        done = superstep.run("count", numbers(spark, 1, 3), down)
        assert done.messages == (2, 1, 1)
        assert values(done.outcomes()) == [1, 1, 2, 3]
        assert not persistent(spark) - before  # they are in files
        assert list(tmp_path.glob("*/rdd-*"))
        done.release()
        assert not list(tmp_path.glob("*/rdd-*"))
    finally:
        getattr(java, "checkpointDir_$eq")(before_directory)
