"""Worlds of known outcome, without the oracle; and events that are refused."""

import numpy as np
import pytest
from arriving import Arrivals, Kernel, arrivals
from in_memory import InMemory
from living_worlds import played_round
from overlay_state import OverlayState, perfect_start

from scribe_spark.config import WorldConfig
from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.engine.player import play_in_turn
from scribe_spark.pastry.repair import repair_leaf_sets
from scribe_spark.pastry.round import Lookups, RoundResult
from scribe_spark.pastry.states import MESSAGE_KINDS, ring_leaves
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.player import MESSAGES, Tally

CONFIG = WorldConfig(b=2, leaf_set=8)
CASE = next(case for case in map(arrivals, range(100)) if len(case.known) >= 55)


def perfect(config: WorldConfig = CONFIG, case: Arrivals = CASE) -> OverlayState:
    live = np.arange(len(case.known))
    return perfect_start(case.known, live, config.overlay.leaf_set, config.overlay.b, case.kernel)


def play(
    state: OverlayState,
    number: int,
    lookups: Lookups | int = 0,
    config: WorldConfig = CONFIG,
    **events: list[int],
) -> RoundResult:
    given = {kind: np.array(nodes, dtype=np.int64) for kind, nodes in events.items()}
    return played_round(InMemory.of(state, config, CASE.kernel), number, Events(**given), lookups)


def test_undeliverable_where_nothing_is_left() -> None:
    config, state = CONFIG.replace(detection=9), perfect()
    opposite = Keys(CASE.known.hi[:1] + np.uint64(2**63), CASE.known.lo[:1])
    lookups = Lookups(np.array([0]), opposite)
    seen = play(state, 0, lookups, config=config, fail=list(range(1, len(CASE.known))))
    assert not seen.lookups.delivered[0]
    assert not seen.lookups.right[0]
    assert seen.lookups.hops[0] == 0
    assert seen.messages["lookup"] == seen.messages["lost lookup"] == seen.lookups.lost[0] > 0


def test_what_cannot_be_is_refused_before_anything_changes() -> None:
    state = perfect()
    play(state, 0, fail=[7])
    before = state.alive.copy()
    events: list[dict[str, list[int]]] = [
        {"fail": [7]},
        {"leave": [7]},
        {"recover": [8]},
        {"arrive": [8]},
        {"leave": [3], "fail": [3]},
    ]
    for one in events:
        with pytest.raises(ValueError, match=r"round 1: .*(is impossible: the node|two events)"):
            play(state, 1, **one)
        np.testing.assert_array_equal(state.alive, before)
    with pytest.raises(ValueError, match="round 1: no node is left"):
        play(state, 1, fail=np.flatnonzero(state.alive).tolist())


def test_a_failure_may_take_as_many_rounds_to_be_known_as_a_world_has() -> None:
    lives = InMemory.of(perfect(), CONFIG, CASE.kernel).lives
    lives.exit(np.array([1]), 5, MOST_ROUNDS)
    assert not lives.known_dead(5 + MOST_ROUNDS - 1).any()
    assert np.flatnonzero(lives.known_dead(5 + MOST_ROUNDS)).tolist() == [1]


def large_overlay() -> tuple[OverlayState, Kernel]:
    """4,000 nodes with perfect tables."""
    drawn = np.random.default_rng(1).integers(0, 2**64, (2, 4_000), dtype=np.uint64)
    ring = Ring(np.sort(drawn[0]), drawn[1], np.arange(4_000), np.arange(4_000) % 50)
    points = np.random.default_rng(2).integers(0, 1_000, 50)
    kernel = Kernel(np.abs(points[:, None] - points).astype(np.int32), np.arange(50))
    return perfect_start(ring, np.arange(4_000), 16, 4, kernel), kernel


@pytest.mark.parametrize("failing", [8, 40, 400])
def test_a_side_without_a_live_leaf_is_found_in_few_questions(failing: int) -> None:
    """Not by a walk around the ring of 4,000 nodes (rule P31)."""
    state, kernel = large_overlay()
    state.lives.exit(np.arange(100, 100 + failing), 0, 1)
    tally = Tally(MESSAGE_KINDS)
    player = InMemory.of(state, CONFIG, kernel)
    play_in_turn(player, repair_leaf_sets(player.environment, 1))
    tally.take(player.take(MESSAGES))
    there = perfect_start(state.states.known, state.live(), 16, 4, kernel)
    wrong = (there.states.leaves != state.states.leaves)[state.live()].any(axis=1)
    assert not wrong.any()
    assert tally.by_kind()["repair"] < 200


@pytest.mark.parametrize("failing", [8, 40, 400])
def test_who_arrives_beside_dead_nodes_finds_the_nodes_behind_them(failing: int) -> None:
    """Not by a walk around the ring of 4,000 nodes (rule P33)."""
    seen = []
    for buckets in (1, 2, 7):
        state, kernel = large_overlay()
        state.lives.exit(np.arange(99, 100 + failing), 0, 1)
        events = Events(arrive=np.array([99]))
        player = InMemory.of(state, WorldConfig(), kernel, buckets)
        result = played_round(player, 0, events, 0)
        there = ring_leaves(np.array([99]), 8, len(state.live()))
        assert state.live()[there].tolist() == state.states.leaves[[99]].tolist()
        seen.append((result.messages, state.states.leaves.tolist()))
    assert seen[1:] == seen[:-1]
    assert seen[0][0]["exchange"] < 2_000
