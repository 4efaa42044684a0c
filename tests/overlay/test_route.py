"""`route` and `send`: whole routes against the oracle, and the interface of applications."""

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import identifiers
import numpy as np
import pytest
import worlds
from pyspark import cloudpickle
from pyspark.sql import functions as F

from scribe_spark.core.errors import InputError
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_task import play
from scribe_spark.overlay import MESSAGE, OUTCOMES, Application, Route, Step, starting
from scribe_spark.pastry.overlay import PastryNextHop

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # applications go to the workers


class Tracing(Application):
    """Every node that a message passes is an outcome, with the message's way so far."""

    independent = True

    def forward(self, tables, messages):
        return Step(onward=messages, outcomes=messages)


def way(one: worlds.World, node: int, key: int) -> list[tuple[int, int, int]]:
    """(node, hops, delay) at each node of a message's route."""
    path = one.overlay.route(node, key)
    legs = [one.overlay.proximity(x, y) for x, y in pairwise(path)]
    return [(at, hops, sum(legs[:hops])) for hops, at in enumerate(path)]


@pytest.mark.parametrize("b", worlds.EACH_B)
def test_whole_routes_equal_the_oracle(spark, b):
    """Nodes met, and what the message travelled, for every fifth of the questions."""
    rows = worlds.questions(b)[::5]
    routed = worlds.overlay(spark, b).route(Tracing(), worlds.messages(spark, rows))
    columns = ["number", "hops", "node", "delay_us", "next", "start", "direct_us"]
    met = routed.outcomes().select(columns).toArrow().to_pandas().sort_values(columns[:2])
    found = met.groupby("number")
    assert list(found.groups) == list(range(len(rows)))
    for number, mine in found:
        one, node, key = rows[number]
        expected = way(one, node, key)
        here = zip(mine["node"] - one.base, mine["hops"], mine["delay_us"], strict=True)
        assert [tuple(map(int, each)) for each in here] == expected
        assert set(mine["start"]) == {one.base + node}
        assert mine["direct_us"].iloc[-1] == one.overlay.proximity(node, expected[-1][0])
    # next is where the message is in the following round
    after = met["node"].shift(-1).where(met["number"].shift(-1) == met["number"])
    assert met["next"].astype("Int64").equals(after.astype("Int64"))
    routed.release()


# --- the program in process, over buckets


def played(one: worlds.World, buckets: int, application: Application, **payload) -> list[dict]:
    """The outcomes of messages from every node to every fourth interesting key."""
    bounds = bucket_bounds(one.ring, buckets, one.case.b)
    tables = [Tables.of(known) for known in one.make_tables(bounds)]
    keys = one.interesting_keys()[::4]
    hi, lo = (
        np.array(half, dtype=np.int64) for half in zip(*map(identifiers.halves, keys), strict=True)
    )
    node = np.repeat(one.ring.node, len(keys))
    every = {
        "node": node,
        "key_hi": np.tile(hi, len(one.ring)),
        "key_lo": np.tile(lo, len(one.ring)),
    }
    every |= {name: np.full(len(node), value) for name, value in payload.items()}
    facts, names = RingInMemory(one.ring), tuple(payload)
    program = Route(
        *(bounds, facts, application, names, None),
        *(PastryNextHop(facts), one.kernel, worlds.LAN_US),
    )
    counts = play(program, tables, {MESSAGE: starting(facts, every, names)})
    found = [
        dict(zip(table, map(int, row), strict=True))
        for mine in tables
        for name in list(mine)
        if name.startswith(OUTCOMES)
        for table in [mine[name]]
        for row in zip(*table.values(), strict=True)
    ]
    return [counts, sorted(found, key=lambda row: sorted(row.items()))]


class Merging(Application):
    """Messages that meet on the way to a key go on as one."""

    def forward(self, tables, messages):
        alike = np.stack([messages[name] for name in ("next", "node", "key_hi", "key_lo")])
        _, first, which = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        merged = {name: column[first] for name, column in messages.items()}
        count = np.bincount(which.ravel(), messages["count"]).astype(np.int64)
        least = merged | {"start": merged["start"] * 0 + merged["node"]}
        return Step(onward=least | {"count": count, "delay_us": merged["hops"]})


@pytest.mark.parametrize("application", [Tracing(), Merging()])
def test_outcomes_do_not_depend_on_buckets(application):
    hops = 0
    for one in worlds.worlds()[:60:5]:
        counts, expected = played(one, 1, application, count=1)
        for buckets in (2, 7):
            more, found = played(one, buckets, application, count=1)
            assert found == expected
            assert len(more) >= len(counts)
        hops = max(hops, *(row["hops"] for row in expected))
        if isinstance(application, Merging):
            nodes = Counter()
            for row in expected:
                nodes[row["key_hi"], row["key_lo"]] += row["count"]
            assert set(nodes.values()) == {len(one.ring)}
    assert hops > 1


# --- the interface of applications


class Meddler(Application):
    """Stops odd messages at their first hop; answers every delivered message once."""

    def forward(self, tables, messages):
        even = messages["number"] % 2 == 0
        return Step(onward={name: column[even] for name, column in messages.items()})

    def deliver(self, tables, messages):
        first = messages["number"] < 1000
        sent = {name: column[first] for name, column in messages.items()}
        return Step(sent=sent | {"number": sent["number"] + 1000}, outcomes=messages)


def test_forward_may_stop_messages_and_deliver_may_send_new_ones(spark):
    rows = worlds.questions(4)[:200]
    routed = worlds.overlay(spark, 4).route(Meddler(), worlds.messages(spark, rows))
    table = routed.outcomes()
    found = sorted((n, node) for n, node in table.select("number", "node").collect())
    roots = [(n, one.base + one.overlay.root(key)) for n, (one, _, key) in enumerate(rows)]
    at_root = [one.overlay.root(key) == node for one, node, key in rows]
    first = [(n, root) for n, root in roots if at_root[n] or n % 2 == 0]
    assert any(n % 2 for n, _ in first)
    assert not all(at_root)
    assert found == sorted(first + [(n + 1000, root) for n, root in first])
    assert table.where("next IS NOT NULL").count() == 0
    # an answer begins where it is delivered
    answers = table.where("number >= 1000").select("hops", "delay_us", "direct_us").distinct()
    assert [tuple(row) for row in answers.collect()] == [(0, 0, 0)]
    routed.release()


class Countdown(Application):
    """Sends messages on to the node before, until the first of a case has them; nodes count."""

    state = MappingProxyType({"seen": "node bigint, name string, times bigint"})

    def deliver(self, tables, messages):
        onward = messages["node"] % 100 > 0  # STRIDE; workers have no module `worlds`
        left = {name: column[onward] for name, column in messages.items()}
        times: Counter[tuple] = Counter()
        for node, name, more in zip(*tables["seen"].values(), strict=True):
            times[int(node), str(name)] += int(more)
        for node, name in zip(messages["node"], messages["name"], strict=True):
            times[int(node), str(name)] += 1
        node, name = map(np.array, zip(*times, strict=True))
        seen = np.array(list(times.values()))
        tables["seen"] = {"node": node, "name": name, "times": seen}
        return Step(
            sent={"node": left["node"] - 1, "n": left["n"] + 1, "name": left["name"]},
            outcomes=messages,
        )


def test_send_delivers_to_the_node_addressed_until_nothing_is_sent(spark):
    overlay = worlds.overlay(spark, 4)
    base = worlds.of_b(4)[0].base
    rows = [(base + 2, 0, "a"), (base, 10, "long")]
    start = spark.createDataFrame(rows, "node bigint, n int, name string")
    sent = overlay.send(Countdown(), start)
    assert sent.messages == (1, 1, 0)
    assert sent.outcomes().schema["n"].dataType.simpleString() == "int"
    found = sorted(map(tuple, sent.outcomes().collect()))
    expected = [(0, 2, "a"), (0, 10, "long"), (1, 1, "a"), (2, 0, "a")]
    assert found == [(base + node, *rest) for node, *rest in expected]
    seen = sent.state("seen")
    once = [(base + n, name, 1) for n, name in ((0, "a"), (0, "long"), (1, "a"), (2, "a"))]
    assert sorted(map(tuple, seen.collect())) == once
    # what nodes have seen is given to them again; that of a node that does not exist is lost
    nobody = worlds.STRIDE * len(worlds.SEEDS)
    lost = spark.createDataFrame([(nobody, "a", 9)], seen.schema)
    again = overlay.send(Countdown(), start, state={"seen": seen.unionByName(lost)})
    twice = [(node, name, 2) for node, name, _ in once]
    assert sorted(map(tuple, again.state("seen").collect())) == twice
    again.release()
    sent.release()
    silent = overlay.send(Application(), start)
    assert silent.messages == (0,)
    silent.release()


def test_a_message_to_a_node_that_does_not_exist_is_lost(spark):
    one, node, key = worlds.questions(4)[0]
    nobody = worlds.STRIDE * len(worlds.SEEDS)
    sent = worlds.messages(spark, [(one, nobody, key), (one, node, key)])
    routed = worlds.overlay(spark, 4).route(Application(), sent)
    assert [row["number"] for row in routed.outcomes().collect()] == [1]
    routed.release()


class Keeps(Application):
    def __init__(self, state):
        self.state = state


@pytest.mark.parametrize(
    ("column", "kind", "state", "why"),
    [
        *((name, "long", {}, f"columns {name} are the overlay's own; rename them")
          for name in ("at", "START", "next", "delay_us")),
        ("path", "array<long>", {}, "column path: array<bigint>; a number, BOOLEAN or STRING"),
        ("n", "long", {"seen": "n bigint"}, "state seen: has no column node BIGINT"),
        *(("n", "long", {name: "node bigint"}, f"state {name}: is the overlay's own name; rename")
          for name in ("leaf sets", "message", "outcomes")),
        ("n", "long", {"seen": "node bigint, at date"}, "column at: date; a number, BOOLEAN or"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_are_refused(spark, column, kind, state, why):
    overlay = worlds.overlay(spark, 4)
    start = spark.createDataFrame([], f"node long, key_hi long, key_lo long, {column} {kind}")
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        overlay.route(Keeps(state), start)


# --- faults of an application


@dataclass
class Labelling(Application):
    """Gives strings as objects of numpy to the results of an upcall."""

    where: str
    state = MappingProxyType({"seen": "node bigint, label bigint"})

    def _of(self, where: str, messages):
        labels = np.array(["a label"] * len(messages["node"]), dtype=object)
        return {**messages, "label": labels} if self.where == where else messages

    def forward(self, tables, messages):
        if self.where == "state":
            tables["seen"] = self._of("state", {"node": messages["node"]})
        return Step(onward=self._of("onward", messages))

    def deliver(self, tables, messages):
        sent = self._of("sent", messages) if self.where == "sent" else None
        return Step(sent=sent, outcomes=self._of("outcomes", messages))


@pytest.mark.parametrize("where", ["onward", "sent", "outcomes", "state"])
def test_a_fault_in_a_task_is_the_error_of_the_call(spark, where):
    """Spark reports it with the traces of Python and Java, which the error does not have."""
    messages = worlds.messages(spark, worlds.questions(4)[:20]).withColumn("label", F.lit(0))
    with pytest.raises(InputError) as caught:
        worlds.overlay(spark, 4).route(Labelling(where), messages)
    assert str(caught.value) == (
        "column label = 'an array of type object': give a numpy array of whole numbers, floats, "
        "booleans or strings (astype(str))"
    )
    assert caught.value.field == "column label"
