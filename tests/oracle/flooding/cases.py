"""Seeded random cases of flooding: an overlay, groups and sources."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ..imperfect import Damage, overlay_of, random_damage
from ..pastry import Overlay
from ..random_cases import Case, random_case
from .flood import ring_of


@dataclass(frozen=True)
class FloodingCase:
    """A case, as plain data; `over` is group (perfect tables) or overlay (damaged ones, too)."""

    case: Case
    damage: Damage | None
    over: str
    sources: dict[int, int]

    def overlay(self) -> Overlay:
        """Return the run's overlay."""
        return overlay_of(self.case, self.case.routes(), self.damage)

    def ring(self, overlay: Overlay, group: int) -> Overlay:
        """Return the ring that the group's message floods."""
        if self.over == "overlay":
            return overlay
        return ring_of(overlay, self.case.members[group], self.sources[group])


def random_flooding(seed: int) -> FloodingCase:
    """Draw a case; sources are roots or members."""
    rng = random.Random(f"flooding {seed}")
    case = random_case(seed)
    case = replace(case, b=min(case.b, 4))
    over = rng.choice(["group", "overlay"])
    damage = random_damage(rng) if over == "overlay" and rng.random() < 0.5 else None
    overlay = case.overlay(case.routes())
    sources = {
        group: rng.choice([overlay.root(key), rng.choice(sorted(case.members[group]))])
        for group, key in case.keys.items()
    }
    return FloodingCase(case, damage, over, sources)
