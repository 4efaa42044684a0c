"""A slow oracle of anycast in Scribe's trees: rules A1 to A6 of docs/rules.md, and seeded cases.

Written from the rules alone, by someone who has not seen the kernel.  ``walk(case, query)`` plays
one call.  Nodes are positions; delays are whole microseconds.
"""

import random
from dataclasses import dataclass, field
from itertools import pairwise

from scribe_spark.core.arrays import NONE
from scribe_spark.core.draws import bits_np


@dataclass(frozen=True)
class Case:
    """A tree of one moment, and calls; `root` is NONE if there is no such group.

    `routes` has Pastry's route from each origin to the key's root, both included.
    """

    seed: int
    nodes: tuple[int, ...]  # numbers by position
    group_number: int
    root: int
    edges: tuple[tuple[int, int], ...]  # parent, child
    members: frozenset[int]
    accepts: frozenset[int]
    alive: tuple[bool, ...]
    routes: dict[int, tuple[int, ...]]
    queries: tuple[int, ...]  # origins
    distance: tuple[tuple[int, ...], ...]

    def children(self, x: int) -> list[int]:
        return [child for parent, child in self.edges if parent == x]

    def parent(self, x: int) -> int:
        return next((parent for parent, child in self.edges if child == x), NONE)

    def is_in_tree(self, x: int) -> bool:
        return x in self.members or bool(self.children(x)) or x == self.root


@dataclass
class Walk:
    """What came of a call; `path` has the nodes in the order in which they got the message."""

    accepted: int = NONE
    path: list[int] = field(default_factory=list)
    visited: list[int] = field(default_factory=list)
    delay_us: int = 0

    @property
    def messages(self) -> int:
        return len(self.path)


def walk(case: Case, query: int) -> Walk:
    """Play a call: the message at one node after the other (A1)."""
    origin = case.queries[query]
    done, listed, x = Walk(), list[int](), origin
    while True:
        if case.is_in_tree(x):
            if x != origin and x in case.members and x in case.accepts:  # A4
                done.accepted = x
                break
            visit(case, query, x, done.visited, listed)
            x = first_living(case, listed)
        elif done.visited:  # A3
            done.visited.append(x)
            x = first_living(case, listed)
        else:
            x = next_hop(case, origin, x)
        if x == NONE:  # A2, A6
            break
        done.path.append(x)
    done.delay_us = sum(case.distance[a][b] for a, b in pairwise([origin, *done.path]))
    return done


def next_hop(case: Case, origin: int, x: int) -> int:
    """A2: return the next node of the route, NONE at the key's root."""
    route = case.routes[origin]
    place = route.index(x) + 1
    return route[place] if place < len(route) else NONE


def visit(case: Case, query: int, x: int, visited: list[int], listed: list[int]) -> None:
    """A5: children in keyed order in front, the parent behind."""
    visited.append(x)

    def order(child: int) -> tuple[int, int]:
        key = query, case.group_number, case.nodes[child]
        return int(bits_np(case.seed, "anycast", *key)), child

    new = [one for one in case.children(x) if one not in visited and one not in listed]
    listed[:0] = sorted(new, key=order)
    parent = case.parent(x)
    if parent != NONE and parent not in visited and parent not in listed:
        listed.append(parent)
    if x in listed:
        listed.remove(x)


def first_living(case: Case, listed: list[int]) -> int:
    """A6: take the first living node off the list, NONE if there is none."""
    while listed:
        x = listed.pop(0)
        if case.alive[x]:
            return x
    return NONE


# --- cases ----------------------------------------------------------------------------------------


def random_case(seed: int) -> Case:
    """Draw a case: a tree of living and dead nodes; origins in the tree and outside."""
    rng = random.Random(f"anycast {seed}")
    count = rng.choice([rng.randint(1, 5), rng.randint(6, 30), rng.randint(31, 60), 60])
    if seed % 25 == 24:
        count = 300
    order = rng.sample(range(count), count)
    tree = order[: rng.randint(1, count)]
    width = rng.choice([1, 2, 5, count])  # the number of nodes that may take the next child
    parents = {x: rng.choice(tree[max(0, k - width) : k]) for k, x in enumerate(tree) if k}
    dead_share = rng.choice([0, 0, 0.1, 0.3])
    alive = [rng.random() >= dead_share for _ in range(count)]
    alive[tree[0]] = True
    inner = set(parents.values())
    forwards = rng.choice([0, 0.3, 0.8])  # nodes that are no members; without children, they left
    members = {x for x in tree if rng.random() >= forwards}
    if rng.random() < 0.6:
        members |= set(tree) - inner
    share = rng.choice([0, 0.1, 0.5, 1])
    accepts = {x for x in members if rng.random() < share}
    if members and rng.random() < 0.3:
        accepts = {rng.choice(sorted(members))}
    edges = sorted((parent, child) for child, parent in parents.items())
    root = tree[0]
    if seed % 20 == 7:  # no such group
        root, edges, members, accepts = NONE, [], set(), set()
    living = [x for x in range(count) if alive[x]]
    hops = _random_hops(rng, tree[0], living)
    queries = tuple(rng.choice(living) for _ in range(rng.randint(1, 12)))
    return Case(
        rng.getrandbits(40),
        tuple(rng.sample(range(10**9), count)),
        rng.choice([0, 3, -8, 10**12]),
        root,
        tuple(edges),
        frozenset(members),
        frozenset(accepts),
        tuple(alive),
        {x: _route(hops, x) for x in sorted(set(queries))},
        queries,
        tuple(
            tuple(0 if a == b else rng.randint(0, 99_999) for b in range(count))
            for a in range(count)
        ),
    )


def _random_hops(rng: random.Random, root: int, living: list[int]) -> dict[int, int]:
    """Draw the next hop of each living node to the key's root, without circles."""
    others = [x for x in living if x != root]
    order = [root, *rng.sample(others, len(others))]
    width = rng.choice([1, 4, len(order)])
    return {x: rng.choice(order[max(0, k - width) : k]) for k, x in enumerate(order) if k}


def _route(hops: dict[int, int], origin: int) -> tuple[int, ...]:
    """Return the route from a node."""
    route = [origin]
    while route[-1] in hops:
        route.append(hops[route[-1]])
    return tuple(route)
