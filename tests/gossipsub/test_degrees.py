"""Choices of the router: the least draws, and degrees of meshes by the classes of nodes."""

import numpy as np
import pytest

from scribe_spark.config import RunConfig
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.router import (
    DIALLED,
    Links,
    LinkSpace,
    Router,
    degrees,
    least,
    turned_way,
    with_classes,
)

COUNT = 40
GOSSIPSUB = GossipSubConfig(d=6, d_low=4, d_high=12, d_out=2)


def rules_of(degree: int | None):
    """Rules with which every node is of a class that has this degree."""
    one = {"name": "all", "share": 1.0} | ({} if degree is None else {"degree": degree})
    return with_classes(GOSSIPSUB, NodeClasses.of(RunConfig(classes=[one])))


def router_of(degree: int | None, in_mesh: int) -> Router:
    """A router whose node 0 has dialled all others, and has some of them in its mesh."""
    key = np.arange(1, COUNT)
    connections, mesh = Links(), Links()
    connections.insert(key, way=np.full(len(key), DIALLED, np.int8))
    mesh.insert(key[:in_mesh], way=np.full(in_mesh, DIALLED, np.int8))
    space = LinkSpace(COUNT, np.array([1]), np.arange(COUNT), 5)
    return Router(rules_of(degree), space, connections, mesh)


@pytest.mark.parametrize(
    ("degree", "wished"),
    [
        (None, (6, 4, 12, 2)),
        (6, (6, 4, 12, 2)),
        (20, (20, 18, 26, 2)),
        (3, (3, 1, 9, 0)),
        (1, (1, 1, 7, 0)),
    ],
)
def test_bounds_move_with_the_degree(degree, wished):
    nodes = np.arange(3)
    found = degrees(rules_of(degree), nodes, nodes)
    assert [column.tolist() for column in found] == [[value] * 3 for value in wished]


def test_nodes_have_the_degree_of_their_class():
    classes = NodeClasses.of(RunConfig(classes=[
        {"name": "many", "share": 0.5, "degree": 20}, {"name": "usual", "share": 0.5}
    ]))  # fmt: skip
    number = np.arange(100) * 7
    found = degrees(with_classes(GOSSIPSUB, classes), np.array([3, 9, 50, 51]), number)
    is_many = classes.of_nodes(number[[3, 9, 50, 51]]) == 0
    assert (found.d == np.where(is_many, 20, 6)).all()


@pytest.mark.parametrize(
    ("degree", "grafted", "left", "taken"), [(None, 6, 6, 12), (20, 20, 25, 26), (3, 3, 3, 9)]
)
def test_meshes_have_the_degree_of_the_class(degree, grafted, left, taken):
    """A node GRAFTs up to D, sends PRUNE to peers beyond D_high, and refuses them."""
    node, key = np.array([0]), np.arange(1, COUNT)
    assert len(router_of(degree, 0).join(node, 0)) == grafted
    assert len(router_of(degree, 0).heartbeat(node, 1)[0]) == grafted
    router = router_of(degree, 25)
    assert len(router.unsettled(node)) == (left < 25)
    router.heartbeat(node, 1)
    assert len(router.mesh) == left
    router = router_of(degree, 0)
    refused = router.take_grafts(key, turned_way(np.full(len(key), DIALLED, np.int8)), 1)
    assert (len(router.mesh), len(refused)) == (taken, len(key) - taken)


@pytest.mark.parametrize(("rows", "groups"), [(500, 40), (200_000, 9_000), (200_000, 3)])
def test_the_least_of_each_are_chosen_in_order(rows, groups):
    """Groups of all sizes, some that take none or more than they have; many equal draws."""
    random = np.random.default_rng(rows + groups)
    of = random.integers(0, groups, rows)
    bits = random.integers(0, 2**64, rows, dtype=np.uint64)
    bits[::7] = bits[0]
    bits[1::50] = 2**64 - 1
    count = random.integers(0, 2 * rows // groups + 1, groups)
    count[::5] = random.integers(0, 8, len(count[::5]))
    order = np.lexsort((bits, of))
    place = np.arange(rows) - np.searchsorted(of[order], of[order])
    expected = order[place < count[of[order]]]
    assert least(of, bits, count).tolist() == expected.tolist()
