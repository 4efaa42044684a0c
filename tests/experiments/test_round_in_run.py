"""The tables that round 0 of a run leaves: of guests, and of publications along one tree."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from bayeux_played import run_of
from oracle.bayeux.cases import random_bayeux

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.rounds.system import Publishing
from scribe_spark.worlds.round_of_run import _first_of_trees


def test_guests_have_no_deliveries():
    """A source that joins only to publish is no receiver of another source's publication."""
    columns = "group", "node", "hops", "delay_us"
    every = run_of(random_bayeux(0), 2).rows("deliveries", *columns)
    guest = every[0][:2]
    rest = run_of(random_bayeux(0), 2, guests=[guest]).rows("deliveries", *columns)
    assert rest == [row for row in every if row[:2] != guest]


def test_edges_are_those_of_the_first_publication_along_a_tree():
    """A tree is that of a group and a source, unless the system says along which copies it goes."""
    columns = ([0, 0, 0, 1], [5, 6, 5, 5], [0] * 4, [0] * 4)
    publish = Publishing(*(np.array(one) for one in columns))
    now: Any = SimpleNamespace(publish=publish, number=0)
    live: Any = SimpleNamespace(trees_of=lambda number, group, node: np.zeros_like(group))
    done: Any = SimpleNamespace(begun=None)
    assert _first_of_trees(live, now, done).tolist() == [0, 1, 3]
    done.begun = Begun(*(np.arange(4) for _ in range(6)), along=np.array([2, 2, 0, 2]))
    assert _first_of_trees(live, now, done).tolist() == [0, 2]
