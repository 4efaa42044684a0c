"""SplitStream by its rules, one node and one message after the other: docs/rules.md, L1 to L10."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from scribe_spark.core import draws

NOTICE, QUICK, TRIES, MOST_HOPS = 2, 5, 30, 3000
FREEPASTRY, SPARE = "freepastry", "spare-capacity"
ROUTE, ANYCAST = "route", "anycast"


@dataclass
class Request:
    """A SUBSCRIBE or a JOINREQ."""

    s: int
    x: int
    at: int
    sender: int
    final: bool = False
    seeks: bool = False
    routed: bool = False
    visited: list[int] = field(default_factory=list)
    todo: list[int] = field(default_factory=list)


@dataclass
class Channel:
    """A group with its stripes; nodes are positions.

    `number` are the nodes' numbers, `primary` and `match(x, s)` come from their ids, `bound` has
    None without a bound.
    """

    seed: int
    group: int
    stripes: int
    policy: str
    waves: int
    number: list[int]
    primary: list[int]
    match: Callable[[int, int], int]
    bound: list[int | None]
    nodes: set[int] = field(default_factory=set)
    members: set[int] = field(default_factory=set)
    died: dict[int, int] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)
    parent: dict[tuple[int, int], int] = field(default_factory=dict)
    ancestors: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    children: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    spare_parent: dict[int, int] = field(default_factory=dict)

    # --- small things

    def draw(self, purpose: str, *rows: int) -> int:
        """A draw of this hop."""
        key = self.group, self.period, self.hop, *rows
        return int(draws.bits_np(self.seed, f"splitstream {purpose}", *key))

    def least(self, purpose: str, some: Iterable[int], *rows: int) -> int:
        """The node of the least draw."""
        return min(some, key=lambda c: (self.draw(purpose, *rows, self.number[c]), c))

    def send(self, kind: str, sender: int, to: int) -> None:
        """Count a message."""
        self.messages[sender, to, kind] += 1

    def reply(self, kind: str, s: int, sender: int, to: int, more: object = None) -> None:
        """Send a reply; a node's own FAIL is no message."""
        if sender != to:
            self.send(kind, sender, to)
        self.replies.append((kind, s, sender, to, more))

    def degree(self, m: int) -> int:
        """The children of a node over all stripes."""
        return sum(len(self.children[m, s]) for s in range(self.stripes))

    def has_room(self, m: int) -> bool:
        """True below the bound."""
        return self.bound[m] is None or self.degree(m) < self.bound[m]

    def fits(self, x: int, s: int) -> bool:
        """True in the primary stripe."""
        return self.primary[x] == s

    def path(self, x: int, s: int) -> list[int]:
        """What x tells its children."""
        return [x, *self.ancestors.get((x, s), [])]

    def detach(self, x: int, s: int) -> None:
        """Forget the parent."""
        self.parent.pop((x, s), None)
        self.ancestors.pop((x, s), None)

    def holder(self, x: int, s: int) -> int | None:
        """The node that has x among its children."""
        return next((m for m in self.nodes if x in self.children[m, s]), None)

    # --- a period

    def play(
        self,
        period: int,
        alive: list[bool],
        join: set[int],
        quit: set[int],
        failed: set[int],
        roots: list[int],
        next_hop: Callable[[int, int], int],
    ) -> None:
        """Play a period; `next_hop(x, key)` is the end of a route where it returns x or -1."""
        self.period, self.hop, self.alive, self.next_hop = period, 0, alive, next_hop
        self.messages: Counter = Counter()
        self.replies: list[tuple] = []
        self.requests: dict[int, list[Request]] = defaultdict(list)
        self.waiting: dict[tuple[int, int], tuple[int, object]] = {}
        self.fails: Counter = Counter()
        before = set(self.nodes), list(self.roots)
        changed = self._begin(join, quit, failed, roots)
        lacking = any(
            (x, s) not in self.parent and self.roots[s] != x and alive[x]
            for x in self.nodes
            for s in range(self.stripes if self.roots else 0)
        )
        if not (self.gone or lacking or before != (self.nodes, self.roots)):
            return
        self._tell(changed)
        self._enter({x for x in self.wave if self.wave[x] == 0})
        self._subscribe(self.entered)
        self._ask()
        self._update_tree()
        while self._goes_on():
            self.hop += 1
            self._tell(self._receive())
            self._go_on(self._answer())
            self._ask()
            self._update_tree()
        for x in self.nodes:  # a dead node's parent is who has it as child
            for s in range(self.stripes):
                if not alive[x]:
                    holder = self.holder(x, s)
                    self.parent.pop((x, s), None)
                    if holder is not None:
                        self.parent[x, s] = holder

    def _begin(self, join: set, quit: set, failed: set, roots: list) -> set:
        alive = self.alive
        left = {x for x in self.nodes if not alive[x] and x not in self.died and x not in failed}
        self.died |= {x: self.period for x in self.nodes if not alive[x] and x not in self.died}
        back = {x for x in self.nodes if alive[x] and x in self.died}
        noticed = {x for x in self.nodes if not alive[x] and self.period - self.died[x] >= NOTICE}
        self.members = (self.members - quit - back - noticed - left) | join
        roots = roots if self.members else []
        useless = {x for x in self.nodes if alive[x] and x not in self.members | set(roots)}
        self.gone = gone = noticed | left | back | useless
        for x in left | useless:
            for s in range(self.stripes):
                if (x, s) in self.parent:
                    self.send("leave", x, self.parent[x, s])
                for child in self.children[x, s]:
                    self.send("drop", x, child)
        changed = set()
        for x in gone:
            for s in range(self.stripes):
                for child in self.children.pop((x, s), set()):
                    if child not in gone and alive[child]:
                        changed.add((child, s))
                    self.detach(child, s)
                for m in self.nodes:
                    self.children[m, s].discard(x)
                self.detach(x, s)
            self.nodes.discard(x)
            self.died.pop(x, None)
            self.spare_parent.pop(x, None)
        for s, root in enumerate(roots[: self.stripes]):
            if (not self.roots or self.roots[s] != root) and (root, s) in self.parent:
                self.send("leave", root, self.parent[root, s])
                self.children[self.parent[root, s], s].discard(root)
                self.detach(root, s)
                changed.add((root, s))
        self.roots = list(roots)
        self.entered = set(self.nodes)
        new = (join | set(roots)) - self.nodes
        joiners = sorted(
            new - set(roots),
            key=lambda x: (
                int(draws.bits_np(self.seed, "splitstream wave", self.group, self.number[x])),
                x,
            ),
        )
        self.wave = dict.fromkeys(new & set(roots), 0)
        self.wave |= {x: r * self.waves // len(joiners) for r, x in enumerate(joiners)}
        self.nodes |= new
        return changed

    def _enter(self, some: set[int]) -> None:
        self.entered |= some
        for x in some:
            del self.wave[x]

    def _subscribe(self, some: set[int]) -> None:
        for x in some:
            for s in range(self.stripes):
                if self.alive[x] and (x, s) not in self.parent and self.roots[s] != x:
                    self.waiting[x, s] = self.hop, ROUTE

    def _goes_on(self) -> bool:
        if self.replies or self.waiting or any(self.requests.values()):
            return True
        if not self.wave:
            return False
        first = min(self.wave.values())
        some = {x for x in self.wave if self.wave[x] == first}
        self._enter(some)
        self.hop += 1
        self._subscribe(some)
        self.hop -= 1
        return True

    # --- 1 and 2: replies and paths

    def _tell(self, changed: set) -> None:
        for x, s in changed:
            for child in self.children[x, s]:
                self.reply("path", s, x, child, self.path(x, s))

    def _receive(self) -> set:
        came, self.replies = self.replies, []
        touched: dict = {}

        def of(kind: str) -> list[tuple]:
            return [
                one for one in came if one[0] == kind and (kind == "leave" or self.alive[one[3]])
            ]

        for _, s, x, p, _ in of("leave"):
            self.children[p, s].discard(x)
        for kind in ("ack", "drop", "path"):
            for _, s, _, x, _ in of(kind):
                touched.setdefault((x, s), self.ancestors.get((x, s), []))
        for _, s, m, x, path in of("ack"):
            self.parent[x, s], self.ancestors[x, s], self.fails[x, s] = m, path, 0
        for _, s, m, x, to in of("drop"):
            if self.parent.get((x, s), m) == m:
                self.detach(x, s)
                other = ROUTE if self.policy == FREEPASTRY else ANYCAST
                self.waiting[x, s] = self.hop, other if to is None else to
        for _, s, m, x, path in of("path"):
            if self.parent.get((x, s)) == m:
                self.ancestors[x, s] = path
        for x, s in touched:
            known = self.ancestors.get((x, s), [])
            if x in known:
                ring = known[: known.index(x) + 1]
                self.ancestors[x, s] = ring
                if min(ring) == x:
                    self.reply("leave", s, x, self.parent[x, s])
                    self.detach(x, s)
                    self.waiting[x, s] = self.hop, ROUTE
        for _, s, _, x, _ in of("fail"):
            self.fails[x, s] += 1
            if self.fails[x, s] <= TRIES:
                later = 1 if self.fails[x, s] <= QUICK else 5
                self.waiting[x, s] = self.hop + later, ROUTE
        return {key for key, had in touched.items() if self.ancestors.get(key, []) != had}

    # --- 3: requests

    def _accept(self, x: int, s: int, m: int) -> None:
        self.children[m, s].add(x)
        self.acks.append((s, m, x))

    def _answer(self) -> list[Request]:
        came = self.requests.pop(self.hop, [])
        self.acks: list = []
        self.drops: list = []  # stripe, node, child, True if a sibling is looked for
        self.failed: list = []
        if self.hop >= MOST_HOPS:
            came = []
        came.sort(key=lambda one: (one.at, one.seeks, one.s, one.x))
        refused = [one for one in came if not self._answer_one(one)]
        for s, m, x in self.acks:
            self.reply("ack", s, m, x, self.path(m, s))
        for s, m, c, looks in self.drops:
            siblings = [
                one
                for one in self.children[m, s]
                if looks and self.alive[one] and self.fits(one, s)
            ]
            to = self.least("sibling", siblings, s, self.number[c]) if siblings else None
            self.reply("drop", s, m, c, to)
        for s, m, x in self.failed:
            self.reply("fail", s, m, x)
        return refused

    def _answer_one(self, one: Request) -> bool:
        """Answer a request; False: it is refused and goes on."""
        m, s, x = one.at, one.s, one.x
        below = x in self.ancestors.get((m, s), [])
        if one.seeks:
            attached = self.roots[s] == m or (m, s) in self.parent
            takes = m in self.tree and m != x and attached and not below and self.has_room(m)
            if takes:
                self._accept(x, s, m)
            return takes
        if below and one.routed:
            self._route(s, x, m)
            return True
        if below and one.final:
            self.failed.append((s, m, x))
            return True
        if below:
            if self.policy == SPARE:
                self.drops.append((s, m, x, False))
            return self.policy == SPARE
        if self.has_room(m):
            self._accept(x, s, m)
            return True
        if self.policy == SPARE:
            self._push_down(s, x, m)
            return True
        return self._drop_by_prefix(one)

    def _replace(self, t: int, m: int, c: int, s: int, x: int, looks: bool) -> None:
        self.children[m, t].discard(c)
        self.drops.append((t, m, c, looks))
        self._accept(x, s, m)

    def _drop_by_prefix(self, one: Request) -> bool:
        m, s, x = one.at, one.s, one.x
        here, number = self.children[m, s], self.number[x]
        if one.final:
            if self.roots[s] == m and self._free(s, x, m):
                return True
            if one.sender in here:
                self._replace(s, m, one.sender, s, x, False)
            else:
                self.failed.append((s, m, x))
            return True
        if not (self.fits(m, s) or self.roots[s] == m):
            return False
        if not here:
            return self._free(s, x, m)
        worse = [c for c in here if self.match(c, s) < self.match(x, s)]
        if worse:
            self._replace(s, m, self.least("drop", worse, s, number), s, x, False)
        return bool(worse)

    def _free(self, s: int, x: int, m: int) -> bool:
        sizes = {t: len(self.children[m, t]) for t in range(self.stripes) if t != s}
        free = [t for t in sizes if sizes[t] and not self.fits(m, t) and self.roots[t] != m]
        if free:
            t = min(free, key=lambda t: (self.draw("stripe", s, self.number[x], t), t))
        else:
            t = max(sizes, key=lambda t: (sizes[t], -t), default=-1)
            if t < 0 or sizes[t] < 2:
                return False
        c = self.least("drop", self.children[m, t], s, self.number[x])
        self._replace(t, m, c, s, x, False)
        return True

    def _push_down(self, s: int, x: int, m: int) -> None:
        order = [(s + i) % self.stripes for i in range(self.stripes)]
        sizes = {t: len(self.children[m, t]) + (t == s) for t in order}
        own = {t: self.fits(m, t) or self.roots[t] == m for t in order}
        free = [t for t in order if not own[t] and sizes[t]]
        crowd = [t for t in order if own[t] and sizes[t] > 1]
        if free:
            t = free[0]
            some = {x} if t == s else self.children[m, t]
        elif crowd:
            t = max(crowd, key=lambda t: (sizes[t], -order.index(t)))
            some = self.children[m, t] | ({x} if t == s else set())
        else:
            t, some = s, {x}
        if not free and crowd and self.fits(m, t):
            c = min(some, key=lambda c: (self.match(c, t), c))
        else:
            c = self.least("drop", some, s, self.number[x])
        if c == x and t == s:
            self.drops.append((s, m, x, True))
        else:
            self._replace(t, m, c, s, x, True)

    # --- 4: refused requests

    def _go_on(self, refused: list[Request]) -> None:
        for one in refused:
            if one.seeks:
                self._search(one)
            else:
                self._ask_next(one)

    def _list(self, one: Request, front: list[int], back: list[int]) -> None:
        def new(some: list[int]) -> list[int]:
            known = {*one.visited, *one.todo, one.x}
            return [y for y in some if y not in known and self.alive[y]]

        one.todo = [*new(front), *one.todo, *new(back)]

    def _pass(self, one: Request, to: int) -> None:
        if to != one.at:
            self.send("anycast" if one.seeks else "subscribe", one.at, to)
        one.sender, one.at, one.routed = one.at, to, False
        self.requests[self.hop + 1].append(one)

    def _ask_next(self, one: Request) -> None:
        m, s, x = one.at, one.s, one.x
        one.visited.append(m)
        parent = self.parent.get((m, s))
        children = sorted(
            self.children[m, s] - {parent},
            key=lambda c: (self.draw("child", s, self.number[x], self.number[c]), c),
        )
        front = [c for c in children if self.fits(c, s)]
        back = [c for c in children if not self.fits(c, s)]
        if parent is not None:
            if self.fits(parent, s):
                front.append(parent)
            else:
                back.insert(0, parent)
        self._list(one, front, back)
        if one.todo:
            self._pass(one, one.todo.pop(0))
            return
        one.final = True
        if parent is not None and self.alive[parent]:
            self._pass(one, parent)
        elif self.roots[s] == m:
            self._pass(one, m)
        else:
            self.reply("fail", s, m, x)

    def _search(self, one: Request) -> None:
        v, x = one.at, one.x
        above = self.above.get(v)
        if v in self.tree:
            one.visited.append(v)
            below = sorted(
                (c for c in self.tree if self.above.get(c) == v),
                key=lambda c: (self.draw("anycast", one.s, self.number[x], self.number[c]), c),
            )
            self._list(one, below, [above] if above is not None else [])
        elif not one.visited and above is not None:
            self._list(one, [], [above])
        if one.todo:
            self._pass(one, one.todo.pop(0))
        else:
            self.reply("fail", one.s, v, x)

    # --- 5: nodes that wait

    def _ask(self) -> None:
        now = [key for key, (due, _) in self.waiting.items() if due <= self.hop]
        if self.hop >= MOST_HOPS:
            self.waiting.clear()
            return
        for x, s in now:
            _, to = self.waiting.pop((x, s))
            if to == ROUTE:
                self._route(s, x, x)
            elif to == ANYCAST:
                self._search(Request(s, x, x, x, seeks=True))
            else:
                self.send("subscribe", x, to)
                self.requests[self.hop + 1].append(Request(s, x, to, x))

    def _route(self, s: int, x: int, start: int) -> None:
        to_root = self.policy == SPARE and self.fails[x, s] > 0
        passed, entry = self._follow(start, s, x, to_root)
        if entry is None:
            if start != x:
                self.failed.append((s, start, x))
            return
        for ends in passed:
            self.send("subscribe", *ends)
        due = self.hop + len(passed)
        self.requests[due].append(Request(s, x, entry, start, routed=True))

    def _follow(self, at: int, key: int, x: int, to_root: bool = False) -> tuple[list, int | None]:
        start, passed = at, []
        while len(passed) < 127:
            onward = self.next_hop(at, key)
            if onward in (-1, at):
                break
            passed.append((at, onward))
            at = onward
            enters = at in self.entered and self.alive[at] and at not in (x, start)
            if enters and not (to_root and self.roots[key] != at):
                return passed, at
        return [], None

    # --- 6: the tree of the spare group

    def _update_tree(self) -> None:
        self.tree: set[int] = set()
        if self.policy == FREEPASTRY:
            return
        here = {x for x in self.entered if self.alive[x]}
        root = self.roots[self.stripes] if self.roots else None
        self.above = {}
        for x in here - {root}:
            entry = self._follow(x, self.stripes, x)[1]
            if entry is not None:
                self.above[x] = entry
        self.tree = {root} & here
        for x in here:
            up: int | None = x if self.has_room(x) else None
            while up is not None and up not in self.tree:
                self.tree.add(up)
                up = self.above.get(up)
        for x in here:
            new = self.above.get(x) if x in self.tree else None
            old = self.spare_parent.get(x)
            if new != old:
                if old is not None:
                    self.send("spare_leave", x, old)
                if new is not None:
                    self.send("spare_join", x, new)
            self.spare_parent.pop(x, None)
            if new is not None:
                self.spare_parent[x] = new
