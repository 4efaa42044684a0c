"""What Scribe takes from a round of the world, and what it says of the round's publications."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scribe_spark.config.groups import TreesConfig
from scribe_spark.config.scribe import ScribeConfig
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.systems.scribe.sources import SentPublications

#: By group, name, source, root, hops and delay: two publications of group 1, one of group 4.
SENT = [(1, 70, 5, 9, 2, 300), (1, 60, 6, 9, 3, 500), (4, 80, 7, 7, 0, 0)]


def scribe(*variants: str) -> LiveScribe:
    trees = TreesConfig(variants=variants, limit=3) if variants else TreesConfig(variants=())
    return LiveScribe(ScribeConfig().for_tasks(), trees.for_tasks())


def sent() -> SentPublications:
    group, name, source, root, hops, delay_us = (np.array(one) for one in zip(*SENT, strict=True))
    return SentPublications(group, source, name, root, np.zeros(3, np.int8), hops, delay_us)


def rows(table: Any, *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(table, name).tolist() for name in names), strict=True))


@pytest.mark.parametrize(
    ("source", "measured", "begun"),
    [
        ("root", [(1, 70, 9, 0, 0), (4, 80, 7, 0, 0)], [(9, 9, 0, 0), (9, 9, 0, 0), (7, 7, 0, 0)]),
        ("routed", [(1, 70, 5, 2, 300), (4, 80, 7, 0, 0)],
         [(5, 9, 2, 300), (6, 9, 3, 500), (7, 7, 0, 0)]),
    ],
)  # fmt: skip
def test_publications_start_at_roots_or_at_sources(source, measured, begun):
    """The first publication of each group is measured; all begin."""
    live = scribe()
    found = live.multicasts(sent(), source)
    assert rows(found, "group", "publication", "start", "hops", "delay_us") == measured
    found = live._begun(sent(), source)
    assert rows(found, "source", "root", "hops", "delay_us") == begun


@pytest.mark.parametrize("variant", ["bottleneck", "lazy"])
def test_limits_are_those_of_the_user_by_number(variant):
    """The capacities of a round are by position; nodes 2, 0 and 1 have positions 0, 1 and 2."""
    now: Any = SimpleNamespace(capacity=None, ring=SimpleNamespace(node=np.array([2, 0, 1])))
    assert scribe()._limits(now) is None
    assert scribe(variant)._limits(now).of(np.arange(3)).tolist() == [3, 3, 3]
    now.capacity = np.array([7, 8, 9])
    assert scribe(variant)._limits(now).of(np.arange(3)).tolist() == [8, 9, 7]
