"""A slow oracle of NICE: rules V1 to V9 of docs/rules.md, and seeded random cases.

Written from the rules alone, by someone who has not seen the kernel.  A case is plain data (see
`Case`); ``groups_of(case)`` plays it period by period.  ``violations`` names what the exact
invariants forbid, ``quiet_violations`` what they forbid in a group at rest.  Nodes are positions;
delays are whole microseconds.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from keyed import bits

from .period_events import Events, Pair

#: No node, and the layer of the first copy of a source.
NONE = -1

Message = tuple[int, int, int]  # group, sender, receiver
Layers = dict[int, dict[int, int]]  # layer -> node -> leader of its cluster there

KINDS = (
    *("query", "answer", "ping", "pong", "join", "leave", "heartbeat"),
    *("transfer", "add", "remove", "merge", "force_merge"),
)

#: How a node departs; a node that is not heard sends nothing.
QUIT, COMEBACK, SILENT = "quit", "comeback", "silent"


@dataclass(frozen=True)
class Settings:
    """The rules' numbers; times are periods, but for `least_gain_us`.

    Without `guard`, the sizes of clusters do not limit moves.
    """

    k: int = 3
    stay_percent: int = 70
    mean_percent: int = 10
    least_gain_us: int = 5_000
    join_periods: int = 40
    newcomers: int = 100
    silence: int = 3
    guard: bool = True


@dataclass(frozen=True)
class Case:
    """A case: groups are the indices of their numbers, nodes the positions of theirs."""

    seed: int
    in_run: bool
    numbers: tuple[int, ...]
    nodes: tuple[int, ...]
    settings: Settings
    delay: tuple[tuple[int, ...], ...]
    periods: tuple[Events, ...]
    publications: dict[int, tuple[Pair, ...]]

    def between(self, a: int, b: int) -> int:
        """Return R(a, b), there and back."""
        return self.delay[a][b] + self.delay[b][a]


@dataclass
class Group:
    """The state of a group, and what belongs to the period that is played."""

    case: Case
    index: int
    seats: Layers = field(default_factory=dict)
    silent: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    # of a period
    first: Layers = field(default_factory=dict)
    departing: dict[int, str] = field(default_factory=dict)
    answering: set[int] = field(default_factory=set)
    point: int = NONE  # the RP of the period's start
    lost: dict[int, set[int]] = field(default_factory=dict)
    sent: dict[str, list[Message]] = field(default_factory=dict)
    given_up: list[Message] = field(default_factory=list)

    # --- what the state says

    def clusters(self, i: int) -> dict[int, list[int]]:
        """Return the members of each cluster of a layer, ascending, by leader."""
        found: dict[int, list[int]] = {}
        for node, leader in sorted(self.seats.get(i, {}).items()):
            found.setdefault(leader, []).append(node)
        return found

    def radius(self, a: int, others: Iterable[int]) -> int:
        return max(self.case.between(a, b) for b in others)

    def centre(self, members: list[int]) -> int:
        """Return the member of least radius, of those that answer if there are any."""
        able = [a for a in members if a in self.answering] or members
        return min(able, key=lambda a: (self.radius(a, members), a))

    def nearest(self, a: int, others: Iterable[int]) -> int:
        return min(others, key=lambda b: (self.case.between(a, b), b))

    def send(self, kind: str, sender: int, to: int) -> None:
        self.sent[kind].append((self.index, sender, to))

    # --- a period

    def play(self, t: int, now: Events) -> None:
        """Play period t."""
        self.sent = {kind: [] for kind in KINDS}
        self.lost = defaultdict(set)
        self.first = {i: dict(row) for i, row in self.seats.items()}
        self.point = root_of(self.first)
        self.hear_events(t, now)
        admitted = self.seek(t)
        self.keep_in_touch()
        self.admit(admitted)
        i = 0
        while self.seats.get(i):
            self.play_layer(i)
            i += 1
        self.dissolve()

    # V1: events

    def hear_events(self, t: int, now: Events) -> None:
        """V1; also decide who answers in this period."""
        seated = self.first.get(0, {})
        self.departing = {}
        for x in now.died:
            if x in seated:
                self.silent.setdefault(x, 0)
        self.waiting = {x: start for x, start in self.waiting.items() if now.alive[x]}
        for x in [x for g, x in now.quits if g == self.index]:
            self.waiting.pop(x, None)
            if x in seated and x not in self.silent:
                self.departing[x] = QUIT
        for x in [x for g, x in now.joins if g == self.index]:
            if x in seated:
                self.departing.setdefault(x, COMEBACK)
                self.silent.pop(x, None)
            self.waiting[x] = max(t + self.spread(x), t + (x in self.departing))
        for x in sorted(self.silent):
            self.silent[x] += 1
            if self.silent[x] == self.case.settings.silence:
                self.departing[x] = SILENT
                del self.silent[x]
        self.answering = set(seated) - set(self.silent) - set(self.departing)
        self.given_up = [
            (self.index, y, x)
            for row in self.first.values()
            for x, leader in row.items()
            for y, other in row.items()
            if leader == other and y in self.answering and self.departing.get(x) == SILENT
        ]

    def spread(self, x: int) -> int:
        """Return how many periods a node waits before it begins to join."""
        if not self.case.in_run:
            return 0
        key = self.case.numbers[self.index], self.case.nodes[x]
        return bits(self.case.seed, "nice join", *key) % 2**64 % self.case.settings.join_periods

    # V2: joins

    def seek(self, t: int) -> list[Pair]:
        """V2: return the newcomers that are taken, with their leaders."""
        ready = sorted((start, x) for x, start in self.waiting.items() if start <= t)
        if not self.first.get(0):
            return [(x, x) for _, x in ready[:1]]
        asked: dict[int, list[int]] = defaultdict(list)
        for _, x in ready:
            leader = self.walk(x)
            if leader != NONE:
                self.send("join", x, leader)
                asked[leader].append(x)
        most = self.case.settings.newcomers
        return [(x, leader) for leader, some in asked.items() for x in some[:most]]

    def walk(self, x: int) -> int:
        """Return the leader in layer 0 that a newcomer finds; NONE if the RP does not answer."""
        self.send("query", x, self.point)
        if self.point not in self.answering:
            return NONE
        self.send("answer", self.point, x)
        current = self.point
        for j in range(max(self.first), 0, -1):
            there = [y for y, leader in self.first[j].items() if leader == current]
            current = self.nearest(x, [current, *self.ping(x, there, current)])
            if j > 1:
                self.send("query", x, current)
                self.send("answer", current, x)
        return current

    def ping(self, x: int, there: list[int], but: int) -> list[int]:
        """Ping all but one; return those that answer."""
        heard = []
        for y in there:
            if y == but:
                continue
            self.send("ping", x, y)
            if y in self.answering:
                self.send("pong", y, x)
                heard.append(y)
        return heard

    def admit(self, newcomers: list[Pair]) -> None:
        """Give newcomers their rows; from now on they answer."""
        for x, leader in newcomers:
            self.seats.setdefault(0, {})[x] = leader
            del self.waiting[x]
            self.answering.add(x)

    # heartbeats

    def keep_in_touch(self) -> None:
        """Send the heartbeats, and the pings to the cluster above, of the first state."""
        for i, seats in self.first.items():
            above = self.first.get(i + 1, {})
            for x, leader in seats.items():
                if x not in self.answering:
                    continue
                for y, other in seats.items():
                    if other == leader and y != x:
                        self.send("heartbeat", x, y)
                is_member = x not in above and leader != x
                if is_member and leader in self.answering and leader in above:
                    there = [y for y, z in above.items() if z == above[leader]]
                    self.ping(x, there, leader)

    # layers

    def play_layer(self, i: int) -> None:
        """Play V3 to V7 of a layer; those of V5 to V7 are decided at once."""
        top = max(self.seats)
        fresh = self.leave_seats(i, top)
        if i < top:
            self.move(i, fresh)
        point = self.point if self.point not in self.departing else NONE
        clusters = self.clusters(i)
        splits = self.splits(clusters)
        merges, forced = ([], NONE) if i == top else self.merges(i, clusters, fresh, splits, point)
        ends = {x for pair in merges for x in pair}
        if i < top:
            others = set(clusters) - set(splits) - ends - {point}
            for x in sorted(others & self.answering):
                self.change_leader(i, x, clusters[x])
        for x in splits:
            self.split(i, top, x, clusters[x], x if i == top else point)
        for u, v in merges:
            self.merge(i, u, v, is_forced=u == forced)

    def enter(self, i: int, y: int, z: int) -> None:
        """Give a node a row in a cluster of a layer."""
        assert y not in self.seats[i]
        assert y != z
        self.seats[i][y] = z
        self.send("add", y, z)

    def leave_seats(self, i: int, top: int) -> set[int]:
        """V3: return who has got a row in the next layer."""
        seats, before, fresh = self.seats[i], self.clusters(i), set()
        gone = {x: seats[x] for x in seats if x in self.departing or x in self.lost[i]}
        for x, leader in gone.items():
            del seats[x]
            if leader == x:
                continue
            if self.departing.get(x) == QUIT:
                self.send("leave", x, leader)  # a node that does not lead is in its highest layer
            elif x not in self.departing:
                self.send("remove", x, leader)
        for x, leader in gone.items():
            if leader != x:
                continue
            if i < top:
                self.lost[i + 1].add(x)
            rest = [y for y in before[x] if y not in gone]
            if not rest:
                continue
            c = self.centre(rest)
            for y in rest:
                seats[y] = c
            if self.departing.get(x, QUIT) == QUIT:
                self.send("transfer", x, c)
            if i < top:
                self.enter(i + 1, c, self.seats[i + 1][x])
                fresh.add(c)
        if not seats:
            del self.seats[i]
        return fresh

    def candidates(self, i: int, x: int, fresh: set[int]) -> list[int]:
        """Return the leaders above x, but x, to which members of its cluster can go."""
        above, leads = self.seats[i + 1], self.seats[i]
        return [
            c
            for c, z in above.items()
            if z == above[x]
            and c != x
            and c not in fresh
            and c in self.answering
            and leads.get(c) == c
        ]

    def is_worth(self, now: int, new: int, others: list[int]) -> bool:
        """Return True if a change from a distance to a new one gains enough."""
        settings, n = self.case.settings, len(others)
        gain = settings.stay_percent * now - 100 * new
        return n * gain > max(settings.mean_percent * sum(others), 200 * n * settings.least_gain_us)

    def move(self, i: int, fresh: set[int]) -> None:
        """V4."""
        settings = self.case.settings
        k, stay = settings.k, settings.stay_percent
        clusters, d = self.clusters(i), self.case.between
        wishes = []
        for x, members in clusters.items():
            candidates = self.candidates(i, x, fresh) if x in self.answering else []
            for m in members:
                if m == x or m not in self.answering or not candidates:
                    continue
                c = self.nearest(m, candidates)
                if self.is_worth(d(m, x), d(m, c), [d(m, y) for y in [x, *candidates]]):
                    wishes.append((100 * d(m, c) - stay * d(m, x), m, x, c))
        went: Counter[int] = Counter()
        came: Counter[int] = Counter()
        for _, m, x, c in sorted(wishes):
            if settings.guard and went[x] >= len(clusters[x]) - k:
                continue
            went[x] += 1
            if settings.guard and came[c] >= 3 * k + 1 - len(clusters[c]):
                continue
            came[c] += 1
            self.seats[i][m] = c
            self.send("leave", m, x)
            self.send("join", m, c)

    def splits(self, clusters: dict[int, list[int]]) -> list[int]:
        """Return the leaders whose clusters split."""
        most = 3 * self.case.settings.k + 1
        return [x for x, some in clusters.items() if len(some) > most and x in self.answering]

    def split(self, i: int, top: int, x: int, members: list[int], fixed: int) -> None:
        """V5; `fixed` leads its half wherever its centre is."""
        halves = self.halves(members)
        leaders = [fixed if fixed in half else self.centre(half) for half in halves]
        for half, y in zip(halves, leaders, strict=True):
            for m in half:
                self.seats[i][m] = y
            if y == x:
                continue
            self.send("transfer", x, y)
            if i == top:
                self.seats[i + 1] = {x: x}
                self.enter(i + 1, y, x)
            else:
                self.enter(i + 1, y, self.seats[i + 1][x])
        if x not in leaders:
            self.lost[i + 1].add(x)

    def halves(self, members: list[int]) -> tuple[list[int], list[int]]:
        """Return the halves of a cluster."""
        m = len(members)
        size = (m + 1) // 2
        if m >= 6 * self.case.settings.k:
            return members[:size], members[size:]
        d = self.case.between
        pairs = [(a, b) for a in members for b in members if a != b]
        r, a, b = min((self.least_radius(members, a, b), a, b) for a, b in pairs)
        others = [j for j in members if j not in (a, b)]
        first = [a, *(j for j in others if d(b, j) > r)]
        second = [b, *(j for j in others if d(a, j) > r)]
        free = [j for j in others if j not in first and j not in second]
        free.sort(key=lambda j: (d(a, j) - d(b, j), j))
        first += free[: size - len(first)]
        return sorted(first), sorted(set(members) - set(first))

    def least_radius(self, members: list[int], a: int, b: int) -> int:
        """Return the least radius for which halves with the centres a and b exist."""
        of = [
            (self.case.between(a, j), self.case.between(b, j)) for j in members if j not in (a, b)
        ]
        size = (len(members) + 1) // 2
        radii = sorted({0, *(r for both in of for r in both)})

        def fits(r: int) -> bool:
            only_first = sum(near_b > r for _, near_b in of)
            only_second = sum(near_a > r for near_a, _ in of)
            nowhere = any(min(both) > r for both in of)
            return not nowhere and 1 + only_first <= size and 1 + only_second <= len(members) - size

        return next(r for r in radii if fits(r))

    def merges(
        self, i: int, clusters: dict[int, list[int]], fresh: set[int], splits: list[int], point: int
    ) -> tuple[list[Pair], int]:
        """V6: return the merges (u into v) of a layer, and which u is forced."""
        wishes: dict[int, int] = {}
        for x, members in clusters.items():
            if len(members) < self.case.settings.k and x in self.answering:
                candidates = self.candidates(i, x, fresh)
                if candidates:
                    wishes[x] = self.nearest(x, candidates)
        forced = wishes.pop(point, NONE)
        if forced != NONE:
            wishes[forced] = point
        stays = {u for u, v in wishes.items() if wishes.get(v) == u and u < v}
        movers = {u: v for u, v in wishes.items() if u not in stays}
        played = [
            (u, v)
            for u, v in movers.items()
            if v not in movers and u not in splits and v not in splits
        ]
        return played, forced

    def merge(self, i: int, u: int, v: int, is_forced: bool) -> None:
        """Give the cluster of u to v."""
        if is_forced:
            self.send("force_merge", v, u)
        self.send("merge", u, v)
        for m, leader in self.seats[i].items():
            if leader == u:
                self.seats[i][m] = v
        self.lost[i + 1].add(u)

    def change_leader(self, i: int, x: int, members: list[int]) -> None:
        """V7."""
        c = self.centre(members)
        others = [self.case.between(x, m) for m in members if m != x]
        if len(members) < self.case.settings.k or c == x:
            return
        if self.is_worth(self.radius(x, members), self.radius(c, members), others):
            for m in members:
                self.seats[i][m] = c
            self.send("transfer", x, c)
            self.enter(i + 1, c, self.seats[i + 1][x])
            self.lost[i + 1].add(x)

    def dissolve(self) -> None:
        """V8."""
        while len(self.seats) > 1 and len(self.seats[max(self.seats)]) == 1:
            del self.seats[max(self.seats)]
        self.silent = {x: n for x, n in self.silent.items() if x in self.seats.get(0, {})}

    # V9: publications

    def copies(self, source: int, alive: tuple[bool, ...]) -> list[Pair]:
        """Return the copies of a publication, also to the dead."""
        is_guest = source not in self.seats.get(0, {}) or source in self.silent
        sent: list[Pair] = []
        turn: list[tuple[int, int]] = [(source, NONE)]
        if is_guest:
            point = root_of(self.seats)
            if point in (NONE, source):
                return []
            sent = [(source, point)]
            turn = [(point, NONE)]
        has = {source, turn[0][0]}
        for node, came_on in turn:  # grows while it is read
            if node in self.silent or not alive[node]:
                continue
            for i, seats in self.seats.items():
                peers = [y for y, z in seats.items() if z == seats.get(node, NONE) and y != node]
                if i == came_on:
                    continue
                sent += [(node, y) for y in peers]
                turn += [(y, i) for y in peers if y not in has]
                has.update(peers)
        return sorted(sent)

    def state(self) -> dict[str, list]:
        """Return the state as plain lists, sorted."""
        return {
            "clusters": sorted(
                (i, leader, node) for i, row in self.seats.items() for node, leader in row.items()
            ),
            "silent": sorted(self.silent.items()),
            "waiting": sorted(self.waiting.items()),
        }

    def entries(self) -> dict[str, Counter[tuple[int, int, int]]]:
        """Return what members keep (V1), by kind: (group, node, layer) -> how many."""
        found: dict[str, Counter] = defaultdict(Counter)
        for i in self.seats:
            above = self.seats.get(i + 1, {})
            for leader, members in self.clusters(i).items():
                beside = [y for y, z in above.items() if z == above[leader] and y != leader]
                pairs = list(combinations(members, 2))
                for x in members:
                    at, leads = (self.index, x, i), x == leader
                    others = [pair for pair in pairs if x in pair]
                    more = [] if leads else beside
                    found["members of layer"][at] = len(others)
                    found["leaders of layer"][at] = len([leader, *more])
                    found["distances of layer"][at] = len([*(pairs if leads else others), *more])
        return found


def root_of(layers: Layers) -> int:
    """Return the leader of the top cluster; NONE if there is none."""
    return next(iter(layers[max(layers)].values())) if layers else NONE


def groups_of(case: Case) -> Iterator[tuple[int, list[Group]]]:
    """Play a case; yield each period and the groups after it, which change afterwards."""
    groups = [Group(case, g) for g in range(len(case.numbers))]
    for t, now in enumerate(case.periods):
        for group in groups:
            group.play(t, now)
        yield t, groups


# --- what always holds ----------------------------------------------------------------------------


def violations(group: Group, t: int) -> Iterator[str]:
    """Name what is wrong in a group after period t."""
    yield from _wrong_layers(group)
    yield from _wrong_lists(group, t)
    yield from _wrong_messages(group)
    yield from _wrong_copies(group, t)


def _wrong_layers(group: Group) -> Iterator[str]:
    seats, top = group.seats, max(group.seats, default=0)
    if sorted(seats) != list(range(len(seats))) or not all(seats.values()):
        yield f"layers {sorted(seats)}"
    for i, row in seats.items():
        leaders = set(row.values())
        if not all(row.get(x) == x for x in leaders):
            yield f"leaders {leaders} of layer {i} sit elsewhere"
        if i < top and leaders != set(seats[i + 1]):
            yield f"leaders {leaders} of layer {i}, but {set(seats[i + 1])} above"
        if i == top and len(leaders) != 1:
            yield f"leaders {leaders} of the top"
    if top and len(seats[top]) < 2:
        yield "a top layer of one"
    if group.point not in (NONE, root_of(seats), *group.departing):
        yield f"{group.point} was the RP, {root_of(seats)} is"


def _wrong_lists(group: Group, t: int) -> Iterator[str]:
    """Rows, waiting nodes and silent nodes against the events."""
    settings, now = group.case.settings, group.case.periods[t]
    rows, last = set(group.seats.get(0, {})), set(group.first.get(0, {}))
    if last - rows != set(group.departing) or (rows - last) & set(group.waiting):
        yield f"{last} departing {group.departing} leave {rows}"
    if not set(group.silent) <= rows or rows & set(group.waiting):
        yield f"{group.silent} or {group.waiting} against {rows}"
    if not all(0 < n < settings.silence for n in group.silent.values()):
        yield f"silent {group.silent}"
    if not all(now.alive[x] for x in rows - set(group.silent)):
        yield "a dead node is not silent"
    if not all(now.alive[x] for x in group.waiting):
        yield "a dead node waits"
    ready = {x for x, start in group.waiting.items() if start <= t}
    is_full = not last or len(rows - last) >= settings.newcomers
    if ready and group.point in group.answering and not is_full:
        yield f"{ready} could join"


def _wrong_messages(group: Group) -> Iterator[str]:
    sent = {kind: Counter((x, y) for _, x, y in some) for kind, some in group.sent.items()}
    if any(x == y for some in sent.values() for x, y in some):
        yield "a node sends to itself"
    for asked, answered in (("query", "answer"), ("ping", "pong")):
        if any(sent[answered][y, x] > sent[asked][x, y] for y, x in sent[answered]):
            yield f"{answered} without {asked}"
    dumb = {x for x, how in group.departing.items() if how != QUIT} | set(group.silent)
    for kind, some in sent.items():
        if kind != "add" and dumb & {x for x, _ in some}:  # a centre may be silent
            yield f"{kind} of {dumb}"
    heard = Counter({(x, y): n for (x, y), n in sent["heartbeat"].items() if y in group.answering})
    if heard != Counter({(y, x): n for (x, y), n in heard.items()}):
        yield "heartbeats are not mutual"


def _wrong_copies(group: Group, t: int) -> Iterator[str]:
    """Nobody gets a copy twice; without silent members, all members get one."""
    alive, members = group.case.periods[t].alive, set(group.seats.get(0, {}))
    sources = sorted(x for x, is_alive in enumerate(alive) if is_alive)
    for source in random.Random(t).sample(sources, min(3, len(sources))):
        got = Counter(y for _, y in group.copies(source, alive))
        if max(got.values(), default=0) > 1 or not set(got) <= members:
            yield f"copies of {source}: {got}"
        if not group.silent and set(got) != members - {source}:
            yield f"{source} reaches {set(got)} of {members}"


def quiet_violations(group: Group) -> Iterator[str]:
    """Name what is wrong in a group at rest: sizes and layers."""
    k, n, top = group.case.settings.k, len(group.seats.get(0, {})), max(group.seats, default=0)
    for i in group.seats:
        for x, members in group.clusters(i).items():
            least = k if i < top else 2 if top else 1
            if not least <= len(members) <= 3 * k + 1:
                yield f"{len(members)} members of {x} in layer {i} of {top}"
    if n and k**top > n:
        yield f"{top + 1} layers of {n} members"


# --- cases ----------------------------------------------------------------------------------------

#: Periods of a quiet case with events, and all.
LIVELY, QUIET_PERIODS = 20, 60


def is_quiet_case(seed: int) -> bool:
    """Return True if the case of a seed has the default settings, and comes to rest."""
    return seed % 8 == 3


def random_case(seed: int) -> Case:
    """Draw a case; every eighth is a quiet one, every 25th a large one."""
    rng = random.Random(f"nice {seed}")
    is_quiet, is_large = is_quiet_case(seed), seed % 25 == 24
    count = rng.choice([rng.randint(1, 12), rng.randint(13, 60), rng.randint(40, 60)])
    periods = rng.randint(10, 40)
    if is_large:
        count, periods = rng.randint(120, 300), rng.randint(8, 14)
    if is_quiet:
        periods = QUIET_PERIODS
    groups = rng.randint(1, 1 if is_large else 3)
    events, publications = _random_events(
        rng, count, groups, periods, LIVELY if is_quiet else periods
    )
    return Case(
        rng.getrandbits(40),
        rng.random() < 0.5,
        tuple(rng.sample([0, 1, 2, 7, 10**12], groups)),
        tuple(rng.sample(range(rng.choice([count, 10**9])), count)),
        Settings(join_periods=10) if is_quiet else _random_settings(rng),
        _random_delays(rng, count),
        tuple(events),
        publications,
    )


def _random_settings(rng: random.Random) -> Settings:
    """Draw settings, small ones, in which every rule occurs soon."""
    return Settings(
        k=rng.choice([2, 2, 2, 3, 3, 4]),
        stay_percent=rng.choice([50, 70, 70, 90, 100]),
        mean_percent=rng.choice([0, 0, 10, 30]),
        least_gain_us=rng.choice([0, 1, 1_000, 5_000]),
        join_periods=rng.choice([1, 2, 5, 10]),
        newcomers=rng.choice([1, 2, 5, 100, 100]),
        silence=rng.choice([1, 2, 3, 3, 3]),
        guard=rng.random() < 0.8,
    )


def _random_delays(rng: random.Random, count: int) -> tuple[tuple[int, ...], ...]:
    """Draw D(a, b), not symmetric: with many ties, of sites in a plane, of any points, or any."""
    style = rng.choice(["ties", "sites", "plane", "plane", "any"])
    points = [(rng.randrange(100_000), rng.randrange(100_000)) for _ in range(count)]
    if style == "sites":
        points = [points[rng.randrange(1 + count // 6)] for _ in range(count)]

    def draw(a: int, b: int) -> int:
        if style == "ties":
            return 10_000 * rng.randint(0, 3)
        if style == "any":
            return 2_000 + rng.randrange(300_000)
        (ax, ay), (bx, by) = points[a], points[b]
        return 2_000 + abs(ax - bx) + abs(ay - by) + rng.randrange(3)

    return tuple(tuple(draw(a, b) if a != b else 0 for b in range(count)) for a in range(count))


def _random_events(
    rng: random.Random, count: int, groups: int, periods: int, lively: int
) -> tuple[list[Events], dict[int, tuple[Pair, ...]]]:
    """Draw possible events: nodes die, leave and come back; members join and quit."""
    alive = {x for x in range(count) if rng.random() < 0.9} or {0}
    members: list[set[int]] = [set() for _ in range(groups)]
    events, publications = [], {}
    busy, share = rng.choice([0.01, 0.03, 0.1]), rng.choice([0.3, 0.8, 1])
    shrinks = rng.random() < 0.3
    disaster = rng.randrange(2, lively) if rng.random() < 0.5 else -1
    for t in range(periods):
        died: set[int] = set()
        joins: set[Pair] = set()
        quits: set[Pair] = set()
        rate = busy if t < lively else 0.0
        worst = rng.choice([0.2, 0.5, 0.9]) if t == disaster else rate / 2
        back = {x for x in range(count) if x not in alive and rng.random() < 2 * rate}
        at_once = rng.choice([0, 0, 0.5])  # the share of those who died that live again at once
        for x in sorted(alive):
            if rng.random() < worst:
                died.add(x)
            elif rng.random() < rate / 4:  # leaves: quits all its groups
                alive.discard(x)
                quits |= {(g, x) for g in range(groups)}
        alive = (alive - died) | back | {x for x in sorted(died) if rng.random() < at_once}
        leaving = 0.15 if shrinks and t < lively else rng.choice([rate / 2] * 9 + [5 * rate])
        for g in range(groups):
            quits |= {(g, x) for x in sorted(members[g]) if rng.random() < leaving}
            members[g] -= died | {x for h, x in quits if h == g}
            chance = share if t == 0 else 2 * rate
            joins |= {(g, x) for x in sorted(alive - members[g]) if rng.random() < chance}
            members[g] |= {x for h, x in joins if h == g}
        flags = tuple(x in alive for x in range(count))
        events.append(Events(*(tuple(sorted(s)) for s in (joins, quits, died)), flags))
        asked = {
            (g, rng.choice(sorted(members[g] & alive or alive))) for g in range(groups) if alive
        }
        asked |= {(g, rng.choice(sorted(alive))) for g in range(groups) if alive}
        publications[t] = tuple(sorted(asked))
    return events, publications
