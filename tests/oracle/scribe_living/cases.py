"""Small seeded worlds with groups: parameters and events all follow from the seed."""

import random
from dataclasses import dataclass

from ..living.cases import overlay_of, small_rules
from ..living.draws import random_idents
from ..living.overlay import Overlay, Rules
from ..ring import RING, closeness
from .reliable import Reliable
from .state import Access, Application, Group, Scribe, Settings
from .world import Event, Run


@dataclass(frozen=True)
class World:
    """A case, as plain data: everything that another implementation needs.

    Nodes 0 to count - 1 may ever arrive; the first `present` are there before round 0, with perfect
    tables if `perfect`. `buffer` is B of the reliable application; None: best effort.
    """

    seed: int
    count: int
    present: int
    perfect: bool
    rules: Rules
    groups: dict[int, Group]
    settings: Settings
    buffer: int | None
    events: list[Event]
    rounds: int

    def overlay(self) -> Overlay:
        """The overlay before round 0."""
        return overlay_of(self.seed, self.count, self.present, self.rules, self.perfect)

    def application(self) -> Application:
        """The application that runs on Scribe."""
        return Application() if self.buffer is None else Reliable(self.buffer)

    def begin(self) -> Run:
        """The world before round 0."""
        self.settings.check(self.rules.l)
        return Run(Scribe(self.overlay(), self.groups, self.settings, self.application()))

    def play(self) -> Run:
        """All rounds."""
        run = self.begin()
        run.play(self.events, self.rounds)
        return run


def random_world(seed: int, most: int = 60, rounds: int | None = None) -> World:
    """A world of at most `most` nodes and 30 rounds, with every kind of event."""
    pick = random.Random(f"world {seed}")
    rules = small_rules(pick)
    count = pick.choice([pick.randint(6, 20), pick.randint(20, most), pick.randint(20, most)])
    rounds = rounds or pick.randint(12, 30)
    refresh = pick.choice([1, 2, 2, 3])
    settings = Settings(
        parent_timeout=pick.choice([1, 2, 2, 3]),
        refresh=refresh,
        child_timeout=refresh + pick.choice([1, 2, 2, 4]),
        replicas=pick.randint(1, rules.l // 2) if pick.random() < 0.4 else rules.l // 2,
    )
    idents = random_idents(count, seed)
    groups = {
        group: Group(random_key(pick, idents), random_access(pick, count))
        for group in range(1, pick.randint(1, 6) + 1)
    }
    present = max(2, 2 * count // 3)
    story = Story(pick, idents, groups, present)
    story.tell(rounds, busy=pick.choice([0.0, 0.01, 0.03, 0.08]))
    return World(
        seed,
        count,
        present,
        pick.random() < 0.3,
        rules,
        groups,
        settings,
        pick.choice([None, 4, 64, 64]),
        story.events,
        rounds,
    )


def random_key(pick: random.Random, idents: dict[int, int]) -> int:
    """A groupId: anywhere, or next to a node's (the creator as root)."""
    beside = (pick.choice(list(idents.values())) + pick.randint(-3, 3)) % RING
    return pick.choice([pick.randrange(RING), pick.randrange(RING), beside])


def random_access(pick: random.Random, count: int) -> Access:
    """An open group, or one with a list for some of the operations."""
    if pick.random() < 0.5:
        return Access()
    lists = [
        frozenset(pick.sample(range(count), pick.randint(count // 2, count)))
        if pick.random() < 0.6
        else None
        for _ in range(3)
    ]
    return Access(*lists)


class Story:
    """Draws valid events, keeping book of who is alive and who is a member."""

    def __init__(
        self, pick: random.Random, idents: dict[int, int], groups: dict[int, Group], present: int
    ) -> None:
        self.pick, self.idents, self.groups = pick, idents, groups
        self.live, self.known = set(range(present)), set(range(present))
        self.wishes: set[tuple[int, int]] = set()  # (group, node): a join that was not taken back
        self.events: list[Event] = []

    def tell(self, rounds: int, busy: float) -> None:
        """Events of all rounds: quiet at the beginning and for some rounds at the end."""
        disaster = self.pick.choice([None, "mass", "roots", "around"])
        when = self.pick.randint(2, max(2, rounds // 2))
        for at in range(rounds):
            touched: set[int] = set()
            if at == when and disaster is not None:
                self.strike(at, disaster, touched)
            if 1 <= at < rounds - 6:
                self.churn(at, busy, touched)
            for group in self.groups:
                self.group_events(at, group, rounds)

    def strike(self, at: int, disaster: str, touched: set[int]) -> None:
        """Mass failure, failure of roots, or of all that are nearest to a groupId."""
        live = sorted(self.live)
        if disaster == "mass":
            dead = set(self.pick.sample(live, len(live) // 4))
        elif disaster == "roots":
            dead = {self.nearest(group)[0] for group in self.groups}
        else:
            dead = set(self.nearest(min(self.groups))[: self.pick.randint(1, 5)])
        for node in sorted(dead)[: len(live) - 2]:
            self.overlay_event(at, node, "fail", touched)

    def nearest(self, group: int) -> list[int]:
        """Live nodes, the nearest to the groupId first."""
        key = self.groups[group].key
        return sorted(self.live, key=lambda node: closeness(key, self.idents[node]))

    def churn(self, at: int, busy: float, touched: set[int]) -> None:
        """Each node has an event with probability `busy`."""
        for node in self.idents:
            if node in touched or self.pick.random() >= busy:
                continue
            if node in self.live:
                if len(self.live) > 2:
                    self.overlay_event(at, node, self.pick.choice(["leave", "fail"]), touched)
            else:
                kinds = ["arrive", "recover"] if node in self.known else ["arrive"]
                self.overlay_event(at, node, self.pick.choice(kinds), touched)

    def overlay_event(self, at: int, node: int, kind: str, touched: set[int]) -> None:
        """One event of Pastry; a node that goes is a member of nothing any more."""
        touched.add(node)
        if kind in ("leave", "fail"):
            self.live.discard(node)
            self.wishes = {wish for wish in self.wishes if wish[1] != node}
        else:
            self.live.add(node)
            self.known.add(node)
        self.events.append((at, node, kind))

    def group_events(self, at: int, group: int, rounds: int) -> None:
        """Create in round 0 and sometimes again; joins (many in one round), quits, publications."""
        pick, live = self.pick, sorted(self.live)
        if at == 0 or pick.random() < 0.08:
            creators = self.groups[group].access.create or self.live
            permitted = sorted(self.live & set(creators)) or live
            self.events.append((at, pick.choice(permitted), "create", group))
        crowd = 0.4 if at == 0 or pick.random() < 0.05 else 0.04
        for node in live:
            wish = (group, node)
            if wish not in self.wishes and pick.random() < crowd:
                self.events.append((at, node, "join", group))
                self.wishes.add(wish)
            elif (
                wish in self.wishes
                and pick.random() < 0.03
                and at > 0
                and self.groups[group].access.allows("join", node)
            ):
                self.events.append((at, node, "quit", group))
                self.wishes.discard(wish)
        for source in pick.sample(live, min(len(live), pick.choice([0, 1, 1, 2]))):
            self.events.append((at, source, "publish", group))
