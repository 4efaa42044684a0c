"""Small random cases, drawn to be rich in ties, clusters and edges of the ring."""

import random
from dataclasses import dataclass

from .pastry import Overlay
from .ring import RING, closest
from .routes import Cost, Link, Routes, shortest_routes

MAX_ROUTERS = 12
MAX_NODES = 60
MAX_GROUPS = 6


@dataclass(frozen=True)
class Case:
    """One case: a router graph, an overlay on it, and groups.

    Attributes
    ----------
    seed : int
        What `random_case` was called with.
    routers : tuple of int
        Router ids, ``0 .. R - 1``.
    links : dict of (src, dst) to (weight, delay_us)
        Directed links, both directions of each undirected one, with equal weight and delay.
    ids : dict of node to nodeId
        Nodes are ``0 .. N - 1``, in no order of nodeId.
    router : dict of node to router
    b, leaf_set_size : int
        Pastry's parameters b and l.
    keys : dict of group to groupId
        Groups are ``1 .. G``.
    members : dict of group to frozenset of nodes
    """

    seed: int
    routers: tuple[int, ...]
    links: dict[Link, Cost]
    ids: dict[int, int]
    router: dict[int, int]
    b: int
    leaf_set_size: int
    keys: dict[int, int]
    members: dict[int, frozenset[int]]

    def routes(self) -> Routes:
        """Return the unicast routes of the case."""
        return shortest_routes(self.routers, self.links)

    def overlay(self, routes: Routes) -> Overlay:
        """Return the overlay of the case over ``routes``."""
        return Overlay(self.ids, self.router, routes.delay, self.b, self.leaf_set_size)

    def joins(self) -> list[tuple[int, int]]:
        """Return all (group, member), sorted."""
        return sorted((group, m) for group, members in self.members.items() for m in members)


def random_case(seed: int) -> Case:
    """Draw a case; the same seed always gives the same case."""
    rng = random.Random(seed)
    routers = tuple(range(rng.randint(1, MAX_ROUTERS)))
    links = random_links(rng, routers)
    few, some, many = rng.randint(1, 3), rng.randint(4, 20), rng.randint(21, MAX_NODES)
    node_count = rng.choice([few, some, some, many, many, many])
    ids = dict(enumerate(random_ids(rng, node_count)))
    keys = {group: random_key(rng, ids) for group in range(1, rng.randint(0, MAX_GROUPS) + 1)}
    return Case(
        seed=seed,
        routers=routers,
        links=links,
        ids=ids,
        router=random_placement(rng, routers, node_count),
        b=rng.choice([1, 2, 4, 8]),
        leaf_set_size=rng.choice([2, 2, 2, 4, 4, 8, 16, 32]),
        keys=keys,
        members={group: random_members(rng, ids, key) for group, key in keys.items()},
    )


def random_links(rng: random.Random, routers: tuple[int, ...]) -> dict[Link, Cost]:
    """Draw a connected graph: a random tree, and some links besides; weights tie often."""
    pairs = {(rng.randrange(router), router) for router in routers[1:]}
    for _ in range(rng.randint(0, 2 * len(routers))):
        low, high = sorted((rng.choice(routers), rng.choice(routers)))
        if low != high:
            pairs.add((low, high))
    max_weight = rng.choice([1, 2, 4])
    max_delay = rng.choice([0, 1, 5])
    links: dict[Link, Cost] = {}
    for low, high in sorted(pairs):
        cost = (rng.randint(1, max_weight), 1000 * rng.randint(0, max_delay))
        links[low, high] = links[high, low] = cost
    return links


def random_placement(
    rng: random.Random, routers: tuple[int, ...], node_count: int
) -> dict[int, int]:
    """Put the nodes on all routers, or crowd them on one or two."""
    used = rng.choice([routers, routers, rng.choices(routers, k=2), rng.choices(routers, k=1)])
    return {node: rng.choice(used) for node in range(node_count)}


def random_ids(rng: random.Random, count: int) -> list[int]:
    """Draw distinct nodeIds: uniform, in a cluster, adjacent, around zero, or some of each."""
    styles = ["uniform", "cluster", "adjacent", "ends"]
    chosen = rng.choice([*([style] for style in styles), ["uniform"], styles])
    base = rng.randrange(RING)
    free_bits = rng.randint(16, 124)
    ids: set[int] = set()
    while len(ids) < count:
        style = rng.choice(chosen)
        if style == "uniform":
            ids.add(rng.randrange(RING))
        elif style == "cluster":
            ids.add(base >> free_bits << free_bits | rng.getrandbits(free_bits))
        elif style == "adjacent":
            ids.add((base + rng.randrange(2 * count)) % RING)
        else:
            ids.add(rng.randint(-count, count) % RING)
    shuffled = sorted(ids)
    rng.shuffle(shuffled)
    return shuffled


def random_key(rng: random.Random, ids: dict[int, int]) -> int:
    """Draw a key: uniform, at or near a nodeId, halfway between two, or an end of the ring."""
    one, other = rng.choice(list(ids.values())), rng.choice(list(ids.values()))
    return rng.choice(
        [
            rng.randrange(RING),
            rng.randrange(RING),
            one,
            (one + rng.randint(-9, 9)) % RING,
            (one + other) // 2,
            ((one + other + RING) // 2) % RING,
            one ^ (1 << rng.randrange(128)),
            rng.choice([0, RING - 1]),
        ]
    )


def random_members(rng: random.Random, ids: dict[int, int], key: int) -> frozenset[int]:
    """Draw a group: some nodes, one, the root alone, some with or without the root, or all."""
    nodes = sorted(ids)
    node_of = {identifier: node for node, identifier in ids.items()}
    root = node_of[closest(node_of, key)]
    some = frozenset(rng.sample(nodes, rng.randint(1, len(nodes))))
    few = frozenset(rng.sample(nodes, rng.randint(1, min(5, len(nodes)))))
    one = frozenset({rng.choice(nodes)})
    choice = rng.choice([some, some | {root}, few, few - {root} or one, one, {root}, nodes])
    return frozenset(choice)
