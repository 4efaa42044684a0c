"""SplitStream in worlds: invariants of the trees, copies, and results that no bucket changes."""

from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from scribe_spark.core.arrays import least_of, run_starts
from scribe_spark.core.draws import order_of_draws
from scribe_spark.core.errors import InputError
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import take
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.splitstream.period import Hops
from scribe_spark.systems.splitstream.splitstream import SplitStream
from splitstream.played import Rules, play, random_case

SLOW = pytest.mark.slow


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 60), marks=SLOW)])
@pytest.mark.parametrize("buckets", [2, 7])
def test_buckets_change_nothing(seeds, buckets) -> None:
    for seed in seeds:
        case = random_case(seed)
        for one, other in zip(play(case), play(case, buckets, blind=True), strict=True):
            assert one.messages == other.messages
            assert one.copies == other.copies
            assert one.measures == pytest.approx(other.measures)
            assert one.counts == other.counts
            for name, columns in one.state.items():
                same(columns, other.state[name])


def same(one, other) -> None:
    """Compare tables, whose lists may be filled differently."""
    assert one.keys() == other.keys()
    for name, column in one.items():
        theirs = other[name]
        if name == "ancestors":
            width = min(column.shape[2], theirs.shape[2])
            assert all((lists[:, :, width:] < 0).all() for lists in (column, theirs))
            column, theirs = column[:, :, :width], theirs[:, :, :width]
        assert np.array_equal(column, theirs), name


@pytest.mark.parametrize(("nodes", "few"), [(5_000, False), (5_001, True)])
def test_limits_of_nodes_that_are_too_low_for_a_large_channel_are_refused(nodes, few) -> None:
    """Half of the nodes have 17 places, the others 18, for 16 stripes."""
    key, every = np.arange(nodes), np.ones(nodes, dtype=bool)
    ring = Ring(key.astype(np.uint64) << np.uint64(40), key.astype(np.uint64), key, key * 0)
    network = Network(ring, None, 0, 1, capacity=17 + key % 2)
    number, none = np.array([0]), (key[:0], key[:0])
    id = number.astype(np.uint64)
    period = Period(0, 0, True, True, number, id, id, (key * 0, key), none, key[:0], every, network)
    expected = (
        pytest.raises(InputError, match=r"mean of capacities = 17\.4.*: must be 18")
        if few
        else nullcontext()
    )
    with expected:
        Hops(Rules(), {}, period, 4)


@pytest.mark.parametrize("kinds", [3, 2**63])
def test_orders_by_draws_are_those_of_lexsort(kinds) -> None:
    """Also of equal draws, and of draws that differ in their last bits only."""
    drawn = np.random.default_rng(1)
    row = np.sort(drawn.integers(0, 40, 500))
    draw = drawn.integers(0, kinds, 500).astype(np.uint64)
    order = np.lexsort((draw, row))
    assert np.array_equal(order_of_draws(row, draw), order)
    assert np.array_equal(least_of(row, draw), order[run_starts(row[order])])
    assert not len(order_of_draws(row[:0], draw[:0])) + len(least_of(row[:0], draw[:0]))


def test_a_picture_has_all_edges_of_one_node_of_each_group() -> None:
    several = 0
    for seed in range(6):
        case = random_case(seed)
        seen = play(case)[0]
        system = SplitStream(case.rules, case.b)
        rows = system.picture(SimpleNamespace(state=seen.state), SimpleNamespace(ring=case.ring))
        for group in np.unique(rows["group"]).tolist():
            of, mine = seen.channel(case, group), take(rows, rows["group"] == group)
            (middle,) = np.unique(mine["parent"])
            ups = of["parent"][of["node"] == middle][0]
            row, stripe = np.nonzero(of["parent"] == middle)
            wanted = Counter((up, 0, at) for at, up in enumerate(ups.tolist()) if up >= 0)
            wanted += Counter(zip(of["node"][row], -1 - stripe, stripe * 0 - 1, strict=True))
            value = np.where(np.isnan(mine["value"]), -1, mine["value"]).astype(int)
            edges = zip(mine["child"], mine["rank"], value, strict=True)
            assert Counter(edges) == wanted
            inner = [len({*np.nonzero(of["parent"] == at)[1]}) for at in of["node"]]
            assert len({*stripe}) == max([n for n in inner if n <= 4], default=min(inner))
            several += len({*stripe}) > 1
    assert several
