"""A few sides of leaf sets are repaired node by node, as all of them are with arrays."""

from __future__ import annotations

import numpy as np
import pytest
from living_worlds import state_of, world

from scribe_spark.pastry import leaf_repair
from scribe_spark.pastry.leaf_repair import detect_failures, repair_leaf_sets
from scribe_spark.pastry.tally import Tally


def repaired(seed: int, few: int, patch: pytest.MonkeyPatch) -> tuple:
    """Leaf sets, messages and rounds after neighbours and others have failed."""
    patch.setattr(leaf_repair, "_FEW", few)
    case = world(seed, rounds=1, most=60, busy=0)
    state = state_of(case)
    live = state.live()
    some = np.random.default_rng(seed).random(len(live)) < 0.15
    some[: case.rules.leaf_set // 2] = True  # a side without a live leaf
    some[-2:] = False
    state.exit(live[some], 0, 1)
    state.exit(live[-2:-1], 1, 9)  # dead, but nobody knows
    tally = Tally()
    rounds = repair_leaf_sets(state, detect_failures(state, 1), tally)
    return state.states.leaves.tolist(), tally.by_kind(), rounds


@pytest.mark.parametrize("seed", range(30))
def test_a_few_sides_are_repaired_as_many_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repaired(seed, 10**6, monkeypatch) == repaired(seed, 0, monkeypatch)
