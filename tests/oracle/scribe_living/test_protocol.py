"""Single rules of Scribe in a living world, on overlays with perfect tables."""

from __future__ import annotations

import pytest

from ..living.draws import Plane, keyed_draw, random_idents
from ..living.overlay import Overlay, Rules
from ..living.perfect import enter_perfect
from ..living.ring import RING
from .figures import deliver_leave, forward
from .groups import Access, Group, Settings
from .joining import JoinPhase, Routed, break_cycles, cycle_tops
from .measures import attached, calm, joins_by_cause, publications, rounds_until_repaired
from .phase import Message, Phase
from .reliable import Reliable
from .state import Child, Scribe
from .upcalls import Application, Join
from .world import Event, Run

COUNT = 60
G = 1


def world(
    seed: int = 0,
    settings: Settings | None = None,
    application: Application | None = None,
    access: Access | None = None,
    rules: Rules | None = None,
    present: int = COUNT,
) -> Run:
    """Sixty nodes with perfect tables and one group, whose groupId is drawn."""
    rules = rules or Rules(b=2, l=16)
    idents = random_idents(COUNT, seed)
    overlay = Overlay(idents, Plane(COUNT, seed, 20), keyed_draw(seed), rules)
    enter_perfect(overlay, range(present))
    key = keyed_draw(seed)("key", among=RING)
    groups = {G: Group(key, access or Access())}
    return Run(Scribe(overlay, groups, settings or Settings(), application or Application()))


def grown(seed: int = 0, members: int = 30, **others: object) -> Run:
    """Round 0: the group is created, and nodes join it."""
    run = world(seed, **others)
    run.step(0, [(0, 0, "create", G), *((0, node, "join", G) for node in range(members))])
    return run


def quiet(run: Run, rounds: int, events: tuple[Event, ...] = ()) -> None:
    """More rounds."""
    first = run.scribe.round + 1
    for at in range(first, first + rounds):
        run.step(at, [event for event in events if event[0] == at])


def children_of(run: Run, node: int) -> set[int]:
    """The children of a node."""
    return set(run.scribe.entries[G][node].children)


def inner_node(run: Run) -> int:
    """A node with children and a parent, the one with most children."""
    nodes = [node for node, entry in run.scribe.entries[G].items() if not entry.root]
    return max(nodes, key=lambda node: (len(children_of(run, node)), -node))


def test_the_last_member_that_quits_leaves_the_root_alone() -> None:
    run = grown()
    assert len(run.scribe.entries[G]) > 30
    run.step(1, [(1, node, "quit", G) for node in range(30)])
    root = run.scribe.roots(G)[0]
    assert list(run.scribe.entries[G]) == [root]
    assert run.seen[1].counts["LEAVE"] == len(run.seen[0].children)


def test_a_member_without_children_left_stays_and_so_does_the_root() -> None:
    """The printed lines 9 to 11 of Figure 4 would take both out."""
    run = grown()
    member = next(
        node
        for node, entry in run.scribe.entries[G].items()
        if entry.member and entry.children and not entry.root
    )
    under, front = set(), children_of(run, member)
    while front:
        under |= front
        front = {child for node in front for child in children_of(run, node)}
    run.step(1, [(1, node, "quit", G) for node in under if run.scribe.entries[G][node].member])
    assert children_of(run, member) == set()
    assert run.scribe.entries[G][member].parent is not None


def test_a_late_leave_is_ignored() -> None:
    run = grown()
    node = inner_node(run)
    child = min(children_of(run, node))
    run.scribe.entries[G][node].children[child] = Child(number=5, refreshed=5)
    deliver_leave(run.scribe, G, node, child, number=4)
    assert child in children_of(run, node)
    deliver_leave(run.scribe, G, node, child, number=5)
    assert child not in children_of(run, node)


@pytest.mark.parametrize("timeout", [1, 2, 4])
def test_children_of_a_failed_node_join_again_after_the_timeout(timeout: int) -> None:
    run = grown(settings=Settings(parent_timeout=timeout))
    node = inner_node(run)
    children = children_of(run, node)
    quiet(run, timeout + 2, ((1, node, "fail"),))
    joined = {
        (seen.round, one)
        for seen in run.seen
        for _, one, why in seen.joins
        if why == "parent failed"
    }
    assert joined == {(1 + timeout, child) for child in children}
    assert rounds_until_repaired(run) == {(1, node): timeout}
    assert G in calm(run)
    for seen in run.seen[1 : 1 + timeout]:
        assert {child for _, child in seen.orphans} == children


def test_children_of_a_departed_node_join_in_the_same_round() -> None:
    run = grown()
    node = inner_node(run)
    children, parent = children_of(run, node), run.scribe.entries[G][node].parent
    run.step(1, [(1, node, "leave")])
    assert joins_by_cause(run.seen[1])["parent left"] == len(children)
    assert run.seen[1].orphans == []
    assert node not in children_of(run, parent)
    assert G in calm(run)


@pytest.mark.parametrize("seed", range(8))
def test_only_the_roots_children_join_again_when_it_fails(seed: int) -> None:
    """Costa and Frey say that all members must."""
    run = grown(seed, members=50)
    root = run.scribe.roots(G)[0]
    children = children_of(run, root)
    next_root = sorted(set(range(COUNT)) - {root}, key=lambda n: run.scribe.nearness(G, n))[0]
    quiet(run, 6, ((1, root, "fail"),))
    joined = [one for seen in run.seen[1:] for one in seen.joins]
    assert {node for _, node, why in joined if why == "root failed"} == children - {next_root}
    assert {why for *_, why in joined} <= {"root failed", "forwarder"}
    assert run.scribe.roots(G) == [next_root]
    assert len(children) < 50
    assert attached(run.seen[-1]) >= {(G, node) for node in run.seen[-1].members[G]}


def test_the_next_root_enforces_the_list() -> None:
    access = Access(join=frozenset(range(30)), multicast=frozenset({3, 4}))
    run = grown(access=access)
    quiet(run, 3, ((1, run.scribe.roots(G)[0], "fail"),))
    strangers = [node for node in sorted(run.scribe.overlay.live) if node >= 30][:20]
    events = [(4, node, "join", G) for node in strangers]
    live = sorted(run.scribe.overlay.live)
    seen = run.step(4, [*events, *((4, node, "publish", G) for node in live)])
    allowed = sum(node in (3, 4) for node in live)
    assert seen.refused == {"JOIN": 20, "MULTICAST": len(live) - allowed}
    assert {source for (_, _, source), _ in seen.deliveries} <= {3, 4}
    assert not seen.members[G] & set(strangers)
    assert {one for one in seen.entries if one[1] in strangers} <= {
        one for one in run.seen[3].entries if one[1] in strangers
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_group_survives_all_but_one_of_its_holders(seed: int) -> None:
    run = grown(seed)
    holders = sorted({node for _, node, *_ in run.seen[0].copies})
    assert len(holders) == 5
    for survivor in holders:
        run = grown(seed)
        quiet(run, 5, tuple((1, node, "fail") for node in holders if node != survivor))
        assert run.scribe.roots(G) == [survivor]
        assert run.seen[-1].lost_groups == []
        assert len({node for _, node, *_ in run.seen[-1].copies}) == 5
        assert G in calm(run)


def test_a_group_whose_holders_all_fail_is_lost_and_can_be_created_again() -> None:
    run = grown(1, application=Reliable(8))
    holders = {node for _, node, *_ in run.seen[0].copies}
    source, creator = sorted(set(range(30, COUNT)) - holders)[:2]
    publish = tuple((at, source, "publish", G) for at in (1, 2, 8))
    quiet(run, 6, (*publish, *((2, node, "fail") for node in holders)))
    assert all(seen.lost_groups == ([G] if seen.round >= 2 else []) for seen in run.seen)
    assert run.seen[2].fates == [((2, G, source), "no root")]
    run.step(7, [(7, creator, "create", G)])
    assert run.seen[7].created == [(G, creator)]
    assert run.seen[7].lost_groups == [G]  # until it was created
    quiet(run, 1, publish)
    assert run.seen[8].lost_groups == []
    members = run.seen[8].members[G]
    assert members == set(range(30)) - holders
    assert {node for _, node in run.seen[8].deliveries} == members
    assert G in calm(run)


def test_creating_a_group_twice_or_without_permission_changes_nothing() -> None:
    access = Access(create=frozenset({5}))
    run = world(access=access)
    run.step(0, [(0, 4, "create", G)])
    assert run.seen[0].refused == {"CREATE": 1}
    assert run.seen[0].copies == []
    run.step(1, [(1, 5, "create", G)])
    copies = run.seen[1].copies
    run.step(2, [(2, 5, "create", G)])
    assert run.seen[2].copies == copies
    assert run.seen[2].refused == {"CREATE": 1}


def test_a_nearer_newcomer_takes_over_and_the_old_root_keeps_its_subtree() -> None:
    for seed in range(40):
        run = grown(seed, present=COUNT - 1)
        newcomer, root = COUNT - 1, run.scribe.roots(G)[0]
        if run.scribe.nearness(G, newcomer) < run.scribe.nearness(G, root):
            break
    children = children_of(run, root)
    state = run.scribe.copies[G, root].state
    run.step(1, [(1, newcomer, "arrive"), (1, 40, "publish", G)])
    assert run.scribe.roots(G) == [newcomer]
    assert run.scribe.copies[G, newcomer].state == state
    assert children_of(run, newcomer) == {root}
    assert children_of(run, root) == children
    assert [why for *_, why in run.seen[1].joins] == ["hand-over"]
    assert {node for _, node in run.seen[1].deliveries} == set(range(30))


def test_the_creator_can_be_the_root() -> None:
    run = world()
    run.scribe.groups[G] = Group(run.scribe.overlay.idents[17] ^ 1)
    run.step(0, [(0, 17, "create", G), (0, 3, "join", G)])
    assert run.scribe.roots(G) == [17]
    assert run.seen[0].counts.get("CREATE", 0) == 0


def test_sources_keep_the_address_of_the_root() -> None:
    run = grown()
    root = run.scribe.roots(G)[0]
    source = next(node for node in range(30, COUNT) if node != root)
    quiet(run, 4, (*((at, source, "publish", G) for at in (1, 2, 3, 4)), (3, root, "fail")))
    routed, direct, lost, again = (seen.counts for seen in run.seen[1:])
    assert routed["address"] == 1
    assert (direct["MULTICAST"], direct.get("address", 0)) == (1, 0)
    assert lost["lost MULTICAST"] >= 1
    assert lost["address"] == 1
    assert (again["MULTICAST"], again.get("address", 0)) == (1, 0)
    assert [fate for seen in run.seen for _, fate in seen.fates] == ["sent"] * 4


def test_an_edge_has_a_heartbeat_or_a_payload_in_each_round() -> None:
    run = grown()
    edges = len(run.seen[0].children)
    quiet(run, 2, ((1, 40, "publish", G), (1, 41, "publish", G)))
    assert run.seen[1].counts["payload"] == 2 * edges
    assert "heartbeat" not in run.seen[1].counts
    assert run.seen[2].counts["heartbeat"] == edges


def test_the_entry_of_a_dead_child_is_dropped_after_the_timeout() -> None:
    run = grown(settings=Settings(refresh=2, child_timeout=5))
    leaf = next(n for n, e in sorted(run.scribe.entries[G].items()) if not e.children)
    parent = run.scribe.entries[G][leaf].parent
    quiet(run, 9, ((3, leaf, "fail"),))  # joined in round 0, refreshed in round 2
    there = [any(row[1:3] == (parent, leaf) for row in seen.children) for seen in run.seen]
    assert there == [at < 2 + 5 for at in range(10)]
    assert run.seen[3].counts["lost heartbeat"] == 1


def test_a_payload_from_another_than_the_parent_is_refused() -> None:
    run = grown()
    node = inner_node(run)
    stranger = next(n for n in run.scribe.entries[G] if n not in children_of(run, node) | {node})
    run.scribe.entries[G][node].children[stranger] = Child(0, 0)
    run.step(1, [(1, 40, "publish", G)])
    assert run.seen[1].refused == {"payload": 1}
    assert run.seen[1].counts["drop child"] == 1
    assert stranger not in children_of(run, node)
    assert len({n for _, n in run.seen[1].deliveries}) == len(run.seen[1].deliveries) == 30


def test_a_refresh_that_is_refused_makes_the_child_join_again() -> None:
    run = grown()
    node = inner_node(run)
    child = min(children_of(run, node))
    del run.scribe.entries[G][node].children[child]
    quiet(run, 2)
    assert (G, child, "refused") in run.seen[2].joins
    assert run.seen[2].refused == {"refresh": 1}
    assert G in calm(run)


def test_a_join_of_a_node_on_the_own_path_is_passed_on() -> None:
    run = grown()
    scribe = run.scribe
    node = inner_node(run)
    child = min(children_of(run, node))
    scribe.entries[G][node].parent = None
    joins = JoinPhase(scribe, Phase(scribe.overlay))
    join = Join(G, node, 1, "parent failed")
    message = Message(scribe.groups[G].key, [node, child])
    joins.receive(G, child, [Routed(join, message)], scribe.chain(G, child))
    assert node not in children_of(run, child)
    assert [routed.join for routed in joins.moving] in ([join], [])
    while joins.moving:
        joins.superstep()
    assert cycle_tops(scribe, G) == []


def test_a_cycle_is_broken_by_its_node_nearest_to_the_group_id() -> None:
    run = grown()
    scribe = run.scribe
    top = inner_node(run)
    child = min(children_of(run, top))
    old = scribe.entries[G][top].parent
    del scribe.entries[G][old].children[top]
    scribe.entries[G][top].parent = child
    scribe.entries[G][child].children[top] = Child(0, 0)
    nearest = min((top, child), key=lambda node: scribe.nearness(G, node))
    assert cycle_tops(scribe, G) == [nearest]
    break_cycles(scribe)
    assert cycle_tops(scribe, G) == []
    quiet(run, 1)
    assert G in calm(run)


def test_several_joins_at_once_make_one_join() -> None:
    run = world()
    run.step(0, [(0, 0, "create", G)])
    node = next(n for n in range(COUNT) if not run.scribe.entry(G, n))
    calls = []
    for source in (40, 41):
        run.scribe.enter(G, source, "own")
    joins = [Join(G, 40, 0, "own"), Join(G, 41, 0, "own")]
    forward(run.scribe, node, joins, lambda: calls.append(1))
    assert children_of(run, node) == {40, 41}
    assert calls == [1]
    forward(run.scribe, node, joins, lambda: calls.append(1))
    assert calls == [1]


def test_upcalls_may_change_what_is_sent() -> None:
    class Shouting(Application):
        def __init__(self):
            self.faults, self.joins = [], []

        def forward_handler(self, here, message):
            return (
                {c: m for c, m in super().forward_handler(here, message)[0].items() if c % 2},
                None,
            )

        def join_handler(self, here, join):
            self.joins.append((here.node, join.source, join.extra))
            return ()

        def fault_handler(self, here, join):
            self.faults.append(here.node)
            return 7

    application = Shouting()
    run = grown(application=application)
    assert application.faults == []
    assert len(application.joins) == len(run.seen[0].children)
    run.step(1, [(1, 40, "publish", G)])
    root = run.scribe.roots(G)[0]
    assert all(node % 2 or node == root for _, node in run.seen[1].deliveries)
    application.joins.clear()
    node = inner_node(run)
    children = children_of(run, node)
    quiet(run, 3, ((2, node, "fail"),))
    assert set(application.faults) == children
    assert {extra for _, _, extra in application.joins} == {7}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_when_a_quarter_of_the_nodes_fails(seed: int) -> None:
    run = grown(seed, members=50, application=Reliable(32))
    dead = keyed_draw(seed)("dead", among=4)
    events: list[Event] = [(3, node, "fail") for node in range(COUNT) if node % 4 == dead]
    events += [(at, (dead + 1) % 4, "publish", G) for at in range(1, 9)]
    quiet(run, 9, tuple(events))
    results = publications(run)
    assert len(results) == 8
    assert sum(result.late for result in results) > 0
    assert sum(result.lost for result in results) == 0
    assert all(not seen.orphans for seen in run.seen[3 + 2 + 3 :])


def test_a_late_member_begins_with_what_comes_after_it() -> None:
    run = grown(application=Reliable(32))
    quiet(run, 3, ((1, 3, "publish", G), (2, 45, "join", G), (3, 3, "publish", G)))
    assert [(p[0], node) for p, node in run.seen[3].deliveries if node == 45] == [(3, 45)]
    assert not any(node == 45 for seen in run.seen[:3] for _, node in seen.deliveries)


def test_a_member_that_was_cut_off_gets_what_it_missed_in_order() -> None:
    run = grown(application=Reliable(32))
    node = inner_node(run)
    child = next(n for n in sorted(children_of(run, node)) if run.scribe.entries[G][n].member)
    source = next(n for n in range(30) if n not in (node, child))
    quiet(run, 6, ((2, node, "fail"), *((at, source, "publish", G) for at in range(1, 7))))
    got = [(seen.round, p[0]) for seen in run.seen for p, n in seen.ordered if n == child]
    assert got == [(1, 1), (4, 2), (4, 3), (4, 4), (5, 5), (6, 6)]


def test_what_nobody_keeps_any_more_is_given_up() -> None:
    run = grown(application=Reliable(2))
    node = inner_node(run)
    child = next(n for n in sorted(children_of(run, node)) if run.scribe.entries[G][n].member)
    sources = [n for n in range(30) if n not in (node, child)][:3]
    publish = tuple((at, source, "publish", G) for at in (1, 2, 3, 4) for source in sources)
    quiet(run, 5, ((2, node, "fail"), *publish))
    got = [(seen.round, p[0]) for seen in run.seen for p, n in seen.ordered if n == child]
    assert got == [(1, 1)] * 3 + [(4, 3)] * 2 + [(4, 4)] * 3


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ((1, 3, "join", G), "join"),
        ((1, 40, "quit", G), "quit"),
        ((1, 3, "join", 9), "join"),
        ((1, 59, "publish", G), "publish"),
    ],
)
def test_events_that_cannot_be_are_refused(event: Event, word: str) -> None:
    run = grown(present=COUNT - 1)
    with pytest.raises(ValueError, match=word):
        run.step(1, [event])


@pytest.mark.parametrize(
    "settings",
    [
        Settings(parent_timeout=0),
        Settings(child_timeout=2),
        Settings(replicas=9),
        Settings(deadline=-1),
    ],
)
def test_settings_that_contradict_themselves_are_refused(settings: Settings) -> None:
    with pytest.raises(ValueError, match=r"timeout|replicas|deadline"):
        settings.check(16)
