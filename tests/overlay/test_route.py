"""`route` and `send`: whole routes against the oracle, and the interface of applications."""

from __future__ import annotations

from itertools import pairwise

import pytest
import worlds
from pyspark.sql import functions as F

from scribe_spark.overlay import Application
from scribe_spark.overlay.route import start_path
from scribe_spark.superstep import Step


class Recorder(Application):
    """Every message of every round is an outcome."""

    def forward(self, state, messages, round):
        return Step(messages, outcomes=messages)


@pytest.mark.parametrize("b", worlds.BS)
def test_whole_routes_equal_the_oracle(spark, b):
    """Nodes met, and what the message travelled, for every fifth of the questions."""
    rows = worlds.questions(b)[::5]
    overlay = worlds.overlay(spark, b)
    sent = worlds.messages(spark, rows).select("*", start_path())
    loop = overlay.route(Recorder(), sent)
    everything = loop.outcomes().select("number", "node", "next", F.size("path").alias("at"))
    met = everything.toArrow().to_pandas().sort_values(["number", "at"])
    paths = met.groupby("number")["node"].agg(list)
    assert list(paths.index) == list(range(len(rows)))
    for number, path in paths.items():
        one, node, key = rows[number]
        assert [at - one.base for at in path] == one.overlay.route(node, key)
    # next is where the message is in the following round
    after = met["node"].shift(-1).where(met["number"].shift(-1) == met["number"])
    assert met["next"].astype("Int64").equals(after.astype("Int64"))

    arrived = overlay.add_path_delay(loop.outcomes().where("next IS NULL"))
    seen = arrived.select("number", "hops", "delay_us", "direct_us").collect()
    assert len(seen) == len(rows)
    for number, hops, delay_us, direct_us in seen:
        one, node, key = rows[number]
        path = one.overlay.route(node, key)
        legs = [one.overlay.proximity(x, y) for x, y in pairwise(path)]
        assert (hops, delay_us) == (len(legs), sum(legs))
        assert direct_us == one.overlay.proximity(path[0], path[-1])
    loop.release()


# --- the interface of applications ----------------------------------------------------------------


class Meddler(Application):
    """Stops odd messages at their first hop; answers every delivered message once."""

    def forward(self, state, messages, round):
        stops = F.col("number") % 2 == 1
        return Step(messages.withColumn("next", F.when(~stops, F.col("next"))))

    def deliver(self, state, messages, round):
        first = messages.where(F.col("number") < 1000)
        number = (F.col("number") + 1000).alias("number")
        path = [start_path()] if "path" in messages.columns else []
        return Step(first.select("node", "key_hi", "key_lo", number, *path), outcomes=messages)


@pytest.mark.parametrize("path", [False, True])
def test_forward_may_stop_messages_and_deliver_may_send_new_ones(spark, path):
    rows = worlds.questions(4)[:200]
    sent = worlds.messages(spark, rows)
    sent = sent.select("*", start_path()) if path else sent
    loop = worlds.overlay(spark, 4).route(Meddler(), sent)
    table = loop.outcomes()
    found = sorted((n, node) for n, node in table.select("number", "node").collect())
    roots = [(n, one.base + one.overlay.root(key)) for n, (one, _, key) in enumerate(rows)]
    at_root = [one.overlay.root(key) == node for one, node, key in rows]
    first = [(n, root) for n, root in roots if at_root[n] or n % 2 == 0]
    assert any(n % 2 for n, _ in first)
    assert not all(at_root)
    assert found == sorted(first + [(n + 1000, root) for n, root in first])
    assert table.where("next IS NOT NULL").count() == 0
    if path:
        answers = table.where("number >= 1000").select(F.size("path")).distinct().collect()
        assert [n for (n,) in answers] == [1]
    loop.release()


class Countdown(Application):
    """Sends a message on to the node before, until node 0 has it."""

    def deliver(self, state, messages, round):
        onward = messages.where("node > 0")
        sent = onward.select((F.col("node") - 1).alias("node"), (F.col("n") + 1).alias("n"))
        return Step(sent, outcomes=messages)


def test_send_delivers_to_the_node_addressed_until_nothing_is_sent(spark):
    overlay = worlds.overlay(spark, 4)
    start = spark.createDataFrame([(2, 0), (0, 10)], "node bigint, n bigint")
    loop = overlay.send(Countdown(), start)
    assert loop.messages == (2, 1, 1)
    assert sorted(map(tuple, loop.outcomes().collect())) == [(0, 2), (0, 10), (1, 1), (2, 0)]
    loop.release()
    silent = overlay.send(Application(), start)
    assert silent.messages == (2,)
    silent.release()


def test_a_message_to_a_node_that_does_not_exist_is_lost(spark):
    one, node, key = worlds.questions(4)[0]
    nobody = worlds.STRIDE * len(worlds.SEEDS)
    sent = worlds.messages(spark, [(one, nobody, key), (one, node, key)])
    loop = worlds.overlay(spark, 4).route(Application(), sent)
    assert [row["number"] for row in loop.outcomes().collect()] == [1]
    loop.release()


@pytest.mark.parametrize("name", ["router", "BUCKET", "position", "next"])
def test_a_payload_cannot_have_the_names_of_a_hop(spark, name):
    overlay = worlds.overlay(spark, 4)
    start = spark.createDataFrame(
        [(0, 1, 1, 5)], f"node long, key_hi long, key_lo long, {name} long"
    )
    with pytest.raises(ValueError, match=f"columns {name} are the overlay's own; rename them"):
        overlay.route(Application(), start)
