"""The paper's experiment, small: what the kernels measure, and that blocks do not matter."""

from collections import Counter

import numpy as np
import pytest

from scribe_spark.systems.reference_tree import experiment
from scribe_spark.systems.reference_tree.experiment import (
    CONNECTION,
    DISCONNECTION,
    play_in_tasks,
    repeat_events,
)
from scribe_spark.systems.reference_tree.tree import ReferenceTree


def mean(found: Counter, event: str, measure: str) -> float:
    values = {v: n for (e, m, v), n in found.items() if (e, m) == (event, measure)}
    return sum(v * n for v, n in values.items()) / sum(values.values())


@pytest.mark.parametrize("assignment", ["chord", "pastry"])
@pytest.mark.parametrize(
    ("bits", "children", "hosts"), [(8, 2, 30), (8, 3, 5), (128, 4, 20), (4, 2, 15), (6, 15, 1)]
)
def test_every_event_leaves_the_tree_that_is_computed_from_nothing(
    bits, children, hosts, assignment
):
    tree = ReferenceTree(bits, children)
    found = repeat_events(tree, assignment, hosts, 4, np.arange(8), seed=3)
    faults = {key: count for key, count in found.items() if key[1] == "faults"}
    assert faults == {(CONNECTION, "faults", 0): 32, (DISCONNECTION, "faults", 0): 32}
    hosts_seen = sum(n for (e, m, _), n in found.items() if (e, m) == (CONNECTION, "degree"))
    assert hosts_seen == 32 * (hosts + 1)


def test_the_paper_s_figures():
    found = repeat_events(ReferenceTree(8, 2), "chord", 60, 2, np.arange(150), seed=1)
    for event in (CONNECTION, DISCONNECTION):
        assert max(v for e, m, v in found if (e, m) == (event, "degree")) == 3
        assert 3.2 < mean(found, event, "area") < 3.8
        assert 2.2 < mean(found, event, "area_without") < 2.8


def test_repetitions_do_not_depend_on_one_another():
    tree = ReferenceTree(8, 3)
    apart = [
        repeat_events(tree, "chord", 12, 3, rings, 5) for rings in (np.arange(7), np.arange(7, 9))
    ]
    assert apart[0] + apart[1] == repeat_events(tree, "chord", 12, 3, np.arange(9), 5)


def test_tasks_are_added_up(spark, monkeypatch):
    """Three tasks, of two rings each but the last."""
    monkeypatch.setattr(experiment, "_HOSTS_AT_ONCE", 14)
    tree = ReferenceTree(8, 4)
    found = play_in_tasks(spark, tree, "chord", 6, events=15, pairs=3, seed=2)
    assert found == repeat_events(tree, "chord", 6, 3, np.arange(5), 2)
