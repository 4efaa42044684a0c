"""Worlds on 1, 2 and 7 buckets agree with their events; see `audited`."""

from collections import Counter
from dataclasses import replace

import pytest
from audited import Book, faults
from living_groups import world_of
from oracle.living.measures import wrong_leaf_sets
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.world import Snapshot

SEEDS = [2, 6, 11, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 80)]]


@pytest.mark.parametrize("seed", SEEDS)
def test_results_agree_with_the_events(seed: int) -> None:
    case = replace(random_world(seed), buffer=64)
    world = world_of(case).in_buckets((1, 2, 7)[seed % 3])
    book = Book(case.present, lambda group, node: case.groups[group].access.allows("join", node))
    seen: list[Snapshot] = []
    since: dict[tuple[int, int], int] = {}
    for number in range(case.rounds):
        events = [event for event in case.events if event[0] == number]
        book.note((node, kind, group[0] if group else None) for _, node, kind, *group in events)
        seen.append(world.play(number, events))
        assert {(row[0], row[1]) for row in seen[-1].entries if row[2]} == book.members
        since = {one: since.get(one, number) for one in book.members}
    # the oracle is asked only whether the ring is whole: on a broken one there are two roots
    run = case.play()
    if wrong_leaf_sets(run.scribe.overlay):
        pytest.skip("the ring is broken")
    trees = {(group, node): (parent, member, root) for group, node, member, root, parent, *_ in
             seen[-1].entries}  # fmt: skip
    made = Counter(group for one in seen for group, _ in one.created)
    lost = {group for one in seen for group in one.lost_groups} | (set(case.groups) - set(made))
    gone = set(seen[-1].lost_groups) | (set(case.groups) - set(made))
    keys = {group: one.key for group, one in case.groups.items()}
    assert faults(book, trees, run.scribe.overlay.idents, keys, gone) == []
    # every member has all that was sent from its join on, but in groups that were lost, or whose
    # members waited for a root while there were two of them
    sure = {group for group in keys if made[group] == 1 and group not in lost}
    sure -= {group for one in seen for group, count in Counter(
        group for group, _, _, root, *_ in one.entries if root).items() if count > 1}  # fmt: skip
    got = {delivery for one in seen for delivery in one.deliveries}
    for one in seen:
        for publication, fate in one.fates:
            of = [n for (g, n), at in since.items() if g == publication[1] and at <= publication[0]]
            if fate == "sent" and publication[1] in sure:
                assert [node for node in of if (publication, node) not in got] == []
