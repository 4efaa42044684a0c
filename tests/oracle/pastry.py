"""Pastry with perfect tables (JSAC section II; definitions of docs/concepts.md).

Roots, leaf sets, tables and next hops follow from the ring as a whole: they are what a run is to
have.  `knowledge` is the next hop from what one node knows, however damaged, and `living` routes by
tables that messages have made; the next hops of the kernels equal all three.
"""

from collections.abc import Mapping

from .ring import RING, closeness, closest, digits, on_arc, shared_digits


class Overlay:
    """A Pastry overlay in which every node knows what perfect tables would tell it.

    `ids` are distinct nodeIds by node, `router` the router of each node, `delay` the delays between
    routers in microseconds, and `leaf_set_size` is l.
    """

    def __init__(
        self,
        ids: Mapping[int, int],
        router: Mapping[int, int],
        delay: Mapping[int, Mapping[int, int]],
        b: int = 4,
        leaf_set_size: int = 16,
        lan_us: int = 1000,
    ) -> None:
        if len(set(ids.values())) != len(ids):
            raise ValueError("nodeIds must be distinct")
        if leaf_set_size < 2 or leaf_set_size % 2:
            raise ValueError(f"leaf_set_size must be even and at least 2, got {leaf_set_size}")
        self.ids = dict(ids)
        self.router = dict(router)
        self.delay = delay
        self.b = b
        self.leaf_set_size = leaf_set_size
        self.lan_us = lan_us
        self.node_of = {identifier: node for node, identifier in ids.items()}
        self._routing_tables: dict[int, dict[tuple[int, int], int]] = {}
        self._leaf_sets: dict[int, set[int]] = {}
        self._roots: dict[int, int] = {}

    def proximity(self, x: int, y: int) -> int:
        """Return D(x, y) in microseconds: the route, and the two nodes' LAN links."""
        if x == y:
            return 0
        return self.lan_us + self.delay[self.router[x]][self.router[y]] + self.lan_us

    def root(self, key: int) -> int:
        """Return the node numerically closest to ``key`` of all nodes."""
        if key not in self._roots:
            self._roots[key] = self.node_of[closest(self.node_of, key)]
        return self._roots[key]

    def routing_table(self, node: int) -> dict[tuple[int, int], int]:
        """Return the entries (row, column) -> node of a perfect routing table (JSAC Figure 1).

        Entry (r, d) is, of the nodes that share exactly the first r digits with ``node`` and have
        d next, the one with the least D from ``node``; ties go to the smallest nodeId.
        """
        if node not in self._routing_tables:
            self._routing_tables[node] = self._perfect_routing_table(node)
        return self._routing_tables[node]

    def _perfect_routing_table(self, node: int) -> dict[tuple[int, int], int]:
        table: dict[tuple[int, int], int] = {}
        by_preference = sorted(self.ids, key=lambda y: (self.proximity(node, y), self.ids[y]))
        for other in by_preference:
            if other == node:
                continue
            row = shared_digits(self.ids[node], self.ids[other], self.b)
            table.setdefault((row, digits(self.ids[other], self.b)[row]), other)
        return table

    def leaf_set(self, node: int) -> set[int]:
        """Return the leaf set of a node."""
        if node not in self._leaf_sets:
            if self.knows_whole_ring():
                self._leaf_sets[node] = set(self.ids) - {node}
            else:
                half = self.leaf_set_size // 2
                clockwise = self._others_clockwise(node)
                self._leaf_sets[node] = set(clockwise[:half]) | set(clockwise[-half:])
        return self._leaf_sets[node]

    def knows_whole_ring(self) -> bool:
        """Tell whether every leaf set is the whole ring."""
        return len(self.ids) - 1 <= self.leaf_set_size

    def _others_clockwise(self, node: int) -> list[int]:
        """Return all other nodes in the order of the ring, from the next larger nodeId on."""
        others = [other for other in self.ids if other != node]
        return sorted(others, key=lambda other: (self.ids[other] - self.ids[node]) % RING)

    def in_leaf_span(self, node: int, key: int) -> bool:
        """Tell whether ``key`` falls within the span of ``node``'s leaf set.

        The span is the closed arc that goes clockwise from the farthest smaller leaf, through
        ``node``, to the farthest larger leaf.  With fewer than l other nodes these arcs meet and
        the span is the whole ring; with exactly l others the gap between the two ends is outside:
        a node cannot know that nobody is there.
        """
        if len(self.ids) - 1 < self.leaf_set_size:
            return True
        half = self.leaf_set_size // 2
        clockwise = self._others_clockwise(node)
        return on_arc(key, self.ids[clockwise[-half]], self.ids[clockwise[half - 1]])

    def next_hop(self, node: int, key: int) -> int | None:
        """Return the next hop of a message to ``key``; None at the root."""
        # 1. The root delivers.
        if node == self.root(key):
            return None

        # 2. Within the leaf set's span: the numerically closest node is in sight.
        if self.in_leaf_span(node, key):
            near = self.leaf_set(node) | {node}
            return self.node_of[closest((self.ids[y] for y in near), key)]

        # 3. A routing-table entry that shares one more digit with the key.
        row = shared_digits(self.ids[node], key, self.b)
        entry = self.routing_table(node).get((row, digits(key, self.b)[row]))
        if entry is not None:
            return entry

        # 4. No entry: a node with as long a prefix that is numerically closer.
        return self._closer_node(node, key)

    def _closer_node(self, node: int, key: int) -> int | None:
        """Return the numerically closest known node with as long a prefix, if closer than ``node``.

        With perfect tables there always is one, so None is never returned: outside the span, the
        leaves on the shorter way round to the key lie between ``node`` and the key, hence share
        the prefix that these two share and are closer.
        """
        row = shared_digits(self.ids[node], key, self.b)
        known = self.leaf_set(node) | set(self.routing_table(node).values())
        candidates = [
            self.ids[y]
            for y in known
            if shared_digits(self.ids[y], key, self.b) >= row
            and closeness(key, self.ids[y]) < closeness(key, self.ids[node])
        ]
        return self.node_of[closest(candidates, key)] if candidates else None

    def route(self, node: int, key: int) -> list[int]:
        """Return the nodes of the Pastry route from ``node`` to the root of ``key``, both ends."""
        visited = [node]
        while (following := self.next_hop(visited[-1], key)) is not None:
            if following in visited:
                raise RuntimeError(f"route to {key:032x} loops: {visited} then {following}")
            visited.append(following)
        return visited
