"""Routing, hop by hop and whole, on all cases at once, against the oracle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import pyarrow as pa
import pytest
import worlds
from pyspark.sql import functions as F

from scribe_spark.pastry import Application, routing

MESSAGE = "node bigint, key_hi bigint, key_lo bigint, number bigint"


@dataclass(frozen=True)
class Recorder(Application):
    """Does nothing; all messages of all rounds are kept."""

    remembers = True

    def forward(self, messages, past):
        assert len(past) < worlds.STRIDE, "no route is longer than there are nodes"
        return messages


@cache
def asked(b: int) -> list[tuple[worlds.World, int, int]]:
    """Every node of every case asked for every interesting key."""
    return [
        (one, node, key)
        for one in worlds.of_b(b)
        for key in one.interesting_keys()
        for node in one.case.ids
    ]


def messages(spark, rows: list[tuple[worlds.World, int, int]]):
    """Messages at (world, node) for a key; the payload `number` is the place in `rows`."""
    keys = [worlds.halves(key) for _, _, key in rows]
    table = {
        "node": [one.base + node for one, node, _ in rows],
        "key_hi": [hi for hi, _ in keys],
        "key_lo": [lo for _, lo in keys],
        "number": range(len(rows)),
    }
    columns = {name: pa.array(list(values), pa.int64()) for name, values in table.items()}
    return spark.createDataFrame(pa.table(columns), MESSAGE)


@pytest.mark.parametrize("b", worlds.BS)
def test_next_hop_of_every_node_equals_the_oracle(spark, b):
    rows = asked(b)
    hops = worlds.overlay(spark, b).next_hop(messages(spark, rows)).toArrow().to_pydict()
    assert sorted(hops["number"]) == list(range(len(rows)))
    for number, router, following in zip(hops["number"], hops["router"], hops["next"], strict=True):
        one, node, key = rows[number]
        found = None if following is None else following - one.base
        assert found == one.overlay.next_hop(node, key), (one.case.seed, node, hex(key))
        assert router - one.base == one.case.router[node]


def test_the_questions_ask_every_rule():
    """Of the next hops asked for: roots, leaf sets, entries, and missing entries."""
    used: defaultdict[str, int] = defaultdict(int)
    for one, node, key in (question for b in worlds.BS for question in asked(b)):
        if node == one.overlay.root(key):
            used["root"] += 1
        elif one.overlay.in_leaf_span(node, key):
            used["leaf"] += 1
        else:
            row = worlds_shared(one, node, key)
            used["entry" if row in one.overlay.routing_table(node) else "gap"] += 1
    assert set(used) == {"root", "leaf", "entry", "gap"}
    assert min(used.values()) > 1000, dict(used)
    assert len(worlds.worlds()) >= 200


def worlds_shared(one: worlds.World, node: int, key: int) -> tuple[int, int]:
    """(row, column) of the routing table that a key asks for."""
    from oracle.pastry import digits, shared_prefix

    row = shared_prefix(one.case.ids[node], key, one.case.b)
    return row, digits(key, one.case.b)[row]


@pytest.mark.parametrize("b", worlds.BS)
def test_whole_routes_equal_the_oracle(spark, b):
    """Nodes met, and what the message travelled, for every fifth of the questions."""
    rows = asked(b)[::5]
    overlay = worlds.overlay(spark, b)
    rounds = overlay.route(Recorder(), messages(spark, rows), trail=True)
    everything = rounds.union().select("number", "node", "next", F.size("trail").alias("at"))
    met = everything.toArrow().to_pandas().sort_values(["number", "at"])
    paths = met.groupby("number")["node"].agg(list)
    assert list(paths.index) == list(range(len(rows)))
    for number, path in paths.items():
        one, node, key = rows[number]
        assert [at - one.base for at in path] == one.overlay.route(node, key)
    # next is where the message is in the following round
    after = met["node"].shift(-1).where(met["number"].shift(-1) == met["number"])
    assert met["next"].astype("Int64").equals(after.astype("Int64"))

    travelled = overlay.travelled(rounds.union().where("next IS NULL"))
    seen = travelled.select("number", "hops", "delay_us", "direct_us").collect()
    assert len(seen) == len(rows)
    for number, hops, delay_us, direct_us in seen:
        one, node, key = rows[number]
        path = one.overlay.route(node, key)
        legs = [one.overlay.proximity(x, y) for x, y in pairwise(path)]
        assert (hops, delay_us) == (len(legs), sum(legs))
        assert direct_us == one.overlay.proximity(path[0], path[-1])
    rounds.release()


# --- the interface of applications ----------------------------------------------------------------


@dataclass(frozen=True)
class Meddler(Application):
    """Stops odd messages at their first hop; answers every delivered message once."""

    def forward(self, messages, past):
        stops = F.col("number") % 2 == 1
        return messages.withColumn("next", F.when(~stops, F.col("next")))

    def deliver(self, messages, past):
        first = messages.where(F.col("number") < 1000)
        return first.select("node", "key_hi", "key_lo", (F.col("number") + 1000).alias("number"))


@pytest.mark.parametrize("trail", [False, True])
def test_forward_may_stop_messages_and_deliver_may_send_new_ones(spark, trail):
    rows = asked(4)[:200]
    rounds = worlds.overlay(spark, 4).route(Meddler(), messages(spark, rows), trail=trail)
    table = rounds.union()
    found = sorted((n, node) for n, node in table.select("number", "node").collect())
    roots = [(n, one.base + one.overlay.root(key)) for n, (one, _, key) in enumerate(rows)]
    at_root = [one.overlay.root(key) == node for one, node, key in rows]
    first = [(n, root) for n, root in roots if at_root[n] or n % 2 == 0]
    assert any(n % 2 for n, _ in first)
    assert not all(at_root)
    assert found == sorted(first + [(n + 1000, root) for n, root in first])
    assert table.where("next IS NOT NULL").count() == 0
    if trail:
        answers = table.where("number >= 1000").select(F.size("trail")).distinct().collect()
        assert [n for (n,) in answers] == [1]
    rounds.release()


@dataclass(frozen=True)
class Countdown(Application):
    """Sends a message on to the node before, until node 0 has it."""

    def deliver(self, messages, past):
        onward = messages.where("node > 0")
        return onward.select((F.col("node") - 1).alias("node"), (F.col("n") + 1).alias("n"))


def test_send_delivers_to_the_node_addressed_until_nothing_is_sent(spark):
    overlay = worlds.overlay(spark, 4)
    start = spark.createDataFrame([(2, 0), (0, 10)], "node bigint, n bigint")
    rounds = overlay.send(Countdown(), start)
    assert rounds.rows == (2, 1, 1)
    assert sorted(map(tuple, rounds.union().collect())) == [(0, 2), (0, 10), (1, 1), (2, 0)]
    silent = overlay.send(Application(), start)
    assert silent.rows == (2,)


def test_the_rule_is_built_once():
    assert routing._rule(4) is routing._rule(4)
    assert routing._rule(4) is not routing._rule(2)


@pytest.mark.parametrize("name", ["leaf", "router", "KNOWS", "u_lo", "owner", "next", "trail"])
def test_a_payload_cannot_have_the_names_of_a_hop(spark, name):
    overlay = worlds.overlay(spark, 4)
    start = spark.createDataFrame(
        [(0, 1, 1, 5)], f"node long, key_hi long, key_lo long, {name} long"
    )
    with pytest.raises(ValueError, match=f"columns {name} are the overlay's own; rename them"):
        overlay.route(Application(), start)
