"""The paper's own example (Section 3.5): 16 keys, chord, binary tree."""

from __future__ import annotations

from .dht import Dht
from .host_tree import tree_from_nothing
from .paths import multicast_edges, reconfiguration_area
from .reconfiguration import Event, Round, reconfigure
from .search import Rules, find_neighbours
from .tree import reference_tree

START = Dht(reference_tree(4, 2), [5, 9, 11, 13, 15], "chord")
AT_START = tree_from_nothing(START).neighbours()


def keys(dht: Dht, host: int) -> set[int]:
    """The keyset of a host."""
    return {key for key in range(16) if key in dht.keysets[host]}


def test_start() -> None:
    """Figure 2(a)."""
    assert {host: keys(START, host) for host in START.hosts} == {
        5: {0, 1, 2, 3, 4, 5},
        9: {6, 7, 8, 9},
        11: {10, 11},
        13: {12, 13},
        15: {14, 15},
    }
    tree = tree_from_nothing(START)
    assert tree.topmost == {5: 4, 9: 8, 11: 10, 13: 12, 15: 14}
    assert tree.parent == {5: 9, 9: None, 11: 13, 13: 9, 15: 13}
    assert tree.depth == {5: 1, 9: 0, 11: 2, 13: 1, 15: 2}


def test_lookups_at_start() -> None:
    """h9 asks for 4 and 12; h5 asks for 8, and for 6, which is in the keyset of h9, as is 7."""
    root = find_neighbours(START, 9)
    assert (root.parent_asked, root.child_asked) == ((), (4, 12))
    h5 = find_neighbours(START, 5)
    assert (h5.parent, h5.children) == (9, frozenset())
    assert (h5.parent_asked, h5.child_asked) == ((8,), (6,))
    h13 = find_neighbours(START, 13)
    assert h13.children == {11, 15}
    assert (h13.parent_asked, h13.child_asked) == ((8,), (10, 14))
    h11 = find_neighbours(START, 11)
    assert (h11.parent, h11.parent_asked, h11.child_asked) == (13, (12,), (9,))


def test_h4_joins() -> None:
    """Figure 2(b). Two slips of the paper: h5's topmost key is then 5, and h4 has key 0, too."""
    dht, neighbours, rounds = reconfigure(START, AT_START, [Event("join", 4)])
    assert keys(dht, 4) == {0, 1, 2, 3, 4}
    assert keys(dht, 5) == {5}
    assert (dht.topmost[4], dht.topmost[5]) == (4, 5)
    assert neighbours == {4: {5, 9}, 5: {4}, 9: {4, 13}, 11: {13}, 13: {9, 11, 15}, 15: {13}}
    # h11, h13 and h15 have nothing to do.
    assert {host for one in rounds for host in one.computed} == {4, 5, 9}
    assert reconfiguration_area(AT_START, neighbours) == {4, 5, 9}
    # h4 asks for 8, then for 6 and 5; h5 for 6, 4 (its parent; 6 is h9's, 7 with it).
    assert find_neighbours(dht, 4).child_asked == (6, 5)
    assert find_neighbours(dht, 5).parent_asked == (6, 4)


def test_rounds_when_h4_joins() -> None:
    """h4 and, since its topmost key changed, h5 compute; then those that they tell."""
    _, _, rounds = reconfigure(START, AT_START, [Event("join", 4)])
    assert rounds == [
        Round((4, 5), ((4, 5), (4, 9), (5, 4), (5, 9)), 3, 2),
        Round((4, 5, 9), ((9, 4), (9, 5)), 3, 4),
        Round((4, 5), (), 3, 2),
    ]
    _, _, rounds = reconfigure(START, AT_START, [Event("join", 4)], Rules(topmost_changed=False))
    assert rounds == [
        Round((4,), ((4, 5), (4, 9)), 1, 2),
        Round((5, 9), ((5, 4), (5, 9), (9, 4), (9, 5)), 2, 2),
        Round((4, 5, 9), (), 3, 4),
    ]


def test_h13_fails() -> None:
    """Figure 2(c)."""
    dht, before, _ = reconfigure(START, AT_START, [Event("join", 4)])
    dht, after, rounds = reconfigure(dht, before, [Event("failure", 13)])
    assert dht.topmost[15] == 12
    assert after == {4: {5, 9}, 5: {4}, 9: {4, 15}, 11: {15}, 15: {9, 11}}
    assert reconfiguration_area(before, after) == {9, 11, 13, 15}
    # h9 asks for 4 and 12, h11 for 12 and 9, h15 for 8 and 10.
    assert rounds == [
        Round((9, 11, 15), ((9, 15), (11, 15), (15, 9), (15, 11)), 2, 4),
        Round((9, 11, 15), (), 2, 4),
    ]


def test_multicast() -> None:
    """From h11 to h5 and h15: over h13 and h9."""
    edges = multicast_edges(AT_START, 11, {5, 15})
    assert edges == {13: (11, 1), 9: (13, 2), 15: (13, 2), 5: (9, 3)}
    assert multicast_edges(AT_START, 11, {11}) == {}
