"""A world on one bucket, on several in this process, and in tasks that exchange: the same rounds.

The world is saved and read again on its way.  Nothing needs Spark.
"""

from __future__ import annotations

import pytest
from in_threads import play_in_threads
from living_groups import world_of
from oracle.scribe_living.cases import random_world
from seeds import seeds
from world_states import Played

from scribe_spark.engine import rows as engine_rows

ROUNDS = 9


def in_one_process(seed: int, buckets: int, saves: bool = True) -> tuple[list, dict]:
    played = Played(world_of(random_world(seed, most=40, rounds=ROUNDS)), buckets)
    return played.play(saves), played.seen()


def in_tasks(seed: int, buckets: int) -> tuple[list, dict]:
    """Each bucket in a task of its own; all tasks see the same."""

    def work(exchange) -> tuple[list, dict]:
        world = world_of(random_world(seed, most=40, rounds=ROUNDS))
        played = Played(world, buckets, exchange)
        return played.play(saves=True), played.seen()

    each = play_in_threads(buckets, work)
    assert all(left == each[0][0] for left, _ in each)
    together = {
        name: sorted((row for _, seen in each for row in seen[name]), key=str)
        for name in each[0][1]
    }
    return each[0][0], together


@pytest.mark.parametrize("seed", seeds([0, 1, *range(6, 40)], in_each_run=1))
def test_rounds_are_the_same_wherever_the_buckets_are(seed, monkeypatch) -> None:
    """Rows have several parts, which come in any order."""
    monkeypatch.setattr(engine_rows, "_PART", 2**12)
    one = in_one_process(seed, 1, saves=False)
    assert sum(len(rows) for rows in one[1].values()) > 40
    assert sum(measures.get("gossipsub.messages.GRAFT", 0) for measures, *_ in one[0]) > 0
    for system in ("scribe", "gossipsub", "bayeux"):
        assert any(f"{system}.rad.median" in measures for measures, *_ in one[0])
        assert any(f"{system}.children_entries.max" in measures for measures, *_ in one[0])
    assert in_one_process(seed, 3) == one
    for buckets in (2, 7):
        assert in_tasks(seed, buckets) == one
