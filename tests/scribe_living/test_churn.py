"""Reliable delivery under sustained churn, on arrays alone: nothing is lost or comes twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from group_rounds import RoundInputs, ScribeResult, application_of, play_round
from large_groups import PlaneKernel, full_overlay, large_ring, many_groups
from split_states import empty_state

from scribe_spark import draws
from scribe_spark.config import WorldConfig
from scribe_spark.pastry.events import Events
from scribe_spark.scribe.events import GroupEvents

NODES, GROUPS, MEMBERSHIPS, ROUNDS, QUIET = 500, 12, 2500, 40, 12


def results(lifetime: int) -> Iterator[ScribeResult]:
    """Rounds of a world in which one node of `lifetime` fails in each, and comes back soon.

    It joins its groups again; each group has a publication by a live node in every round.
    """
    known = large_ring(NODES)
    overlay, state = full_overlay(known), empty_state(NODES, GROUPS)
    groups, group, member = many_groups(known, GROUPS, MEMBERSHIPS)
    kernel = PlaneKernel(np.random.default_rng(1).uniform(0, 100_000, (NODES, 2)))
    config = WorldConfig(delivery="reliable", groups=GROUPS, deadline=10)
    application = application_of(config.scribe, NODES)
    every, none = np.arange(GROUPS), np.empty(0, dtype=np.int64)
    back: list[np.ndarray] = [none] * 4  # who recovers in this round and the next ones
    for number in range(ROUNDS + QUIET):
        order = np.argsort(draws.stream(2, "churn", number).random_raw(NODES))
        live = order[overlay.alive[order]]
        failing = live[: NODES // lifetime] if 0 < number < ROUNDS else none
        returning = back.pop(0)
        back.append(failing)
        joins = np.isin(member, returning) if number else np.ones(len(member), dtype=bool)
        source = live[-GROUPS:]
        events = GroupEvents(join=(group[joins], member[joins]))
        if number:
            events = GroupEvents(join=events.join, publish=(every, source))
        else:
            events = GroupEvents(join=events.join, create=(every, source))
        given = RoundInputs(
            *(number, Events(fail=failing, recover=returning), events, groups, config, kernel),
        )
        yield play_round(overlay, state, given, application)[1]


def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    """Many join below nodes that are cut off themselves, and do not know yet where they begin.

    Without rule S31 eight deliveries were lost.
    """
    got, lost_groups = [], 0
    expected, late, lost = 0, 0, 0
    for result in results(lifetime=12):
        group, publication, node = result.deliveries
        got.append(np.stack([group, publication, node]))
        assert not result.out_of_order.any()
        lost_groups += len(result.lost)
        due = result.publications
        expected += due.expected.sum()
        late += due.late.sum()
        lost += due.lost.sum()
    together = np.concatenate(got, axis=1)
    again = together.shape[1] - np.unique(together, axis=1).shape[1]
    assert lost_groups == 0, "where no copy of the state is left all is lost"
    assert late > expected / 10
    assert (lost, again) == (0, 0)
