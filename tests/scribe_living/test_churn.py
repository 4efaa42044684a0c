"""Reliable delivery under sustained churn, on arrays alone: nothing is lost or comes twice."""

from collections.abc import Iterator

import numpy as np
from group_rounds import ScribeResult
from large_groups import LargeWorld

from scribe_spark.config import WorldConfig
from scribe_spark.core import draws
from scribe_spark.rounds.events import Events

NODES, GROUPS, MEMBERSHIPS, ROUNDS, QUIET = 500, 12, 2500, 25, 12


def results(lifetime: int) -> Iterator[ScribeResult]:
    """Rounds of a world in which one node of `lifetime` fails in each, and comes back soon.

    It joins its groups again; each group has a publication by a live node in every round.
    """
    config = WorldConfig(delivery="reliable", groups=GROUPS, lost_after=10)
    world, none = LargeWorld(NODES, GROUPS, MEMBERSHIPS, config), np.empty(0, dtype=np.int64)
    back: list[np.ndarray] = [none] * 4  # who recovers in this round and the next ones
    for number in range(ROUNDS + QUIET):
        order = np.argsort(draws.stream(2, "churn", number).random_raw(NODES))
        live = order[world.overlay.alive[order]]
        failing = live[: NODES // lifetime] if 0 < number < ROUNDS else none
        returning = back.pop(0)
        back.append(failing)
        joins = np.isin(world.node, returning) if number else slice(None)
        events = Events(fail=failing, recover=returning)
        yield world.play(number, events, live[-GROUPS:], joins)


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
        lost += (due.expected - due.in_time - due.late).sum()
    together = np.concatenate(got, axis=1)
    again = together.shape[1] - np.unique(together, axis=1).shape[1]
    assert lost_groups == 0, "where no copy of the state is left all is lost"
    assert late > expected / 10
    assert (lost, again) == (0, 0)
