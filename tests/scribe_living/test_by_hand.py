"""Rules of Scribe worked by hand in one group: the kernels beside the oracle."""

from collections.abc import Callable

import numpy as np
import pytest
from living_groups import LossyKernel
from oracle.scribe_living.measures import (
    attached,
    calm,
)
from oracle.scribe_living.reliable import Reliable
from oracle.scribe_living.state import Settings
from oracle.scribe_living.world import Run
from small_worlds import COUNT, G, children_of, grown, inner_node, quiet, world

# --- membership and repair: JOIN, LEAVE, heartbeats, soft state


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


# --- roots, access lists and sources


@pytest.mark.parametrize("seed", range(2))
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


def test_a_group_whose_holders_all_fail_is_lost_and_can_be_created_again() -> None:
    run = grown(1, application=Reliable(8))
    holders = {node for _, node, *_ in run.seen[0].copies}
    source, creator = sorted(set(range(30, COUNT)) - holders)[:2]
    publish = tuple((at, source, "publish", G) for at in (1, 2, 8))
    quiet(run, 6, (*publish, *((2, node, "fail") for node in holders)))
    assert all(seen.lost_groups == ([G] if seen.round >= 2 else []) for seen in run.seen)
    assert [seen.fates for seen in run.seen[2:7]] == [[((2, G, source), "kept")]] * 5
    run.step(7, [(7, creator, "create", G)])
    assert run.seen[7].fates == [((2, G, source), "sent")]  # at the last moment: its deadline
    assert run.seen[7].created == [(G, creator)]
    assert run.seen[7].lost_groups == [G]  # until it was created
    quiet(run, 1, publish)
    assert run.seen[8].lost_groups == []
    members = run.seen[8].members[G]
    assert members == set(range(30)) - holders
    assert {node for _, node in run.seen[8].deliveries} == members
    assert G in calm(run)


@pytest.mark.parametrize("seed", range(2))
def test_newcomers_do_not_push_out_the_copies_of_a_root_that_has_died(seed: int) -> None:
    """k newcomers arrive nearer than all replicas in the round in which the root fails."""
    nearest = sorted(range(COUNT), key=nearness_of(world(seed)))
    newcomers, (root, replica) = nearest[:2], nearest[2:4]
    run = world(seed, settings=Settings(replicas=2), here=set(nearest[2:]))
    run.step(0, [(0, node, kind, G) for node in nearest[2:32] for kind in kinds(node, root)])
    assert {node for _, node, *_ in run.seen[0].copies} == {root, replica}
    run.step(1, [(1, root, "fail"), *((1, node, "arrive") for node in newcomers)])
    assert run.seen[1].counts["lost replica goodbye"] == 1
    assert [node for _, node, *_ in run.seen[1].copies] == [replica]
    quiet(run, 2)
    assert all(seen.lost_groups == [] for seen in run.seen)
    assert run.scribe.roots(G) == newcomers[:1]
    assert {node for _, node, *_ in run.seen[-1].copies} == set(newcomers)


def nearness_of(run: Run) -> Callable[[int], tuple[int, int]]:
    """The order of "numerically closest to the groupId"."""
    return lambda node: run.scribe.nearness(G, node)


def kinds(node: int, creator: int) -> tuple[str, ...]:
    """Events of a node in round 0."""
    return ("create", "join") if node == creator else ("join",)


def test_a_nearer_newcomer_takes_over_and_the_old_root_keeps_its_subtree() -> None:
    run = grown(33, present=COUNT - 1)
    newcomer, root = COUNT - 1, run.scribe.roots(G)[0]
    assert run.scribe.nearness(G, newcomer) < run.scribe.nearness(G, root)
    children = children_of(run, root)
    state = run.scribe.copies[G, root].state
    run.step(1, [(1, newcomer, "arrive"), (1, 40, "publish", G)])
    assert run.scribe.roots(G) == [newcomer]
    assert run.scribe.copies[G, newcomer].state == state
    assert children_of(run, newcomer) == {root}
    assert children_of(run, root) == children
    assert [why for *_, why in run.seen[1].joins] == ["hand-over"]
    assert {node for _, node in run.seen[1].deliveries} == set(range(30))


# --- reliable delivery


def test_a_member_that_was_cut_off_gets_what_it_missed_in_order() -> None:
    run = grown(application=Reliable(32))
    node = inner_node(run)
    child = next(n for n in sorted(children_of(run, node)) if run.scribe.entries[G][n].member)
    source = next(n for n in range(30) if n not in (node, child))
    quiet(run, 6, ((2, node, "fail"), *((at, source, "publish", G) for at in range(1, 7))))
    got = [(seen.round, p[0]) for seen in run.seen for p, n in seen.ordered if n == child]
    assert got == [(1, 1), (4, 2), (4, 3), (4, 4), (5, 5), (6, 6)]


@pytest.mark.parametrize(
    ("lost", "got"),
    [
        ({2}, [(1, 1), (3, 2)]),
        # a retransmission is lost, too
        ({2, 3}, [(1, 1), (4, 2)]),
        ({1, 2, 3}, [(4, 1), (4, 2)]),
    ],
)
def test_a_lost_copy_comes_in_the_next_round(lost: set[int], got: list[tuple[int, int]]) -> None:
    """In these rounds an inner node gets no copy; nothing is published after round 2."""
    run = grown(application=Reliable(32))
    node = inner_node(run)
    beside = run.kernels.pastry
    run.scribe.is_lost = lambda publication, sender, to: to == node and run.scribe.round in lost
    for at in range(1, 6):
        to = np.full((COUNT, COUNT), np.arange(COUNT) == node) & (at in lost)
        beside.kernel = LossyKernel(beside.kernel.delay_us, np.arange(COUNT), to.astype(float))
        run.step(at, [(at, 3, "publish", G)] if at < 3 else [])
    below = [child for child in children_of(run, node) if run.scribe.entries[G][child].member]
    assert below
    for member in below:
        assert [(s.round, p[0]) for s in run.seen for p, n in s.ordered if n == member] == got
    asked = [(seen.round, of) for seen in run.seen for _, of, why in seen.joins if why == "ask"]
    assert asked == [(at, node) for at in sorted(lost)]
