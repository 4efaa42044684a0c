"""CAN as the overlay: what `tests.oracle.scribe` asks of an overlay, by greedy routes (C17)."""

from __future__ import annotations

from collections.abc import Mapping

from ..pastry import ID_BITS
from .can import global_can
from .zones import Draw, Points, Space


class CanOverlay:
    """A CAN of all nodes."""

    def __init__(
        self,
        ids: Mapping[int, int],
        router: Mapping[int, int],
        delay: Mapping[int, Mapping[int, int]],
        space: Space,
        draw: Draw,
        lan_us: int = 1000,
    ) -> None:
        self.ids, self.router, self.delay, self.lan_us = ids, router, delay, lan_us
        self.space = space
        self.can = global_can(ids, Points(space, draw, router, delay))

    def proximity(self, x: int, y: int) -> int:
        """Return D(x, y)."""
        if x == y:
            return 0
        return self.lan_us + self.delay[self.router[x]][self.router[y]] + self.lan_us

    def root(self, key: int) -> int:
        """Return the owner of the key's point."""
        return self.can.owner(self.space.first_bits(key, ID_BITS))

    def next_hop(self, node: int, key: int) -> int | None:
        """Return the next hop; None at the root."""
        return self.can.next_hop(node, self.space.first_bits(key, ID_BITS))

    def routing_table(self, node: int) -> set[tuple[int, int, int]]:
        """Return (row, col, neighbour): the dimension; 0 across the lower face, 1 the upper."""
        return {
            (dimension, int(direction > 0), neighbour)
            for neighbour, (dimension, direction) in self.can.across[node].items()
        }

    def route(self, node: int, key: int) -> list[int]:
        """Return the nodes of a route to the root of a key, both ends."""
        return self.can.route(node, self.space.first_bits(key, ID_BITS))
