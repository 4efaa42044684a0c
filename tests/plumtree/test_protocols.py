"""HyParView and Plumtree: exact numbers, and published values at a small size."""

import networkx
import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.sparse import csgraph

from plumtree import measured
from plumtree.played import Overlay
from plumtree.test_clock import _regular


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_later_publications_are_those_of_the_shortest_path_tree(seed):
    rng, nodes = np.random.default_rng(seed), 60
    views, delays = _regular(nodes, rng), rng.integers(10, 5_000, (nodes, nodes))
    delays = delays + delays.T
    overlay = Overlay(nodes, lambda a, b: delays[a, b], 20)
    overlay.fix(views)
    overlay.play([(number * 10**6, "publish", 7, number) for number in range(3)])
    copies = np.bincount([one[0] for one in overlay.copies()])
    degrees = int((views >= 0).sum())
    assert copies.tolist() == [degrees - (nodes - 1), nodes - 1, nodes - 1]
    a, slot = np.nonzero(views >= 0)
    graph = sparse.csr_matrix((delays[a, views[a, slot]], (a, views[a, slot])))
    ways = csgraph.dijkstra(graph, indices=7).astype(int).tolist()
    for number in range(3):
        got = {one[1]: one[2] for one in overlay.receipts() if one[0] == number}
        assert [got[node] - number * 10**6 for node in range(nodes)] == ways


# --- published values, at a small size; `plumtree.measured` has all of them


@pytest.fixture(scope="module")
def grown():
    """200 nodes that joined in waves and shuffled five times."""
    return measured.Grown(200, 1)


def test_views_are_symmetric_and_like_a_random_regular_graph(grown):
    graph = measured.links(views := grown.views[-1])
    assert np.count_nonzero(views["active"] >= 0) == graph.nnz >= 4.9 * 200
    assert (np.count_nonzero(views["passive"] >= 0, axis=1) >= 25).all()
    regular = networkx.to_scipy_sparse_array(networkx.random_regular_graph(5, 200, 1))
    hops, others = (csgraph.shortest_path(one, unweighted=True) for one in (graph, regular))
    assert hops.max() <= 6
    assert abs(hops[hops > 0].mean() - others[others > 0].mean()) < 0.15


@pytest.mark.parametrize(
    ("share", "breaks", "first", "last"),
    [(0.3, True, 0.98, 1), (0.5, True, 0.98, 1), (0.5, False, 0.8, 0.8), (0.8, True, 0, 0.95)],
)
def test_living_nodes_get_publications_again_after_failures(grown, share, breaks, first, last):
    found = measured.reliability(grown, share, breaks, 4)
    assert found[0] >= first
    assert found[-1] >= last


@pytest.mark.parametrize(
    ("what", "messages", "most_rmr", "most_ldh"),
    [("one sender", 12, 0.2, 15), ("random senders", 12, 1, 18), ("all at once", 1, 3, 30)],
)
@pytest.mark.parametrize("rules", ["iroh", pytest.param("paper", marks=pytest.mark.slow)])
def test_redundancy_and_hops_are_within_the_bounds_of_iroh(
    what, messages, most_rmr, most_ldh, rules
):
    rmr, ldh, missing = measured.scenario(what, 100, 1, rules, messages)
    assert (rmr < most_rmr, ldh < most_ldh, missing) == (True, True, 0)
