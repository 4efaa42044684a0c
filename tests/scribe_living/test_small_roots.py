"""Roots, access lists and sources."""

from collections.abc import Callable

import pytest
from oracle.scribe_living.measures import attached, calm, publications
from oracle.scribe_living.reliable import Reliable
from oracle.scribe_living.state import Access, Settings
from oracle.scribe_living.world import Run
from small_worlds import COUNT, G, children_of, grown, quiet, world


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


@pytest.mark.parametrize("seed", range(6))
def test_what_finds_no_root_is_kept_and_sent_again(seed: int) -> None:
    run, newcomer, root = grown_without_nearest(seed, application=Reliable(8))
    source = next(node for node in range(30, COUNT) if node not in (newcomer, root))
    quiet(run, 4, ((1, root, "fail"), (1, newcomer, "arrive"), (1, source, "publish", G)))
    fates = [seen.fates for seen in run.seen[1:]]
    assert fates == [[((1, G, source), "kept")], [((1, G, source), "sent")], [], []]
    assert run.scribe.kept == set()
    assert [seen.counts.get("acknowledgement", 0) for seen in run.seen[1:]] == [0, 1, 0, 0]
    (result,) = publications(run)
    assert (result.lost, result.late) == (0, result.expected)
    assert result.expected > 20
    delivered = [one for seen in run.seen for one in seen.ordered]
    assert len(delivered) == len(set(delivered))


def test_what_is_kept_is_given_up_at_its_deadline() -> None:
    run = world(application=Reliable(8), settings=Settings(deadline=2))
    run.step(0, [(0, 3, "publish", G)])  # there is no such group
    quiet(run, 3)
    fates = [[fate for _, fate in seen.fates] for seen in run.seen]
    assert fates == [["kept"], ["kept"], ["no root"], []]
    assert run.scribe.kept == set()


def test_what_is_kept_dies_with_its_source() -> None:
    run = world(application=Reliable(8))
    run.step(0, [(0, 3, "publish", G), (0, 5, "publish", G)])
    run.step(1, [(1, 3, "fail")])
    run.step(2, [(2, 3, "recover"), (2, 4, "create", G)])
    assert run.seen[1].fates == [((0, G, 3), "source died"), ((0, G, 5), "kept")]
    assert run.seen[2].fates == [((0, G, 5), "sent")]
    assert [result.publication for result in publications(run)] == [(0, G, 5)]


def test_a_root_without_a_live_replica_takes_nothing() -> None:
    run = grown(application=Reliable(8), settings=Settings(replicas=2))
    root, replica = sorted({node for _, node, *_ in run.seen[0].copies}, key=nearness_of(run))
    quiet(run, 2, ((1, replica, "fail"), (1, root, "publish", G)))
    fates = [seen.fates for seen in run.seen[1:]]
    assert fates == [[((1, G, root), "kept")], [((1, G, root), "sent")]]
    assert not any("acknowledgement" in seen.counts for seen in run.seen)  # it is its own


def test_a_refused_publication_is_not_sent_again() -> None:
    run = grown(application=Reliable(8), access=Access(multicast=frozenset({3})))
    source = next(node for node in range(40, COUNT) if node != run.scribe.roots(G)[0])
    quiet(run, 2, ((1, source, "publish", G),))
    assert [[fate for _, fate in seen.fates] for seen in run.seen[1:]] == [["refused"], []]
    assert run.seen[1].counts["acknowledgement"] == 1


def test_best_effort_keeps_and_acknowledges_nothing() -> None:
    run = world()
    run.step(0, [(0, 3, "publish", G)])
    run.step(1, [(1, 4, "create", G)])
    run.step(2, [(2, 3, "publish", G)])
    assert [fate for seen in run.seen for _, fate in seen.fates] == ["no root", "sent"]
    assert not any("acknowledgement" in seen.counts for seen in run.seen)


@pytest.mark.parametrize("seed", range(6))
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


def test_a_replica_that_is_far_says_goodbye_to_the_root() -> None:
    run, newcomer, root = grown_without_nearest(0, settings=Settings(replicas=2))
    run.step(1, [(1, newcomer, "arrive")])
    assert run.seen[1].counts["replica goodbye"] == 1
    assert "lost replica goodbye" not in run.seen[1].counts
    assert {node for _, node, *_ in run.seen[1].copies} == {newcomer, root}


def nearness_of(run: Run) -> Callable[[int], tuple[int, int]]:
    """The order of "numerically closest to the groupId"."""
    return lambda node: run.scribe.nearness(G, node)


def kinds(node: int, creator: int) -> tuple[str, ...]:
    """Events of a node in round 0."""
    return ("create", "join") if node == creator else ("join",)


def grown_without_nearest(seed: int, **others: object) -> tuple[Run, int, int]:
    """A grown group without the node nearest to the groupId, which may arrive; its root."""
    newcomer, root = sorted(range(COUNT), key=nearness_of(world(seed)))[:2]
    run = world(seed, here=set(range(COUNT)) - {newcomer}, **others)
    members = [node for node in range(30) if node != newcomer]
    run.step(0, [(0, root, "create", G), *((0, node, "join", G) for node in members)])
    assert run.scribe.roots(G) == [root]
    return run, newcomer, root


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
    run = world(near=17)
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
