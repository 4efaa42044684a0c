"""The probability that a random graph is connected, against counting all graphs."""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from scribe_spark.errors import InputError
from scribe_spark.topology.transit_stub import check_connectable, connected_probability


def counted(n: int, p: float) -> float:
    """Over all graphs on n routers, each weighted with its probability."""
    pairs = list(combinations(range(n), 2))
    total = 0.0
    for chosen in range(2 ** len(pairs)):
        links = [pair for k, pair in enumerate(pairs) if chosen >> k & 1]
        ends = np.array(links, dtype=int).reshape(-1, 2).T
        graph = coo_array((np.ones(len(links)), (ends[0], ends[1])), shape=(n, n))
        if connected_components(graph, directed=False, return_labels=False) == 1:
            total += p ** len(links) * (1 - p) ** (len(pairs) - len(links))
    return total


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 1.0])
def test_probability_by_counting(p):
    found = connected_probability(np.arange(1, 6), p)
    assert np.allclose(found, [counted(n, p) for n in range(1, 6)])


def test_large_domains_go_on_from_small_ones():
    """No isolated router is nearly the same as connected; around 300 routers both are known."""
    for p in (0.015, 0.02, 0.03):
        exact, estimated = connected_probability(np.array([300, 301]), p)
        assert math.isclose(exact, estimated, rel_tol=0.1)


def test_it_rises_with_the_probability_and_is_never_none():
    found = [connected_probability(np.array([40]), p)[0] for p in (1e-9, 0.05, 0.1, 0.3, 1.0)]
    assert found == sorted(found)
    assert found[0] > 0
    assert found[-1] == 1


def test_what_is_proposed_would_do():
    sizes = np.array([700, 650, 30])
    with pytest.raises(InputError, match=r"p_stub = 0\.002") as error:
        check_connectable(sizes, 0.002, "p_stub")
    enough = float(str(error.value).split("raise it to ")[1].split()[0])
    check_connectable(sizes, enough, "p_stub")
    with pytest.raises(InputError):
        check_connectable(sizes, enough * 0.9, "p_stub")


def test_many_domains_take_as_long_as_one_improbable_one():
    check_connectable(np.full(10, 12), 0.05, "p_stub")
    with pytest.raises(InputError, match="of 12 routers"):
        check_connectable(np.full(100_000, 12), 0.05, "p_stub")


def test_it_is_told_at_once():
    began = time.process_time()
    with pytest.raises(InputError):
        check_connectable(np.arange(1, 10_000), 1e-6, "p_stub")
    assert time.process_time() - began < 2
