"""How worlds begin."""

import numpy as np
import pytest
from arriving import arrivals, grow
from in_memory import InMemory
from living_worlds import as_snapshot, played_round
from oracle.living.draws import Matrix, keyed_draw
from oracle.living.measures import enter_perfect
from oracle.living.overlay import Overlay, Rules
from oracle.living.world import differences, snapshot
from overlay_state import OverlayState, perfect_start

from scribe_spark.config import WorldConfig
from scribe_spark.rounds.events import Events

STATE = ("live", "sides", "cells")


@pytest.mark.parametrize("seed", range(30))
def test_perfect_tables_are_the_oracles(seed: int) -> None:
    case = arrivals(seed, most=120)
    rules = Rules(b=case.rules.b, l=case.rules.leaf_set)
    chosen = np.random.default_rng(seed).random(len(case.known)) < 0.8
    live = np.flatnonzero(chosen if chosen.any() else ~chosen)
    delay = Matrix(case.kernel.delay_us, case.router)
    overlay = Overlay(case.idents, delay, keyed_draw(seed), rules)
    enter_perfect(overlay, [int(node) for node in case.known.node[live]])
    state = perfect_start(case.known, live, rules.l, rules.b, case.kernel)
    player = InMemory.of(state, WorldConfig(b=rules.b, leaf_set=rules.l), case.kernel)
    quiet = played_round(player, 0, Events(), 0)
    assert differences(as_snapshot(state, quiet), snapshot(overlay), STATE) == []


def test_a_world_begins_with_the_overlay_of_arrivals() -> None:
    case = arrivals(7, most=60)
    *_, done = grow(case)
    state = OverlayState.of(done.states, done.live)
    config = WorldConfig(b=case.rules.b, leaf_set=case.rules.leaf_set)
    result = played_round(InMemory.of(state, config, case.kernel), 0, Events(), 200)
    assert result.lookups.right.all()
    assert set(result.messages) == {"keep-alive", "lookup"}
    assert len(result.new_leafs) == 0
