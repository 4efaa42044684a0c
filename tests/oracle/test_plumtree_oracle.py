"""The oracle of HyParView and Plumtree: cases by hand, what always holds, published values."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache

import pytest
from seeds import seeds

from scribe_spark.draws import bits_np

from .plumtree import measured
from .plumtree.cases import ByHand, by_hand, random_case, regular_views
from .plumtree.draws import keyed_draw
from .plumtree.event_queue import Event, EventQueue
from .plumtree.hyparview import HIGH, LOW, NEWCOMER, HyParView, Views
from .plumtree.play import Network
from .plumtree.plumtree import PAPER


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
    queue.send(0, 1, "GOSSIP")
    queue.send(0, 1, "down")
    queue.play(came.append)
    assert [(event.at, event.sender, event.kind) for event in came] == [(13, 1, "down")]


@pytest.mark.parametrize("key", [(1, 2, -2, 5), (0, 10**12, -1, 0), (9, 7, 3, 3), (5, 0, 0, 59)])
def test_draws(key: tuple[int, int, int, int]) -> None:
    """Draws are those of the package."""
    *event, member = key
    assert keyed_draw(42)("walk", *event)(member) == int(bits_np(42, "walk", *key))


class Bench:
    """One node with given views; what it sends is noted instead of being sent."""

    def __init__(self, active: set[int], passive: set[int], views: Views) -> None:
        self.sent: list[tuple[object, ...]] = []
        queue = EventQueue(lambda _a, _b: 1, keyed_draw(0))
        queue.send = lambda _me, to, kind, *fields: self.sent.append((to, kind, *fields))
        ignore = [].append
        self.node = HyParView(0, views, queue, ignore, ignore)
        self.node.active, self.node.passive = set(active), set(passive)


FULL = {1, 2, 3, 4, 5}
KNOWN = {10, 11, 12, 13, 14, 15, 16}
QUIET = Views(repair=False)


@pytest.mark.parametrize(
    ("active", "handler", "message", "sent"),
    [
        (FULL, "on_neighbor", (1, LOW), [(1, "ACCEPT", LOW)]),
        (FULL - {5}, "on_neighbor", (9, LOW), [(9, "ACCEPT", LOW)]),
        (FULL, "on_accept", (9, LOW), [(9, "DISCONNECT", True)]),
        ({1, 2}, "on_accept", (9, HIGH), [(9, "DISCONNECT", True)]),
        ({1, 2}, "on_accept", (9, NEWCOMER), []),
        ({1, 2}, "on_neighbor", (9, NEWCOMER), [(9, "ACCEPT", NEWCOMER)]),
        ({1}, "on_forwardjoin", (2, 1, 6), []),
        (FULL, "on_accept", (1, LOW), []),
        (FULL, "on_shuffle", (9, 8, [8], 3), [(9, "DISCONNECT", True)]),
        ({1}, "on_forwardjoin", (1, 9, 6), [(9, "ACCEPT", NEWCOMER)]),
        (FULL, "on_forwardjoin", (1, 0, 0), []),
        ({1}, "on_forwardjoin", (1, 0, 5), []),
        ({1, 2}, "on_forwardjoin", (1, 9, 5), [(2, "FORWARDJOIN", 9, 4)]),
        ({1, 2}, "on_forwardjoin", (1, 0, 5), [(2, "FORWARDJOIN", 0, 4)]),
        ({1, 2}, "on_shuffle", (1, 8, [8], 3), [(2, "SHUFFLE", 8, [8], 2)]),
        ({1, 2}, "on_shuffle", (1, 8, [8], 1), [(8, "SHUFFLEREPLY", None)]),
        ({1, 2}, "on_shuffle", (1, 2, [2, 9], 6), [(2, "SHUFFLEREPLY", None)]),
    ],
)
def test_answers(
    active: set[int], handler: str, message: tuple[object, ...], sent: list[tuple[object, ...]]
) -> None:
    """A message is answered as the rules say; None stands for drawn nodes."""
    bench = Bench(active, KNOWN, QUIET)
    getattr(bench.node, handler)(*message)
    assert len(bench.sent) == len(sent)
    for found, expected in zip(bench.sent, sent, strict=True):
        assert all(b is None or a == b for a, b in zip(found, expected, strict=True))


def test_refuse_names_seven_nodes() -> None:
    """A full node refuses a request of low priority, with 3 neighbours and 4 others."""
    bench = Bench(FULL, KNOWN, QUIET)
    bench.node.on_neighbor(9, LOW)
    [(to, kind, nodes)] = bench.sent
    assert (to, kind) == (9, "REFUSE")
    assert len(FULL & set(nodes)) == 3
    assert len(KNOWN & set(nodes)) == 4


def test_a_high_request_takes_a_place() -> None:
    """A request of high priority is accepted: a neighbour is dropped, and is known from then on."""
    bench = Bench(FULL, KNOWN, QUIET)
    bench.node.on_neighbor(9, HIGH)
    [(dropped, kind, alive), accept] = bench.sent
    assert (kind, alive, accept) == ("DISCONNECT", True, (9, "ACCEPT", HIGH))
    assert bench.node.active == FULL - {dropped} | {9}
    assert bench.node.passive == KNOWN | {dropped}


@pytest.mark.parametrize("rules", ["paper", "iroh"])
def test_entries_just_sent_make_room(rules: str) -> None:
    """By the paper's rule the entries that were sent go first, by iroh's any may go."""
    views = Views(rules, passive=7, repair=False)
    kept = Counter()
    for sent in ([10, 11], [15, 16], [12, 14], [11, 13]):
        bench = Bench(FULL, KNOWN, views)
        bench.node.into_passive([20, 21, 1, 0], sent)
        assert {20, 21} < bench.node.passive
        assert len(bench.node.passive) == 7
        kept["sent"] += len(bench.node.passive & set(sent))
    assert (kept["sent"] == 0) == (rules == "paper")


def test_whom_a_node_asks() -> None:
    """One at a time, nobody twice, with high priority without neighbours; then it is over."""
    bench = Bench(set(), {10, 11, 12}, Views())
    bench.node.ask()
    bench.node.ask()
    for answers in range(1, 4):
        assert [(kind, priority) for _, kind, priority in bench.sent] == [
            ("NEIGHBOR", HIGH)
        ] * answers
        bench.node.on_refuse(bench.sent[-1][0], [])
    assert {to for to, *_ in bench.sent} == {10, 11, 12}
    assert len(bench.sent) == 3
    bench.node.on_down(10)
    assert len(bench.sent) == 3
    bench.node.new_round()
    bench.node.ask()
    assert len(bench.sent) == 4


def test_a_round_ends_although_each_refusal_names_new_nodes() -> None:
    """A round has at most as many requests as the passive view has places."""
    bench = Bench({1}, {10, 11}, Views(passive=4))
    bench.node.ask()
    for n in range(20):
        bench.node.on_refuse(bench.sent[-1][0], [20 + n, 50 + n])
    assert len(bench.sent) == 4


def test_iroh_gives_up_on_a_silent_node() -> None:
    """After 500 ms without an answer the node is forgotten, and the next one is asked."""
    bench = Bench({1}, {10, 11}, Views("iroh"))
    bench.node.ask()
    asked = bench.sent[0][0]
    bench.node.on_request_timer(asked)
    assert len(bench.sent) == 1  # the timer is of another request
    bench.node.queue.event = Event(500_000, 0, -1, 0, "request_timer", (asked,))
    bench.node.on_request_timer(asked)
    assert bench.node.passive == {10, 11} - {asked}
    assert bench.sent[1][0] == ({10, 11} - {asked}).pop()


@pytest.mark.parametrize("seed", seeds(range(400), 80))
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
            grafted = case.rules.rules == "corrosion" and played.counts["graft"]
            assert grafted or hops == played.receipts[p, sender][1] + 1
    first = sum(row[2] >= 0 for row in played.receipts.values())
    gone = {one.node: one.at for one in case.commands if one.kind in ("fail", "leave")}
    lost = sum(arrives >= gone.get(x, never) for _, _, x, _, _, arrives in played.copies)
    if case.rules.rules != "corrosion" and not case.rules.threshold:
        assert played.counts["prune"] == len(played.copies) - first - lost
    if case.static is not None and not any(one.kind == "fail" for one in case.commands):
        for one in case.commands:
            reached = {x for p, x in played.receipts if p == one.value}
            assert reached == set(measured.distances(case.static, one.node))


@pytest.mark.parametrize("degree", [3, 5])
@pytest.mark.parametrize("delays", [(50_000, 50_000), (1_000, 10_000), (10_000, 100_000)])
@pytest.mark.parametrize("rules", ["paper", "iroh"])
def test_copies_of_one_sender(degree: int, delays: tuple[int, int], rules: str) -> None:
    """Message 1 makes n d - (n - 1) copies, each later one n - 1: the tree of shortest delays."""
    views = regular_views(60, degree, 7)
    found = measured.copies_of_messages(views, delays, 3, 4, measured.RULES[rules])
    assert found == [60 * degree - 59, 59, 59, 59]


@cache
def grown_views() -> Network:
    """Return 200 nodes that joined in waves and shuffled five times."""
    network = measured.grown(200, 1, Views(), PAPER)
    measured.shuffle(network, 5)
    return network


def test_graph_of_views() -> None:
    """Views are symmetric and nearly full, and the graph is as a random regular one."""
    network = grown_views()
    views = measured.links(network)
    assert measured.one_sided(network) == 0
    assert sum(map(len, views.values())) >= 4.9 * 200
    mean, largest = measured.paths(views, 1)
    regular, _ = measured.paths(regular_views(200, 5, 1), 1)
    assert abs(mean - regular) < 0.15
    assert largest <= 6
    assert all(len(network.nodes[me].views.passive) >= 25 for me in views)


@pytest.mark.parametrize(
    ("what", "rounds", "rmr", "ldh"),
    [("one sender", 30, 0.2, 15), ("random senders", 30, 1, 18), ("all at once", 1, 3, 30)],
)
@pytest.mark.parametrize("rules", ["paper", "iroh"])
def test_irohs_scenarios(what: str, rounds: int, rmr: float, ldh: float, rules: str) -> None:
    """RMR and LDH are below what iroh-gossip's tests assert, and nothing is missing."""
    found = measured.irohs_scenario(what, 100, 1, rules, rounds)
    assert found.rmr < rmr
    assert found.ldh < ldh
    assert found.missed == 0


@pytest.mark.parametrize(
    ("share", "breaks", "first", "last"),
    [(0.3, True, 0.98, 1), (0.5, True, 0.98, 1), (0.5, False, 0.9, 0.9), (0.8, True, 0, 0.95)],
)
def test_reliability_after_failures(share: float, breaks: bool, first: float, last: float) -> None:
    """Nearly all living nodes get messages again, at once with fewer failures."""
    found = measured.reliability(grown_views(), share, 2, breaks, 4)
    assert found[0] >= first
    assert found[-1] >= last
