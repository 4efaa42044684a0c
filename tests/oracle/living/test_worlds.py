"""What must hold in worlds: failure, departure, detection, repair, recovery."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from .arrival import arrive_all
from .cases import empty_overlay, everyone_right, small_events, small_overlay
from .measures import gap_of, table_quality, wrong_leaf_sets
from .overlay import Rules
from .world import differences, look_up, run, snapshot, step

SEEDS = range(30)
CALM = Rules(b=2, l=8)


@pytest.mark.parametrize("seed", SEEDS)
def test_worlds_keep_their_ring(seed: int) -> None:
    """After repair leaf sets are the ring's and lookups right, unless l/2 adjacent nodes died."""
    rounds_that_keep_the_ring(seed, rounds=9)


def rounds_that_keep_the_ring(seed: int, rounds: int) -> int:
    """In how many rounds the ring was right before l/2 adjacent nodes died at once."""
    overlay = small_overlay(seed)
    often = random.Random(seed).choice([1, 3])  # busy rounds only, or quiet ones between
    events = small_events(overlay, seed, range(0, rounds - 3, often), busy=0.05 * often)
    checked, died = 0, set()  # who died since the ring was last right
    for at in range(rounds):
        step(overlay, at, events)
        died |= {node for when, node, kind in events if when == at and kind in ("fail", "leave")}
        known = {node for node, (died_at, wait) in overlay.died.items() if at >= died_at + wait}
        assert not any(overlay.states[node].leaves() & known for node in overlay.live)
        if gap_of(overlay, died) >= overlay.rules.l // 2:
            break
        if known == set(overlay.died):
            checked += 1
            assert wrong_leaf_sets(overlay) == []
            assert everyone_right(overlay, 10)
            died = set()
    return checked


@pytest.mark.parametrize("seed", range(12))
def test_quiet_rounds_after_churn_leave_no_dead_leaf_and_change_nothing_more(seed: int) -> None:
    rules = Rules(b=2, l=16, table_repair=["lazy", "none", "eager"][seed % 3], growth=1.5)
    overlay = small_overlay(seed, rules)
    events = small_events(overlay, seed, range(6), busy=0.04)
    seen = run(overlay, events, 10, lookups=30)
    assert wrong_leaf_sets(overlay) == []
    assert seen[-1].new_leafs == []
    assert seen[-1].sides == seen[-2].sides
    assert all(result.right for result in seen[-1].lookups)
    if rules.table_repair == "eager":
        assert table_quality(overlay).dead == 0


@pytest.mark.parametrize("seed", range(6))
def test_messages_to_dead_nodes_are_lost_counted_and_dropped(seed: int) -> None:
    overlay = small_overlay(seed, replace(CALM, detection=3, table_repair="none"), most=60)
    random_case = random.Random(seed)
    failing = random_case.sample(sorted(overlay.live), len(overlay.live) // 3)
    seen = step(overlay, 0, [(0, node, "fail") for node in failing], 200)
    lost = sum(result.lost for result in seen.lookups)
    assert lost == seen.counts.get("lost lookup", 0)
    assert sum(result.hops for result in seen.lookups) + lost == seen.counts.get("lookup", 0)
    assert lost > 0 or len(overlay.live) < 4
    before = table_quality(overlay).dead
    again = look_up(overlay, [(result.source, result.key) for result in seen.lookups])
    assert sum(result.lost for result in again) <= lost
    assert table_quality(overlay).dead <= before


@pytest.mark.parametrize("count", [6, 24])
@pytest.mark.parametrize("back", ["recover", "arrive"])
def test_neighbours_that_are_back_before_their_detection_know_each_other(
    back: str, count: int
) -> None:
    overlay = empty_overlay(count, 5, replace(CALM, detection=3, growth=2))
    arrive_all(overlay, range(count))
    before, two = snapshot(overlay).sides, overlay.live_in_ring_order()[3:5]
    events = [(at, node, kind) for at, kind in ((0, "fail"), (1, back)) for node in two]
    assert run(overlay, events, 2)[1].sides == before


@pytest.mark.parametrize("seed", range(8))
def test_worlds_do_not_depend_on_the_order_of_the_rows_of_events(seed: int) -> None:
    seen = []
    for turn in (1, -1):
        overlay = small_overlay(seed)
        events = small_events(overlay, seed, range(5), busy=0.15)
        seen.append(run(overlay, events[::turn], 6, lookups=10))
    assert [differences(a, b) for a, b in zip(*seen, strict=True)] == [[]] * 6
    seen[0][3].cells.pop()
    assert differences(seen[0][3], seen[1][3]) != []


def test_events_that_cannot_be_are_refused() -> None:
    overlay = empty_overlay(5, 0, CALM)
    arrive_all(overlay, range(4))
    for event in ((0, 4, "fail"), (0, 1, "arrive"), (0, 1, "recover")):
        with pytest.raises(ValueError, match="cannot"):
            step(overlay, 0, [event])
