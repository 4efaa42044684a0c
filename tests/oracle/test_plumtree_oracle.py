"""The oracle of HyParView and Plumtree: cases by hand, and what always holds.

Published values are in tests/plumtree/test_protocols.py, of the kernels, which equal the oracle.
"""

from collections import defaultdict

import networkx
import pytest
from seeds import seeds

from scribe_spark.core.draws import bits_np

from .plumtree.cases import ByHand, by_hand, random_case
from .plumtree.draws import keyed_draw
from .plumtree.event_queue import Event, EventQueue
from .plumtree.plumtree import Rules


@pytest.mark.parametrize("one", list(by_hand()), ids=lambda one: one.name)
def test_by_hand(one: ByHand) -> None:
    """Receipts, counts and views are those that were worked by hand."""
    played = one.case.play()
    first = {key: row for key, row in played.receipts.items() if row[2] >= 0}
    assert first == one.receipts
    assert played.counts == one.counts
    assert played.active == one.active
    assert played.eager == one.eager


def test_order_of_events() -> None:
    """Commands come first, then timers, then messages by sender and by the order of sending."""
    queue = EventQueue(lambda _a, _b: 10, keyed_draw(0))
    queue.alive = {0, 1, 2}
    queue.send(2, 0, "c")
    queue.send(1, 0, "b", leaves=5)
    queue.wake(0, 10, "timer")
    queue.send(2, 0, "d")
    queue.send(1, 0, "a")
    queue.command(10, "command", 0, 0)
    came = []
    queue.play(lambda event: came.append((event.at, event.kind)))
    assert came == [(10, kind) for kind in ("command", "timer", "a", "c", "d")] + [(15, "b")]


def test_a_dead_node_returns_messages() -> None:
    """A message comes back as `down` after both delays; `down` itself does not come back."""
    queue = EventQueue(lambda a, b: {(0, 1): 10, (1, 0): 3}[a, b], keyed_draw(0))
    queue.alive = {0}
    came: list[Event] = []
    queue.send(0, 1, "GOSSIP", 0)
    queue.send(0, 1, "down")
    queue.play(came.append)
    assert [(event.at, event.sender, event.kind) for event in came] == [(13, 1, "down")]


@pytest.mark.parametrize("key", [(1, 2, -2, 5), (0, 10**12, -1, 0), (9, 7, 3, 3), (5, 0, 0, 59)])
def test_draws(key: tuple[int, int, int, int]) -> None:
    """Draws are those of the package."""
    *event, member = key
    assert keyed_draw(42)("walk", *event)(member) == int(bits_np(42, "walk", *key))


@pytest.mark.parametrize("seed", seeds(range(400), 10))
def test_what_always_holds(seed: int) -> None:
    """Views have their bounds, and receipts, copies and counts agree."""
    case = random_case(seed)
    network = case.network()
    network.play()
    played = network.played()
    views = case.views
    for me, view in played.active.items():
        assert me not in view | played.passive[me]
        assert not view & played.passive[me]
        assert played.eager[me] <= view
        if case.static is None:
            assert len(view) <= views.active
            assert len(played.passive[me]) <= views.passive
        if views.breaks:
            assert view <= network.alive
    assert len(played.copies) == played.counts["gossip"]
    came, never = defaultdict(list), float("inf")
    for p, y, x, hops, leaves, arrives in played.copies:
        assert arrives == leaves + case.delay()(y, x)
        assert (p, y) in played.receipts
        assert leaves >= played.receipts[p, y][0]
        came[p, x].append((arrives, y, hops))
    for (p, x), (at, hops, sender) in played.receipts.items():
        if sender >= 0:
            assert (at, sender, hops) == min(came[p, x])
            assert hops == played.receipts[p, sender][1] + 1
    first = sum(row[2] >= 0 for row in played.receipts.values())
    gone = {one.node: one.at for one in case.commands if one.kind in ("fail", "leave")}
    lost = sum(arrives >= gone.get(x, never) for _, _, x, _, _, arrives in played.copies)
    if case.rules.rules != "corrosion" and not case.rules.threshold:
        assert played.counts["prune"] == len(played.copies) - first - lost
    keeps = case.rules.payload_us == Rules().payload_us
    if case.static is not None and keeps and not any(one.kind == "fail" for one in case.commands):
        for one in case.commands:
            reached = {x for p, x in played.receipts if p == one.value}
            views_of = networkx.DiGraph(case.static)
            assert reached == {one.node, *networkx.descendants(views_of, one.node)}
