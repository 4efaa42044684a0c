"""What must hold of arrivals and tables, and in worlds: failure, departure, repair, recovery."""

import random
from dataclasses import replace

import pytest
from seeds import seeds

from ..ring import SortedRing, closeness, root_of, shared_digits
from .arrival import arrive, arrive_all, rows_sent
from .cases import empty_overlay, everyone_right, small_events, small_overlay
from .draws import keyed_draw, random_idents
from .measures import dead_entries, gap_of, wrong_leaf_sets
from .overlay import Overlay, Rules
from .world import look_up, run, snapshot, step

SEEDS = seeds(range(30), 8)
CALM = Rules(b=2, l=8)


@pytest.mark.parametrize("seed", range(8))
def test_waves_of_one_are_the_sequential_protocol(seed: int) -> None:
    """The papers' protocol written out for one node, beside `arrive`."""
    overlay = empty_overlay(30, seed, CALM)
    beside = empty_overlay(30, seed, overlay.rules)
    for node in range(30):
        arrive(overlay, [node])
        sequential_arrival(beside, node)
        assert snapshot(overlay).cells == snapshot(beside).cells
        assert snapshot(overlay).sides == snapshot(beside).sides


def sequential_arrival(overlay: Overlay, node: int) -> None:
    """One node with global knowledge of the ring, and tables by the protocol's text."""
    idents, bits = overlay.idents, overlay.rules.b
    state, here = overlay.new_state(node), idents[node]
    if overlay.live:
        at = min(overlay.live, key=lambda other: (overlay.delay(node, other), idents[other]))
        route = [at]
        while at != root_of(here, idents, overlay.live):
            held = overlay.states[at]
            known = held.leaves() | held.entries()
            if held.in_span(here, idents):
                known = held.leaves()
            elif (entry := held.cell(*held.cell_of(here))) is not None:
                known = {entry}
            else:
                least = shared_digits(idents[at], here, bits)
                known = {n for n in known if shared_digits(idents[n], here, bits) >= least}
            at = min(known, key=lambda other: closeness(here, idents[other]))
            route.append(at)
        candidates = set(route)
        for row in range(33):
            for other in route:
                if shared_digits(idents[other], here, bits) >= row:
                    candidates.update(overlay.states[other].row(row))
                    break
        for other in candidates | overlay.states[route[-1]].leaves():
            overlay.offer(state, other)
    overlay.enter(state)
    truth = SortedRing(idents, overlay.live).leaf_sets(overlay.rules.l // 2)
    for other, (smaller, larger) in truth.items():
        overlay.states[other].smaller, overlay.states[other].larger = smaller, larger
    told = {other: {node} for other in state.leaves()}
    for row in state.rows:
        for other in state.row(row):
            told[other] = {node, *state.row(row)}
    for other, letter in told.items():
        for candidate in letter:
            overlay.offer(overlay.states[other], candidate)


def test_row_i_comes_from_the_first_that_shares_i_digits() -> None:
    idents = {0: 0x1 << 124, 1: 0x2345 << 112, 2: 0x2346 << 112}
    overlay = Overlay(idents, lambda a, b: 1, keyed_draw(0), Rules())
    assert rows_sent(overlay, 0x2347 << 112, [0, 1, 2]) == {0: [0], 1: [1, 2, 3]}


def test_roots_and_the_rings_leaf_sets_by_looking_at_all() -> None:
    idents = random_idents(20, 4)
    ring, draw = SortedRing(idents, idents), keyed_draw(9)
    for row in range(200):
        key = draw("key", row, among=1 << 128)
        assert ring.root(key) == root_of(key, idents, idents)
    smaller, larger = ring.leaf_sets(2)[0]
    by_distance = sorted(set(idents) - {0}, key=lambda n: (idents[n] - idents[0]) % (1 << 128))
    assert larger == by_distance[:2]
    assert smaller == by_distance[:-3:-1]


# --- worlds ---------------------------------------------------------------------------------------


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
        assert dead_entries(overlay) == 0


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
    before = dead_entries(overlay)
    again = look_up(overlay, [(result.source, result.key) for result in seen.lookups])
    assert sum(result.lost for result in again) <= lost
    assert dead_entries(overlay) <= before


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


def test_events_that_cannot_be_are_refused() -> None:
    overlay = empty_overlay(5, 0, CALM)
    arrive_all(overlay, range(4))
    for event in ((0, 4, "fail"), (0, 1, "arrive"), (0, 1, "recover")):
        with pytest.raises(ValueError, match="cannot"):
            step(overlay, 0, [event])
