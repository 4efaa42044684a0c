"""The oracle checked against itself, and against examples worked by hand."""

import random
from collections import Counter
from functools import cache
from itertools import pairwise, product

import pytest
from seeds import seeds

from . import measures
from .pastry import Overlay
from .random_cases import Case, random_case
from .ring import RING, closest, digits, distance, shared_digits
from .routes import Routes, shortest_routes
from .scribe import Scribe, creator_rooted_group_id, group_id

SEEDS = range(200)
SOME = seeds(SEEDS, 7)


@cache
def setting(seed: int) -> tuple[Case, Routes, Overlay]:
    """Return a random case with its routes and its overlay."""
    case = random_case(seed)
    routes = case.routes()
    return case, routes, case.overlay(routes)


def grown(seed: int) -> Scribe:
    """Return the Scribe system of a random case after all joins."""
    case, _, overlay = setting(seed)
    scribe = Scribe(overlay, case.keys)
    scribe.join_all(case.joins())
    return scribe


# --- Unicast routes -----------------------------------------------------------------------------


def undirected(links: dict[tuple[int, int], tuple[int, int]]) -> dict:
    """Return links in both directions."""
    return links | {(dst, src): cost for (src, dst), cost in links.items()}


def test_least_weight_comes_before_least_delay():
    routes = shortest_routes(
        [1, 2, 3], undirected({(1, 3): (3, 1), (1, 2): (1, 5), (2, 3): (1, 5)})
    )
    assert routes.path(1, 3) == [1, 2, 3]
    assert routes.delay[1][3] == 10


def test_equal_weights_go_to_the_least_delay():
    links = {(1, 2): (1, 9), (2, 4): (1, 9), (1, 3): (1, 4), (3, 4): (1, 4)}
    assert shortest_routes([1, 2, 3, 4], undirected(links)).path(1, 4) == [1, 3, 4]


def test_equal_costs_go_to_the_least_predecessor_at_every_router():
    # 1 and 6 are joined by 1-5-2-6 and 1-4-3-6; at 6 the least predecessor is 2, at 1 it is 4.
    links = {(1, 5): (1, 1), (5, 2): (1, 1), (2, 6): (1, 1)}
    links |= {(1, 4): (1, 1), (4, 3): (1, 1), (3, 6): (1, 1)}
    routes = shortest_routes([1, 2, 3, 4, 5, 6], undirected(links))
    assert routes.path(1, 6) == [1, 5, 2, 6]
    assert routes.path(6, 1) == [6, 3, 4, 1]


# --- Pastry -------------------------------------------------------------------------------------


def test_digits_and_ring():
    identifier = int("65a1fc" + "0" * 26, 16)
    assert digits(identifier, 4)[:7] == (6, 5, 10, 1, 15, 12, 0)
    assert [len(digits(identifier, b)) for b in (1, 2, 4, 8)] == [128, 64, 32, 16]
    assert shared_digits(identifier, int("65b1fc" + "0" * 26, 16), 4) == 2
    assert shared_digits(identifier, identifier, 8) == 16
    assert distance(RING - 1, 1) == distance(1, RING - 1) == 2
    assert distance(0, RING // 2) == RING // 2
    assert closest([10, 20], 15) == 10
    assert closest([RING - 5, 5], 0) == 5


@pytest.mark.parametrize("seed", SOME)
def test_routes_end_at_the_root_and_only_get_closer(seed):
    case, _, overlay = setting(seed)
    rng = random.Random(seed)
    keys = [*case.keys.values(), rng.randrange(RING), rng.choice(list(case.ids.values()))]
    for key, node in product(keys, case.ids):
        path = overlay.route(node, key)
        assert path[-1] == overlay.root(key)
        for here, there in pairwise(path[:-1]):
            before, after = (shared_digits(case.ids[n], key, case.b) for n in (here, there))
            closer = distance(case.ids[there], key) < distance(case.ids[here], key)
            assert after > before or (after == before and closer)


@pytest.mark.parametrize("seed", SOME)
def test_tables_are_perfect(seed):
    case, _, overlay = setting(seed)
    for node, identifier in case.ids.items():
        others = [y for y in case.ids if y != node]
        rows = Counter(shared_digits(identifier, case.ids[y], case.b) for y in others)
        assert {row for row, _ in overlay.routing_table(node)} == set(rows)
        for (row, column), entry in overlay.routing_table(node).items():
            eligible = [
                y
                for y in others
                if shared_digits(identifier, case.ids[y], case.b) == row
                and digits(case.ids[y], case.b)[row] == column
            ]
            assert entry == min(eligible, key=lambda y: (overlay.proximity(node, y), case.ids[y]))
        assert len(overlay.leaf_set(node)) == min(len(others), case.leaf_set_size)


@pytest.mark.parametrize("seed", SOME)
def test_leaf_sets_are_mutual_and_hold_the_ring_neighbours(seed):
    case, _, overlay = setting(seed)
    in_order = sorted(case.ids, key=lambda node: case.ids[node])
    for place, node in enumerate(in_order):
        expected = {
            in_order[(place + step) % len(in_order)]
            for step in range(-case.leaf_set_size // 2, case.leaf_set_size // 2 + 1)
        }
        assert overlay.leaf_set(node) == expected - {node}
        assert all(node in overlay.leaf_set(leaf) for leaf in overlay.leaf_set(node))


def on_a_line(*places: tuple[int, int]) -> Overlay:
    """Return an overlay of (first byte of the nodeId, router on a line); b = 4, l = 4.

    A node's number is the first byte of its nodeId.
    """
    line = shortest_routes(range(10), undirected({(r, r + 1): (1, 1000) for r in range(9)}))
    return Overlay(
        ids={byte: byte << 120 for byte, _ in places},
        router=dict(places),
        delay=line.delay,
        b=4,
        leaf_set_size=4,
    )


def test_the_leaf_span_is_a_closed_arc_around_the_node():
    overlay = on_a_line(*((byte, 0) for byte in (0x10, 0x30, 0x50, 0x70, 0x90, 0xB0, 0xD0)))
    first, last = 0x10 << 120, 0x90 << 120
    assert overlay.leaf_set(0x50) == {0x10, 0x30, 0x70, 0x90}
    assert all(overlay.in_leaf_span(0x50, key) for key in (first, 0x20 << 120, 0x50 << 120, last))
    assert not any(overlay.in_leaf_span(0x50, key) for key in (first - 1, last + 1, 0))
    assert overlay.leaf_set(0x10) == {0xB0, 0xD0, 0x30, 0x50}
    assert all(overlay.in_leaf_span(0x10, key) for key in (0, RING - 1, 0xB0 << 120, 0x50 << 120))
    assert not overlay.in_leaf_span(0x10, 0x60 << 120)


def test_the_four_rules_by_hand():
    # 0x60 stands nearer to 0x10 than 0x6f does; no nodeId starts with the digit 7.
    places = [(0x0E, 5), (0x0F, 5), (0x10, 0), (0x11, 5), (0x12, 5), (0x20, 5)]
    overlay = on_a_line(*places, (0x60, 1), (0x6F, 9), (0x90, 5), (0xF0, 5))
    assert overlay.next_hop(0x10, 0x10 << 120) is None  # rule 1
    assert overlay.next_hop(0x10, 0x0F << 120) == 0x0F  # rule 2
    assert overlay.next_hop(0x10, 0x6F << 120) == 0x60  # rule 3: the nearest with digit 6
    assert overlay.next_hop(0x10, 0x70 << 120) == 0x60  # rule 4: an entry, closer than any leaf
    assert overlay.route(0x10, 0x70 << 120) == [0x10, 0x60, 0x6F]
    assert overlay.next_hop(0x11, 0x1F << 120) == 0x20  # rule 2 again: the root has another prefix
    assert overlay.next_hop(0x0E, 0x19 << 120) == 0x11  # rule 3: 0x12 is no farther


# --- Figure 5 of the paper: b = 1, nodeIds of four bits ------------------------------------------

# Where the nodes stand on a line of routers, one hop (1 ms) apart.  1010 is one of the unlabelled
# circles: without it the root would be in the leaf set of 1001.
FIGURE_5 = {"0111": 0, "0100": 1, "1001": 2, "1101": 3, "1111": 4, "1100": 6, "1010": 9}
GROUP = 1
KEY_1100 = 0b1100 << 124


def figure_5() -> Overlay:
    """Return the overlay of Figure 5; a node's number is its four bits, read in decimal."""
    line = shortest_routes(range(10), undirected({(r, r + 1): (1, 1000) for r in range(9)}))
    return Overlay(
        ids={int(name, 2): int(name, 2) << 124 for name in FIGURE_5},
        router={int(name, 2): router for name, router in FIGURE_5.items()},
        delay=line.delay,
        b=1,
        leaf_set_size=2,
    )


def test_figure_5_tree_and_delays():
    scribe = Scribe(figure_5(), {GROUP: KEY_1100})
    scribe.join_all([(GROUP, 0b0111)])
    chain = {(GROUP, 0b1100, 0b1101), (GROUP, 0b1101, 0b1001), (GROUP, 0b1001, 0b0111)}
    assert scribe.edges() == chain
    scribe.join_all([(GROUP, 0b0100)])
    assert scribe.edges() == chain | {(GROUP, 0b1001, 0b0100)}
    # 1100 -3 hops- 1101 -1- 1001 -2- 0111, or -1- 0100, and 2 ms of LAN for every overlay hop.
    to_all = {0b0111: (3, 12_000), 0b0100: (3, 11_000)}
    assert scribe.multicast(GROUP) == to_all
    # 0111 sends to the root first: along its route in 12 ms, or straight in 8 ms.
    assert scribe.multicast(GROUP, "routed", 0b0111) == {0b0100: (6, 23_000)}
    assert scribe.multicast(GROUP, "direct", 0b0111) == {0b0100: (4, 19_000)}


def test_figure_5_measures():
    overlay = figure_5()
    scribe = Scribe(overlay, {GROUP: KEY_1100})
    scribe.join_all([(GROUP, 0b0111), (GROUP, 0b0100)])
    delivered = scribe.multicast(GROUP)
    ip = measures.unicast_deliveries(overlay, 0b1100, [0b0111, 0b0100, 0b1100])
    assert ip == {0b0111: (1, 8_000), 0b0100: (1, 7_000)}
    assert measures.rad(delivered, ip) == pytest.approx(23 / 15)
    assert measures.rmd(delivered, ip) == pytest.approx(12 / 8)
    assert measures.rdp(delivered, ip) == {0b0111: 12 / 8, 0b0100: 11 / 7}
    stress = measures.node_stress(overlay.ids, scribe.edges())
    assert {n: s for n, s in stress.items() if s != (0, 0)} == {
        0b1100: (1, 1),
        0b1101: (1, 1),
        0b1001: (1, 2),
    }
    assert len(stress) == 7


def test_figure_5_link_stress():
    overlay = figure_5()
    line = shortest_routes(range(10), undirected({(r, r + 1): (1, 1000) for r in range(9)}))
    scribe = Scribe(overlay, {GROUP: KEY_1100})
    scribe.join_all([(GROUP, 0b0111), (GROUP, 0b0100)])
    by_scribe = measures.link_stress(scribe.edges(), overlay.router, line)
    assert by_scribe["core", 2, 1] == 2
    assert by_scribe["core", 6, 5] == 1
    assert by_scribe["lan_up", 0b1001, 2] == 2
    assert by_scribe["lan_down", 2, 0b1001] == 1
    assert sum(by_scribe.values()) == (3 + 1 + 2 + 1) + 2 * 4
    by_ip = measures.ip_link_stress(
        {GROUP: 0b1100}, {GROUP: [0b0111, 0b0100]}, overlay.router, line
    )
    assert set(by_ip.values()) == {1}
    assert len(by_ip) == 1 + 6 + 2
    naive = measures.unicast_edges(GROUP, 0b1100, [0b0111, 0b0100])
    assert sum(measures.link_stress(naive, overlay.router, line).values()) == 2 + (6 + 5) + 2


# --- Scribe -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SOME)
def test_trees_have_one_root_and_no_loops(seed):
    case, _, overlay = setting(seed)
    edges = grown(seed).edges()
    for group, key in case.keys.items():
        parent_of: dict[int, int] = {}
        for its_group, parent, child in edges:
            if its_group == group:
                assert child not in parent_of
                parent_of[child] = parent
        for node in {*parent_of, *case.members[group]}:
            climbed = 0
            while node in parent_of:
                node, climbed = parent_of[node], climbed + 1
                assert climbed <= len(case.ids)
            assert node == overlay.root(key)


def test_group_ids():
    # FIPS 180 example: SHA-1("abc") = a9993e36 4706816a ba3e2571 7850c26c 9cd0d89d.
    assert group_id("ab", "c") == 0xA9993E364706816ABA3E25717850C26C
    creator = 0x0123456789ABCDEF_FFFFFFFFFFFFFFFF
    assert creator_rooted_group_id(creator, "abc") == 0x0123456789ABCDEF_A9993E364706816A


# --- Measures -----------------------------------------------------------------------------------


def test_groups_of_the_root_alone_have_no_penalty():
    assert measures.rad({}, {}) is measures.rmd({}, {}) is None
    assert measures.rdp({}, {}) == {}
    assert measures.ip_link_stress({1: 5}, {1: [5]}, {5: 0}, shortest_routes([0], {})) == {}
