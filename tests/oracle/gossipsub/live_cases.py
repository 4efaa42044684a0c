"""Seeded random worlds of GossipSub: settings and events all follow from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ..living.draws import Plane, random_idents
from ..scribe_living.cases import Story
from ..scribe_living.groups import Access, Group
from .cases import paced, random_settings
from .settings import Draw, Settings
from .world import Event, LiveTopic, World


@dataclass(frozen=True)
class LiveCase:
    """A world, as plain data; the seed of the draws is the case's.

    Nodes are 0 to count - 1, of which 0 to present - 1 live before round 0. `events` have Scribe's
    kinds, ``create`` too, which says nothing to GossipSub.  A round lasts `round_us`.
    """

    seed: int
    count: int
    present: int
    idents: dict[int, int]
    keys: dict[int, int]
    settings: Settings
    events: list[Event]
    rounds: int
    round_us: int

    def delay(self) -> Plane:
        """Return D."""
        return Plane(self.count, self.seed, self.count // 2 + 1)

    def begin(self, draw: Draw) -> World:
        """Return the world before round 0."""
        delay = self.delay()
        topics = {
            group: LiveTopic(group, self.settings, draw, self.idents, delay) for group in self.keys
        }
        return World(topics, set(range(self.present)), self.round_us, self.settings.heartbeat_us)


def random_live(seed: int, most: int = 60) -> LiveCase:
    """Draw a world of at most `most` nodes and 30 rounds, with every kind of event."""
    rng = random.Random(f"gossipsub world {seed}")
    count = rng.choice([rng.randint(6, 20), rng.randint(20, most)])
    idents = random_idents(count, seed)
    groups = {
        group: Group(rng.randrange(2**128), Access()) for group in range(1, rng.randint(1, 4) + 1)
    }
    present = max(2, 2 * count // 3)
    rounds = rng.randint(12, 30)
    story = Story(rng, idents, groups, present)
    story.tell(rounds, busy=rng.choice([0.0, 0.01, 0.03, 0.08]))
    settings = replace(
        paced(random_settings(rng), seed),
        discovery="dial",
        detection=rng.choice([0, 1, 1, 2, 3]),
        deadline=rng.choice([0, 2, 5]),
    )
    keys = {number: group.key for number, group in groups.items()}
    # half of the worlds have a heartbeat a round, the others up to four, and rarely as many in each
    times = random.Random(f"gossipsub rounds {seed}").choice([1, 1, 1, 2, 4, 1.5, 2.7, 3.001])
    round_us = int(times * settings.heartbeat_us)
    return LiveCase(seed, count, present, idents, keys, settings, story.events, rounds, round_us)
