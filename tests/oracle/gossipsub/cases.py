"""Seeded random cases of GossipSub, in runs and in worlds."""

import random
from dataclasses import dataclass, replace

from ..living.draws import Plane, random_idents
from ..random_cases import Case, random_case
from ..scribe_living.cases import Story
from ..scribe_living.state import Access, Group
from .run import Played, play
from .topic import Draw, Settings, dialled_by_all
from .world import Event, LiveTopic, World


@dataclass(frozen=True)
class GossipCase:
    """A case, as plain data; the seed of the draws is the case's."""

    case: Case
    settings: Settings
    sources: dict[int, int]
    dead: frozenset[int]  # Who fails silently after the last heartbeat; no source

    def graph(self, draw: Draw) -> set[tuple[int, int]] | None:
        """Return who dials whom in the one graph for all topics; None: each topic by itself."""
        if self.settings.discovery == "dial":
            return None
        return dialled_by_all(self.case.ids, self.settings.dials, draw, self.case.ids)

    def play(self, group: int, draw: Draw, graph: set[tuple[int, int]] | None) -> Played:
        """Play a topic."""
        overlay = self.case.overlay(self.case.routes())
        return play(
            group,
            self.case.members[group],
            self.sources[group],
            self.settings,
            draw,
            self.case.ids,
            overlay.proximity,
            graph,
            self.dead,
        )


def random_settings(rng: random.Random) -> Settings:
    """Draw settings: degrees that small topics can fill, and some that they cannot."""
    d = rng.choice([1, 2, 2, 3, 3, 4, 6])
    d_low = rng.randint(1, d)
    d_high = d + rng.choice([0, 1, 1, 2, 4, 6])
    return Settings(
        d=d,
        d_low=d_low,
        d_high=d_high,
        d_out=rng.randint(0, min(d // 2, d_low - 1)),
        d_lazy=rng.choice([0, 1, 2, 6]),
        gossip_factor=rng.choice([0.0, 0.05, 0.25, 0.25, 1.0]),
        discovery=rng.choice(["dial", "dial", "graph"]),
        dials=rng.choice([1, 2, 3, 4, 8, 20]),
        joins=rng.choice(["at_once", "waves", "waves", "unconnected"]),
        join_waves=rng.choice([1, 2, 3, 8]),
        heartbeats=rng.choice([0, 1, 3, 6, 10]),
        heartbeat_phases=rng.choice([1, 1, 2, 3]),
        prune_at_d_high=rng.random() < 0.5,
        prune_backoff=rng.choice([1, 2, 4, 60]),
        unsubscribe_backoff=rng.choice([1, 3, 10]),
        flood_publish=rng.random() < 0.5,
        idontwant=rng.random() < 0.5,
        processing_ms=rng.choice([0, 0, 1, 5, 50, 400]),
        heartbeat_ms=rng.choice([1000, 1000, 700, 5]),
        mcache_gossip=rng.choice([1, 3, 3]),
        loss=rng.choice([0.0, 0.0, 0.1, 0.5, 0.9]),
        clock=rng.choice(["time", "time", "hops"]),
    )


def paced(settings: Settings, seed: int) -> Settings:
    """Return the settings; in half of the cases dials are spread over heartbeats."""
    rng = random.Random(f"gossipsub dials per heartbeat {seed}")
    return replace(settings, dials_per_heartbeat=rng.choice([0, 0, 0, 1, 2, 5]))


def random_gossip(seed: int) -> GossipCase:
    """Draw a case; a quarter of them has nodes that fail before the publication."""
    rng = random.Random(f"gossipsub {seed}")
    case = random_case(seed)
    overlay = case.overlay(case.routes())
    sources = {
        group: rng.choice([overlay.root(key), rng.choice(sorted(case.members[group]))])
        for group, key in case.keys.items()
    }
    others = sorted(case.ids.keys() - set(sources.values()))
    share = rng.choice([0, 0, 0, rng.choice([0.2, 0.5, 0.8])])
    dead = frozenset(rng.sample(others, int(share * len(others))))
    return GossipCase(case, paced(random_settings(rng), seed), sources, dead)


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
        """Return the world before round 0; a graph has all of its nodes."""
        delay, graph = self.delay(), None
        if self.settings.discovery == "graph":
            graph = dialled_by_all(self.idents, self.settings.dials, draw, self.idents)
        topics = {
            group: LiveTopic(group, self.settings, draw, self.idents, delay, graph)
            for group in self.keys
        }
        live = set(range(self.present))
        return World(topics, live, self.round_us, self.settings.heartbeat_us, graph or set())


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
