"""One node's next hop from what it knows, however incomplete; damaged tables.

The next hop is told by which rule, so that cases can be seen to have all of them; `living.routing`
has the order in which a node tries others when the next hop is dead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from .pastry import Overlay
from .random_cases import Case
from .ring import RING, closeness, closest, digits, on_arc, shared_digits
from .routes import Routes


@dataclass(frozen=True)
class Known:
    """What a node knows, by nodeIds: both sides of its leaf set, nearest first, and its table."""

    own: int
    b: int
    smaller: tuple[int, ...] = ()
    larger: tuple[int, ...] = ()
    table: dict[tuple[int, int], int] = field(default_factory=dict)
    covers_ring: bool = False

    @property
    def clockwise(self) -> list[int]:
        """The leaf set from its farthest smaller to its farthest larger leaf."""
        return [*reversed(self.smaller), *self.larger]

    def without(self, dead: set[int]) -> Known:
        """The same with the dead left out."""

        def alive(side: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(one for one in side if one not in dead)

        table = {cell: entry for cell, entry in self.table.items() if entry not in dead}
        return Known(
            self.own, self.b, alive(self.smaller), alive(self.larger), table, self.covers_ring
        )

    def next_hop(self, key: int) -> tuple[str, int | None]:
        """The rule that applies, and who is next (None: the node takes itself for the root)."""
        # 1. Within the span of the leaf set: the numerically closest of it and the node.
        low = self.smaller[-1] if self.smaller else self.own
        high = self.larger[-1] if self.larger else self.own
        leaves = [*self.smaller, *self.larger]
        # (a node without leaves knows of nobody else on the ring, whatever its table says)
        if self.covers_ring or not leaves or on_arc(key, low, high):
            found = closest([self.own, *leaves], key)
            return "leaf set", None if found == self.own else found
        # 2. The routing table's entry.
        row = shared_digits(self.own, key, self.b)
        cell = (row, digits(key, self.b)[row])
        if cell in self.table:
            return "entry", self.table[cell]
        # 3. Who shares a prefix at least as long and is closer; of these the closest.
        candidates = [
            one
            for one in {*leaves, *self.table.values()}
            if shared_digits(one, key, self.b) >= row
            and closeness(key, one) < closeness(key, self.own)
        ]
        if not candidates:
            return "nobody closer", None
        longer = any(shared_digits(one, key, self.b) > row for one in {*leaves})
        return "leaf without entry" if longer else "gap", closest(candidates, key)


def random_ids(rng: random.Random, b: int) -> list[int]:
    """Distinct nodeIds, some spread, some close together, some alike but for their last digits."""
    ids: set[int] = set()
    count = rng.choice([1, 2, 3, 5, 8, 12])
    while len(ids) < count:
        kind = rng.randrange(4)
        if kind == 0 or not ids:
            ids.add(
                rng.choice([rng.randrange(RING), rng.randrange(4), RING - 1 - rng.randrange(4)])
            )
        elif kind == 1:
            ids.add((rng.choice(sorted(ids)) + rng.randrange(1, 4)) % RING)
        else:
            ids.add(rng.choice(sorted(ids)) ^ rng.randrange(1, 2**b) << b * rng.randrange(128 // b))
    return sorted(ids)


def random_known(rng: random.Random, own: int, ids: list[int], b: int) -> Known:
    """What a node may know of others: any leaf set, any part of a routing table."""
    others = sorted((one for one in ids if one != own), key=lambda one: (one - own) % RING)
    share = rng.choice([0, 0.3, 0.8, 1])
    leaves = [one for one in others if rng.random() < share]
    larger = rng.randrange(len(leaves) + 1)
    filled = rng.choice([0, 0.5, 1])
    table: dict[tuple[int, int], int] = {}
    for one in rng.sample(others, len(others)):
        row = shared_digits(own, one, b)
        if rng.random() < filled:
            table[row, digits(one, b)[row]] = one
    covers = len(leaves) == len(others) and rng.random() < 0.5
    return Known(own, b, tuple(reversed(leaves[larger:])), tuple(leaves[:larger]), table, covers)


def keys_for(rng: random.Random, known: Known, ids: list[int]) -> Iterator[int]:
    """Keys on and beside nodeIds, halfway between them, and at the ends of the ring."""
    yield from (0, RING - 1, known.own, rng.randrange(RING))
    for _ in range(3):
        one, other = rng.choice(ids), rng.choice(ids)
        yield (one + rng.randrange(-1, 2)) % RING
        yield (one + (other - one) % RING // 2 + rng.randrange(-1, 2)) % RING
        yield one ^ 1 << rng.randrange(128)
        yield known.own ^ rng.randrange(1, 2**known.b) << known.b * rng.randrange(128 // known.b)


# --- damaged tables -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Damage:
    """Which cells are lost, and which hold any node that belongs there; drawn by the seed."""

    seed: int
    missing: float
    farther: float


class ImperfectOverlay(Overlay):
    """Right leaf sets, damaged routing tables; a node knows nothing else."""

    def __init__(self, overlay: Overlay, damage: Damage) -> None:
        super().__init__(
            overlay.ids, overlay.router, overlay.delay, overlay.b, overlay.leaf_set_size
        )
        self.damage = damage

    def _perfect_routing_table(self, node: int) -> dict[tuple[int, int], int]:
        rng = random.Random(f"{self.damage.seed}/{self.ids[node]}")
        table = {}
        for cell, nearest in sorted(super()._perfect_routing_table(node).items()):
            row, column = cell
            fitting = sorted(
                other
                for other in self.ids
                if shared_digits(self.ids[node], self.ids[other], self.b) == row
                and digits(self.ids[other], self.b)[row] == column
            )
            drawn = rng.choice(fitting)
            entry = drawn if rng.random() < self.damage.farther else nearest
            if rng.random() >= self.damage.missing:
                table[cell] = entry
        return table

    def known(self, node: int) -> Known:
        """Return what a node knows, by nodeIds."""
        half = self.leaf_set_size // 2
        clockwise = [self.ids[other] for other in self._others_clockwise(node)]
        return Known(
            self.ids[node],
            self.b,
            tuple(reversed(clockwise[-half:])),
            tuple(clockwise[:half]),
            {cell: self.ids[entry] for cell, entry in self.routing_table(node).items()},
            covers_ring=len(self.ids) - 1 < self.leaf_set_size,
        )

    def next_hop(self, node: int, key: int) -> int | None:
        """Return the next hop by what the node knows alone; None: it takes itself for the root."""
        _, following = self.known(node).next_hop(key)
        return None if following is None else self.node_of[following]


def overlay_of(case: Case, routes: Routes, damage: Damage | None) -> Overlay:
    """Return the overlay of a case: perfect, or damaged."""
    perfect = case.overlay(routes)
    return perfect if damage is None else ImperfectOverlay(perfect, damage)


def random_damage(rng: random.Random) -> Damage:
    """Draw a damage; some take every entry away."""
    return Damage(rng.randrange(1 << 30), rng.choice([0, 0.1, 0.5, 1]), rng.choice([0, 0.5]))
