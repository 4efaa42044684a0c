"""SplitStream in plain Python, message by message: rules L1 to L12.

A `Channel` plays the periods of one group; `play` plays a case, `random_case` draws one, and
`check` tells what holds after each period.  Nodes are positions, -1 stands for none.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

from keyed import draw_of

from .ring import BITS, RING, closeness, shared_digits

#: A case and what comes of it, as plain data; see the end of the rules.
Case = dict[str, Any]

#: The first hop in which no request is handled or sent.
LAST_HOP = 3000

#: FAILs after which a pair sends again one and five hops later.
SOON, LATE = 5, 30


# --- the state


@dataclass
class Node:
    """A node in the channel: what it knows of each stripe."""

    stripes: int
    died: int | None = None  # the period of its silent death
    parent: list[int] = field(default_factory=list)
    ancestors: list[list[int]] = field(default_factory=list)
    children: list[set[int]] = field(default_factory=list)
    fails: list[int] = field(default_factory=list)
    spare_parent: int = -1

    def __post_init__(self) -> None:
        self.parent = [-1] * self.stripes
        self.ancestors = [[] for _ in range(self.stripes)]
        self.children = [set() for _ in range(self.stripes)]
        self.fails = [0] * self.stripes

    @property
    def degree(self) -> int:
        """Children over all stripes."""
        return sum(map(len, self.children))

    def detach(self, s: int) -> None:
        """Forget the parent."""
        self.parent[s], self.ancestors[s] = -1, []


@dataclass
class Subscribe:
    """A subscriber looks for a parent; `final`: who sends the last request up, -1 before."""

    stripe: int
    subscriber: int
    by_route: bool = False
    final: int = -1
    visited: set[int] = field(default_factory=set)
    list: list[int] = field(default_factory=list)


@dataclass
class JoinRequest:
    """An anycast of an orphan in the spare tree."""

    stripe: int
    subscriber: int
    visited: set[int] = field(default_factory=set)
    list: list[int] = field(default_factory=list)


Request = Subscribe | JoinRequest


@dataclass
class Reply:
    """A LEAVE, ACK, DROP, PATH or FAIL; `refuses`: a DROP that answers a request."""

    kind: str
    stripe: int
    sender: int
    to: int
    path: list[int] = field(default_factory=list)
    next: int = -1
    refuses: bool = False


class Channel:
    """A group, from its first period on."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.stripes: int = case["S"]
        self.spare: bool = case["policy"] == "spare-capacity"
        self.ids = [int(one, 16) for one in case["ids"]]
        self.number = case["numbers"]
        key = int(case["key"], 16)
        self.keys = [stripe_id(key, s, self.stripes) for s in range(self.stripes)]
        self.keys.append(RING - 1 - key)
        self.nodes: dict[int, Node] = {}
        self.members: set[int] = set()
        self.roots: list[int] = []
        # of a period
        self.period = self.hop = 0
        self.last_event = 0
        self.alive: list[bool] = []
        self.routes: dict[str, dict[str, list[int]]] = {}
        self.messages: dict[str, list[tuple[int, int]]] = {}
        self.given_up: list[tuple[int, int]] = []  # who counts whom as dead
        self.waves: list[list[int]] = []
        self.tree: set[int] = set()  # the spare tree of the hop before
        self.replies: dict[int, list[Reply]] = {}
        self.requests: dict[int, list[tuple[int, Request]]] = {}
        self.asks: dict[int, list[tuple[int, int, Callable[[int, int], None]]]] = {}

    # --- small words

    def draw(self, purpose: str, *rows: int) -> int:
        """Return the bits of a decision in this hop; the least wins."""
        named = (self.case["G"], self.period, self.hop, *rows)
        return draw_of(self.case["seed"])(f"splitstream {purpose}", *named)

    def by_draw(self, purpose: str, s: int, x: int, nodes: Iterable[int]) -> list[int]:
        """Return nodes in the order of their draws for a pair."""
        draws = {c: self.draw(purpose, s, self.number[x], self.number[c]) for c in nodes}
        return sorted(draws, key=lambda c: (draws[c], c))

    def primary(self, x: int) -> int:
        """Return the own stripe of a node: the first digits of its nodeId."""
        return self.ids[x] * self.stripes // RING

    def match(self, x: int, s: int) -> int:
        """Return how many leading digits a nodeId shares with a stripe id."""
        return min(shared_digits(self.ids[x], self.keys[s], self.case["b"]), BITS)

    def is_root(self, x: int, s: int) -> bool:
        """Tell whether a node is the root of a stripe (or of the spare group)."""
        return s < len(self.roots) and self.roots[s] == x

    def has_room(self, x: int) -> bool:
        """Tell whether a node may take one more child."""
        bound = self.case["bounds"][x]
        return self.nodes[x].degree < (inf if bound is None else bound)

    def lives(self, x: int) -> bool:
        """Tell whether a node is alive and in the channel."""
        return x in self.nodes and self.alive[x]

    def living(self) -> Iterator[tuple[int, Node]]:
        """Return the live nodes of the channel."""
        return ((x, node) for x, node in sorted(self.nodes.items()) if self.alive[x])

    def count(self, kind: str, sender: int, to: int) -> None:
        """Count a message."""
        self.messages.setdefault(kind, []).append((sender, to))

    def reply(self, kind: str, s: int, sender: int, to: int, **more: Any) -> None:
        """Send a reply; what a node tells itself is no message."""
        if sender != to:
            self.count(kind, sender, to)
        self.replies.setdefault(self.hop + 1, []).append(Reply(kind, s, sender, to, **more))

    def request(self, to: int, request: Request, hops: int = 1) -> None:
        """Let a request arrive some hops later."""
        self.requests.setdefault(self.hop + hops, []).append((to, request))

    def send(self, sender: int, to: int, request: Request) -> None:
        """Send a request directly."""
        if sender != to:
            self.count("anycast" if isinstance(request, JoinRequest) else "subscribe", sender, to)
        self.request(to, request)

    def ask(self, x: int, s: int, how: Callable[[int, int], None], after: int = 0) -> None:
        """Let a pair send in step (5) of this hop or a later one."""
        self.asks.setdefault(self.hop + after, []).append((x, s, how))

    # --- a period

    def play(self, period: Case) -> None:
        """Play one period (L1, L2)."""
        self.period, self.hop, self.last_event = period["P"], 0, 0
        self.alive, self.routes = period["alive"], period["routes"]
        self.messages, self.tree, self.given_up = {}, set(), []
        self.replies, self.requests, self.asks = {}, {}, {}
        for node in self.nodes.values():
            node.fails = [0] * self.stripes
        if not self.begin(period):
            return
        while True:
            self.play_hop()
            if not any(max(one, default=0) > self.hop for one in self.under_way()):
                if not self.waves:
                    return
                self.hop += 1
                self.enter(self.waves.pop(0))
            else:
                self.hop += 1

    def under_way(self) -> list[dict[int, Any]]:
        """Return what is to happen, by hops."""
        return [self.replies, self.requests, self.asks]

    def play_hop(self) -> None:
        """Play the steps (1) to (6) of a hop."""
        late = self.hop >= LAST_HOP
        arrived = self.requests.pop(self.hop, [])
        if arrived or self.hop in self.replies or self.hop in self.asks:
            self.last_event = self.hop
        self.hear(self.replies.pop(self.hop, []))
        if not late:
            self.handle(arrived)
        for x, s, how in self.asks.pop(self.hop, []):
            if not late:
                how(x, s)
        if self.spare:
            self.change_spare_tree()

    # --- L1, the begin of a period

    def begin(self, period: Case) -> bool:
        """Let nodes go, replace roots, let newcomers enter; tell whether anything is to be done."""
        before = {(x, s): node.ancestors[s] for x, node in self.nodes.items() for s in self.all()}
        silent, told = self.gone(period)
        roots = self.new_roots(period)
        told |= {
            x
            for x, node in self.living()
            if node.died is None and x not in self.members and x not in roots
        }
        told -= silent
        self.remove(silent | told, told)
        changed = [s for s, r in enumerate(roots) if r != ([*self.roots, *[-1] * len(roots)])[s]]
        is_new = roots != self.roots
        self.roots = roots
        for s in changed:
            if s < self.stripes and roots[s] in self.nodes:
                self.detach_root(roots[s], s)
        newcomers = {r for r in roots if r not in self.nodes}
        for r in newcomers:
            self.nodes[r] = Node(self.stripes)
        joiners = [x for x in period["join"] if x not in self.nodes]
        self.make_waves(joiners)
        orphans = [
            (x, s)
            for x, node in self.living()
            for s in self.all()
            if node.parent[s] < 0 and not self.is_root(x, s)
        ]
        if not (silent or told or is_new or newcomers or joiners or orphans):
            return False
        for x, s in orphans:
            self.ask(x, s, self.subscribe)
        self.tell({pair: path for pair, path in before.items() if pair[0] not in silent | told})
        return True

    def all(self) -> range:
        """Return all stripes."""
        return range(self.stripes)

    def gone(self, period: Case) -> tuple[set[int], set[int]]:
        """Return who goes silently (noticed, or back), and who leaves; end their memberships."""
        dead = {x for x, node in self.nodes.items() if node.died is not None}
        for x in set(period["died"]) & set(self.nodes) - dead:
            self.nodes[x].died = self.period
        silent = {x for x in dead if self.alive[x] or self.nodes[x].died + 2 <= self.period}
        leave = {x for x, node in self.nodes.items() if node.died is None and not self.alive[x]}
        self.members -= silent | leave | set(period["quit"])
        self.members |= set(period["join"])
        return silent, leave

    def new_roots(self, period: Case) -> list[int]:
        """Return the roots of the period."""
        if not self.members:
            return []
        if not any(self.alive):
            return self.roots
        return list(period["roots"])[: self.stripes + self.spare]

    def remove(self, gone: set[int], told: set[int]) -> None:
        """Remove nodes from the channel; some tell their parents and children so."""
        for y, node in self.living():
            near = {*node.parent, *(c for below in node.children for c in below)}
            if y not in gone:
                self.given_up += [(y, x) for x in sorted(near & gone - told)]
        for x in sorted(told):
            for s in self.all():
                if self.nodes[x].parent[s] >= 0:
                    self.count("leave", x, self.nodes[x].parent[s])
                for child in self.nodes[x].children[s]:
                    self.count("drop", x, child)
        for node in self.nodes.values():
            for s in self.all():
                node.children[s] -= gone
                if node.parent[s] in gone:
                    node.detach(s)
        for x in gone:
            del self.nodes[x]

    def detach_root(self, root: int, s: int) -> None:
        """Let a new root leave its parent."""
        node = self.nodes[root]
        if node.parent[s] >= 0:
            self.count("leave", root, node.parent[s])
            self.nodes[node.parent[s]].children[s].discard(root)
        node.detach(s)

    def make_waves(self, joiners: list[int]) -> None:
        """Order newcomers in waves, of which the first enters (L9)."""
        seed, group, count = self.case["seed"], self.case["G"], self.case["waves"]
        draws = {x: draw_of(seed)("splitstream wave", group, self.number[x]) for x in set(joiners)}
        waves: dict[int, list[int]] = defaultdict(list)
        for r, x in enumerate(sorted(draws, key=lambda x: (draws[x], x))):
            waves[r * count // len(draws)].append(x)
        for x in waves.pop(0, []):
            self.nodes[x] = Node(self.stripes)
        self.waves = [waves[number] for number in sorted(waves)]

    def enter(self, wave: list[int]) -> None:
        """Let a wave enter; its pairs subscribe in this hop."""
        for x in wave:
            self.nodes[x] = Node(self.stripes)
            for s in self.all():
                self.ask(x, s, self.subscribe)

    # --- L3, replies

    def hear(self, replies: list[Reply]) -> None:
        """Handle all replies of a hop, kind after kind, and send changed paths on."""
        before = {(x, s): node.ancestors[s] for x, node in self.living() for s in self.all()}
        handlers = [("leave", self.on_leave), ("ack", self.on_ack), ("drop", self.on_drop)]
        for kind, handler in [*handlers, ("path", self.on_path)]:
            for one in replies:
                if one.kind == kind and (kind == "leave" or self.lives(one.to)):
                    handler(one)
        for x, node in self.living():
            for s in self.all():
                if x in node.ancestors[s]:
                    self.on_ring(x, s)
        for one in replies:
            if one.kind == "fail":
                self.on_fail(one)
        self.tell(before)

    def on_leave(self, one: Reply) -> None:
        """A child has left."""
        self.nodes[one.to].children[one.stripe].discard(one.sender)

    def on_ack(self, one: Reply) -> None:
        """A parent is found."""
        node, s = self.nodes[one.to], one.stripe
        assert node.parent[s] < 0
        node.parent[s], node.ancestors[s], node.fails[s] = one.sender, one.path, 0

    def on_drop(self, one: Reply) -> None:
        """An orphan asks at once; who has left the sender meanwhile asks already."""
        node, s = self.nodes[one.to], one.stripe
        if node.parent[s] != (-1 if one.refuses else one.sender):
            return
        node.detach(s)
        if not self.spare:
            self.ask(one.to, s, self.subscribe)
        elif one.next < 0:
            self.ask(one.to, s, self.anycast)
        else:
            sibling = one.next
            self.ask(
                one.to, s, lambda x, s: self.send(x, sibling, Subscribe(stripe=s, subscriber=x))
            )

    def on_path(self, one: Reply) -> None:
        """The parent has other ancestors."""
        node = self.nodes[one.to]
        if node.parent[one.stripe] == one.sender:
            node.ancestors[one.stripe] = one.path

    def on_ring(self, x: int, s: int) -> None:
        """A node is its own ancestor: the least of the ring leaves its parent."""
        node = self.nodes[x]
        ring = node.ancestors[s][: node.ancestors[s].index(x) + 1]
        node.ancestors[s] = ring
        if x == min(ring):
            self.reply("leave", s, x, node.parent[s])
            node.detach(s)
            self.ask(x, s, self.subscribe)

    def on_fail(self, one: Reply) -> None:
        """Try again one hop later, then five hops later, or no more in this period."""
        node, s = self.nodes[one.to], one.stripe
        node.fails[s] += 1
        if node.fails[s] <= LATE:
            self.ask(one.to, s, self.subscribe, after=1 if node.fails[s] <= SOON else 5)

    def tell(self, before: dict[tuple[int, int], list[int]]) -> None:
        """Step (2): who has other ancestors than before tells its children."""
        for (x, s), old in before.items():
            now = self.nodes[x].ancestors[s]
            if self.alive[x] and old != now:
                for child in sorted(self.nodes[x].children[s]):
                    self.reply("path", s, x, child, path=[x, *now])

    # --- L4, requests

    def handle(self, arrived: list[tuple[int, Request]]) -> None:
        """Steps (3) and (4): handle requests one by one, then send refused ones on."""
        pushed: list[tuple[int, int, int, bool]] = []
        refused: list[tuple[int, Request]] = []

        def order(one: tuple[int, Request]) -> tuple[bool, int, int, int]:
            to, request = one
            is_anycast = isinstance(request, JoinRequest)
            return is_anycast, to, request.stripe, request.subscriber

        for m, request in sorted(arrived, key=order):
            if isinstance(request, JoinRequest):
                if not self.on_join_request(m, request):
                    refused.append((m, request))
            elif request.by_route and request.subscriber in self.path(m, request.stripe):
                self.pass_on(m, request)
            elif self.spare:
                pushed += self.on_subscribe_spare(m, request)
            elif request.final >= 0:
                self.on_final(m, request)
            elif not self.on_subscribe(m, request):
                refused.append((m, request))
        for m, t, c, refuses in pushed:
            sibling = self.sibling(m, t, c)
            self.reply("drop", t, m, c, next=sibling, refuses=refuses)
        for m, request in refused:
            if isinstance(request, JoinRequest):
                self.anycast_on(m, request)
            else:
                self.subscribe_on(m, request)

    def path(self, m: int, s: int) -> list[int]:
        """Return the ancestors of a node."""
        return self.nodes[m].ancestors[s]

    def accept(self, m: int, s: int, x: int) -> None:
        """Take a child."""
        self.nodes[m].children[s].add(x)
        self.reply("ack", s, m, x, path=[m, *self.path(m, s)])

    def drop(self, m: int, t: int, c: int) -> None:
        """Put a child out."""
        self.nodes[m].children[t].remove(c)
        self.reply("drop", t, m, c)

    # --- L5, routes

    def subscribe(self, x: int, s: int) -> None:
        """Send a SUBSCRIBE by route; without a taker the pair waits for the next period."""
        self.by_route(x, x, s)

    def by_route(self, sender: int, x: int, s: int) -> bool:
        """Route a SUBSCRIBE of x to the next node that handles it; False if there is none."""
        only_root = self.spare and self.nodes[x].fails[s] > 0
        route = self.routes[str(s)][str(sender)]
        for hops, m in enumerate(route[1:], start=1):
            if self.lives(m) and m != x and (self.is_root(m, s) or not only_root):
                for one in range(hops):
                    self.count("subscribe", route[one], route[one + 1])
                self.request(m, Subscribe(stripe=s, subscriber=x, by_route=True), hops)
                return True
        return False

    def pass_on(self, m: int, request: Subscribe) -> None:
        """A SUBSCRIBE by route at a node below the subscriber goes on."""
        if not self.by_route(m, request.subscriber, request.stripe):
            self.reply("fail", request.stripe, m, request.subscriber)

    # --- L6, policy freepastry

    def on_subscribe(self, m: int, request: Subscribe) -> bool:
        """Accept a subscriber or refuse it."""
        s, x = request.stripe, request.subscriber
        if x in self.path(m, s):
            return False
        if not self.has_room(m):
            if s != self.primary(m) and not self.is_root(m, s):
                return False
            children = self.nodes[m].children[s]
            worse = [c for c in children if self.match(c, s) < self.match(x, s)]
            if worse:
                self.drop(m, s, self.by_draw("drop", s, x, worse)[0])
            elif children or not self.free_a_place(m, s, x):
                return False
        self.accept(m, s, x)
        return True

    def free_a_place(self, m: int, s: int, x: int) -> bool:
        """Drop a child of another stripe, if there is one to drop."""
        children = self.nodes[m].children
        others = [t for t in self.all() if t != s and children[t]]
        foreign = [t for t in others if t != self.primary(m) and not self.is_root(m, t)]
        if foreign:
            t = min(foreign, key=lambda t: (self.draw("stripe", s, self.number[x], t), t))
        else:
            t = max(others, key=lambda t: (len(children[t]), -t), default=-1)
            if t < 0 or len(children[t]) < 2:
                return False
        self.drop(m, t, self.by_draw("drop", s, x, children[t])[0])
        return True

    def on_final(self, m: int, request: Subscribe) -> None:
        """The parent of who found nobody takes the subscriber in its place."""
        s, x = request.stripe, request.subscriber
        if x in self.path(m, s):
            self.reply("fail", s, m, x)
        elif self.has_room(m) or (self.is_root(m, s) and self.free_a_place(m, s, x)):
            self.accept(m, s, x)
        elif request.final in self.nodes[m].children[s]:
            self.drop(m, s, request.final)
            self.accept(m, s, x)
        else:
            self.reply("fail", s, m, x)

    def subscribe_on(self, m: int, request: Subscribe) -> None:
        """Send a refused SUBSCRIBE to the next node of its list, or a final one up."""
        s, x = request.stripe, request.subscriber
        request.visited.add(m)
        request.by_route = False
        parent = self.nodes[m].parent[s]
        children = self.by_draw("child", s, x, self.nodes[m].children[s] - {parent})
        if parent == x or not self.lives(parent):
            parent = -1
        fits = [c for c in children if self.primary(c) == s]
        front, back = list(fits), [c for c in children if c not in fits]
        if parent >= 0 and self.primary(parent) == s:
            front.append(parent)
        elif parent >= 0:
            back.insert(0, parent)
        request.list = self.merged(front, request.list, back, {x, *request.visited})
        if request.list:
            self.send(m, request.list.pop(0), request)
        elif parent >= 0:
            self.send(m, parent, Subscribe(stripe=s, subscriber=x, final=m))
        elif self.is_root(m, s):
            self.send(m, m, Subscribe(stripe=s, subscriber=x, final=m))
        else:
            self.reply("fail", s, m, x)

    def merged(self, front: list[int], old: list[int], back: list[int], out: set[int]) -> list[int]:
        """Return a list with more nodes before and after it, none dead, twice or left out."""
        front = [c for c in front if c not in old]
        kept: list[int] = []
        for c in [*front, *old, *back]:
            if self.lives(c) and c not in out and c not in kept:
                kept.append(c)
        return kept

    # --- L7, policy spare-capacity

    def on_subscribe_spare(self, m: int, request: Subscribe) -> list[tuple[int, int, int, bool]]:
        """Take the subscriber; a full node pushes a child down: (node, stripe, child, refused)."""
        s, x = request.stripe, request.subscriber
        if x in self.path(m, s):
            self.reply("drop", s, m, x, refuses=True)
            return []
        if self.has_room(m):
            self.accept(m, s, x)
            return []
        self.nodes[m].children[s].add(x)
        t, c = self.to_push(m, s, x)
        self.nodes[m].children[t].remove(c)
        if (t, c) == (s, x):
            return [(m, s, x, True)]
        self.reply("ack", s, m, x, path=[m, *self.path(m, s)])
        return [(m, t, c, False)]

    def to_push(self, m: int, s: int, x: int) -> tuple[int, int]:
        """Return the stripe and the child that a full node pushes down for a subscriber."""
        children = self.nodes[m].children
        cyclic = [(s + step) % self.stripes for step in self.all()]
        own = [t for t in cyclic if t == self.primary(m) or self.is_root(m, t)]
        for t in cyclic:
            if t not in own and children[t]:
                return t, x if t == s else self.by_draw("drop", s, x, children[t])[0]
        most = max((len(children[t]) for t in own), default=0)
        if most < 2:
            return s, x
        t = next(t for t in own if len(children[t]) == most)
        if t == self.primary(m):
            return t, min(children[t], key=lambda c: (self.match(c, t), c))
        return t, self.by_draw("drop", s, x, children[t])[0]

    def sibling(self, m: int, t: int, c: int) -> int:
        """Return the child of m in whose own stripe c may ask next, -1 if there is none."""
        fit = [
            other
            for other in self.nodes[m].children[t]
            if other != c and self.lives(other) and self.primary(other) == t
        ]
        return next(iter(self.by_draw("sibling", t, c, fit)), -1)

    # --- L8, anycast in the spare tree

    def spare_parent(self, v: int) -> int:
        """Return the first live channel node on the way to the spare id, -1 for the root."""
        if self.is_root(v, self.stripes):
            return -1
        route = self.routes[str(self.stripes)][str(v)]
        return next((m for m in route[1:] if self.lives(m)), -1)

    def change_spare_tree(self) -> None:
        """Step (6): the spare members and those above them are the tree."""
        parent = {v: self.spare_parent(v) for v, _ in self.living()}
        self.tree = {v for v in parent if self.is_root(v, self.stripes)}
        for v in parent:
            at = v if self.has_room(v) else -1
            while at >= 0:
                self.tree.add(at)
                at = parent[at]
        for v, node in self.living():
            new = parent[v] if v in self.tree else -1
            if new != node.spare_parent:
                if node.spare_parent >= 0:
                    self.count("spare_leave", v, node.spare_parent)
                if new >= 0:
                    self.count("spare_join", v, new)
                node.spare_parent = new

    def spare_children(self, v: int, t: int, o: int) -> list[int]:
        """Return the nodes of the tree below a node, in the order of an anycast."""
        below = [c for c in self.tree if self.lives(c) and self.spare_parent(c) == v]
        return self.by_draw("anycast", t, o, below)

    def anycast(self, o: int, t: int) -> None:
        """Send a JOINREQ into the tree."""
        request = JoinRequest(t, o)
        if o in self.tree:
            request.visited = {o}
            more = [self.spare_parent(o)]
            request.list = self.merged(self.spare_children(o, t, o), [], more, {o})
        else:
            request.list = self.merged([self.spare_parent(o)], [], [], {o})
        self.to_next(o, request)

    def to_next(self, v: int, request: JoinRequest) -> None:
        """Send a JOINREQ to the next node of its list."""
        if request.list:
            self.send(v, request.list.pop(0), request)
        else:
            self.reply("fail", request.stripe, v, request.subscriber)

    def on_join_request(self, v: int, request: JoinRequest) -> bool:
        """Accept an orphan, or refuse it."""
        t, o, node = request.stripe, request.subscriber, self.nodes[v]
        accepts = (
            v in self.tree
            and v != o
            and self.has_room(v)
            and (self.is_root(v, t) or node.parent[t] >= 0)
            and o not in node.ancestors[t]
            and o not in node.children[t]
        )
        if accepts:
            self.accept(v, t, o)
        return accepts

    def anycast_on(self, v: int, request: JoinRequest) -> None:
        """Send a refused JOINREQ on: up to the tree, and then through it depth first."""
        if v in self.tree:
            request.visited.add(v)
            front = self.spare_children(v, request.stripe, request.subscriber)
            up = [self.spare_parent(v)]
            request.list = self.merged(front, request.list, up, request.visited)
        elif not request.visited:
            request.list = self.merged([self.spare_parent(v)], [], [], set())
        self.to_next(v, request)

    # --- results

    def parent_of(self, x: int, s: int) -> int:
        """Return the parent; that of a dead node is who has it as child."""
        if self.alive[x]:
            return self.nodes[x].parent[s]
        return next((m for m, node in self.nodes.items() if x in node.children[s]), -1)

    def outputs(self) -> Case:
        """Return the state after a period, and its messages."""
        nodes = sorted(self.nodes)
        return {
            "nodes": nodes,
            "parents": {str(x): [self.parent_of(x, s) for s in self.all()] for x in nodes},
            "ancestors": {str(x): self.nodes[x].ancestors for x in nodes if self.alive[x]},
            "children": {str(x): [sorted(one) for one in self.nodes[x].children] for x in nodes},
            "spare_parents": {str(x): self.nodes[x].spare_parent for x in nodes},
            "given_up": sorted(self.given_up),
            "entries": {str(x): self.entries(x) for x in nodes if self.alive[x]},
            "messages": {
                kind: sorted(map(list, sent)) for kind, sent in sorted(self.messages.items())
            },
            "hops": self.last_event,
        }

    def entries(self, x: int) -> Case:
        """Return how many entries of each kind a live node keeps."""
        node = self.nodes[x]
        roots = [self.is_root(x, s) for s in self.all()]
        below = [one for one in self.nodes.values() if one.spare_parent == x]
        return {
            "children": node.degree,
            "parents": sum(self.parent_of(x, s) >= 0 for s in self.all()),
            "ancestors": sum(map(len, node.ancestors)),
            "spare children": len(below),
            "spare parents": int(node.spare_parent >= 0),
            "waiting": sum(self.parent_of(x, s) < 0 and not roots[s] for s in self.all()),
        }

    def lacking(self) -> list[int]:
        """Return how many stripes do not reach each live node: its way up ends elsewhere."""
        return [sum(not self.is_reached(x, s) for s in self.all()) for x, _ in self.living()]

    def is_reached(self, x: int, s: int) -> bool:
        """Tell whether the way from a node up to the root of a stripe leads over live nodes."""
        way = [x]
        while (up := self.parent_of(way[-1], s)) >= 0 and up not in way:
            way.append(up)
        return up < 0 and self.is_root(way[-1], s) and all(self.alive[one] for one in way)

    def copies(self, source: int, rank: int) -> list[tuple[int, int]]:
        """Return (sender, to) of all copies that are sent of a publication of the period (L11)."""
        if not self.roots:
            return []
        s = (self.period + rank) % self.stripes
        root = self.roots[s]
        sent, got = [], {source}
        waits = [source]
        while waits:
            x = waits.pop(0)
            to = sorted(self.nodes[x].children[s]) if x in self.nodes else []
            if x == source != root:
                to = [root, *to]
            for c in to:
                if c != source:
                    sent.append((x, c))
                    if self.alive[c] and c not in got:
                        got.add(c)
                        waits.append(c)
        return sent


def stripe_id(key: int, s: int, stripes: int) -> int:
    """Return a key with its first digits replaced by the number of a stripe."""
    width = BITS - (stripes.bit_length() - 1)
    return s << width | key & ((1 << width) - 1)


def play(case: Case, look: Callable[[Channel], None] = lambda channel: None) -> list[Case]:
    """Play all periods of a case; `look` is called after each."""
    channel, results = Channel(case), []
    for period in case["periods"]:
        channel.play(period)
        look(channel)
        results.append(channel.outputs())
    return results


# --- what always holds


def check(channel: Channel) -> None:
    """Check the bounds, that pointers agree, that there are no rings, and what nodes know."""
    for x, node in channel.nodes.items():
        bound = channel.case["bounds"][x]
        assert bound is None or node.degree <= bound
        for s in channel.all():
            for child in node.children[s]:
                assert channel.parent_of(child, s) == x
            if not channel.alive[x]:
                continue
            parent = node.parent[s]
            assert parent < 0 or x in channel.nodes[parent].children[s]
            assert parent < 0 or not channel.is_root(x, s)
            way = chain(channel, x, s)
            if all(channel.alive[one] for one in way):  # a dead node tells no paths
                assert x not in way
                assert node.ancestors[s] == way
    assert set(channel.roots) | {x for x in channel.members if channel.alive[x]} <= set(
        channel.nodes
    )
    check_messages(channel)
    check_first_trees(channel)


def chain(channel: Channel, x: int, s: int) -> list[int]:
    """Return the true ancestors of a node, up to a ring or a dead one."""
    way: list[int] = []
    while (x := channel.parent_of(x, s)) >= 0 and x not in way:
        way.append(x)
    return way


def check_messages(channel: Channel) -> None:
    """Each kind belongs to a policy; no node sends to itself."""
    known = {"subscribe", "ack", "drop", "path", "leave", "fail"}
    spare = {"anycast", "spare_join", "spare_leave"}
    assert set(channel.messages) <= (known | spare if channel.spare else known)
    assert all(a != b for sent in channel.messages.values() for a, b in sent)


def check_first_trees(channel: Channel) -> None:
    """Without bounds, members that join at once in the first period make the Scribe trees."""
    if channel.case["waves"] > 1 or {*channel.case["bounds"]} != {None} or channel.period:
        return
    for x, node in channel.living():
        for s in channel.all():
            way = channel.routes[str(s)][str(x)]
            above = next((m for m in way[1:] if channel.lives(m)), -1)
            assert node.parent[s] == (-1 if channel.is_root(x, s) else above)


# --- random cases


@dataclass
class _World:
    """Nodes and members while the periods of a case are drawn."""

    rng: random.Random
    ids: list[int]
    keys: list[int]
    b: int
    broken: float  # the share of nodes at which a route ends too early
    alive: set[int]
    members: set[int] = field(default_factory=set)
    dead: dict[int, int] = field(default_factory=dict)

    def period(self, number: int, shares: dict[str, float]) -> Case:
        """Draw a period with these shares of nodes that join, quit, die, leave and come back."""
        rng = self.rng

        def some(of: Iterable[int], what: str) -> set[int]:
            return {x for x in sorted(of) if rng.random() < shares.get(what, 0)}

        back = some(set(range(len(self.ids))) - self.alive, "back")
        died = some(self.alive, "die")
        left = some(self.alive - died, "leave")
        if not (self.alive | back) - died - left:
            died = left = set()
        self.alive = (self.alive | back) - died - left
        members = self.members - back - left
        members -= {x for x, when in self.dead.items() if when + 2 <= number}
        self.dead = {x: d for x, d in self.dead.items() if x not in back and d + 2 > number}
        self.dead |= dict.fromkeys(died, number)
        quits = some(members & self.alive, "quit")
        joins = some(self.alive - members, "join") | (back if rng.random() < 0.3 else set())
        joins |= {x for x in sorted(quits) if rng.random() < 0.1}
        self.members = members - quits | joins
        key = [min(self.alive, key=lambda x: closeness(k, self.ids[x])) for k in self.keys]
        return {
            "P": number,
            "join": sorted(joins),
            "quit": sorted(quits),
            "died": sorted(died),
            "alive": [x in self.alive for x in range(len(self.ids))],
            "roots": key,
            "routes": {str(s): self.routes(k) for s, k in enumerate(self.keys)},
        }

    def routes(self, key: int) -> dict[str, list[int]]:
        """Draw routes of all live nodes to a key, with a fixed next node at each."""
        next_node = {x: self.next_node(x, key) for x in sorted(self.alive)}
        routes = {}
        for x in sorted(self.alive):
            route = [x]
            while (following := next_node[route[-1]]) >= 0:
                route.append(following)
            routes[str(x)] = route
        return routes

    def next_node(self, x: int, key: int) -> int:
        """Draw a node nearer to the key: one more digit, or as many and numerically closer."""
        root = min(self.alive, key=lambda y: closeness(key, self.ids[y]))
        if x == root or self.rng.random() < self.broken:
            return -1
        shared = {y: shared_digits(self.ids[y], key, self.b) for y in sorted(self.alive)}
        longer = [y for y, same in shared.items() if same > shared[x]]
        if longer:
            few = min(shared[y] for y in longer)
            return self.rng.choice([y for y in longer if shared[y] == few])
        mine = closeness(key, self.ids[x])
        closer = [
            y
            for y, same in shared.items()
            if same == shared[x] and closeness(key, self.ids[y]) < mine
        ]
        return self.rng.choice([*closer, root])


_LIVELY = [
    {"join": 0.15},
    {"quit": 0.2},
    {"die": 0.15},
    {"leave": 0.15},
    {"back": 0.5, "join": 0.2},
    {"join": 0.1, "quit": 0.1, "die": 0.1, "leave": 0.05, "back": 0.5},
    {"join": 0.1, "quit": 0.1, "die": 0.1, "leave": 0.05, "back": 0.5},
    {},
]


def random_case(seed: int) -> Case:
    """Draw a case of 1 to 60 nodes, each fiftieth of some hundreds, with mostly small bounds."""
    rng = random.Random(f"splitstream by rules {seed}")
    large = seed % 50 == 49
    count = rng.randint(100, 200) if large else rng.randint(1, rng.choice([4, 20, 30, 40, 60]))
    b, j = rng.choice([(1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (4, 1), (2, 1), (1, 2)])
    stripes = 2 ** (b * j)
    key = rng.getrandbits(BITS)
    ids = sorted(rng.getrandbits(BITS) for _ in range(count))
    keys = [stripe_id(key, s, stripes) for s in range(stripes)]
    policy = rng.choice(["freepastry", "spare-capacity"])
    if policy == "spare-capacity":
        keys.append(RING - 1 - key)
    # with less room than pairs, thousands of hops are played
    mean = rng.choice([0.7, 1, 1.2, 1.2, 1.5] if count * stripes < 60 else [1.2, 1.4, 1.8])
    kind = rng.choice(["unequal", "none", "mixed", "same", "same"])
    bounds: list[int | None] = []
    for _ in range(count):
        bound: int | None = max(1, round(stripes * mean))
        if kind == "none" or (kind == "mixed" and rng.random() < 0.1):
            bound = None
        elif kind != "same":
            bound = max(1, round(stripes * mean * rng.choice([0.4, 0.8, 1, 1.3, 1.7])))
        bounds.append(bound)
    broken = rng.choice([0, 0, 0.02])
    down = {x for x in range(count) if rng.random() < 0.1} if count > 3 else set()
    world = _World(rng, ids, keys, b, broken, set(range(count)) - down)
    first = {"join": rng.choice([1, 1, 0.7, 0.3])}
    periods = [world.period(0, first)]
    tight = mean < 1.2 and kind != "none"
    for number in range(1, 1 if large else rng.randint(2, 3 if tight else 9)):
        periods.append(world.period(number, rng.choice(_LIVELY)))
    if rng.random() < 0.1:
        periods += [world.period(len(periods), shares) for shares in ({"quit": 1}, {"join": 0.5})]
    return {
        "seed": rng.randrange(2**31),
        "G": rng.randrange(50),
        "S": stripes,
        "b": b,
        "policy": policy,
        "waves": rng.choice([1, 1, 1, 3, 20]),
        "ids": [f"{one:032x}" for one in ids],
        "numbers": rng.sample(range(3 * count), count),
        "bounds": bounds,
        "key": f"{key:032x}",
        "periods": periods,
    }
