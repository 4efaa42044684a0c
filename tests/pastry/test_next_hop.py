"""The next hop of every node for every interesting key, against the oracle."""

from collections import defaultdict

import pytest
import worlds
from one_hop import next_hops


@pytest.mark.parametrize("b", worlds.BS)
def test_next_hop_of_every_node_equals_the_oracle(spark, b):
    rows = worlds.questions(b)
    found = next_hops(worlds.overlay(spark, b), worlds.messages(spark, rows))
    hops = found.toArrow().to_pydict()
    assert sorted(hops["number"]) == list(range(len(rows)))
    for number, following in zip(hops["number"], hops["next"], strict=True):
        one, node, key = rows[number]
        found = None if following is None else following - one.base
        assert found == one.overlay.next_hop(node, key), (one.case.seed, node, hex(key))


def test_the_questions_ask_every_rule():
    """Of the next hops asked for: roots, leaf sets, entries, and missing entries."""
    used: defaultdict[str, int] = defaultdict(int)
    for one, node, key in (question for b in worlds.BS for question in worlds.questions(b)):
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
    from oracle.ring import digits, shared_digits

    row = shared_digits(one.case.ids[node], key, one.case.b)
    return row, digits(key, one.case.b)[row]


def test_a_message_to_a_node_that_does_not_exist_is_left_out(spark):
    (one, node, key), *_ = worlds.questions(4)
    nobody = worlds.STRIDE * len(worlds.SEEDS)
    messages = worlds.messages(spark, [(one, node, key), (one, nobody, key)])
    found = next_hops(worlds.overlay(spark, 4), messages)
    assert [row["node"] for row in found.collect()] == [one.base + node]
