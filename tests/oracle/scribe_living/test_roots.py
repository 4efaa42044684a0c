"""Roots, access lists and sources."""

from __future__ import annotations

import pytest

from .groups import Access, Group, Settings
from .measures import attached, calm
from .reliable import Reliable
from .roots import become_root
from .small import COUNT, G, children_of, grown, inner_node, quiet, world


def test_the_last_member_that_quits_leaves_the_root_alone() -> None:
    run = grown()
    assert len(run.scribe.entries[G]) > 30
    run.step(1, [(1, node, "quit", G) for node in range(30)])
    root = run.scribe.roots(G)[0]
    assert list(run.scribe.entries[G]) == [root]
    assert run.seen[1].counts["LEAVE"] == len(run.seen[0].children)


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


def test_a_new_root_takes_leave_of_its_parent() -> None:
    run = grown()
    node = inner_node(run)
    parent, children = run.scribe.entries[G][node].parent, children_of(run, node)
    run.scribe.copies[G, node] = run.scribe.copies[G, run.scribe.roots(G)[0]]
    become_root(run.scribe, G, node)
    assert run.scribe.entries[G][node].parent is None
    assert node not in children_of(run, parent)
    assert children_of(run, node) == children


def test_a_departing_root_hands_on_the_state_even_without_replicas() -> None:
    access = Access(join=frozenset(range(30)))
    run = grown(settings=Settings(replicas=1), access=access)
    root = run.scribe.roots(G)[0]
    assert [node for _, node, *_ in run.seen[0].copies] == [root]
    run.step(1, [(1, root, "leave")])
    (new_root,) = run.scribe.roots(G)
    assert run.scribe.copies[G, new_root].state.access == access
    assert G in calm(run)
    assert run.seen[1].lost_groups == []
