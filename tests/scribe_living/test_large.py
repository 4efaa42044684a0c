"""Many groups on a synthetic overlay, on arrays alone: a quarter of the nodes fails at once."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from group_rounds import RoundInputs, ScribeResult, application_of, play_round
from large_groups import PlaneKernel, full_overlay, large_ring, many_groups
from split_states import empty_state

from scribe_spark import draws
from scribe_spark.config import WorldConfig
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.round import RoundResult
from scribe_spark.scribe.events import GroupEvents
from scribe_spark.scribe.outcomes import note_deliveries
from scribe_spark.scribe.sources import Sent

FAIL, ROUNDS = 2, 8


class Played:
    """A world whose groups get one publication each in every round; round 2 is the failure."""

    def __init__(self, nodes: int, groups: int, memberships: int, config: WorldConfig) -> None:
        self.config = config
        known = large_ring(nodes)
        self.overlay = full_overlay(known)
        self.groups, self.group, self.node = many_groups(known, groups, memberships)
        points = np.random.default_rng(1).uniform(0, 100_000, (nodes, 2))
        self.kernel = PlaneKernel(points)
        self.state = empty_state(nodes, groups)
        self.application = application_of(config.scribe, nodes)
        order = np.argsort(draws.stream(1, "failing").random_raw(nodes))
        self.dead, live = np.sort(order[: nodes // 4]), np.sort(order[nodes // 4 :])
        self.source = live[:groups]

    def play(self, number: int) -> tuple[RoundResult, ScribeResult]:
        every = np.arange(len(self.groups))
        if number:
            events = GroupEvents(publish=(every, self.source))
        else:
            events = GroupEvents(create=(every, self.source), join=(self.group, self.node))
        given = RoundInputs(
            number,
            Events(fail=self.dead) if number == FAIL else Events(),
            events,
            self.groups,
            self.config,
            self.kernel,
        )
        return play_round(self.overlay, self.state, given, self.application)

    def members(self) -> np.ndarray:
        """(group, node) of the members of groups that are not lost."""
        entries, copies = self.state.entries, self.state.copies
        places = entries.key[entries.member]
        return places[np.isin(places // self.state.size, copies.key // self.state.size)]


@pytest.mark.parametrize("reliable", [False, True])
def test_every_live_member_is_reached_again_when_a_quarter_fails(reliable: bool) -> None:
    delivery = "reliable" if reliable else "best-effort"
    config = WorldConfig(groups=40, delivery=delivery, buffer=16, deadline=6)
    world = Played(1500, 40, 6000, config)
    got: list[np.ndarray] = []
    for number in range(ROUNDS + 3):
        _, result = world.play(number)
        group, publication, node = result.deliveries
        if number in (1, FAIL + config.scribe.parent_timeout + 3):
            now = publication >> 32 == number
            reached = np.sort(group[now] * world.state.size + node[now])
            np.testing.assert_array_equal(reached, world.members())
        got.append(np.c_[group, node, publication])
        due = result.publications
        np.testing.assert_array_equal(due.in_time + due.late + due.lost, due.expected)
        lost_groups = np.isin(due.group, result.lost)
        if reliable:
            assert due.lost[~lost_groups].sum() == 0
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
    scribe = SimpleNamespace(ring=known, state=state, groups=[0], number=0, rules=rules)
    node = np.arange(nodes - missed)[::-1].copy()
    got = np.zeros_like(node), np.zeros_like(node), node
    tracemalloc.start()
    note_deliveries(scribe, Sent(*[zero] * 7), got, (zero[:0], zero[:0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / nodes < (25, 55)[missed]
    assert state.missing.node.tolist() == [nodes - 1][:missed]
