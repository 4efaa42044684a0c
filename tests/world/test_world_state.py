"""A world on one bucket, on several in this process, and in tasks that exchange: the same rounds.

The world is saved and read again on its way.  Nothing needs Spark.
"""

from dataclasses import replace

import numpy as np
import pytest
from in_threads import play_in_threads
from living_groups import world_of
from oracle.scribe_living.cases import random_world
from seeds import seeds
from split_states import tables_of
from world_states import Played

from scribe_spark.engine import packing
from scribe_spark.engine.packing import count_rows
from scribe_spark.measures.multicasts import MeasureMulticasts

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
    monkeypatch.setattr(packing, "_PART", 2**12)
    one = in_one_process(seed, 1, saves=False)
    assert sum(len(rows) for rows in one[1].values()) > 40
    assert sum(measures.get("gossipsub.messages.GRAFT", 0) for measures, *_ in one[0]) > 0
    for system in ("scribe", "gossipsub", "bayeux"):
        assert any(f"{system}.rad.median" in measures for measures, *_ in one[0])
        assert any(f"{system}.children_entries.max" in measures for measures, *_ in one[0])
    assert in_one_process(seed, 7) == one
    assert in_tasks(seed, 2) == one


def test_scribe_in_a_world_leaves_what_its_kernels_leave() -> None:
    """Other tests compare the kernels with the oracle."""
    children = 0
    for seed in range(6):
        kernels, world = (world_of(random_world(seed, most=40, rounds=ROUNDS)) for _ in range(2))
        played = Played(world, only=("scribe",), lookups=0)
        for number in range(ROUNDS - 1):  # the last one counts all publications
            played.step(number)
            kernels.play(number, [event for event in kernels.case.events if event[0] == number])
            left = played.engine.tables[0]
            for name, columns in tables_of(kernels.state).items():
                there = left.get(f"scribe/{name}", {})
                assert there or not count_rows(columns) or name == "scribe newest"
                for one, column in there.items():
                    np.testing.assert_array_equal(columns[one], column, err_msg=f"{name} {one}")
        children += len(kernels.state.children)
    assert children > 100


# --- measures that are remembered


def quiet_world(seed: int):
    """A world in which a node of each group publishes in every round, and nothing else happens."""
    case = random_world(seed, most=40, rounds=ROUNDS)
    start = [event for event in case.events if event[0] == 0 and event[2] != "publish"]
    of_group = {group: node for _, node, kind, group in start if kind == "create"}
    sent = [
        (number, node, "publish", group)
        for number in range(1, ROUNDS)
        for group, node in of_group.items()
    ]
    return replace(case, events=start + sent, buffer=None)


def test_a_round_with_the_same_trees_is_not_measured_again(monkeypatch) -> None:
    steps: list[int] = []
    step = MeasureMulticasts.step

    def counted(self, bucket, tables, inbox, superstep):
        steps.append(superstep)
        return step(self, bucket, tables, inbox, superstep)

    monkeypatch.setattr(MeasureMulticasts, "step", counted)
    found = []
    for remembers in (True, False):
        played = Played(world_of(quiet_world(8)), 2)
        if not remembers:
            played.state._measured = None
        found.append((played.play(saves=False), steps.count(0)))
        steps.clear()
    (remembered, fewer), (measured, every) = found
    assert remembered == measured
    assert fewer <= every // 2
    assert any("scribe.rad.median" in measures for measures, *_ in measured)
