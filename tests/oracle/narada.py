"""A slow oracle of Narada: rules D1 to D14 of docs/rules.md, and seeded random cases.

Written from the rules alone, by someone who has not seen the kernel.  A case is plain data (see
`Case`); ``play(case)`` returns, for each period, the state of all groups, the messages by kind,
the bytes of the vectors, and the edges and copies of the publications.  ``violations`` names what
the exact invariants forbid.  Nodes are positions; delays are whole microseconds.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from scribe_spark.core.arrays import NONE
from scribe_spark.core.draws import bits_np

from .period_events import Events, Pair

Message = tuple[int, int, int]  # group, sender, receiver

KINDS = "vector", "probe", "answer", "link", "unlink"

#: Bytes of a vector without entries, and of an entry (D14).
HEAD, ENTRY = 28, 20


@dataclass(frozen=True)
class Settings:
    """The rules' numbers; times are periods, but for `unreachable` (microseconds)."""

    join_periods: int = 20
    contacts: int = 3
    least_degree_drop: int = 6
    degree: int = 12
    threshold: float = 0.008
    young_periods: int = 3
    neighbour_silence: int = 6
    silence: int = 5
    unreachable: int = 20_000_000


@dataclass(frozen=True)
class Case:
    """A case: numbers of nodes by position, D(a, b), and what happens in each period."""

    seed: int
    nodes: tuple[int, ...]
    groups: tuple[int, ...]
    settings: Settings
    distance: tuple[tuple[int, ...], ...]
    periods: tuple[Events, ...]
    publications: dict[int, tuple[Pair, ...]]

    def between(self, x: int, y: int) -> int:
        """Return d(x, y), which is symmetric."""
        return (self.distance[x][y] + self.distance[y][x]) // 2


@dataclass
class Cell:
    """What an entry knows of an entry; `next` and `heard` are NONE where there is nothing."""

    heard: int
    number: int
    cost: int
    next: int


@dataclass
class Played:
    """What a period leaves: states by group, messages by kind, publications by (group, source)."""

    groups: dict[int, dict[str, list]]
    messages: dict[str, list[Message]]
    sizes: dict[int, int]  # bytes of all vectors and answers, by group
    edges: dict[Pair, list[Pair]]
    copies: dict[Pair, list[Pair]]
    given_up: list[Message]


@dataclass
class Group:
    """The state of a group, D1; `entries` has True for IN and False for GONE."""

    case: Case
    number: int
    entries: dict[int, bool] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    links: dict[Pair, int] = field(default_factory=dict)
    cells: dict[int, dict[int, Cell]] = field(default_factory=dict)
    sent: dict[str, list[Message]] = field(default_factory=dict)
    given_up: list[Pair] = field(default_factory=list)  # in the period: who counts whom as dead

    # --- what the state says

    def living(self) -> list[int]:
        """Return the IN entries, ascending."""
        return sorted(x for x, is_in in self.entries.items() if is_in)

    def is_in(self, x: int) -> bool:
        return self.entries.get(x, False)

    def neighbours(self, i: int) -> list[int]:
        """Return the other ends of the links of an entry, ascending."""
        return sorted(y if x == i else x for x, y in self.links if i in (x, y))

    def known(self, i: int) -> list[int]:
        """Return the entries that an entry knows, itself included, ascending."""
        return sorted(m for m, cell in self.cells[i].items() if cell.heard >= 0)

    def unknown(self) -> Cell:
        return Cell(NONE, NONE, self.case.settings.unreachable, NONE)

    def cell(self, i: int, m: int) -> Cell:
        """Return a cell to be changed."""
        return self.cells.setdefault(i, {}).setdefault(m, self.unknown())

    def draw(self, purpose: str, node: int, *more: int) -> int:
        """Return the bits of a draw of a node of the group."""
        numbers = self.number, self.case.nodes[node], *more
        return int(bits_np(self.case.seed, f"narada {purpose}", *numbers))

    def send(self, kind: str, sender: int, to: int) -> None:
        self.sent[kind].append((self.number, sender, to))

    # --- a period

    def play(self, t: int, now: Events) -> None:
        """Play period t; the effects of D5 to D8 wait until all members have decided."""
        self.sent = {kind: [] for kind in KINDS}
        self.quit([x for g, x in now.quits if g == self.number])
        self.bury(now)
        self.join(t, [x for g, x in now.joins if g == self.number])
        first = {i: {m: replace(c) for m, c in row.items()} for i, row in self.cells.items()}
        self.hear(t, first)
        self.break_silent(t)
        forgotten, repaired = self.repair(t)
        added = self.add(t, first)
        for pair in self.drop(t, first):
            del self.links[pair]
        for i, m in forgotten:
            self.cells[i][m].heard = NONE
        self.exchange(first)
        for pair in repaired + added:
            self.links.setdefault(pair, t)
        self.begin(t)
        self.tell()
        self.remove()

    def quit(self, quits: list[int]) -> None:
        """D2 (a): all at once; two neighbours that quit both send an unlink."""
        for x in quits:
            self.waiting.pop(x, None)
            if self.is_in(x):
                for y in self.neighbours(x):
                    self.send("unlink", x, y)
        for x in quits:
            if self.is_in(x):
                self.entries[x] = False
                self.cut(x)

    def cut(self, x: int) -> None:
        """End all links of an entry."""
        self.links = {pair: since for pair, since in self.links.items() if x not in pair}

    def bury(self, now: Events) -> None:
        """D2 (b)."""
        for x in self.entries:
            if not now.alive[x] or x in now.died:
                self.entries[x] = False
        self.waiting = {
            x: begins for x, begins in self.waiting.items() if now.alive[x] and x not in now.died
        }
        self.end_dead_links()

    def end_dead_links(self) -> None:
        self.links = {
            (x, y): since for (x, y), since in self.links.items() if self.is_in(x) or self.is_in(y)
        }

    def join(self, t: int, joins: list[int]) -> None:
        """D2 (c); whether the group is new is decided once for all joins."""
        is_new = not self.living() and not self.waiting
        for x in joins:
            if self.is_in(x) or x in self.waiting:
                continue
            if x in self.entries:
                self.cut(x)
                self.cells[x] = {}
            self.waiting[x] = t
            if is_new:
                self.waiting[x] += self.draw("begin", x) % self.case.settings.join_periods

    def hear(self, t: int, first: dict[int, dict[int, Cell]]) -> None:
        """D3."""
        for i in self.living():
            best: dict[int, int] = {}
            for j in self.neighbours(i):
                for m, cell in first[j].items():
                    if cell.heard >= 0:
                        best[m] = max(best.get(m, NONE), cell.number)
            for m, number in best.items():
                if m != i and number > self.cell(i, m).number:
                    mine = self.cell(i, m)
                    mine.number, mine.heard = number, t
            own = self.cell(i, i)
            own.heard = own.number = t

    def break_silent(self, t: int) -> None:
        """D4."""
        silence = self.case.settings.neighbour_silence
        self.given_up = [
            (i, j)
            for i in self.living()
            for j in self.neighbours(i)
            if t - self.cells[i][j].heard >= silence
        ]
        for pair in self.given_up:
            self.links.pop(pair_of(*pair), None)
        self.end_dead_links()

    def repair(self, t: int) -> tuple[list[Pair], list[Pair]]:
        """D5: return who forgets whom, and the new links."""
        forgotten, new = [], []
        for i in self.living():
            cells, known, neighbours = self.cells[i], self.known(i), self.neighbours(i)
            silent = [
                m
                for m in known
                if m != i
                and m not in neighbours
                and t - cells[m].heard > self.case.settings.silence
            ]
            if not silent or self.draw("repair", i, t) % len(known) >= len(silent):
                continue
            m = min(silent, key=lambda m: (cells[m].heard, m))
            self.send("probe", i, m)
            if self.is_in(m):
                self.send("answer", m, i)
                self.send("link", i, m)
                new.append(pair_of(i, m))
            else:
                forgotten.append((i, m))
        self.given_up += forgotten
        return forgotten, new

    def add(self, t: int, first: dict[int, dict[int, Cell]]) -> list[Pair]:
        """D6 and D7: return the new links."""
        new = []
        settings = self.case.settings
        for i in self.living():
            cells, neighbours = self.cells[i], self.neighbours(i)
            if len(neighbours) >= settings.degree:
                continue
            candidates = [
                m
                for m in self.known(i)
                if m != i
                and m not in neighbours
                and t - cells[m].heard < settings.neighbour_silence
            ]
            if not candidates:
                continue
            j = min(candidates, key=lambda m: (self.draw("add", i, t, self.case.nodes[m]), m))
            self.send("probe", i, j)
            if not self.is_in(j):
                continue
            self.send("answer", j, i)
            if len(self.neighbours(j)) >= settings.degree:
                continue
            product = len(self.known(i)) * len(neighbours) * len(self.neighbours(j))
            if self.utility(i, j, first) / 2**20 > settings.threshold * product:
                self.send("link", i, j)
                new.append(pair_of(i, j))
        return new

    def utility(self, i: int, j: int, first: dict[int, dict[int, Cell]]) -> int:
        """Return u of D7: what a link to j would save i, in 2**-20."""
        unreachable, u = self.case.settings.unreachable, 0
        for m in self.known(i):
            if m == i or self.cells[j].get(m, self.unknown()).heard < 0:
                continue
            now = first[i].get(m, self.unknown()).cost
            over = first[j].get(m, self.unknown()).cost
            if over >= unreachable:
                continue
            new = self.case.between(i, j) + over
            if new >= now:
                continue
            u += 2**20 if now >= unreachable else (now - new) * 2**20 // now
        return u

    def drop(self, t: int, first: dict[int, dict[int, Cell]]) -> list[Pair]:
        """D8: return the links that end."""
        settings, proposals = self.case.settings, []
        for i in self.living():
            neighbours = self.neighbours(i)
            candidates = [
                j
                for j in neighbours
                if self.cells[i][j].heard == t
                and t - self.links[pair_of(i, j)] >= settings.young_periods
                and len(self.neighbours(j)) >= 2
            ]
            if len(neighbours) < 2 or not candidates:
                continue
            value = {j: max(over(first, i, j), over(first, j, i)) for j in candidates}
            j = min(candidates, key=lambda j: (value[j], j))
            n, mine, other = len(self.known(i)), len(neighbours), len(self.neighbours(j))
            is_useless = value[j] < settings.threshold * (n * (mine - 1) * (other - 1))
            if is_useless or (mine > settings.least_degree_drop and 2 * value[j] < n):
                proposals.append((i, j))
        dropped = []
        for i, j in proposals:
            if not any(k < i and {i, j} & {k, other} for k, other in proposals):
                self.send("unlink", i, j)
                dropped.append(pair_of(i, j))
        return dropped

    def exchange(self, first: dict[int, dict[int, Cell]]) -> None:
        """D9: distance vectors with poisoned reverse."""
        unreachable = self.case.settings.unreachable
        for i in self.living():
            neighbours = self.neighbours(i)
            for m, mine in self.cells[i].items():
                mine.cost, mine.next = unreachable, NONE
                if mine.heard < 0 or m == i:
                    continue
                for j in neighbours:
                    theirs = first[j].get(m, self.unknown())
                    if theirs.heard < 0 or theirs.cost >= unreachable or theirs.next == i:
                        continue
                    cost = self.case.between(i, j) + theirs.cost
                    if cost < mine.cost:
                        mine.cost, mine.next = cost, j
            self.cells[i][i].cost, self.cells[i][i].next = 0, i

    def begin(self, t: int) -> None:
        """D11."""
        for x in sorted(x for x, begins in self.waiting.items() if begins <= t):
            others = self.living()
            del self.waiting[x]
            self.entries[x] = True
            self.cells[x] = {x: Cell(t, t, 0, x)}
            others.sort(key=lambda c: (self.draw("join", x, self.case.nodes[c]), c))
            for c in others[: self.case.settings.contacts]:
                self.send("link", x, c)
                self.links.setdefault(pair_of(x, c), t)

    def tell(self) -> None:
        """D12: the vectors."""
        for i in self.living():
            for j in self.neighbours(i):
                self.send("vector", i, j)

    def remove(self) -> None:
        """D12: entries that nobody can see."""
        seen = {m for i in self.living() for m in self.known(i)}
        for x in [x for x in self.entries if not self.is_in(x)]:
            if x not in self.waiting and x not in seen:
                self.cut(x)
                del self.entries[x]
                self.cells.pop(x, None)
                for row in self.cells.values():
                    row.pop(x, None)

    # --- what the period leaves

    def edges(self, source: int) -> list[Pair]:
        """D13: return the edges of a publication, sorted; only IN members forward."""
        if self.is_in(source):
            return self.edges_of_member(source)
        living = self.living()
        if not living:
            return []
        nearest = min(living, key=lambda r: (self.case.distance[source][r], r))
        return sorted([(source, nearest), *self.edges_of_member(nearest)])

    def edges_of_member(self, source: int) -> list[Pair]:
        found = []
        for j in self.entries:
            p = self.cells.get(j, {}).get(source, self.unknown()).next
            if j != source and self.is_in(p) and pair_of(p, j) in self.links:
                found.append((p, j))
        return sorted(found)

    def bytes(self) -> int:
        """D12, D14: return the bytes of all vectors of the period, also of those in answers."""
        told = self.sent["vector"] + self.sent["answer"]
        return sum(HEAD + ENTRY * len(self.known(i)) for _, i, _ in told)

    def state(self) -> dict[str, list]:
        """Return the state as plain lists, sorted."""
        return {
            "in": self.living(),
            "waiting": sorted(self.waiting.items()),
            "links": sorted((*pair, since) for pair, since in self.links.items()),
            "cells": [
                (i, m, cell.heard, cell.number, cell.cost, cell.next)
                for i in self.living()
                for m, cell in sorted(self.cells[i].items())
                if cell.heard >= 0
            ],
        }


def pair_of(x: int, y: int) -> Pair:
    return min(x, y), max(x, y)


def over(first: dict[int, dict[int, Cell]], i: int, j: int) -> int:
    """Return the number of members that i reaches over j."""
    return sum(m != i and cell.next == j for m, cell in first[i].items())


def copies_of(edges: Iterable[Pair], source: int, alive: tuple[bool, ...]) -> list[Pair]:
    """Return the copies that are sent: each living node forwards its first one over its edges."""
    peers: dict[int, list[int]] = defaultdict(list)
    for p, j in edges:
        peers[p].append(j)
    copies: list[Pair] = []
    has, turn = {source}, [source]
    for node in turn:  # grows while it is read
        copies += [(node, peer) for peer in peers[node]]
        new = [peer for peer in peers[node] if peer not in has]
        has.update(new)
        turn += [peer for peer in new if alive[peer]]
    return sorted(copies)


def groups_of(case: Case) -> Iterator[tuple[int, list[Group]]]:
    """Play a case; yield each period and the groups after it, which change afterwards."""
    groups = [Group(case, number) for number in case.groups]
    for t, now in enumerate(case.periods):
        for group in groups:
            group.play(t, now)
        yield t, groups


def play(case: Case) -> list[Played]:
    """Play a case; return what each period leaves."""
    return [played(case, t, groups) for t, groups in groups_of(case)]


def played(case: Case, t: int, groups: list[Group]) -> Played:
    """Return what period t has left."""
    of = {group.number: group for group in groups}
    asked = case.publications.get(t, ())
    edges = {(g, source): of[g].edges(source) for g, source in asked}
    alive = case.periods[t].alive
    return Played(
        {g: group.state() for g, group in of.items()},
        {kind: sorted(m for group in groups for m in group.sent[kind]) for kind in KINDS},
        {g: group.bytes() for g, group in of.items()},
        edges,
        {(g, source): copies_of(some, source, alive) for (g, source), some in edges.items()},
        sorted((group.number, *pair) for group in groups for pair in group.given_up),
    )


# --- what always holds ----------------------------------------------------------------------------


def violations(group: Group, t: int, before: Group | None = None) -> Iterator[str]:
    """Name what is wrong in a group after period t; `before` is a copy of the end of t - 1."""
    yield from _wrong_links(group, t)
    yield from _wrong_cells(group, t)
    yield from _wrong_routes(group, t, before)
    yield from _wrong_messages(group, t)


def _wrong_links(group: Group, t: int) -> Iterator[str]:
    silence = group.case.settings.neighbour_silence
    for (x, y), since in group.links.items():
        if not (x < y and 0 <= since <= t and {x, y} <= set(group.entries)):
            yield f"link {x, y, since}"
        if not (group.is_in(x) or group.is_in(y)):
            yield f"a link of two dead {x, y}"
        for i, j in ((x, y), (y, x)):
            heard = group.cells[i].get(j, group.unknown()).heard
            if not group.is_in(i) or since == t:
                continue
            if heard != t if group.is_in(j) else t - heard >= silence:
                yield f"{i} has heard {j} in {heard}"


def _wrong_cells(group: Group, t: int) -> Iterator[str]:
    alive, living = group.case.periods[t].alive, group.living()
    seen = {m for i in living for m in group.known(i)}
    for x, is_in in group.entries.items():
        if is_in and (not alive[x] or x in group.waiting):
            yield f"{x} is IN"
        if not is_in and x not in group.waiting and x not in seen:
            yield f"{x} stays"
    for x, begins in group.waiting.items():
        if begins <= t or not alive[x]:
            yield f"{x} waits until {begins}"
    for i in living:
        if group.cells[i][i] != Cell(t, t, 0, i):
            yield f"own cell of {i}"
        for m, cell in group.cells[i].items():
            if m == i:
                continue
            if not (m in group.entries and cell.heard <= t and cell.number < t):
                yield f"cell {i, m, cell}"
            if cell.heard >= 0 and not 0 <= cell.number < cell.heard:
                yield f"number of {i, m, cell}"
            if (cell.next < 0) != (cell.cost >= group.case.settings.unreachable):
                yield f"next hop of {i, m, cell}"
            if cell.heard < 0 <= cell.next:
                yield f"{i} does not know {m}, and has a next hop"


def _wrong_routes(group: Group, t: int, before: Group | None) -> Iterator[str]:
    for i in group.living():
        for m, cell in group.cells[i].items():
            if m == i or cell.next < 0:
                continue
            if group.links.get(pair_of(i, cell.next), t) >= t:
                yield f"{i} reaches {m} over {cell.next}, no neighbour"
            if before is not None:
                theirs = before.cells[cell.next][m]
                d = group.case.between(i, cell.next)
                if theirs.next == i or cell.cost != d + theirs.cost:
                    yield f"cost of {i, m, cell}"


def _wrong_messages(group: Group, t: int) -> Iterator[str]:
    sent = {kind: [(i, j) for _, i, j in group.sent[kind]] for kind in KINDS}
    quits = {x for g, x in group.case.periods[t].quits if g == group.number}
    ends = [(i, j) for pair in group.links for i, j in (pair, pair[::-1]) if group.is_in(i)]
    if sorted(sent["vector"]) != sorted(ends):
        yield "vectors are not one for each living end of a link"
    if not {(j, i) for i, j in sent["answer"]} <= set(sent["probe"]):
        yield "an answer without a probe"
    for i, j in sent["link"]:
        if group.links.get(pair_of(i, j)) != t:
            yield f"link {i, j} was sent, and is not there"
    if {pair_of(i, j) for i, j in sent["link"]} != {p for p, at in group.links.items() if at == t}:
        yield "a link began without a message"
    dropped = [pair for pair in sent["unlink"] if pair[0] not in quits]
    touched = [x for pair in dropped for x in pair]
    if len(touched) != len(set(touched)) or any(pair_of(*pair) in group.links for pair in dropped):
        yield f"dropped {dropped}"


def parts(nodes: Iterable[int], pairs: Iterable[Pair]) -> list[set[int]]:
    """Return the connected parts of nodes."""
    part = {node: {node} for node in nodes}
    for x, y in pairs:
        if x in part and y in part and part[x] is not part[y]:
            part[x] |= part[y]
            for node in part[y]:
                part[node] = part[x]
    return list({id(one): one for one in part.values()}.values())


def copied(group: Group) -> Group:
    """Return a copy of a group's state."""
    cells = {i: {m: replace(one) for m, one in row.items()} for i, row in group.cells.items()}
    own = dict(group.entries), dict(group.waiting), dict(group.links), cells
    return Group(group.case, group.number, *own)


def is_quiet(group: Group, t: int, before: Group) -> bool:
    """Return True if nothing changes but numbers, and nobody is missed."""
    here, last = ([(c[0], c[1], *c[4:]) for c in g.state()["cells"]] for g in (group, before))
    return (
        here == last
        and group.links == before.links
        and not group.waiting
        and all(group.entries.values())
        and all(
            t - group.cells[i][m].heard <= group.case.settings.silence
            for i in group.living()
            for m in group.known(i)
        )
    )


def quiet_violations(group: Group, t: int) -> Iterator[str]:
    """Name what is wrong in a quiet group: a mesh of one part, each member once."""
    living = group.living()
    knowing = [(i, m) for i in living for m in group.known(i)]
    meshed = parts(living, group.links)
    if len(meshed) != len(parts(living, knowing)):
        yield f"a mesh of {len(meshed)} parts"
    for part in meshed:
        for source in part:
            edges = group.edges(source)
            copies = copies_of(edges, source, group.case.periods[t].alive)
            if sorted(j for _, j in copies) != sorted(part - {source}):
                yield f"copies of {source}: {copies}"


# --- cases ----------------------------------------------------------------------------------------


def random_case(seed: int) -> Case:
    """Draw a case; every eighth is a quiet one with the default settings, every 50th a large one.

    A quiet one has no events after 50 periods, and positive distances.
    """
    rng = random.Random(f"narada {seed}")
    is_quiet, is_large = seed % 8 == 3, seed % 50 == 24
    count = rng.choice([rng.randint(1, 6), rng.randint(7, 25), rng.randint(26, 60)])
    if is_large:
        count = rng.randint(120, 220)
    periods = rng.randint(8, 14) if is_large else rng.randint(10, 45)
    if is_quiet:
        count, periods = rng.randint(2, 25), 170
    groups = rng.sample([0, 1, 2, 7, 10**12, -5], rng.randint(1, 1 if is_quiet or is_large else 3))
    nodes = rng.sample(range(rng.choice([count, 10**9])), count)
    events, publications = _random_events(rng, count, groups, periods, 50 if is_quiet else periods)
    return Case(
        rng.getrandbits(40),
        tuple(nodes),
        tuple(groups),
        Settings() if is_quiet else _random_settings(rng),
        _random_distances(rng, count, least=1 if is_quiet else 0),
        tuple(events),
        publications,
    )


def _random_settings(rng: random.Random) -> Settings:
    """Draw settings, small ones, in which every rule occurs soon."""
    neighbour_silence = rng.choice([1, 2, 3, 6])
    return Settings(
        join_periods=rng.choice([1, 2, 5, 20]),
        contacts=rng.choice([1, 2, 3, 3]),
        least_degree_drop=rng.choice([1, 2, 4, 6]),
        degree=rng.choice([2, 4, 6, 12]),
        threshold=rng.choice([0.0, 0.002, 0.008, 0.008, 0.05, 0.2]),
        young_periods=rng.choice([0, 1, 3, 3]),
        neighbour_silence=neighbour_silence,
        silence=max(1, neighbour_silence - rng.choice([0, 1, 1, 1, 2])),
    )


def _random_distances(rng: random.Random, count: int, least: int) -> tuple[tuple[int, ...], ...]:
    """Draw D(a, b): with many ties, in a plane, or any; not symmetric.

    They are at most 300 ms, or so long that members cannot be reached (not with a `least` one).
    """
    style = rng.choice(["ties", "plane", "any"])
    factor = 1 if least else rng.choice([1, 1, 1, 25, 80])
    points = [(rng.randrange(100_000), rng.randrange(100_000)) for _ in range(count)]

    def draw(a: int, b: int) -> int:
        if a == b:
            return 0
        if style == "ties":
            return max(least, 10_000 * rng.randint(0, 3))
        if style == "plane":
            (ax, ay), (bx, by) = points[a], points[b]
            return max(least, abs(ax - bx) + abs(ay - by) + rng.randrange(3))
        return rng.randint(least, 300_000)

    return tuple(
        tuple(factor * max(2 * least, draw(a, b)) if a != b else 0 for b in range(count))
        for a in range(count)
    )


def _random_events(
    rng: random.Random, count: int, groups: list[int], periods: int, lively: int
) -> tuple[list[Events], dict[int, tuple[Pair, ...]]]:
    """Draw possible events: nodes die, leave and come back; members join and quit."""
    alive = {x for x in range(count) if rng.random() < 0.9} or {0}
    members: dict[int, set[int]] = {g: set() for g in groups}
    events, publications = [], {}
    busy = rng.choice([0.01, 0.03, 0.1])
    disaster = rng.randrange(2, lively) if rng.random() < 0.5 else -1
    for t in range(periods):
        died, joins, quits = set(), set(), set()
        rate = busy if t < lively else 0.0
        back = {x for x in range(count) if x not in alive and rng.random() < 2 * rate}
        at_once = rng.choice([0, 0, 0.2])  # the share of those who died that live again at once
        for x in sorted(alive):
            if rng.random() < (0.4 if t == disaster else rate / 2):
                died.add(x)
            elif rng.random() < rate / 4:  # leaves: quits all its groups
                alive.discard(x)
                quits |= {(g, x) for g in groups if x in members[g]}
        alive = (alive - died) | back | {x for x in sorted(died) if rng.random() < at_once}
        quits |= {(g, x) for g in groups for x in sorted(members[g]) if rng.random() < rate / 2}
        for g in groups:
            members[g] -= died | {x for h, x in quits if h == g}
            share = 0.8 if t == 0 else 2 * rate
            joins |= {(g, x) for x in sorted(alive - members[g]) if rng.random() < share}
            members[g] |= {x for h, x in joins if h == g}
        flags = tuple(x in alive for x in range(count))
        events.append(Events(*(tuple(sorted(s)) for s in (joins, quits, died)), flags))
        asked = {(g, rng.choice(sorted(members[g] & alive or alive))) for g in groups if alive}
        asked |= {(g, rng.choice(sorted(alive))) for g in groups if alive and rng.random() < 0.4}
        publications[t] = tuple(sorted(asked))
    return events, publications
