"""Seeded random cases of CAN: nodes on routers, groups with sources, settings."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..dissemination import Spread
from ..random_cases import Case, random_case
from ..routes import Routes
from .flood import CORNER, DIRECTED, OPTIMAL, CanOverlay, Messages, control, flood
from .zones import Can, Draw, Points, Space, global_can, group_can


@dataclass(frozen=True)
class CanCase:
    """A case, as plain data."""

    case: Case
    dimensions: int
    #: What the config says; None: as many as can be. The seed is that of the draws, too.
    bits: int | None
    landmarks: int  # How many; which ones (`distinct_below`) is given to `points`
    flooding: str
    clock: str
    processing_us: int
    sources: dict[int, int]

    @property
    def space(self) -> Space:
        """Return the torus."""
        return Space.of(self.dimensions, self.bits)

    def points(self, routes: Routes, draw: Draw, landmarks: Sequence[int] = ()) -> Points:
        """Return where nodes join; `landmarks` are routers."""
        assert len(landmarks) == self.landmarks
        return Points(self.space, draw, self.case.router, routes.delay, tuple(landmarks))

    def can(self, group: int, points: Points) -> Can:
        """Return a group's CAN."""
        members, source = self.case.members[group], self.sources[group]
        return group_can(group, members, source, self.case.ids, points)

    def everybody(self, points: Points) -> Can:
        """Return the CAN of all nodes, over which CONTACTs go."""
        return global_can(self.case.ids, points)

    def published(self, group: int, can: Can, routes: Routes) -> Spread:
        """Return what comes of a group's publication."""
        overlay = self.case.overlay(routes)
        delay = overlay.proximity if self.clock == "time" else None
        return flood(can, self.sources[group], self.flooding, delay, self.processing_us)

    def control(self, group: int, can: Can, everybody: Can) -> Messages:
        """Return the messages of building a group's CAN."""
        return control(can, everybody, self.case.keys[group])

    def overlay(self, routes: Routes, draw: Draw) -> CanOverlay:
        """Return the CAN of all nodes as the overlay."""
        points = Points(self.space, draw, self.case.router, routes.delay)
        return CanOverlay(self.case.ids, points, self.case.overlay(routes).proximity)


def random_can(seed: int) -> CanCase:
    """Draw a case; a source is the node numerically closest to the groupId, or any node."""
    rng = random.Random(f"can {seed}")
    case = random_case(seed)
    dimensions = rng.choice([1, 2, 2, 3, 4, 6, 10])
    nodes = sorted(case.ids)
    overlay = case.overlay(case.routes())
    sources = {
        group: rng.choice(
            [overlay.root(key), rng.choice(sorted(case.members[group])), rng.choice(nodes)]
        )
        for group, key in case.keys.items()
    }
    return CanCase(
        case,
        dimensions,
        rng.choice([None, None, None, 25, 31]),
        rng.choice([0, 0, *(m for m in (1, 2, 3, 4) if m <= len(case.routers))]),
        rng.choice([DIRECTED, CORNER, OPTIMAL]),
        rng.choice(["time", "hops"]),
        rng.choice([0, 0, 700, 5000]),
        sources,
    )
