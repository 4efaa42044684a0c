"""The oracle of HyParView and Plumtree: cases by hand, what always holds, published values."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache

import pytest
from seeds import seeds

from scribe_spark.core.draws import bits_np

from .plumtree import measured
from .plumtree.cases import ByHand, by_hand, random_case, regular_views
from .plumtree.draws import keyed_draw
from .plumtree.event_queue import Event, EventQueue
from .plumtree.hyparview import HIGH, LOW, NEWCOMER, HyParView, Views
from .plumtree.play import Network
from .plumtree.plumtree import CORROSION, IROH, PAPER, Multicasts, Plumtree, Rules


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
        ({1, 2}, "on_forwardjoin", (1, 9, 1), [(2, "FORWARDJOIN", 9, 0)]),
        ({1, 2, 3}, "on_forwardjoin", (1, 9, 0), [(9, "ACCEPT", NEWCOMER)]),
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


@pytest.mark.parametrize(("ttl", "is_known"), [(6, False), (3, True), (2, False)])
def test_a_newcomer_is_known_where_its_walk_has_half_way_to_go(ttl: int, is_known: bool) -> None:
    """At ttl = PRWL the newcomer enters the passive view."""
    bench = Bench({1, 2}, KNOWN, QUIET)
    bench.node.on_forwardjoin(1, 9, ttl)
    assert (9 in bench.node.passive) == is_known


@pytest.mark.parametrize(("alive", "passive", "asks"), [(True, KNOWN | {1}, 7), (False, KNOWN, 0)])
def test_disconnect(alive: bool, passive: set[int], asks: int) -> None:
    """Only a node that leaves is forgotten and begins a new round of requests."""
    bench = Bench({1, 2}, KNOWN, QUIET)
    bench.node.asked, bench.node.refused = 7, {10}
    bench.node.on_disconnect(1, alive)
    assert bench.node.active == {2}
    assert bench.node.passive == passive
    assert bench.node.asked == asks
    assert bench.node.refused == passive - KNOWN


@pytest.mark.parametrize("rules", ["paper", "iroh"])
def test_a_shuffle_has_as_many_hops(rules: str) -> None:
    """A SHUFFLE of ttl 2 is answered by its second receiver, or by its third one."""
    views = Views(rules, repair=False)
    for ttl, kind in ((2, "SHUFFLE"), (1, "SHUFFLE" if rules == "iroh" else "SHUFFLEREPLY")):
        bench = Bench({1, 2}, KNOWN, views)
        bench.node.on_shuffle(1, 8, [8], ttl)
        assert bench.sent[0][1] == kind
        assert kind == "SHUFFLEREPLY" or bench.sent[0][-1] == ttl - 1


class TreeBench:
    """One node, 0, that has the neighbours 1 (eager), 2 and 3 (lazy), and what it sends."""

    def __init__(self, rules: Rules) -> None:
        self.sent: list[tuple[object, ...]] = []
        self.timers: list[int] = []
        self.queue = EventQueue(lambda _a, _b: 1, keyed_draw(0))
        self.queue.send = lambda _me, to, kind, *fields, **_: self.sent.append((to, kind, *fields))
        self.queue.wake = lambda _me, at, *_: self.timers.append(at)
        self.tree = Plumtree(0, rules, self.queue, Multicasts())
        for node in (1, 2, 3):
            self.tree.up(node)
        for node in (2, 3):
            self.tree.on_prune(node)

    def at(self, time: int, handler: str, *message: object) -> None:
        """Let the node handle a message or timer at a time."""
        self.queue.event = Event(time, 0, -1, 0, "", ())
        self.sent.clear()
        getattr(self.tree, handler)(*message)

    @property
    def kinds(self) -> list[tuple[object, ...]]:
        """Return what was sent for the last message: receivers and kinds."""
        return [one[:2] for one in self.sent]


ALL_RULES = pytest.mark.parametrize("rules", [PAPER, IROH, CORROSION], ids=lambda one: one.rules)


@ALL_RULES
def test_whose_sender_becomes_eager(rules: Rules) -> None:
    """By the paper's rule the sender of a new publication becomes eager."""
    bench = TreeBench(rules)
    bench.at(5, "on_gossip", 2, 0, 3)
    assert bench.sent == [(1, "GOSSIP", 0, 4), (3, "IHAVE", 0, 4)]
    assert (2 in bench.tree.eager) == (rules is PAPER)


@ALL_RULES
def test_duplicates(rules: Rules) -> None:
    """A duplicate makes its sender lazy; by Corrosion's rule only the sixth one does."""
    bench = TreeBench(rules)
    bench.at(5, "on_publish_command", 0)
    for n in range(1, 13):
        bench.tree.make_eager(1)
        bench.at(5 + n, "on_gossip", 1, 0, 3)
        prunes = rules is not CORROSION or n in (6, 12)
        assert bench.sent == ([(1, "PRUNE")] if prunes else [])
        assert (1 in bench.tree.lazy) == prunes


@ALL_RULES
def test_a_sender_that_is_no_neighbour(rules: Rules) -> None:
    """Its payload counts, its duplicate gets PRUNE, its IHAVE is ignored, GRAFT is answered."""
    bench = TreeBench(rules)
    bench.at(1, "on_ihave", 9, 0, 3)
    assert not bench.timers
    bench.at(2, "on_gossip", 9, 0, 3)
    assert bench.tree.multicasts.receipts[0, 0] == (2, 4, 9)
    bench.at(3, "on_gossip", 9, 0, 3)
    assert bench.sent == [(9, "PRUNE")]
    bench.at(4, "on_graft", 9, 0)
    assert bench.sent == [(9, "GOSSIP", 0, 4)]
    assert bench.tree.eager | bench.tree.lazy == {1, 2, 3}


@ALL_RULES
def test_grafts(rules: Rules) -> None:
    """The first announcer is asked first; then the second, by Corrosion's rule an eager node."""
    bench = TreeBench(rules)
    first, second = (1_000_000, 500_000) if rules is CORROSION else (80_000, 40_000)
    for time, node in ((10, 3), (20, 2), (30, 2)):
        bench.at(time, "on_ihave", node, 0, 7)
    assert bench.timers == [10 + first]
    bench.at(10 + first, "on_graft_timer", 0)
    assert bench.sent == [(3, "GRAFT", 0)]
    assert bench.tree.eager == {1, 3}
    assert bench.timers == [10 + first, 10 + first + second]
    bench.at(bench.timers[-1], "on_graft_timer", 0)
    [(asked, kind, publication)] = bench.sent
    assert (kind, publication) == ("GRAFT", 0)
    assert asked in ({1, 3} if rules is CORROSION else {2})
    bench.tree.down(2)  # nobody that announced it is left
    bench.at(bench.timers[-1], "on_graft_timer", 0)
    assert not bench.sent
    bench.at(bench.timers[-1], "on_ihave", 3, 0, 7)
    assert len(bench.timers) == 4


@pytest.mark.parametrize(("after", "is_kept"), [(30_000_000, True), (30_000_001, False)])
def test_how_long_a_payload_is_kept(after: int, is_kept: bool) -> None:
    """A payload is sent for 30 s; the asking neighbour becomes eager in any case."""
    bench = TreeBench(PAPER)
    bench.at(7, "on_publish_command", 0)
    bench.at(7 + after, "on_graft", 2, 0)
    assert bench.sent == ([(2, "GOSSIP", 0, 0)] if is_kept else [])
    assert 2 in bench.tree.eager


@ALL_RULES
@pytest.mark.parametrize(("number", "changes"), [(8, False), (9, None), (10, True)])
def test_optimisation(rules: Rules, number: int, changes: bool | None) -> None:
    """A neighbour that announced 7 rounds less is asked to be eager; iroh counts one round more."""
    bench = TreeBench(rules)
    bench.at(1, "on_ihave", 2, 0, 5)
    bench.at(2, "on_ihave", 3, 0, 3)
    bench.at(3, "on_gossip", 1, 0, number)
    changes = rules is IROH if changes is None else changes
    expected = [(3, "GRAFT"), (1, "PRUNE")] if changes else []
    if rules is CORROSION:
        expected = expected[:1]
    assert bench.kinds == [(2, "IHAVE"), (3, "IHAVE"), *expected]
    assert (3 in bench.tree.eager) == changes
    assert (1 in bench.tree.lazy) == (changes and rules is not CORROSION)


def test_batches() -> None:
    """IHAVEs leave 5 ms after the first one; one that comes then is the first of the next batch."""
    queue = EventQueue(lambda _a, _b: 1, keyed_draw(0))
    queue.alive = {0, 1}
    tree = Plumtree(0, PAPER, queue, Multicasts())
    tree.up(1)
    tree.on_prune(1)
    for p, at in enumerate((100, 5_099, 5_100)):
        queue.command(at, "publish", 0, p)
    came = []

    def handle(event: Event) -> None:
        if event.kind == "publish":
            tree.on_publish_command(*event.fields)
        else:
            came.append((event.at, event.fields[0]))

    queue.play(handle)
    assert came == [(5_101, 0), (5_101, 1), (10_101, 2)]


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


def test_a_shuffle_exchanges_entries() -> None:
    """With full passive views, each side gives away what it sent for what it got."""
    views = Views(passive=7, repair=False)
    bench = Bench({1}, KNOWN, views)
    bench.node.on_shuffle(1, 8, [8, 20, 21], 1)
    [(_, kind, told)] = bench.sent
    assert (kind, len(told)) == ("SHUFFLEREPLY", 3)
    assert bench.node.passive == KNOWN - set(told) | {8, 20, 21}
    bench = Bench({1}, KNOWN, views)
    bench.node.on_shuffle_command()
    [(_, _, _, named, ttl)] = bench.sent
    assert (named[0], len(named), ttl) == (0, 5, 6)
    bench.node.on_shufflereply(1, [20, 21, 22, 23])
    assert bench.node.passive == KNOWN - set(named) | {20, 21, 22, 23}


@pytest.mark.parametrize("rules", ["paper", "iroh"])
def test_a_walk_ends_at_a_node_that_asks_the_newcomer(rules: str) -> None:
    """Only one of the two makes the link: else a DISCONNECT between them left it one-sided."""
    bench = Bench({1}, {9}, Views(rules))
    bench.node.ask()
    bench.node.on_forwardjoin(1, 9, 0)
    assert bench.sent == [(9, "NEIGHBOR", LOW)]
    assert bench.node.active == {1}


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


@pytest.mark.parametrize("handler", ["on_neighbor", "on_join"])
def test_who_becomes_a_neighbour_answers_a_request(handler: str) -> None:
    """A request ends when the asked node asks itself, or joins."""
    bench = Bench({1}, {10}, Views())
    bench.node.ask()
    getattr(bench.node, handler)(10, *([HIGH] if handler == "on_neighbor" else []))
    assert bench.node.request is None
    assert bench.node.active == {1, 10}


@pytest.mark.parametrize("rules", ["paper", "iroh"])
def test_a_walk_that_ends_at_a_node_that_asks_the_newcomer(rules: str) -> None:
    """The request makes the link; the end of the walk does nothing."""
    bench = Bench({1}, {10}, Views(rules))
    bench.node.ask()
    bench.sent.clear()
    bench.node.on_forwardjoin(1, 10, 6)
    assert not bench.sent
    assert bench.node.active == {1}


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


@pytest.mark.parametrize("seed", seeds(range(400), 40))
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
