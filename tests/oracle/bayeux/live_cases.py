"""Seeded random worlds of Bayeux: overlay, settings and events all follow from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ..living.cases import overlay_of, small_rules
from ..living.draws import random_idents
from ..living.overlay import Overlay, Rules
from ..living.world import step
from ..scribe_living.cases import Story
from ..scribe_living.groups import Access, Group
from .world import Bayeux, Event, Settings, Snapshot

OVERLAY_EVENTS = ("arrive", "recover", "fail", "leave")


@dataclass(frozen=True)
class LiveCase:
    """A world, as plain data.

    Nodes are 0 to count - 1, of which 0 to present - 1 live before round 0 (`perfect`: with perfect
    tables). `events` have Scribe's kinds, ``create`` too, which says nothing to Bayeux.
    """

    seed: int
    count: int
    present: int
    perfect: bool
    rules: Rules
    keys: dict[int, int]
    settings: Settings
    events: list[Event]
    rounds: int

    def overlay(self) -> Overlay:
        """Return the overlay before round 0."""
        return overlay_of(self.seed, self.count, self.present, self.rules, self.perfect)

    def begin(self) -> Bayeux:
        """Return the world before round 0."""
        return Bayeux(self.overlay(), self.keys, self.settings)

    def step(self, run: Bayeux, now: int) -> Snapshot:
        """Play a round of Pastry, and then of Bayeux."""
        today = [event for event in self.events if event[0] == now]
        step(run.overlay, now, [event for event in today if event[2] in OVERLAY_EVENTS])
        return run.step(now, today)


def random_live(seed: int, most: int = 60) -> LiveCase:
    """Draw a world of at most `most` nodes and 24 rounds, with every kind of event."""
    rng = random.Random(f"bayeux world {seed}")
    rules = replace(small_rules(rng), drops_seen="round", repair_asks="all", leaves_fill_cells=True)
    count = rng.choice([rng.randint(6, 20), rng.randint(20, most), rng.randint(20, most)])
    idents = random_idents(count, seed)
    groups = {
        group: Group(rng.randrange(2**128), Access()) for group in range(1, rng.randint(1, 4) + 1)
    }
    present = max(2, 2 * count // 3)
    rounds = rng.randint(10, 24)
    story = Story(rng, idents, groups, present)
    story.tell(rounds, busy=rng.choice([0.0, 0.01, 0.03, 0.08]))
    settings = Settings(
        rng.choice(["table", "table", "leaf_set"]),
        rng.choice([0, 1, 1, 2, 4]),
        rng.choice([0, 3, 5]),
    )
    return LiveCase(
        seed,
        count,
        present,
        rng.random() < 0.3,
        rules,
        {number: group.key for number, group in groups.items()},
        settings,
        story.events,
        rounds,
    )
