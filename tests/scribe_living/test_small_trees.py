"""Membership and repair: JOIN, LEAVE, heartbeats, soft state, cycles."""

from __future__ import annotations

import pytest
from oracle.scribe_living import upkeep
from oracle.scribe_living.figures import deliver_leave, forward, take_answer
from oracle.scribe_living.joining import JoinPhase, Routed
from oracle.scribe_living.measures import calm, joins_by_cause, rounds_until_repaired
from oracle.scribe_living.phase import Message, Phase
from oracle.scribe_living.state import Answer, Child, Join, Settings
from oracle.scribe_living.world import Event, Run
from small_worlds import COUNT, G, children_of, grown, inner_node, quiet, world


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
    run = grown(alone=True)
    node = inner_node(run)
    stranger = next(n for n in run.scribe.entries[G] if n not in children_of(run, node) | {node})
    run.scribe.entries[G][node].children[stranger] = Child(0, 0)
    run.step(1, [(1, 40, "publish", G)])
    assert run.seen[1].refused == {"payload": 1}
    assert run.seen[1].counts["drop child"] == 1
    assert stranger not in children_of(run, node)
    assert len({n for _, n in run.seen[1].deliveries}) == len(run.seen[1].deliveries) == 30


def test_a_refresh_that_is_refused_makes_the_child_join_again() -> None:
    run = grown(alone=True)
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
    joins.receive(G, child, [Routed(join, message, repairs=True)])
    assert node not in children_of(run, child)
    assert [routed.join for routed in joins.moving] in ([join], [])
    while joins.busy:
        joins.superstep()
    assert not in_cycles(run)


def test_who_finds_itself_on_the_path_of_a_heartbeat_leaves_its_parent() -> None:
    run = grown(alone=True)
    scribe = run.scribe
    quiet(run, 1)
    top = inner_node(run)
    child = min(children_of(run, top))
    assert top in scribe.known_path(G, child)
    old = scribe.entries[G][top].parent
    del scribe.entries[G][old].children[top]
    take_answer(scribe, Answer(G, top, child, scribe.entries[G][child].path, by_root=False))
    scribe.entries[G][child].children[top] = Child(0, 0)
    assert in_cycles(run) >= {top, child}
    upkeep.heartbeats(scribe)
    assert not in_cycles(run)
    assert scribe.entries[G][child].cause == "cycle"
    quiet(run, 2)
    assert G in calm(run)


def in_cycles(run: Run) -> set[int]:
    """Nodes that are below themselves."""
    found = set()
    for node, entry in run.scribe.entries[G].items():
        if entry.parent is not None and node in run.scribe.chain(G, entry.parent):
            found.add(node)
    return found


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
    run = grown(present=COUNT - 1, alone=event[3] != G)  # other groups are refused before rounds
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
