"""A Pastry overlay whose routing tables miss entries, or have some that are not the nearest."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .knowledge import Known
from .pastry import Overlay, common_length
from .random_cases import Case
from .routes import Routes


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
                if common_length(self._digits[node], self._digits[other]) == row
                and self._digits[other][row] == column
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
