"""What must hold in every round of random worlds with every kind of event, in any order."""

from collections import Counter
from dataclasses import replace

import pytest
from seeds import seeds

from ..living.measures import wrong_leaf_sets
from .cases import World, random_world
from .measures import attached, calm, publications, with_two_roots
from .state import Publication
from .world import Run, Snapshot

#: The first six were wrong once.
SEEDS = [118, 257, 350, 640, 882, 979, *range(50)]


@pytest.mark.parametrize("seed", seeds(SEEDS, 7))
def test_trees_of_random_worlds(seed: int) -> None:
    """One root, no cycle, each member reached once; lists kept; replicas where they belong."""
    world = random_world(seed)
    run = world.begin()
    for at in range(world.rounds):
        seen = run.step(at, [event for event in world.events if event[0] == at])
        no_cycle(run)
        quiet = calm(run)
        trees_are_right(run, seen, quiet)
        lists_are_kept(world, run, seen)
        if not wrong_leaf_sets(run.scribe.overlay):
            replicas_are_right(run, seen)
    delivered = [one for seen in run.seen for one in seen.ordered]
    assert len(set(delivered)) == len(delivered)
    for result in publications(run):
        assert result.in_time + result.late + result.lost + result.open == result.expected


def no_cycle(run: Run) -> None:
    """Going up ends, and who has a child that takes it for its parent is in the tree."""
    for group, nodes in run.scribe.entries.items():
        for node in nodes:
            last = nodes[run.scribe.chain(group, node)[-1]]
            assert last.parent is None or last.parent not in nodes


def trees_are_right(run: Run, seen: Snapshot, quiet: set[int]) -> None:
    """Where nothing is to be repaired, all of the tree is under the root, each node once."""
    reached = attached(seen)
    of = {publication: [] for publication, fate in seen.fates if fate == "sent"}
    for publication, node in seen.ordered:
        if publication in of:
            of[publication].append(node)
    up = {(group, node): parent for group, node, _, _, parent, *_ in seen.entries}
    for group in quiet:
        assert {(group, node) for node in run.scribe.entries[group]} <= reached
        parents = [
            (child, node)
            for at, node, child, *_ in seen.children
            if at == group and (group, child) in up and up[group, child] == node
        ]
        assert len({child for child, _ in parents}) == len(parents)
        entries, members = run.scribe.entries, seen.members.get(group, frozenset())
        for publication, nodes in of.items():
            if publication[1] == group:
                at = publication[0]
                expected = [node for node in members if entries[group][node].joined <= at]
                assert sorted(nodes) == sorted(expected)


def lists_are_kept(world: World, run: Run, seen: Snapshot) -> None:
    """What was refused reached nobody and changed nothing."""
    for group, members in seen.members.items():
        assert all(world.groups[group].access.allows("join", node) for node in members)
    for publication, node in seen.deliveries:
        _, group, source = publication
        assert world.groups[group].access.allows("multicast", source)
        assert node in seen.members[group]
    for group, creator in seen.created:
        assert world.groups[group].access.allows("create", creator)


def replicas_are_right(run: Run, seen: Snapshot) -> None:
    """With the ring's leaf sets: the root is the nearest, the copies are at the k nearest.

    Not of groups that were created again: two parts of a broken ring may each have had a state.
    """
    scribe = run.scribe
    again = [group for one in run.seen for group, _ in one.created]
    for group in run.created - set(seen.lost_groups):
        if again.count(group) > 1:
            continue
        nearest = sorted(scribe.overlay.live, key=lambda node: scribe.nearness(group, node))
        assert scribe.roots(group) == nearest[:1]
        holders = {node for at, node, *_ in seen.copies if at == group}
        assert holders == set(nearest[: scribe.settings.replicas])
        assert len({row[2:] for row in seen.copies if row[0] == group}) == 1


@pytest.mark.parametrize("seed", seeds(SEEDS, 7))
def test_reliable_mode(seed: int) -> None:
    """Order is kept, and nothing is lost that a root took, however late it comes."""
    world = replace(random_world(seed), buffer=64)
    run = world.play()
    idents = run.scribe.overlay.idents
    created = Counter(group for seen in run.seen for group, _ in seen.created)
    repaired = {group for group in calm(run) if created[group] == 1}
    two_roots = {group for seen in run.seen for group in with_two_roots(seen)}
    repaired -= two_roots
    last: dict[tuple[int, int], tuple[int, int, int]] = {}
    since: dict[tuple[int, int], int] = {}  # members -> in which round they joined
    missing: dict[tuple[int, int], set[Publication]] = {}
    taken: dict[Publication, int] = {}
    for seen in run.seen:
        members = {(group, node) for group, nodes in seen.members.items() for node in nodes}
        since = {member: at for member, at in since.items() if member in members}
        since |= {one: seen.round for one in members - set(since)}
        missing = {member: missing.get(member, set()) for member in since}
        for publication, fate in seen.fates:
            if fate != "sent":
                continue
            assert publication not in taken
            taken[publication] = seen.round
            for (group, node), left in missing.items():
                if publication[1] == group and since[group, node] <= publication[0]:
                    left.add(publication)
        for (at, group, source), node in seen.ordered:
            # the root takes a round's in the order of their rounds, then nodeIds of the sources
            place = (taken[at, group, source], at, idents[source])
            assert last.get((group, node), (-1, -1, -1)) < place or group in two_roots
            last[group, node] = place
            missing.get((group, node), set()).discard((at, group, source))
    assert all(not left for (group, _), left in missing.items() if group in repaired)
