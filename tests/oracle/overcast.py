"""Overcast in plain Python, member by member: rules E1 to E14.

A `Group` plays its rounds phase by phase; `play` plays a case, `random_case` draws one, and
`Watch` checks after each round what always holds.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

import networkx
from keyed import draw_of

#: A case and what comes of it, as plain data; see the end of the rules.
Case = dict[str, Any]

#: The kinds of entries that members keep.
ENTRIES = "children", "ancestors", "certificates", "root's view", "linear nodes"

DEFAULTS = {"lease": 10, "evaluation": 10, "tolerance": 0.9, "decide": "shared", "linear": 0}


# --- the network


@dataclass(frozen=True)
class Network:
    """Routers of the nodes, routes between routers, capacities of directed links; settings."""

    seed: int
    settings: Mapping[str, Any]
    node: Sequence[int]
    router: Sequence[int]
    capacity: Sequence[float]
    routes: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, case: Case) -> Network:
        """Return the network of a case."""
        settings = DEFAULTS | case["settings"]
        named = {name: case[name] for name in ("seed", "node", "router", "capacity", "routes")}
        return cls(settings=settings, **named)

    def route(self, a: int, b: int) -> Sequence[int]:
        """Return the links from node a to node b; none at one router."""
        return self.routes[f"{self.router[a]},{self.router[b]}"]

    def draw(self, purpose: str, group: int, x: int, *rows: int) -> int:
        """Return the bits of a group and a node."""
        return draw_of(self.seed)(f"overcast {purpose}", group, self.node[x], *rows)


# --- the state (E1)


@dataclass(frozen=True)
class Certificate:
    """What is said of a node: it has had a parent since a round, or is dead."""

    of: int
    number: int
    parent: int
    alive: bool

    @property
    def worth(self) -> tuple[int, bool]:
        """The greater number wins, at equal numbers death."""
        return self.number, not self.alive


@dataclass
class Member:
    """A living member; nodes are positions, -1 stands for none."""

    rank: int = -1
    parent: int = -1
    current: int = -1
    number: int = -1
    next_evaluation: int = -1
    next_check_in: int = -1
    children: dict[int, tuple[int, int]] = field(default_factory=dict)  # last, number
    table: dict[int, Certificate] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)  # the nodes whose rows were not sent up

    @property
    def searches(self) -> bool:
        """Whether it looks for a parent."""
        return self.parent < 0 and self.rank != 0


@dataclass
class Group:
    """The members of a group, and the parents of those who are gone (pointers)."""

    index: int
    number: int
    network: Network
    members: dict[int, Member] = field(default_factory=dict)
    pointers: dict[int, int] = field(default_factory=dict)
    #: In the round: the links of each member with a living parent, the flows of each link.
    flow: dict[int, Sequence[int]] = field(default_factory=dict)
    flows: dict[int, int] = field(default_factory=dict)
    #: What is counted in the round.
    messages: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    certificates: int = 0
    news: int = 0  # certificates that the root did not have
    moves: int = 0
    given_up: list[tuple[int, int]] = field(default_factory=list)  # who counts whom as dead

    def setting(self, name: str) -> Any:
        """Return a setting."""
        return self.network.settings[name]

    def root(self) -> int:
        """Return the root, -1 in a group without members."""
        return next((x for x, it in self.members.items() if it.rank == 0), -1)

    def entry(self) -> int:
        """E6 e: the node at which newcomers begin."""
        return max(self.members, key=lambda x: self.members[x].rank)

    def chain(self, y: int) -> list[int]:
        """E1: y, its parent, and so on, through members and pointers."""
        found = []
        while y >= 0:
            if y in found:
                raise AssertionError(f"ring: {[*found, y]}")
            found.append(y)
            y = self.members[y].parent if y in self.members else self.pointers.get(y, -1)
        return found

    def is_attached(self, y: int) -> bool:
        """E1: no searching member is at the end of the chain."""
        end = self.chain(y)[-1]
        return end not in self.members or not self.members[end].searches

    def root_draw(self, x: int) -> tuple[int, int]:
        """E3: the least is the root."""
        return self.network.draw("root", self.number, x), x

    def send(self, kind: str, sender: int, to: int) -> None:
        """Count a message."""
        self.messages[kind].append((sender, to))

    # --- bandwidth (E4, E5)

    def count_flows(self) -> None:
        """E4: each member with a living parent is one flow on the links from its parent."""
        self.flow = {
            x: self.network.route(it.parent, x)
            for x, it in self.members.items()
            if it.parent in self.members
        }
        self.flows = defaultdict(int)
        for links in self.flow.values():
            for link in links:
                self.flows[link] += 1

    def share(self, link: int, flows: int) -> float:
        """Return what a flow gets on a link."""
        if self.setting("decide") == "bottleneck":
            flows = 1
        return self.network.capacity[link] / flows

    def edge(self, x: int) -> float:
        """E4: what x gets from its parent."""
        return min((self.share(link, self.flows[link]) for link in self.flow[x]), default=inf)

    def bandwidth(self, x: int, c: int) -> float:
        """E5: what x would get from c."""
        own = self.flow.get(x, ())
        return min(
            (
                self.share(link, self.flows[link] - (link in own) + 1)
                for link in self.network.route(c, x)
            ),
            default=inf,
        )

    # --- a round

    def play(self, t: int, join: Iterable[int], quit: Iterable[int], died: Iterable[int]) -> None:
        """Play the phases of round t."""
        self.messages = {kind: [] for kind in ("probe", "adopt", "check-in")}
        self.certificates = self.news = self.moves = 0
        self.given_up = []
        self.change(t, set(join), {*quit, *died})
        self.count_flows()
        self.check_in(t)
        self.end_leases(t)
        self.ask(t, self.decide(t))

    def change(self, t: int, join: set[int], gone: set[int]) -> None:
        """E6: who goes becomes a pointer, who comes searches; the root and linear nodes."""
        for x in gone & set(self.members):
            self.pointers[x] = self.members.pop(x).parent
        begins = not self.members
        for x in join:
            self.pointers.pop(x, None)
            self.members[x] = Member()
        if not self.members:
            return
        ranked = sorted((x for x in self.members if self.members[x].rank >= 0), key=self._rank)
        if begins:
            order = sorted(self.members, key=self.root_draw)
            ranked = order[: 1 + self.setting("linear")]
        elif not ranked:
            ranked = [min(self.members, key=self.root_draw)]
        self.line_up(t, ranked)
        for x in join - set(ranked):
            self.members[x].current = self.entry()

    def _rank(self, x: int) -> int:
        return self.members[x].rank

    def line_up(self, t: int, ranked: list[int]) -> None:
        """E6 c, d: the first is the root, and each adopts the next one at once and unasked."""
        for rank, x in enumerate(ranked):
            self.members[x].rank = rank
        root = self.members[ranked[0]]
        root.parent = root.current = root.next_check_in = root.next_evaluation = -1
        self.adopt(t, {x: p for p, x in pairwise(ranked) if self.members[x].parent != p})

    # --- certificates (E2)

    def merge(self, told: Mapping[int, list[Certificate]]) -> None:
        """E2: write what is news to each member, in any order; count what the root is told."""
        for p, rows in told.items():
            before = dict(self.members[p].table)
            self.note(p, rows)
            if p == self.root():
                self.certificates += len(rows)
                self.news += sum(before.get(of) != row for of, row in self.members[p].table.items())

    def note(self, p: int, rows: list[Certificate]) -> None:
        """Write what is news to a member."""
        it = self.members[p]
        for row in rows:
            known = it.table.get(row.of)
            if row.of != p and (known is None or row.worth > known.worth):
                it.table[row.of] = row
                it.fresh.add(row.of)

    def check_in(self, t: int) -> None:
        """E7: who is due sends its news to its parent, or sees that the parent is dead."""
        due = sorted(x for x, it in self.members.items() if it.next_check_in == t)
        chains = {x: self.chain(x) for x in due}
        told: dict[int, list[Certificate]] = defaultdict(list)
        for x in due:
            it = self.members[x]
            self.send("check-in", x, it.parent)
            if it.parent not in self.members:
                self.given_up.append((x, it.parent))
                self.search(x, chains[x])
                continue
            children = self.members[it.parent].children
            last, number = children.get(x, (-1, -1))
            told[it.parent] += [it.table[of] for of in it.fresh]
            if last < 0:  # the parent came back
                number = it.number = t
                told[it.parent] += [Certificate(x, t, it.parent, True), *it.table.values()]
            children[x] = t, number
            it.fresh = set()
            it.next_check_in = self.after_check_in(t, x)
        self.merge(told)

    def after_check_in(self, t: int, x: int) -> int:
        """Return the round of the next check-in."""
        drawn = self.network.draw("check-in", self.number, x, t)
        return t + self.setting("lease") - 1 - drawn % 3

    def search(self, x: int, chain: list[int]) -> None:
        """E7: x searches from its nearest living ancestor on."""
        it = self.members[x]
        near = next((z for z in chain[1:] if z in self.members), -1)
        it.current = near if near >= 0 and self.members[near].rank < 0 else self.entry()
        it.parent = it.next_evaluation = it.next_check_in = -1

    def end_leases(self, t: int) -> None:
        """E8: a child that was silent for a lease counts as dead."""
        for p, it in self.members.items():
            for c, (last, number) in list(it.children.items()):
                if t - last >= self.setting("lease"):
                    del it.children[c]
                    self.given_up.append((p, c))
                    self.note(p, [Certificate(c, number, p, False)])

    # --- decisions (E9 to E11)

    def decide(self, t: int) -> dict[int, int]:
        """E9: return who is asked by whom."""
        asked: dict[int, int] = {}
        for x, it in sorted(self.members.items()):
            if it.searches:
                y = self.step_down(x)
            elif it.rank < 0 and it.next_evaluation == t:
                it.next_evaluation = t + self.setting("evaluation")
                y = self.evaluate(t, x)
            else:
                y = -1
            if y >= 0:
                asked[x] = y
        return asked

    def step_down(self, x: int) -> int:
        """E9: a searching member goes on to a child of the current node, or asks that node."""
        it = self.members[x]
        current = it.current
        self.send("probe", x, current)
        if current not in self.members:
            it.current = self.entry()
            return -1
        best = self.best_child(x, current, self.bandwidth(x, current))
        if best < 0:
            return current
        it.current = best
        return -1

    def best_child(self, x: int, p: int, least: float) -> int:
        """E9: probe the children of p; return the best one that gives enough, -1 if none does."""
        found = []
        for c in sorted(self.members[p].children):
            if c == x:
                continue
            self.send("probe", x, c)
            if c not in self.flow or self.members[c].rank >= 0 or self.members[c].searches:
                continue
            gives = min(self.bandwidth(x, c), self.edge(c))
            if gives >= self.setting("tolerance") * least:
                found.append((len(self.network.route(c, x)), -gives, c))
        return min(found)[2] if found else -1

    def evaluate(self, t: int, x: int) -> int:
        """E9: go up if that gives more, else below a sibling if that does not give less."""
        p = self.members[x].parent
        is_told = self.members[x].number == t  # its parent came back: E7
        if p not in self.members or x not in self.flow or is_told:
            return -1
        up = self.members[p].parent
        is_rank = p in self.flow and (self.members[up].rank < 0 or up == self.entry())
        if self.members[p].rank != 0 and is_rank:
            self.send("probe", x, up)
            gets = min(self.edge(x), self.edge(p))
            if gets < self.setting("tolerance") * self.bandwidth(x, up):
                return up
        return self.best_child(x, p, self.edge(x))

    def ask(self, t: int, asked: Mapping[int, int]) -> None:
        """E10: who is asked accepts or refuses, all on one state."""
        moving = {x for x in asked if self.members[x].parent >= 0}
        accepted = {}
        for x, y in asked.items():
            self.send("adopt", x, y)
            chain = self.chain(y)
            if not self.is_attached(y) or x in chain:
                if self.members[x].searches:
                    self.members[x].current = self.entry()
            elif all(z <= x for z in moving.intersection(chain)):
                accepted[x] = y
        self.moves = len(moving & set(accepted))
        self.adopt(t, accepted)

    def adopt(self, t: int, batch: Mapping[int, int]) -> None:
        """E11: all of a batch get their parents at once, which hear all that they know."""
        told: dict[int, list[Certificate]] = defaultdict(list)
        for x, y in batch.items():
            known = self.members[x].table.values()
            told[y] += [Certificate(x, t, y, True), *known]
        for x, y in batch.items():
            it = self.members[x]
            it.number, it.parent, it.current, it.fresh = t, y, -1, set()
            drawn = self.network.draw("evaluation", self.number, x, t)
            wait = 1 + drawn % self.setting("evaluation")
            it.next_evaluation = t + wait if it.rank < 0 else -1
            it.next_check_in = self.after_check_in(t, x)
            self.members[y].children[x] = t, t
        self.merge(told)

    # --- publications and the root's view (E13, E14)

    def edges(self, source: int) -> list[tuple[int, int]]:
        """E13: return the edges of a publication."""
        root = self.root()
        found = [] if root in (source, -1) else [(source, root)]
        for x, it in self.members.items():
            if it.parent in self.members and x != source:
                found.append((it.parent, x))
        return found

    def copies(self, source: int) -> list[tuple[int, int]]:
        """E13: return all copies; a node sends on all its edges with its first copy."""
        edges, found, has, waiting = self.edges(source), [], {source}, [source]
        while waiting:
            sender = waiting.pop()
            for to in (to for p, to in edges if p == sender):
                found.append((sender, to))
                if to not in has:
                    has.add(to)
                    waiting.append(to)
        return sorted(found)

    def view(self) -> dict[int, int]:
        """E14: return the parents of all whom the root believes to be below it."""
        root = self.root()
        table = self.members[root].table if root >= 0 else {}
        believed = {of: row.parent for of, row in table.items() if row.alive}
        return _below(root, believed)

    def truth(self) -> dict[int, int]:
        """Return the parents of all who are below the root over living members."""
        return _below(self.root(), {x: it.parent for x, it in self.members.items()})

    def faults(self) -> int:
        """E14: the number of nodes of which the root's view is wrong."""
        view, truth = self.view(), self.truth()
        return sum(view.get(x) != truth.get(x) for x in {*view, *truth})

    # --- measures

    def measures(self) -> dict[str, float]:
        """Return sums over the members; who is at the root's router has no bound of bandwidth."""
        if not self.members:
            return {}
        self.count_flows()
        root, capacity = self.root(), self.network.capacity
        found = dict.fromkeys(("shared", "bottleneck"), 0.0)
        fractions, possible, nodes, depths, union = dict(found), 0.0, 0, [0], set()
        for x in self.members:
            way = self.chain(x)
            is_below = set(way) <= set(self.members) and way[-1] == root
            depths.append(len(way) - 1 if is_below else 0)
            direct = self.network.route(root, x)
            union |= set(direct)
            if not direct:
                continue
            most = min(capacity[link] for link in direct)
            possible, nodes = possible + most, nodes + 1
            links = [link for z in way[:-1] for link in self.flow[z]] if is_below else []
            for name in found:
                flows = self.flows if name == "shared" else dict.fromkeys(links, 1)
                gets = min((capacity[link] / flows[link] for link in links), default=0.0)
                found[name] += gets
                fractions[name] += gets / most
        return {
            **{f"{name}_sum": total for name, total in found.items()},
            **{f"{name}_fractions": total for name, total in fractions.items()},
            **{"groups": 1, "members": len(self.members), "nodes": nodes, "possible_sum": possible},
            **{"load": sum(self.flows.values()), "links": len(self.flows), "ip_load": len(union)},
            **{"most": max(self.flows.values(), default=0), "depth": max(depths)},
            "faults": self.faults(),
        }

    # --- results

    def entries(self) -> dict[str, list[list[int]]]:
        """Return how many entries members keep, by kind (E1, E3): group, node, number."""
        line = [x for x, it in self.members.items() if it.rank >= 0]
        found: dict[str, dict[int, int]] = defaultdict(dict)
        for x, it in self.members.items():
            found["children"][x] = len(it.children)
            found["ancestors"][x] = len(self.chain(x)) - 1
            found["certificates" if it.rank else "root's view"][x] = len(it.table)
            found["linear nodes"][x] = len([y for y in line if x in line and y != x])
        return {
            kind: sorted([self.index, x, n] for x, n in by_node.items() if n)
            for kind, by_node in found.items()
        }

    def state(self) -> dict[str, list[list[int]]]:
        """Return the state as rows."""
        g, members, children, tables = self.index, [], [], []
        for p, it in self.members.items():
            when = it.number, it.next_evaluation, it.next_check_in
            members.append([g, p, it.rank, it.parent, it.current, *when])
            children += [[g, p, c, *entry] for c, entry in it.children.items()]
            tables += [
                [g, p, of, row.number, row.parent, int(row.alive), int(of in it.fresh)]
                for of, row in it.table.items()
            ]
        found = {"members": members, "children": children, "tables": tables}
        return {name: sorted(rows) for name, rows in found.items()}


def _below(root: int, parents: Mapping[int, int]) -> dict[int, int]:
    """Return the parents of all whose parents lead to the root."""
    found: dict[int, int] = {}
    while True:
        more = {
            x: p
            for x, p in parents.items()
            if x not in found and x != root and (p == root or p in found)
        }
        if not more:
            return found
        found |= more


# --- a case


def groups_of(case: Case) -> list[Group]:
    """Return the groups of a case, without members."""
    network = Network.of(case)
    return [Group(index, number, network) for index, number in enumerate(case["group_number"])]


def play_period(groups: Sequence[Group], t: int, period: Mapping[str, list]) -> None:
    """Play one round of all groups."""
    for group in groups:
        join, quit = ([x for g, x in period[kind] if g == group.index] for kind in ("join", "quit"))
        group.play(t, join, quit, period["died"])


def play(case: Case, watches: Sequence[Watch] = ()) -> Case:
    """Play a case; return what comes of it, and the measures of all groups after each period."""
    groups = groups_of(case)
    names = "states", "entries", "messages", "given_up", "certificates", "news", "moves", "measures"
    out: Case = {name: [] for name in names}
    out |= {"copies": [], "receivers": []}
    for t, period in enumerate(case["periods"]):
        play_period(groups, t, period)
        for watch, group in zip(watches, groups, strict=False):
            watch.look(t, group)
        states = [group.state() for group in groups]
        out["states"].append(
            {
                name: [row for state in states for row in state[name]]
                for name in ("members", "children", "tables")
            }
        )
        kept = [group.entries() for group in groups]
        out["entries"].append(
            {kind: sorted(row for one in kept for row in one.get(kind, ())) for kind in ENTRIES}
        )
        out["messages"].append(
            {
                kind: sorted([g.index, *ends] for g in groups for ends in g.messages[kind])
                for kind in ("probe", "adopt", "check-in")
            }
        )
        out["given_up"].append(sorted((g.index, *pair) for g in groups for pair in g.given_up))
        out["certificates"].append([group.certificates for group in groups])
        out["news"].append([group.news for group in groups])
        out["moves"].append([group.moves for group in groups])
        sums: dict[str, float] = defaultdict(float)
        for group in groups:
            for name, number in group.measures().items():
                sums[name] += number
        out["measures"].append(dict(sums))
    for index, source in case["publications"]:
        copies = groups[index].copies(source)
        out["copies"].append([list(copy) for copy in copies])
        out["receivers"].append(sorted({to for _, to in copies} - {source}))
    return out


# --- what always holds


@dataclass
class Watch:
    """What was seen of a group, and checks of its state after each round."""

    came_back: bool = False  # somebody has joined for a second time
    seen: set[int] = field(default_factory=set)
    joined: dict[int, int] = field(default_factory=dict)  # the rounds of members' joins
    worth: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    quiet_rounds: int = 0
    ghosts: int = 0

    def look(self, t: int, group: Group) -> None:
        """Check everything after round t."""
        there = set(group.members)
        self.came_back |= bool(there - set(self.joined) & self.seen)
        self.joined = {x: self.joined.get(x, t) for x in there}
        self.seen |= there
        self.check_members(t, group)
        self.check_tables(t, group)
        self.check_publication(group)
        if group.members and is_quiet(t, group):
            self.quiet_rounds += 1
            self.check_view(group)

    def check_view(self, group: Group) -> None:
        """The root's table is the truth, but for ghosts.

        A ghost is gone, and so was its parent when it should have noticed; the parent came back.
        """
        view, truth = group.view(), group.truth()
        for x in {*view, *truth}:
            if view.get(x) != truth.get(x):
                row = group.members[group.root()].table[x]
                assert x not in group.members
                assert self.joined[row.parent] > row.number
                self.ghosts += 1
        assert self.came_back or not group.faults()

    def check_members(self, t: int, group: Group) -> None:
        """It is a tree; linear nodes are a line; who has a parent is listed there and will ask."""
        ranked = {it.rank: x for x, it in group.members.items() if it.rank >= 0}
        assert sorted(ranked) == list(range(len(ranked)))
        assert bool(ranked) == bool(group.members)
        assert sum(it.rank >= 0 for it in group.members.values()) == len(ranked)
        for x, it in group.members.items():
            group.chain(x)  # there is no ring
            assert it.searches == (it.current >= 0)
            assert it.rank < 1 or it.parent == ranked[it.rank - 1]
            assert (it.next_check_in > t) == (it.parent >= 0)
            assert (it.next_evaluation > t) == (it.parent >= 0 and it.rank < 0)
            assert it.number <= t
            if it.parent in group.members and self.joined[it.parent] <= it.number:
                last, number = group.members[it.parent].children[x]
                assert number == it.number
                assert last <= t < last + group.setting("lease")
            for last, number in it.children.values():
                assert number <= last <= t < last + group.setting("lease")

    def check_tables(self, t: int, group: Group) -> None:
        """Rows only become greater, and say nothing of themselves or of the future."""
        worth = {}
        for p, it in group.members.items():
            assert it.fresh <= set(it.table)
            assert p not in it.table
            for of, row in it.table.items():
                assert row.of == of != row.parent
                assert row.number <= t
                worth[p, of] = row.worth
                if self.joined[p] < t:
                    assert self.worth.get((p, of), (-2, False)) <= row.worth
                if of in group.members and not self.came_back:
                    assert row.number <= group.members[of].number
        kept = {key for key in self.worth if key[0] in group.members and self.joined[key[0]] < t}
        assert kept <= set(worth)
        self.worth = worth
        rows = {row for it in group.members.values() for row in it.table.values()}
        assert len({(row.of, row.worth) for row in rows}) == len(rows)  # their order is no matter

    def check_publication(self, group: Group) -> None:
        """No member gets two copies, and all get one if none searches or has a dead parent."""
        root = group.root()
        whole = len(group.truth()) + 1 == len(group.members)
        for source in [*list(group.members)[:3], -2]:  # -2 is no member
            got = [to for _, to in group.copies(source)]
            assert len(got) == len(set(got))
            assert source not in got
            if whole and root >= 0:
                assert {*got, source} - {-2} == set(group.members)


def is_quiet(t: int, group: Group) -> bool:
    """Whether nothing is under way: no row to be sent up, no child to be found dead, no search."""
    for x, it in group.members.items():
        if it.searches or (it.fresh and it.rank) or (it.rank and it.parent not in group.members):
            return False
        if any(c not in group.members or group.members[c].parent != x for c in it.children):
            return False
        if it.rank and x not in group.members[it.parent].children:
            return False
    return True


# --- random cases


def random_network(rng: random.Random, routers: int) -> tuple[list[float], dict[str, list[int]]]:
    """Draw the capacities of directed links, and routes of least weight; both ways may differ."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(routers))
    pairs = {(rng.randrange(b), b) for b in range(1, routers)}
    for _ in range(rng.randrange(routers + 1) if routers > 1 else 0):
        pairs.add(tuple(sorted(rng.sample(range(routers), 2))))
    kinds = rng.choice([[45e6, 1.5e6, 100e6], [1e6], [1e6, 2e6, 3e6], [1.5e6, 1.5e6, 7e6, 30e6]])
    capacity = []
    for a, b in sorted(pairs):
        one = rng.choice(kinds)
        for link in ((a, b), (b, a)):
            graph.add_edge(*link, id=len(capacity), weight=rng.choice([1, 1, 2, 5]))
            capacity.append(one if rng.random() < 0.8 else rng.choice(kinds))
    routes = {}
    for a, paths in networkx.all_pairs_dijkstra_path(graph):
        for b, path in paths.items():
            routes[f"{a},{b}"] = [graph.edges[link]["id"] for link in pairwise(path)]
    return capacity, routes


def random_settings(rng: random.Random) -> dict[str, Any]:
    """Draw settings, mostly short ones."""
    return {
        "lease": rng.choice([4, 4, 5, 6, 10]),
        "evaluation": rng.choice([1, 2, 3, 5, 10]),
        "tolerance": rng.choice([0.5, 0.9, 0.9, 0.9, 1.0]),
        "decide": rng.choice(["shared", "shared", "shared", "bottleneck"]),
        "linear": rng.choice([0, 0, 0, 1, 2, 4]),
    }


@dataclass
class _World:
    """The nodes and members while the events of a case are drawn."""

    rng: random.Random
    nodes: int
    alive: set[int]
    members: list[set[int]]
    back: float  # the share of those gone in the last period that come back
    gone: list[set[int]]

    def period(self, join: float, quit: float, die: float) -> dict[str, list]:
        """Draw the events of a period with these shares of nodes; those that come back join."""
        rng = self.rng
        died = sorted(x for x in self.alive if rng.random() < die)
        self.alive -= set(died)
        joins, quits = [], []
        for g, there in enumerate(self.members):
            gone = {x for x in there - set(died) if rng.random() < quit}
            quits += [[g, x] for x in sorted(gone)]
            gone |= there & set(died)
            come = {x for x in range(self.nodes) if rng.random() < join}
            come |= {x for x in sorted(self.gone[g]) if rng.random() < self.back}
            come -= there | set(died)
            joins += [[g, x] for x in sorted(come)]
            self.members[g] = there - gone | come
            self.gone[g] = gone
            self.alive |= come
        return {"join": joins, "quit": quits, "died": died}


def random_case(seed: int) -> Case:
    """Draw a case of 1 to 60 nodes, each fortieth of some hundreds: lively times and quiet ones."""
    rng = random.Random(f"overcast {seed}")
    nodes = rng.randint(1, rng.choice([3, 12, 60])) if seed % 40 else rng.randint(120, 300)
    routers = rng.choice([1, 2, 4, 8, 12, 20])
    capacity, routes = random_network(rng, routers)
    groups = rng.choice([1, 1, 2, 3])
    everybody, nobody = set(range(nodes)), [set[int]() for _ in range(groups)]
    world = _World(rng, nodes, everybody, [*nobody], rng.choice([0, 0.3, 0.8]), [*nobody])
    settings = random_settings(rng)
    first = rng.choice([1.0, 0.7, 0.3, 0.0])
    periods = [world.period(first, 0, 0)]
    for _ in range(rng.randint(1, 4)):
        lively = rng.choice([(0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.15), (0.1, 0.05, 0.05), (0, 0, 0)])
        lasts = rng.randint(1, 8)
        periods += [world.period(*(share / lasts * 2 for share in lively)) for _ in range(lasts)]
        if rng.random() < 0.3:
            periods.append(world.period(rng.choice([0, 0.5]), *rng.choice([(0.5, 0), (0, 0.5)])))
        if rng.random() < 0.05:
            periods.append(world.period(0.2, 1, 0))
        still = rng.randint(0, settings["lease"] + 6)
        periods += [{"join": [], "quit": [], "died": []} for _ in range(still)]
    publications = {
        (g, rng.choice(sorted(them)))
        for g, there in enumerate(world.members)
        for them in (there, there, world.alive)
        if them
    }
    return {
        "seed": rng.randrange(2**31),
        "settings": settings,
        "group_number": rng.sample(range(50), groups),
        "node": rng.sample(range(2 * nodes), nodes),
        "router": [rng.randrange(routers) for _ in range(nodes)],
        "capacity": capacity,
        "routes": routes,
        "periods": periods,
        "publications": [list(one) for one in sorted(publications)],
    }
