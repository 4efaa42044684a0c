"""Systems that flood an overlay of each group's members in every round: rules O1 to O9.

In plain Python, from the rules alone: flooding over Pastry, CAN multicast, naive unicast.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from .can.flood import CORNER, DIRECTED, OPTIMAL, corner, directed, optimal
from .can.zones import Can, Draw, Points, Space, join_order
from .dissemination import Edge, First, Spread, spread
from .flooding.flood import ring_of
from .random_cases import Case, random_case

#: (kind, node) or (kind, node, group) of a round.
Event = tuple


@dataclass(frozen=True)
class OverlaysCase:
    """Nodes and groups that come and go, as plain data."""

    case: Case
    events: list[list[Event]]  # By round
    initial: set[int]  # the nodes that are alive at the start
    detection: int
    deadline: int
    dimensions: int
    flooding: str
    clock: str
    processing_us: int
    landmarks: tuple[int, ...] = ()  # routers
    loss: tuple[tuple[float, ...], ...] = ()  # the share of lost packets between two routers
    withholds: frozenset[int] = frozenset()  # the nodes that forward nothing (N6)


def random_overlays(seed: int) -> OverlaysCase:
    """Draw a case of two nodes at least; all events are possible ones."""
    rng = random.Random(f"group overlays {seed}")
    case = next(
        one
        for one in map(random_case, range(1000 * seed, 1000 * seed + 1000))
        if len(one.ids) > 3 and one.keys and one.b <= 4
    )
    alive = {node for node in case.ids if rng.random() < 0.8} or {0}
    initial, gone = set(alive), set[int]()
    members = {group: set[int]() for group in case.keys}
    events: list[list[Event]] = []
    for number in range(rng.randint(3, 6)):
        today: list[Event] = []
        for node in sorted(case.ids):
            if node in alive and len(alive) > 1 and rng.random() < 0.15:
                today.append((rng.choice(["fail", "fail", "leave"]), node))
                alive.discard(node)
                gone.add(node)
                for there in members.values():
                    there.discard(node)
            elif node not in alive and rng.random() < 0.4:
                today.append(("recover" if node in gone else "arrive", node))
                alive.add(node)
        for group, there in members.items():
            quits = {node for node in there if rng.random() < 0.1}
            wanted = case.members[group] & alive if not number else set[int]()
            joins = wanted | {n for n in alive - there if rng.random() < 0.15}
            today += [("quit", node, group) for node in sorted(quits)]
            today += [("join", node, group) for node in sorted(joins - there)]
            members[group] = (there - quits) | joins
            for _ in range(rng.choice([0, 1, 1, 2])):
                source = rng.choice(sorted(members[group]) or sorted(alive))
                source = rng.choice([source, source, rng.choice(sorted(alive))])
                if ("publish", source, group) not in today:
                    today.append(("publish", source, group))
        events.append(today)
    settings = rng.choice([1, 2, 3, 6]), rng.choice([DIRECTED, CORNER, OPTIMAL])
    clock = rng.choice(["time", "hops"]), rng.choice([0, 700])
    waits = rng.choice([0, 1, 1, 2]), rng.choice([0, 0, 1, 2])
    return OverlaysCase(case, events, initial, *waits, *settings, *clock)


@dataclass
class World:
    """The members of groups, and publications that are not due."""

    given: OverlaysCase
    system: str
    draw: Draw  # the random bits of a purpose
    alive: set[int] = field(default_factory=set)
    members: dict[int, set[int]] = field(default_factory=dict)
    silent: dict[tuple[int, int], int] = field(default_factory=dict)
    waiting: list[dict] = field(default_factory=list)

    def __post_init__(self) -> None:
        case = self.given.case
        self.alive = set(self.given.initial)
        self.members = {group: set() for group in case.keys}
        routes = case.routes()
        self.overlay = case.overlay(routes)
        of_nodes = case.router, routes.delay, self.given.landmarks
        self.points = Points(Space.of(self.given.dimensions), self.draw, *of_nodes)

    def step(self, number: int) -> list[tuple[int, int, Spread]]:
        """Play a round; return the publications: group, source, what came of each."""
        today = self.given.events[number]
        self._change(number, today)
        published = sorted((e[2], self._ident(e[1]), e[1]) for e in today if e[0] == "publish")
        sources = {group: {n for g, _, n in published if g == group} for group in self.members}
        spreads = [
            (group, node, self._spread(number, group, node, sources[group]))
            for group, _, node in published
        ]
        for group in sorted(sources):
            mine = [one for other, _, one in spreads if other == group]
            if mine:
                self._wait(number, group, mine)
        return spreads

    def _ident(self, node: int) -> int:
        return self.given.case.ids[node]

    def _change(self, number: int, today: list[Event]) -> None:
        """O1: deaths, quits and joins; who is known to be dead."""
        for event in today:
            kind, node = event[:2]
            if kind in ("fail", "leave"):
                self.alive.discard(node)
                for group, there in self.members.items():
                    if node in there:
                        there.discard(node)
                        waits = self.given.detection if kind == "fail" else 0
                        self.silent[group, node] = number + waits
            elif kind in ("recover", "arrive"):
                self.alive.add(node)
        for event in today:
            if event[0] == "quit":
                self.members[event[2]].discard(event[1])
        for event in today:
            if event[0] == "join":
                self.members[event[2]].add(event[1])
        self.silent = {
            (group, node): known
            for (group, node), known in self.silent.items()
            if node not in self.alive and known > number
        }

    def _is_lost(self, number: int, group: int, source: int, sender: int, receiver: int) -> bool:
        """N1: a draw for each publication, sender and receiver; IP multicast loses nothing (N4)."""
        if not self.given.loss or self.system == "ip_multicast":
            return False
        share = self.given.loss[self.given.case.router[sender]][self.given.case.router[receiver]]
        return self.draw("loss", group, number << 32 | source, sender, receiver) < share * 2**64

    def _spread(self, number: int, group: int, source: int, sources: set[int]) -> Spread:
        """O2 and O3."""
        nodes = self.members[group] | sources | {n for g, n in self.silent if g == group}
        edges, rule, labels = self._edges(group, source, nodes)
        edges = [edge for edge in edges if edge.node in self.alive]
        is_can = self.system == "can"
        return spread(
            *([source], edges, rule, self.overlay.proximity),
            *(self.given.clock if is_can else "time", self.given.processing_us * is_can, labels),
            self.given.case.ids,
            partial(self._is_lost, number, group, source),
            self.given.withholds,
        )

    def _edges(
        self, group: int, source: int, nodes: set[int]
    ) -> tuple[list[Edge], Callable[[First, Edge], bool], int]:
        ids = self.given.case.ids
        if self.system in ("ip_multicast", "naive_unicast"):
            return [Edge(source, n, ()) for n in nodes - {source}], lambda first, edge: True, 0
        if self.system == "flooding":
            ring = ring_of(self.overlay, nodes, source)
            entries = [
                (n, at, row) for n in nodes for (row, _), at in ring.routing_table(n).items()
            ]
            rule = lambda first, edge: edge.label[0] > first.label[0]  # noqa: E731
            return [Edge(node, at, (row,)) for node, at, row in entries], rule, 1
        can = Can(join_order(nodes, None, ids, self.draw, group), ids, self.points, group)
        lets = {DIRECTED: directed, CORNER: corner, OPTIMAL: optimal}[self.given.flooding]
        edges = [Edge(x, y, way) for x, across in can.across.items() for y, way in across.items()]
        return edges, lambda first, edge: lets(can, source, first, edge), 2

    # --- O4 and O5

    def _wait(self, number: int, group: int, spreads: list[Spread]) -> None:
        came = Counter(
            copy.first
            for one in spreads
            for copy in one.copies
            if copy.receiver in self.alive and not copy.lost
        )
        got = Counter(n for one in spreads for n in one.first if n in self.alive)
        expected = {node: got[node] for node in self.members[group]}
        one = {"round": number, "group": group, "count": len(spreads)}
        copies = {"firsts": came[True], "again": came[False]}
        self.waiting.append({**one, **copies, "expected": expected})

    def due(self, number: int) -> list[tuple[int, ...]]:
        """Return what is counted: round, group, and the counts of the table publications."""
        last = len(self.given.events) - 1
        found = []
        for one in list(self.waiting):
            there = self.members[one["group"]]
            one["expected"] = {n: got for n, got in one["expected"].items() if n in there}
            is_due = number - one["round"] >= self.given.deadline
            if number == last or is_due:
                self.waiting.remove(one)
                expected = one["count"] * len(one["expected"])
                in_time = sum(one["expected"].values())
                lost, left = (expected - in_time, 0) if is_due else (0, expected - in_time)
                row = expected, expected * is_due, in_time, 0, lost, left
                found.append((one["round"], one["group"], *row, one["firsts"], one["again"]))
        return sorted(found)
