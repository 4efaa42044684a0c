"""The reference tree of keys, hosts on a ring, the tree of hosts, searches and paths."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Subtree:
    """A subtree: the keys from ``low`` to ``high``, and ``node``, the key that is its root."""

    node: int
    low: int
    high: int
    depth: int
    parent: int | None


class ReferenceTree:
    """The tree over the keys ``0 .. 2**bits - 1`` in which a key has at most ``children`` children.

    Subtrees are computed where they are asked for and remembered, so trees of 128 bits are as
    good as small ones.
    """

    def __init__(self, bits: int, children: int):
        self.bits, self.children = bits, children
        self.root = Subtree(1 << (bits - 1), 0, (1 << bits) - 1, 0, None)
        self._subtrees: dict[int, tuple[Subtree, ...]] = {}
        self._paths: dict[int, list[Subtree]] = {}

    def subtrees(self, tree: Subtree) -> tuple[Subtree, ...]:
        """The subtrees below the node of ``tree``, in the order of keys."""
        if tree.node not in self._subtrees:
            self._subtrees[tree.node] = tuple(self._split(tree))
        return self._subtrees[tree.node]

    def _split(self, tree: Subtree) -> Iterator[Subtree]:
        below, above = self._sides(tree)
        ranges = [*shared(tree.low, tree.node, below), *shared(tree.node + 1, tree.high + 1, above)]
        for start, stop in ranges:
            away = -(-(stop - start - 1) // self.children)  # keys on the side away from the parent
            node = start + away if stop <= tree.node else stop - 1 - away
            yield Subtree(node, start, stop - 1, tree.depth + 1, tree.node)

    def _sides(self, tree: Subtree) -> tuple[int, int]:
        """How many subtrees share the keys below, and how many those above the node."""
        if tree.parent is None:
            return (self.children + 1) // 2, self.children // 2
        one, others = 1, self.children - 1
        return (one, others) if tree.node < tree.parent else (others, one)

    def subtree(self, key: int) -> Subtree:
        """The subtree whose node is ``key``."""
        return self.path(key)[-1]

    def path(self, key: int) -> list[Subtree]:
        """The subtrees that have ``key``: from the root's to the one whose node is ``key``."""
        if key not in self._paths:
            found = [self.root]
            while found[-1].node != key:
                (inner,) = (one for one in self.subtrees(found[-1]) if one.low <= key <= one.high)
                found.append(inner)
            self._paths[key] = found
        return self._paths[key]

    def depth(self, key: int) -> int:
        """The depth of ``key``."""
        return self.subtree(key).depth

    def ancestors(self, key: int) -> list[int]:
        """The keys above ``key``, its parent first, the root last."""
        return [one.node for one in reversed(self.path(key)[:-1])]


def shared(start: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Share the keys ``start .. stop - 1`` among ``parts`` ranges; empty ones are left out.

    Consecutive, in the order of keys, equal but for one key, the first ones the larger.
    """
    size, larger = divmod(stop - start, parts)
    ranges = []
    for part in range(parts):
        end = start + size + (part < larger)
        if end > start:
            ranges.append((start, end))
        start = end
    return ranges


@functools.cache
def reference_tree(bits: int, children: int) -> ReferenceTree:
    """The same tree for the same parameters."""
    return ReferenceTree(bits, children)


@dataclass(frozen=True)
class ExplicitTree:
    """A tree written out."""

    order: list[int]
    depth: dict[int, int]
    parent: dict[int, int]
    children: dict[int, list[int]]


@functools.cache
def explicit_tree(bits: int, children: int) -> ExplicitTree:
    """Write out the tree, level by level, on lists of keys; nothing of `ReferenceTree` is used."""
    keys = list(range(2**bits))
    root = keys[len(keys) // 2]
    depth: dict[int, int] = {root: 0}
    parent: dict[int, int] = {}
    kids: dict[int, list[int]] = {key: [] for key in keys}
    below = dealt(keys[:root], (children + 1) // 2)
    above = dealt(keys[root + 1 :], children // 2)
    level = [(root, part) for part in below + above]
    while level:
        following = []
        for top, part in level:
            # Away from the parent comes first in `outwards`.
            outwards = part if part[-1] < top else part[::-1]
            away = (len(part) - 1 + children - 1) // children
            far, node, near = outwards[:away], outwards[away], outwards[away + 1 :]
            depth[node], parent[node] = depth[top] + 1, top
            kids[top].append(node)
            parts = dealt(sorted(far), 1) + dealt(sorted(near), children - 1)
            following += [(node, inner) for inner in parts]
        level = following
    order = sorted(keys, key=lambda key: (depth[key], key))
    return ExplicitTree(order, depth, parent, {key: sorted(kids[key]) for key in keys})


def dealt(keys: list[int], parts: int) -> list[list[int]]:
    """The same as `shared`, by counting out one key after the other."""
    sizes = [0] * parts
    for number in range(len(keys)):
        sizes[number % parts] += 1
    lists, rest = [], keys
    for size in sizes:
        lists.append(rest[:size])
        rest = rest[size:]
    return [one for one in lists if one]


# --- hosts on a ring ------------------------------------------------------------------------------

ASSIGNMENTS = ("chord", "pastry")


@dataclass(frozen=True)
class Keyset:
    """The keys from ``first`` clockwise to ``last`` on a ring of ``2**bits`` keys.

    It wraps around 0 where ``first > last``. A keyset is never empty, so an interval that ends
    just before it starts is the ring.
    """

    first: int
    last: int
    bits: int

    @functools.cached_property
    def size(self) -> int:
        """The number of keys."""
        return (self.last - self.first) % (1 << self.bits) + 1

    def __contains__(self, key: int) -> bool:
        return (key - self.first) % (1 << self.bits) < self.size

    def covers(self, low: int, high: int) -> bool:
        """Whether all of ``low .. high`` are in it."""
        ring = 1 << self.bits
        return self.size == ring or (low - self.first) % ring + high - low < self.size

    def overlaps(self, low: int, high: int) -> bool:
        """Whether any of ``low .. high`` is in it."""
        return low in self or high in self or low <= self.first <= high


@dataclass(frozen=True)
class Answer:
    """What the DHT says of a key: its owner, the owner's keyset, and so the owner's topmost key."""

    owner: int
    keyset: Keyset
    topmost: int


class Dht:
    """A stable DHT over hosts, which are named by their ids."""

    def __init__(self, reference: ReferenceTree, hosts, assignment: str):
        self.reference, self.assignment = reference, assignment
        self.hosts = sorted(hosts)
        assert len(set(self.hosts)) == len(self.hosts)
        self.keysets = {
            host: keyset(self.hosts, place, assignment, reference.bits)
            for place, host in enumerate(self.hosts)
        }
        self.topmost = {
            host: topmost_key(reference, keyset) for host, keyset in self.keysets.items()
        }

    def lookup(self, key: int) -> Answer:
        """Who owns ``key``."""
        (owner,) = (host for host, keyset in self.keysets.items() if key in keyset)
        return Answer(owner, self.keysets[owner], self.topmost[owner])


def keyset(hosts: list[int], place: int, assignment: str, bits: int) -> Keyset:
    """The keyset of the host at ``place`` among ``hosts``, which are sorted."""
    host, before, after = hosts[place], hosts[place - 1], hosts[(place + 1) % len(hosts)]
    ring = 1 << bits
    if assignment == "chord":
        return Keyset((before + 1) % ring, host, bits)
    if len(hosts) == 1:
        return Keyset((host - ring // 2 + 1) % ring, (host + ring // 2) % ring, bits)
    last_of_before = last_nearer(before, host, ring)
    return Keyset((last_of_before + 1) % ring, last_nearer(host, after, ring), bits)


def last_nearer(host: int, after: int, ring: int) -> int:
    """The last key that is ``host``'s clockwise of it, before ``after``'s keys begin."""
    gap = (after - host) % ring
    ours = gap // 2
    if gap % 2 == 0 and after < host:  # halfway: the smaller id
        ours -= 1
    return (host + ours) % ring


def owner_by_definition(hosts: list[int], key: int, assignment: str, bits: int) -> int:
    """The owner of ``key``, by comparing all hosts."""
    ring = 1 << bits
    if assignment == "chord":  # the first host at or after the key
        return min(hosts, key=lambda host: (host - key) % ring)
    return min(hosts, key=lambda host: (min((host - key) % ring, (key - host) % ring), host))


# --- the tree of hosts ----------------------------------------------------------------------------


Neighbours = dict[int, frozenset[int]]


@dataclass(frozen=True)
class HostTree:
    """Each host's place."""

    topmost: dict[int, int]
    depth: dict[int, int]
    parent: dict[int, int | None]

    def children(self, host: int) -> frozenset[int]:
        """The hosts whose parent ``host`` is."""
        return frozenset(child for child, parent in self.parent.items() if parent == host)

    def neighbours(self) -> Neighbours:
        """The parent and the children of each host."""
        sets: dict[int, set[int]] = {host: set() for host in self.parent}
        for child, parent in self.parent.items():
            if parent is not None:
                sets[child].add(parent)
                sets[parent].add(child)
        return {host: frozenset(neighbours) for host, neighbours in sets.items()}


def tree_from_nothing(dht: Dht) -> HostTree:
    """Compute all topmost keys, then of each the closest ancestor that is one, too."""
    host_of = {key: host for host, key in dht.topmost.items()}
    parent = {}
    for host, key in dht.topmost.items():
        above = (host_of[one] for one in dht.reference.ancestors(key) if one in host_of)
        parent[host] = next(above, None)
    depth = {host: dht.reference.depth(key) for host, key in dht.topmost.items()}
    return HostTree(dict(dht.topmost), depth, parent)


def parents_of_hosts(
    hosts: Iterable[int], bits: int, children: int, assignment: str
) -> dict[int, int | None]:
    """Each host's parent in the tree computed from nothing; None at the root."""
    return tree_from_nothing(Dht(reference_tree(bits, children), hosts, assignment)).parent


# --- topmost hosts --------------------------------------------------------------------------------


def topmost_key(reference: ReferenceTree, keyset: Keyset) -> int:
    """The key of ``keyset`` with the least depth, and of those the least key."""
    level = [reference.root]
    while True:
        found = [tree.node for tree in level if tree.node in keyset]
        if found:
            return min(found)
        level = [
            inner
            for tree in level
            for inner in reference.subtrees(tree)
            if keyset.overlaps(inner.low, inner.high)
        ]


def topmost_by_definition(explicit: ExplicitTree, keyset: Keyset) -> int:
    """The first key of ``keyset`` in a breadth first traversal of the tree written out."""
    return next(key for key in explicit.order if key in keyset)


# --- searches -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What a host finds."""

    parent: int | None
    children: frozenset[int]
    parent_asked: tuple[int, ...]
    child_asked: tuple[int, ...]

    @property
    def neighbours(self) -> frozenset[int]:
        """Parent and children."""
        return self.children | ({self.parent} if self.parent is not None else set())


def find_neighbours(dht: Dht, host: int) -> Found:
    """The parent and the children of ``host``; the two searches share no answers."""
    parent, parent_asked = find_parent(dht, host)
    children, child_asked = find_children(dht, host)
    return Found(parent, children, tuple(parent_asked), tuple(child_asked))


def find_parent(dht: Dht, host: int) -> tuple[int | None, list[int]]:
    """The parent of ``host`` (None: there is none), and the keys that it asks for."""
    asked: list[int] = []
    answers: list[Answer] = []
    for key in dht.reference.ancestors(dht.topmost[host]):
        # No ancestor of its topmost key is in its own keyset.
        known = [answer for answer in answers if key in answer.keyset]
        if not known:
            asked.append(key)
            known = [dht.lookup(key)]
            answers += known
        if known[0].topmost == key:
            return known[0].owner, asked
    return None, asked


def find_children(dht: Dht, host: int) -> tuple[frozenset[int], list[int]]:
    """The children of ``host``, and the keys that it asks for."""
    own = dht.keysets[host]
    asked: list[int] = []
    children: set[int] = set()
    # Subtrees to visit, with the host's own keyset and those of the owners of keys above them.
    # Such an owner's topmost key is not below: it has a key that comes before.
    start = dht.reference.subtree(dht.topmost[host])
    level: list[tuple[Subtree, tuple[Keyset, ...]]]
    level = [(tree, (own,)) for tree in dht.reference.subtrees(start)]
    while level:
        following = []
        for tree, known in level:
            if any(keyset.covers(tree.low, tree.high) for keyset in known):
                continue
            if not any(tree.node in keyset for keyset in known):
                asked.append(tree.node)
                answer = dht.lookup(tree.node)
                if answer.topmost == tree.node:
                    children.add(answer.owner)
                    continue
                if answer.keyset not in known:
                    known = (*known, answer.keyset)
            following += [(inner, known) for inner in dht.reference.subtrees(tree)]
        level = following
    return frozenset(children), asked


# --- paths ----------------------------------------------------------------------------------------


def joining_subtree(neighbours: Neighbours, ends: Iterable[int]) -> Neighbours:
    """The smallest subtree that has all of ``ends``: what is left when other leaves are cut off."""
    ends = set(ends)
    if not ends:
        return {}
    left = {host: set(others) for host, others in neighbours.items()}
    leaves = [host for host, others in left.items() if len(others) <= 1 and host not in ends]
    while leaves:
        leaf = leaves.pop()
        for other in left.pop(leaf):
            left[other].remove(leaf)
            if len(left[other]) <= 1 and other not in ends:
                leaves.append(other)
    return {host: frozenset(others) for host, others in left.items()}


def links(neighbours: Neighbours) -> set[frozenset[int]]:
    """The links, each a pair of hosts."""
    return {frozenset({host, other}) for host, others in neighbours.items() for other in others}


def reconfiguration_area(old: Neighbours, new: Neighbours) -> frozenset[int]:
    """The hosts of the area of one event: in the tree that has the host that came or went."""
    (host,) = set(old) ^ set(new)
    changed = links(old) ^ links(new)
    tree = new if host in new else old
    return frozenset(joining_subtree(tree, {end for link in changed for end in link}))


def multicast_edges(
    neighbours: Neighbours, source: int, members: Iterable[int]
) -> dict[int, tuple[int, int]]:
    """Who gets the message of ``source`` to ``members``: host -> (host that sends it, hops).

    The edges are those of the smallest subtree that joins the source and the members.
    """
    subtree = joining_subtree(neighbours, {source, *members})
    reached = {source: (source, 0)}
    waiting = [source]
    for sender in waiting:
        for receiver in sorted(subtree[sender]):
            if receiver not in reached:
                reached[receiver] = (sender, reached[sender][1] + 1)
                waiting.append(receiver)
    del reached[source]
    return reached
