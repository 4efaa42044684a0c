"""Seeded random cases of Bayeux, in runs and in worlds."""

import random
from dataclasses import dataclass, replace

from ..knowledge import Damage, overlay_of, random_damage
from ..living import cases as living
from ..living.draws import random_idents
from ..living.overlay import Overlay as LiveOverlay
from ..living.overlay import Rules
from ..living.world import step
from ..pastry import Overlay
from ..random_cases import Case, random_case
from ..scribe_living.cases import Story
from ..scribe_living.state import Access, Group
from .session import PASTRY, SURROGATE, Options, Published, Session, publish
from .world import Bayeux, Event, Settings, Snapshot


@dataclass(frozen=True)
class BayeuxCase:
    """A case, as plain data; `sources` has (node, way: root | routed | direct) of each group.

    The way is that of all groups.
    """

    case: Case
    damage: Damage | None
    options: Options
    sources: dict[int, tuple[int, str]]

    def overlay(self) -> Overlay:
        """Return the overlay, with perfect or damaged tables."""
        return overlay_of(self.case, self.case.routes(), self.damage)

    def sessions(self, overlay: Overlay) -> dict[int, Session]:
        """Return each group's session after all joins."""
        found = {}
        for group, key in self.case.keys.items():
            found[group] = Session(overlay, key, self.options)
            for member in sorted(self.case.members[group]):
                found[group].join(member)
        return found

    def publications(self, sessions: dict[int, Session]) -> dict[int, Published]:
        """Return what comes of each group's publication."""
        return {group: publish(one, *self.sources[group]) for group, one in sessions.items()}


def deep(case: Case, rng: random.Random) -> Case:
    """Return the case with long routes and large groups: binary digits, few leaves."""
    nodes = sorted(case.ids)
    members = {
        group: frozenset(rng.sample(nodes, rng.randint(len(nodes) // 2 + 1, len(nodes))))
        for group in case.keys
    }
    return replace(case, b=1, leaf_set_size=rng.choice([2, 2, 4]), members=members)


def random_bayeux(seed: int, perfect: bool | None = None) -> BayeuxCase:
    """Draw a case; two of three have perfect tables, unless `perfect` says."""
    rng = random.Random(f"bayeux {seed}")
    case = random_case(seed)
    case = replace(case, b=min(case.b, 4))  # rows of 256 cells take long, and are no other case
    if rng.random() < 0.4:
        case = deep(case, rng)
    if perfect is None:
        perfect = rng.random() < 2 / 3
    options = Options(
        partitions=rng.choice([1, 1, 2, 3, 4, 8]),
        root=rng.choice([PASTRY, SURROGATE]),
        hops=rng.choice(["table", "leaf_set"]),
    )
    overlay = case.overlay(case.routes())
    sources, way = {}, rng.choice(["root", "routed", "direct"])
    for group, key in case.keys.items():
        drawn = rng.choice(sorted(case.members[group]))
        sources[group] = (overlay.root(key) if way == "root" else drawn), way
    return BayeuxCase(case, None if perfect else random_damage(rng), options, sources)


# --- worlds ---------------------------------------------------------------------------------------


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

    def overlay(self) -> LiveOverlay:
        """Return the overlay before round 0."""
        return living.overlay_of(self.seed, self.count, self.present, self.rules, self.perfect)

    def begin(self) -> Bayeux:
        """Return the world before round 0."""
        return Bayeux(self.overlay(), self.keys, self.settings)

    def step(self, run: Bayeux, now: int) -> Snapshot:
        """Play a round of Pastry, and then of Bayeux."""
        today = [event for event in self.events if event[0] == now]
        step(run.overlay, now, [event for event in today if event[2] in OVERLAY_EVENTS])
        return run.step(now, today)


def with_partitions(case: LiveCase) -> LiveCase:
    """Return the world with other roots: several of a group, the ends of surrogate routes."""
    rng = random.Random(f"partitions {case.seed}")
    partitions, root = rng.choice([1, 2, 2, 3, 5]), rng.choice([PASTRY, SURROGATE])
    return replace(case, settings=replace(case.settings, partitions=partitions, root=root))


def random_live(seed: int, most: int = 60) -> LiveCase:
    """Draw a world of at most `most` nodes and 24 rounds, with every kind of event."""
    rng = random.Random(f"bayeux world {seed}")
    rules = living.small_rules(rng)
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
