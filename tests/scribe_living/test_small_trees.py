"""Membership and repair: JOIN, LEAVE, heartbeats, soft state, cycles."""

import pytest
from oracle.scribe_living.measures import calm, joins_by_cause, rounds_until_repaired
from oracle.scribe_living.state import Settings
from oracle.scribe_living.world import Event
from small_worlds import COUNT, G, children_of, grown, inner_node, quiet


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
