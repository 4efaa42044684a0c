"""What must hold of arrivals, and of the tables that they build."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ..ring import SortedRing, closeness, root_of, shared_digits
from .arrival import arrive, arrive_all, rows_sent, wave_size
from .cases import empty_overlay, everyone_right, small_overlay
from .draws import keyed_draw, random_idents
from .measures import enter_perfect, table_quality, wrong_leaf_sets
from .overlay import Overlay, Rules
from .world import snapshot

SEEDS = range(30)
CALM = Rules(b=2, l=8)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_each_wave_all_leaf_sets_are_the_rings(seed: int) -> None:
    full = small_overlay(seed)
    overlay = replace_population(full, seed)
    order, done = sorted(full.idents), 0
    while done < len(order):
        size = wave_size(len(overlay.live), overlay.rules.growth)
        arrive(overlay, order[done : done + size])
        done += size
        assert wrong_leaf_sets(overlay) == []
    assert everyone_right(overlay)


def replace_population(full: Overlay, seed: int) -> Overlay:
    """The same nodes and rules, nobody alive."""
    return Overlay(full.idents, full.delay, keyed_draw(seed), full.rules)


@pytest.mark.parametrize("seed", range(6))
def test_many_nodes_of_a_wave_between_two_old_neighbours_find_each_other(seed: int) -> None:
    overlay = empty_overlay(40, seed, Rules(b=2, l=4))
    arrive(overlay, [0])
    arrive(overlay, [1])
    arrive(overlay, range(2, 40))
    assert wrong_leaf_sets(overlay) == []


@pytest.mark.parametrize("seed", range(8))
def test_waves_of_one_are_the_sequential_protocol(seed: int) -> None:
    """The papers' protocol written out for one node, beside `arrive`."""
    overlay = empty_overlay(30, seed, replace(CALM, leaves_fill_cells=False))
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
        for other in candidates:
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


@pytest.mark.parametrize("seed", range(3))
def test_perfect_tables_by_looking_at_all(seed: int) -> None:
    overlay = empty_overlay(30, seed, Rules(b=2, l=4))
    enter_perfect(overlay, range(30))
    assert wrong_leaf_sets(overlay) == []
    quality = table_quality(overlay)
    assert (quality.missing, quality.dead, quality.not_nearest) == (0, 0, 0)
    for node in range(30):
        by_hand = overlay.new_state(node)
        for other in range(30):
            overlay.offer(by_hand, other)
        assert overlay.states[node].rows == by_hand.rows


def test_size_of_waves() -> None:
    assert [wave_size(n, 1.5) for n in (0, 1, 3, 4, 100)] == [1, 1, 1, 2, 50]
    assert wave_size(20, 1.15) == 3


@pytest.mark.parametrize("seed", range(4))
def test_states_do_not_depend_on_the_order_in_which_a_wave_is_given(seed: int) -> None:
    seen = []
    for turn in (1, -1):
        overlay = empty_overlay(36, seed, Rules(b=2, l=4, maintenance=1))
        arrive(overlay, [0])
        arrive(overlay, range(1, 12)[::turn])
        arrive(overlay, range(12, 36)[::turn])
        seen.append(snapshot(overlay))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("seed", range(3))
def test_maintenance_makes_cells_no_worse(seed: int) -> None:
    delays = []
    for times in (0, 3):
        overlay = empty_overlay(40, seed, Rules(b=2, growth=2, maintenance=times))
        arrive_all(overlay, range(40))
        quality = table_quality(overlay)
        delays.append((quality.missing, quality.not_nearest))
    assert delays[1] <= delays[0]
