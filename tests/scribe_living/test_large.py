"""Many groups on a synthetic overlay, on arrays alone: a quarter of the nodes fails at once."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from large_groups import LargeWorld, large_ring
from split_states import empty_state

from scribe_spark.config import WorldConfig
from scribe_spark.core import draws
from scribe_spark.rounds.events import Events
from scribe_spark.systems.scribe.end_of_round import note_deliveries
from scribe_spark.systems.scribe.sources import SentPublications

FAIL, ROUNDS = 2, 8


def members(world: LargeWorld) -> np.ndarray:
    """(group, node) of the members of groups that are not lost."""
    entries, copies = world.state.entries, world.state.copies
    places = entries.key[entries.member]
    return places[np.isin(places // world.state.size, copies.key // world.state.size)]


@pytest.mark.parametrize("reliable", [False, True])
def test_every_live_member_is_reached_again_when_a_quarter_fails(reliable: bool) -> None:
    delivery = "reliable" if reliable else "best-effort"
    config = WorldConfig(groups=40, delivery=delivery, buffer=16, lost_after=6)
    nodes, groups = 1500, 40
    world = LargeWorld(nodes, groups, 6000, config)
    order = np.argsort(draws.stream(1, "failing").random_raw(nodes))
    dead, live = np.sort(order[: nodes // 4]), np.sort(order[nodes // 4 :])
    got: list[np.ndarray] = []
    for number in range(ROUNDS + 3):
        events = Events(fail=dead) if number == FAIL else Events()
        result = world.play(number, events, live[:groups], slice(0 if number else None))
        group, publication, node = result.deliveries
        if number in (1, FAIL + config.scribe.parent_timeout + 3):
            now = publication >> 32 == number
            reached = np.sort(group[now] * world.state.size + node[now])
            np.testing.assert_array_equal(reached, members(world))
        got.append(np.c_[group, node, publication])
        due = result.publications
        lost_groups = np.isin(due.group, result.lost)
        if reliable:
            missing = due.expected - due.in_time - due.late
            assert missing[~lost_groups].sum() == 0
    together = np.concatenate(got)
    assert len(np.unique(together, axis=0)) == len(together), "nothing is delivered twice"


@pytest.mark.parametrize("missed", [0, 1])
def test_a_delivery_is_noted_in_few_bytes(missed: int) -> None:
    """Without chunks and small integers, 33 and 74 bytes are needed."""
    nodes = 2**19
    known, state, zero = large_ring(nodes), empty_state(nodes, 1), np.zeros(1, dtype=np.int64)
    state.entries.enter(np.arange(nodes), 0, "own")
    state.entries.member[:], state.entries.joined[:] = True, 0
    rules = SimpleNamespace(deadline=5)
    scribe = SimpleNamespace(
        ring=known, state=state, groups=[0], number=0, rules=rules, round=SimpleNamespace(nodes=0)
    )
    node = np.arange(nodes - missed)[::-1].copy()
    got = np.zeros_like(node), np.zeros_like(node), node
    tracemalloc.start()
    note_deliveries(scribe, SentPublications(*[zero] * 7), got, (zero[:0], zero[:0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / nodes < (25, 55)[missed]
    assert state.missing.node.tolist() == [nodes - 1][:missed]
