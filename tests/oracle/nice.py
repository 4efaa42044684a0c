"""NICE by its rules V1 to V9, in plain Python: one group, a function for each rule.

A cluster is a set of nodes under the key (layer, leader).  Round trips R and all comparisons are
whole numbers; a draw is given by the caller.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil


@dataclass(frozen=True)
class Rules:
    """The settings."""

    k: int = 3
    newcomers: int = 100
    silence: int = 3
    stay_percent: int = 70
    mean_percent: int = 10
    least_gain_us: int = 5000
    guard: bool = True


@dataclass
class Group:
    """The members of a group; `trip` is R, `spread` the periods until a member begins to join."""

    rules: Rules
    trip: Callable[[int, int], int]
    spread: Callable[[int], int]
    clusters: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    silent: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)

    # --- questions

    def rows(self) -> list[tuple[int, int, int]]:
        """(layer, leader, node), sorted."""
        return sorted((*key, node) for key, some in self.clusters.items() for node in some)

    @property
    def top(self) -> int:
        """The top layer."""
        return max((layer for layer, _ in self.clusters), default=-1)

    @property
    def point(self) -> int | None:
        """The rendezvous point."""
        return next((leader for layer, leader in self.clusters if layer == self.top), None)

    def head(self, layer: int, node: int) -> int | None:
        """The leader of the cluster of a layer in which a node sits."""
        found = [key[1] for key, some in self.clusters.items() if key[0] == layer and node in some]
        assert len(found) <= 1
        return found[0] if found else None

    def radius(self, node: int, some: Iterable[int]) -> int:
        """The longest round trip from a node."""
        return max(self.trip(node, other) for other in some)

    def answers(self, node: int) -> bool:
        """True for nodes that are neither silent nor departing."""
        return node not in self.silent and node not in self.departs

    def centre(self, some: set[int]) -> int:
        """The centre of a set."""
        of = [node for node in some if self.answers(node)] or some
        return min(of, key=lambda node: (self.radius(node, some), node))

    def saves(self, old: int, new: int, total: int, number: int) -> bool:
        """True if a round trip is far below an old one."""
        r = self.rules
        gain = number * (r.stay_percent * old - 100 * new)
        return gain > max(r.mean_percent * total, 200 * number * r.least_gain_us)

    # --- a period

    def play(
        self, number: int, join: set[int], quit: set[int], died: set[int], alive: set[int]
    ) -> Counter:
        """Play a period; return its messages (kind, sender, receiver)."""
        self.sent: Counter = Counter()
        self.events(number, join, quit, died, alive)
        point = self.point
        self.point_now = point if point is not None and point not in self.departs else None
        newcomers = self.join(number)
        self.beat()
        for node, leader in newcomers.items():
            self.clusters.setdefault((0, leader), {leader}).add(node)
        self.lost: set[int] = set()
        layer = 0
        while layer <= self.top:
            self.turn(layer)
            layer += 1
        while self.top > 0 and len(self.clusters[self.top, self.point]) == 1:  # V8
            del self.clusters[self.top, self.point]
        return self.sent

    def send(self, kind: str, sender: int, to: int) -> None:
        self.sent[kind, sender, to] += 1

    def events(
        self, number: int, join: set[int], quit: set[int], died: set[int], alive: set[int]
    ) -> None:
        """V1."""
        seated = set().union(*self.clusters.values())
        self.departs: set[int] = set()
        self.quits: set[int] = set()
        for node in died & seated:
            self.silent.setdefault(node, 0)
        for node in [node for node in self.waiting if node not in alive]:
            del self.waiting[node]
        for node in quit:
            self.waiting.pop(node, None)
            if node in seated and node not in self.silent:
                self.quits.add(node)
                self.departs.add(node)
        for node in join:
            start = number + self.spread(node)
            if node in seated:
                self.departs.add(node)
                self.silent.pop(node, None)
                start = max(start, number + 1)
            self.waiting[node] = start
        for node in list(self.silent):
            self.silent[node] += 1
            if self.silent[node] >= self.rules.silence:
                self.departs.add(node)
                del self.silent[node]

    def join(self, number: int) -> dict[int, int]:
        """V2: the new members and their leaders."""
        begin = [node for node, start in self.waiting.items() if start <= number]
        if not self.clusters:
            first = min(begin, key=lambda node: (self.waiting[node], node), default=None)
            if first is None:
                return {}
            del self.waiting[first]
            return {first: first}
        asked = defaultdict(list)
        for node in begin:
            now = self.point
            self.send("query", node, now)
            if not self.answers(now):
                continue
            self.send("answer", now, node)
            for layer in range(self.top, 0, -1):
                near = [now]
                for member in self.clusters[layer, now] - {now}:
                    self.send("ping", node, member)
                    if self.answers(member):
                        self.send("pong", member, node)
                        near.append(member)
                now = min(near, key=lambda one: (self.trip(node, one), one))
                if layer > 1:
                    self.send("query", node, now)
                    self.send("answer", now, node)
            self.send("join", node, now)
            asked[now].append(node)
        found = {}
        for leader, some in asked.items():
            some.sort(key=lambda node: (self.waiting[node], node))
            found.update(dict.fromkeys(some[: self.rules.newcomers], leader))
        for node in found:
            del self.waiting[node]
        return found

    def beat(self) -> None:
        """Heartbeats, and pings to the other leaders above."""
        for (layer, leader), some in self.clusters.items():
            for node in filter(self.answers, some):
                for other in some - {node}:
                    self.send("heartbeat", node, other)
                if node == leader or not self.answers(leader) or layer == self.top:
                    continue
                above = self.clusters[layer + 1, self.head(layer + 1, leader)]
                for other in above - {leader}:
                    self.send("ping", node, other)
                    if self.answers(other):
                        self.send("pong", other, node)

    # --- the turn of a layer

    def turn(self, layer: int) -> None:
        """V3 to V7; changes of the layer above come at the end."""
        self.rise: list[tuple[int, int]] = []  # a new seat above, and its cluster's leader
        self.fall: set[int] = set()
        is_top = layer == self.top
        upper = {} if is_top else {
            leader: self.head(layer + 1, leader) for of, leader in self.clusters if of == layer
        }  # fmt: skip
        self.vacate(layer, upper)
        leads = {leader for of, leader in self.clusters if of == layer}
        others = {
            leader: {
                one for one in self.clusters.get((layer + 1, upper.get(leader)), ())
                if one != leader and one in leads and self.answers(one)
            }
            for leader in leads
        }  # fmt: skip
        if not is_top:
            self.move(layer, others)
        mine = {leader: self.clusters[layer, leader] for leader in leads}
        k, acts = self.rules.k, {leader for leader in leads if self.answers(leader)}
        splits = {leader for leader in acts if len(mine[leader]) > 3 * k + 1}
        is_point = {one for one in leads if one == self.point_now or is_top}
        merged = set()
        if not is_top:
            small = {leader for leader in acts if len(mine[leader]) < k}
            merged = self.merge(layer, small, others, is_point, splits)
            for leader in acts - is_point - merged - splits - small:
                self.lead_anew(layer, leader, upper[leader])
        for leader in splits:
            self.split(layer, leader, upper.get(leader), leader in is_point)
        for node, leader in self.rise:
            self.clusters.setdefault((layer + 1, leader), set()).add(node)
        self.lost = self.fall

    def vacate(self, layer: int, upper: dict[int, int]) -> None:
        """V3; `upper` are the leaders above, by leader."""
        for key in [key for key in self.clusters if key[0] == layer]:
            some, leader = self.clusters[key], key[1]
            goes = {node for node in some if node in self.departs or node in self.lost}
            for node in goes - {leader}:
                if node in self.quits:
                    self.send("leave", node, leader)
                elif node not in self.departs:
                    self.send("remove", node, leader)
            some -= goes
            if leader not in goes:
                continue
            del self.clusters[key]
            above = upper.pop(leader, None)
            if above is not None:
                self.fall.add(leader)
            if not some:
                continue
            centre = self.centre(some)
            self.clusters[layer, centre] = some
            if leader in self.quits or leader not in self.departs:
                self.send("transfer", leader, centre)
            if above is not None:
                upper[centre] = above
                self.rise.append((centre, above))
                self.send("add", centre, above)

    def move(self, layer: int, others: dict[int, set[int]]) -> None:
        """V4."""
        r, wants = self.rules, []
        mine = {leader: some for (of, leader), some in self.clusters.items() if of == layer}
        size = {leader: len(some) for leader, some in mine.items()}
        for leader, some in mine.items():
            for node in some - {leader}:
                near = others[leader]
                if not (near and self.answers(node) and self.answers(leader)):
                    continue
                goal = min(near, key=lambda one: (self.trip(node, one), one))
                now, then = self.trip(node, leader), self.trip(node, goal)
                total = now + sum(self.trip(node, one) for one in near)
                if self.saves(now, then, total, len(near) + 1):
                    gain = r.stay_percent * now - 100 * then
                    wants.append((-gain, node, leader, goal))
        wants.sort()
        if r.guard:
            gone, come = Counter(), Counter()
            may = []
            for one in wants:
                gone[one[2]] += 1
                if gone[one[2]] <= size[one[2]] - r.k:
                    may.append(one)
            wants = []
            for one in may:
                come[one[3]] += 1
                if come[one[3]] <= 3 * r.k + 1 - size[one[3]]:
                    wants.append(one)
        for _, node, leader, goal in wants:
            self.send("leave", node, leader)
            self.send("join", node, goal)
            mine[leader].remove(node)
            mine[goal].add(node)

    def split(self, layer: int, leader: int, above: int | None, is_point: bool) -> None:
        """V5."""
        some = self.clusters.pop((layer, leader))
        leaders = []
        for half in self.halves(sorted(some)):
            new = leader if is_point and leader in half else self.centre(half)
            self.clusters[layer, new] = half
            leaders.append(new)
            if new != leader:
                self.send("transfer", leader, new)
                self.rise.append((new, leader if above is None else above))
                self.send("add", new, leader if above is None else above)
        if above is None:
            self.rise.append((leader, leader))
        elif leader not in leaders:
            self.fall.add(leader)

    def halves(self, some: list[int]) -> tuple[set[int], set[int]]:
        """The halves of a cluster, by the distances of each two centres."""
        m, trip = len(some), self.trip
        first = ceil(m / 2)
        if m >= 6 * self.rules.k:
            return set(some[:first]), set(some[first:])
        best = None
        for a in some:
            for b in some:
                rest = [one for one in some if one not in (a, b)]
                if a == b:
                    continue
                to_a, to_b = (sorted((trip(c, j) for j in rest), reverse=True) for c in (a, b))
                least = max(min(trip(a, j), trip(b, j)) for j in rest)
                r = max(least, to_b[first - 1], to_a[m - first - 1])
                best = min(best or (r, a, b), (r, a, b))
        r, a, b = best
        rest = [one for one in some if one not in (a, b)]
        in_a = {a} | {j for j in rest if trip(b, j) > r}
        free = [j for j in rest if j not in in_a and trip(a, j) <= r]
        free.sort(key=lambda j: (trip(a, j) - trip(b, j), j))
        in_a |= set(free[: first - len(in_a)])
        return in_a, set(some) - in_a

    def merge(
        self, layer: int, small: set[int], others: dict[int, set[int]], is_point: set[int],
        splits: set[int],
    ) -> set[int]:  # fmt: skip
        """V6: the leaders of both ends."""
        wish, forced = {}, {}
        for leader in small:
            if others[leader]:
                goal = min(others[leader], key=lambda one: (self.trip(leader, one), one))
                if leader in is_point:
                    forced[goal] = leader
                else:
                    wish[leader] = goal
        wish |= forced
        stays = {u for u, v in wish.items() if wish.get(v) == u and u < v}
        edges = {u: v for u, v in wish.items() if u not in stays}
        played = {u: v for u, v in edges.items() if v not in edges and not {u, v} & splits}
        for u, v in played.items():
            if u in forced:
                self.send("force_merge", v, u)
            self.send("merge", u, v)
            self.clusters[layer, v] |= self.clusters.pop((layer, u))
            self.fall.add(u)
        return {*played, *played.values()}

    def lead_anew(self, layer: int, leader: int, above: int) -> None:
        """V7."""
        some = self.clusters[layer, leader]
        centre = self.centre(some)
        total = sum(self.trip(leader, one) for one in some)
        old, new = self.radius(leader, some), self.radius(centre, some)
        if centre != leader and self.saves(old, new, total, len(some) - 1):
            self.clusters[layer, centre] = self.clusters.pop((layer, leader))
            self.send("transfer", leader, centre)
            self.rise.append((centre, above))
            self.send("add", centre, above)
            self.fall.add(leader)

    # --- publications

    def copies(self, source: int, alive: set[int]) -> Counter:
        """V9: the copies (sender, receiver) of a publication."""
        found: Counter = Counter()
        seated = {node for some in self.clusters.values() for node in some} - set(self.silent)
        due = [(source, None)]
        if source not in seated:
            point = self.point
            if point is None:
                return found
            found[source, point] += 1
            due = [(point, None)]
        had = {source}
        while due:
            node, came = due.pop()
            had.add(node)
            for (layer, _), some in self.clusters.items():
                if node in some and layer != came and node in seated and node in alive:
                    for other in some - {node}:
                        found[node, other] += 1
                        assert other not in had
                        due.append((other, layer))
        return found
