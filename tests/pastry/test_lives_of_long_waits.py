"""Nodes whose failure is learned of very late, where the orchestrator keeps the lives."""

import numpy as np
from large_groups import large_ring

from scribe_spark.config import OverlayConfig
from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.rounds.events import Lives
from scribe_spark.rounds.player import Environment, Observer, RoundPlayer


def test_a_failure_may_take_as_many_rounds_to_be_known_as_a_world_has():
    ring, bounds = RingInMemory(large_ring(3)), np.array([0, 3])
    given = Environment(ring, bounds, OverlayConfig(leaf_set=2), None, Observer(()))
    lives = RoundPlayer(InTask([Tables()]), given, Lives.of(3, np.arange(3))).lives
    lives.exit(np.array([1]), 5, MOST_ROUNDS)
    assert not lives.known_dead(5 + MOST_ROUNDS - 1).any()
    assert lives.known_dead(5 + MOST_ROUNDS).tolist() == [False, True, False]
