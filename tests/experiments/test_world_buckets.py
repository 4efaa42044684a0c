"""How many buckets a world has if nobody says."""

import pytest

from scribe_spark.config import Execution, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import world_setup as engines
from scribe_spark.experiments.world_setup import (
    COSTS,
    _refuse_other_buckets,
    buckets_of,
)
from scribe_spark.worlds.save import VERSION

GIB = 2**30

WITH_GROUPS, _ = COSTS["jobs"]


@pytest.mark.parametrize(
    ("engine", "nodes", "tasks_can_stay", "buckets"),
    [
        ("auto", 1_000, True, 1),
        ("auto", 100_000, True, 2),
        ("tasks", 100_000, True, 2),
        ("auto", 100_000, False, 1),  # jobs would be slower
        ("jobs", 100_000, True, 1),
        ("auto", 3_000_000, False, 5),
        ("jobs", 3_000_000, True, 5),
        ("tasks", 3_000_000, True, 2),  # as many as there are cores: all tasks stay
    ],
)
def test_the_costs_are_those_of_the_engine(monkeypatch, engine, nodes, tasks_can_stay, buckets):
    monkeypatch.setattr(engines, "parallelism", lambda spark: 2)
    monkeypatch.setattr(engines, "memory_limit", lambda: 24 * GIB)
    stays = tasks_can_stay
    monkeypatch.setattr(engines, "why_no_tasks", lambda _, b: None if stays or b == 1 else "")
    config = WorldConfig(nodes=nodes, groups=15, rounds=4)
    assert buckets_of(config, None, engine) == buckets


def test_what_was_saved_goes_on_with_its_buckets():
    config = WorldConfig(nodes=80, groups=3, rounds=4)
    saved = {"number": 2, "buckets": 4, "version": VERSION}
    for buckets in (None, 4):
        _refuse_other_buckets(saved, config, Execution(out="x", buckets=buckets))
    _refuse_other_buckets(saved | {"version": 1}, config, Execution(out="x", buckets=2))  # not read
    with pytest.raises(InputError, match="buckets = 2: differs from the saved world; give"):
        _refuse_other_buckets(saved, config, Execution(out="x", buckets=2))
