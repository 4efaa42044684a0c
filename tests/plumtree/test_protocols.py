"""HyParView and Plumtree: cases worked by hand, exact numbers, and the same tables on buckets."""

from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.sparse import csgraph

from plumtree import measured
from plumtree.played import Overlay, drawn_delay, waves
from plumtree.test_clock import _regular
from scribe_spark.systems.plumtree.config import PlumtreeConfig


def _same_delay(us):
    return lambda a, b: np.full(len(a), us, dtype=np.int64)


def _by_table(table):
    delays = np.array(table)
    return lambda a, b: delays[a, b]


# --- Plumtree by hand: views that never change

_LINE = [[1, -1], [0, 2], [1, -1]]  # 0 - 1 - 2
_TRIANGLE = [[1, 2], [0, 2], [0, 1]]
#: 0 - 1 is fast, 0 - 2 slow, 1 - 2 fast.
_SLOW = _by_table([[1, 10, 90], [10, 1, 10], [90, 10, 1]])


@pytest.mark.parametrize(
    ("views", "delay", "whose", "counts", "eager"),
    [
        # a line has no copy in vain
        (_LINE, _same_delay(10), "paper", {"gossip": 2}, {0: {1}, 1: {0, 2}, 2: {1}}),
        # 1 and 2 send each other a copy in vain, and prune the link twice
        (
            _TRIANGLE,
            _same_delay(10),
            "paper",
            {"gossip": 4, "prune": 2},
            {0: {1, 2}, 1: {0}, 2: {0}},
        ),
        # 2 has its first copy from 1 at 20, sends one to 0, which arrives at 110, and gets the one
        # of 0 at 90
        (_TRIANGLE, _SLOW, "paper", {"gossip": 4, "prune": 2}, {0: {1}, 1: {0, 2}, 2: {1}}),
        (_TRIANGLE, _SLOW, "iroh", {"gossip": 4, "prune": 2}, {0: {1}, 1: {0, 2}, 2: {1}}),
        # in Corrosion a link may bring five copies in vain
        (_TRIANGLE, _SLOW, "corrosion", {"gossip": 4}, {0: {1, 2}, 1: {0, 2}, 2: {0, 1}}),
    ],
)
def test_the_first_publication_leaves_a_tree(views, delay, whose, counts, eager):
    overlay = Overlay(3, delay, 10, rules=PlumtreeConfig(rules=whose))
    overlay.fix(np.array(views))
    overlay.play([(0, "publish", 0, 0)])
    assert (overlay.counts(), overlay.eager()) == (counts, eager)


def test_a_node_without_its_parent_grafts_an_announcing_neighbour():
    # Delays are 10.  Publication 0 from node 0 leaves the links 0 - 1 and 0 - 2 eager, 1 - 2 lazy.
    # Node 0 fails at 1000, and publication 1 begins at node 1, whose only neighbour is lazy:
    # IHAVE leaves at 1100 and arrives at 1110; 2 waits until 1190; GRAFT arrives at 1200, and the
    # copy at 1210
    rules = PlumtreeConfig(first_wait_ms=0.08, next_wait_ms=0.04, batch_ms=0.1)
    overlay = Overlay(3, _same_delay(10), 10, rules=rules)
    overlay.fix(np.array(_TRIANGLE))
    overlay.play([(0, "publish", 0, 0), (900, "fail", 0, 0), (1000, "publish", 1, 1)])
    assert [one for one in overlay.receipts() if one[0] == 1] == [
        (1, 1, 1000, 0, -1),
        (1, 2, 1210, 1, 1),
    ]
    assert overlay.counts() == {"down": 2, "gossip": 5, "prune": 2, "ihave": 1, "graft": 1}
    assert overlay.eager() == {1: {2}, 2: {1}}


def test_a_much_shorter_way_replaces_a_link():
    # A ring of 12 nodes, of which the link 11 - 0 is lazy.  Links take 10, and 0 - 11 takes 15.
    # Node 11 hears of the publication at 15, in round 0.  The copy arrives at 110, in round 10,
    # along 1, 2, ... 10.  So 11 grafts 0 and prunes 10; its own announcement is ignored by 0.
    nodes = 12
    views = np.array([[(one - 1) % nodes, (one + 1) % nodes] for one in range(nodes)])
    delay = np.full((nodes, nodes), 10)
    delay[0, 11] = delay[11, 0] = 15
    rules = PlumtreeConfig(first_wait_ms=1.0, next_wait_ms=1.0, batch_ms=0.0)
    overlay = Overlay(nodes, _by_table(delay), 10, rules=rules)
    lazy = np.zeros(views.shape, dtype=bool)
    lazy[0, 0] = lazy[11, 1] = True
    overlay.fix(views, lazy)
    overlay.play([(0, "publish", 0, 0)])
    assert overlay.counts() == {"gossip": 11, "ihave": 2, "graft": 1, "prune": 1}
    eager = overlay.eager()
    assert (eager[0], eager[10], eager[11]) == ({1, 11}, {9}, {0})


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


# --- HyParView by hand


def test_newcomers_enter_at_their_contact_and_at_the_ends_of_walks():
    # 0 is alone; 1 joins at 0, then 2 joins at 0: 0 sends FORWARDJOIN to 1, which has one
    # neighbour and takes 2 in
    overlay = Overlay(3, _same_delay(10), 10)
    overlay.play([(0, "arrive", 0, -1), (100, "arrive", 1, 0), (200, "arrive", 2, 0)])
    assert overlay.views_of("active") == {0: {1, 2}, 1: {0, 2}, 2: {0, 1}}
    assert overlay.views_of("passive") == {0: set(), 1: set(), 2: set()}
    assert overlay.counts() == {"join": 2, "accept": 3, "forward_join": 1}


@pytest.mark.parametrize("whose", ["paper", "iroh"])
def test_a_full_contact_drops_a_neighbour_that_asks_others(whose):
    # views of two: 0 has 1 and 2, and so on; 3 joins at 0, which drops one of them; that one has
    # a free place, and 3, which the walk leads to the other one, has its second neighbour
    rules = PlumtreeConfig(membership=whose, active=2, passive=3)
    overlay = Overlay(4, _same_delay(10), 10, rules=rules)
    times = enumerate((-1, 0, 0, 0))
    overlay.play([(1_000_000 * node, "arrive", node, contact) for node, contact in times])
    views = overlay.views_of("active")
    assert all(node in views[peer] for node in views for peer in views[node])
    assert sorted(map(len, views.values())) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("breaks", "kind", "counts", "views"),
    [
        # the neighbours of 0 notice one delay later
        (True, "fail", {"down": 2}, {1: {2}, 2: {1}}),
        (False, "fail", {}, {1: {0, 2}, 2: {0, 1}}),
        (True, "leave", {"disconnect": 2}, {1: {2}, 2: {1}}),
    ],
)
def test_neighbours_notice_that_a_node_is_gone(breaks, kind, counts, views):
    overlay = Overlay(
        3, _same_delay(10), 10, rules=PlumtreeConfig(notice="breaks" if breaks else "sending")
    )
    overlay.play([(0, "arrive", 0, -1), (100, "arrive", 1, 0), (200, "arrive", 2, 0)])
    overlay.play([(1_000, kind, 0, 0)])
    assert (overlay.counts(), overlay.views_of("active")) == (counts, views)


# --- the overlay of many nodes


def _story(nodes):
    """Return newcomers in waves, publications, failures, shuffles and more publications."""
    commands = waves(nodes, 300_000, 5)
    begin = commands[-1][0] + 2_000_000
    rng = np.random.default_rng(nodes)
    commands += [(begin + 1_000 * (at % 2), "publish", at % 3, at) for at in range(6)]
    gone = rng.permutation(np.arange(1, nodes))[: nodes // 3].tolist()
    kinds = ["fail", "fail", "leave"]
    commands += [
        (begin + 5_000 + at, kinds[at % 3], node, 0) for at, node in enumerate(gone) if node > 3
    ]
    commands += [(begin + 400_000, "refresh", node, 0) for node in range(nodes)]
    return commands + [(begin + 400_000 + 77 * at, "publish", at % 4, 6 + at) for at in range(6)]


_RULES: list[dict[str, Any]] = [
    {},
    {"rules": "iroh", "membership": "iroh", "active": 3, "passive": 6, "request_ms": 25.0},
    {"rules": "corrosion", "notice": "sending", "passive": 4},
    {"repair": False, "active": 4},
]


@pytest.mark.parametrize(
    ("least_us", "rules"),
    [
        (12, _RULES[1]),
        (10_000, _RULES[2]),
        *(pytest.param(12, _RULES[at], marks=pytest.mark.slow) for at in (0, 2, 3)),
        *(pytest.param(10_000, _RULES[at], marks=pytest.mark.slow) for at in (0, 1, 3)),
    ],
)
def test_buckets_leave_the_same(least_us, rules):
    nodes, found = 20, []
    rules = PlumtreeConfig(**rules, threshold=2)
    for buckets in (1, 2, 7):
        delay = drawn_delay(least_us, 9 * least_us)
        overlay = Overlay(nodes, delay, least_us, rules, 3, buckets)
        overlay.play(_story(nodes))
        views_of = overlay.views_of("active"), overlay.views_of("passive"), overlay.eager()
        found.append((views_of, overlay.receipts(), overlay.copies(), overlay.counts()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_groups_do_not_disturb_each_other(buckets):
    # two groups with common nodes; each is played alone, too, and its commands are the same
    members = [np.arange(0, 30), np.array([3, 4, 8, 9, 20, 21, 25, 29])]
    places = np.concatenate(
        [np.stack([one * 0 + room, one], 1) for room, one in enumerate(members)]
    )
    delay = drawn_delay(1_000, 9_000)
    together = Overlay(30, delay, 1_000, seed=2, buckets=buckets, places=places)
    commands, alone = [], []
    for room, nodes in enumerate(members):
        joins = [(at * 40_000, "arrive", node, at - 1) for at, node in enumerate(nodes.tolist())]
        joins = [
            (at, kind, node, nodes[max(last, 0)] if last >= 0 else -1)
            for at, kind, node, last in joins
        ]
        own = [*joins, (10**7, "publish", nodes[2], room), (2 * 10**7, "fail", nodes[1], 0)]
        commands += [(*one, room) for one in own]
        one = Overlay(30, delay, 1_000, seed=2, places=places[places[:, 0] == room] * [0, 1])
        one.play(
            [(at, kind, node, 0 if kind == "publish" else value) for at, kind, node, value in own]
        )
        alone.append(one)
    together.play(commands)
    for room, one in enumerate(alone):
        expected = [receipt[1:] for receipt in one.receipts()]
        assert [got[1:] for got in together.receipts() if got[0] == room] == expected
        assert len(expected) == len(members[room])
    counts = [one.counts() for one in alone]
    assert together.counts() == {
        kind: sum(one.get(kind, 0) for one in counts) for kind in together.counts()
    }


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
    [("one sender", 30, 0.2, 15), ("random senders", 30, 1, 18), ("all at once", 1, 3, 30)],
)
@pytest.mark.parametrize("rules", ["iroh", pytest.param("paper", marks=pytest.mark.slow)])
def test_redundancy_and_hops_are_within_the_bounds_of_iroh(
    what, messages, most_rmr, most_ldh, rules
):
    rmr, ldh, missing = measured.scenario(what, 100, 1, rules, messages)
    assert (rmr < most_rmr, ldh < most_ldh, missing) == (True, True, 0)
