"""One round of Overcast for all groups of a builder: rules E6 to E12.

Every phase acts on the state that the phase before it left; within a phase, all members act at
once.  Members are rows, ascending by group and position.  A *pointer* is the row of a node that has
died or quit, and is still among the ancestors of others.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    expand,
    find_sorted,
    index_in_run,
    run_starts,
)
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.overcast import SHARED
from scribe_spark.systems.overcast.bandwidth import Flows, Routes
from scribe_spark.systems.overcast.certificates import (
    Certificates,
    certificate,
    no_certificates,
)
from scribe_spark.systems.overcast.config import OvercastConfig, refuse_large

#: Tables of the state.
MEMBERS, CHILDREN, CERTIFICATES = "members", "children", "certificates"

#: Kinds of messages.
PROBE, ADOPT, CHECK_IN = "probe", "adopt", "check-in"

#: The columns of a member beside its group, its position and whether it lives; NONE: unset.
_COLUMNS = ("rank", "parent", "current", "number", "next_evaluation", "next_check_in")

#: The rank of the root; linear nodes have the next ones, other members NONE.
_ROOT = 0

_CHILDREN = ("key", "last", "number")

#: The number of probes whose routes are in memory at once.
_PROBES = 2**18


class Round:
    """The state of a builder during a round.

    Attributes
    ----------
    group, node : ndarray of int64, shape (m,)
        The members, ascending; positions.
    alive : ndarray of bool, shape (m,)
        False for pointers.
    rank, number, next_evaluation, next_check_in : ndarray of int64, shape (m,)
        Columns of members; numbers are rounds.
    parent : ndarray of int64, shape (m,)
        The row of the parent.
    current : ndarray of int64, shape (m,)
        The position at which a member searches.
    of : ndarray of int64, shape (m,)
        The index of the group in the builder.
    root, entry : ndarray of int64, shape (g,)
        The rows of the root and of the node at which newcomers begin, of each group.
    moves, told_to_root : int
        The accepted members that had a parent; the certificates that reached a root.
    """

    group: np.ndarray
    node: np.ndarray
    alive: np.ndarray
    rank: np.ndarray
    parent: np.ndarray
    current: np.ndarray
    number: np.ndarray
    next_evaluation: np.ndarray
    next_check_in: np.ndarray

    def __init__(self, rules: OvercastConfig, state: dict[str, Columns], period: Period) -> None:
        self.rules, self.now, self.period = rules, period.number, period
        self.size, self.network = len(period.alive), period.network
        self.moves = self.told_to_root = 0
        self._sent: dict[str, list[Columns]] = {PROBE: [], ADOPT: [], CHECK_IN: []}
        self._take_in_events(state)
        self._choose_roots()
        self._count_flows()

    def play(self) -> dict[str, Columns]:
        """Play the phases of the round; return the messages by kind."""
        self.check_in()
        self.end_leases()
        self.ask(*self.decide())
        return {kind: concatenate(rows) for kind, rows in self._sent.items() if rows}

    # --- events

    def _take_in_events(self, state: dict[str, Columns]) -> None:
        """Let members go and come: rule E6, a and b."""
        size, period = self.size, self.period
        names = ("group", "node", *_COLUMNS)
        had = state.get(MEMBERS) or {
            **{name: np.empty(0, dtype=np.int64) for name in names},
            "alive": np.empty(0, dtype=bool),
        }
        join, quit = (key_of(pair, size) for pair in (period.join, period.quit))
        key = key_of([had["group"], had["node"]], size)
        stays = had["alive"] & period.alive[had["node"]] & (find_sorted(quit, key) < 0)
        again = find_sorted(join, key) >= 0
        new = {name: np.full(len(join), NONE) for name in _COLUMNS}
        new |= {"group": join // size, "node": join % size, "alive": np.ones(len(join), dtype=bool)}
        rows = concatenate([take({**had, "alive": stays}, ~again), new])
        order = np.lexsort((rows["node"], rows["group"]))
        for name, column in take(rows, order).items():
            setattr(self, name, column)
        self.key = key_of([self.group, self.node], size)
        self.newcomer = find_sorted(join, self.key) >= 0
        self.rank[~self.alive] = NONE
        at = key_of([self.group, self.parent], size)
        self.parent = np.where(self.parent < 0, NONE, find_sorted(self.key, at))
        starts = run_starts(self.group)
        self.of = np.cumsum(np.isin(np.arange(len(self.key)), starts)) - 1
        refuse_large(int(np.bincount(self.of[self.alive], minlength=1).max()))
        gone = key[had["alive"] & (~stays | again)]
        none = {name: np.empty(0, dtype=np.int64) for name in _CHILDREN}
        lists = {name: state[CHILDREN][name] if CHILDREN in state else none[name] for name in none}
        self.children = take(lists, find_sorted(gone, lists["key"] // size) < 0)
        known = dict(state.get(CERTIFICATES) or no_certificates())
        known.pop("group", None)
        self.certificates = Certificates(size, known)
        if len(gone):
            self.certificates.forget(gone)

    def _choose_roots(self) -> None:
        """Choose roots and linear nodes, or close their lines: rule E6, c to e."""
        groups = int(self.of[-1]) + 1 if len(self.of) else 0
        ranked, known = (
            np.bincount(self.of[some], minlength=groups) > 0
            for some in (self.alive & (self.rank >= 0), self.alive & ~self.newcomer)
        )
        wanted = np.where(ranked, 0, np.where(known, 1, 1 + self.rules.linear))
        some = np.flatnonzero(self.alive & (wanted[self.of] > 0))
        some = some[np.lexsort((self.node[some], self._draw("root", some), self.of[some]))]
        nth = index_in_run(self.of[some])
        chosen = nth < wanted[self.of[some]]
        self.rank[some[chosen]] = nth[chosen]
        line = np.flatnonzero(self.alive & (self.rank >= 0))
        line = line[np.lexsort((self.rank[line], self.of[line]))]
        nth = index_in_run(self.of[line])
        self.rank[line] = nth
        first = np.flatnonzero(nth == 0)
        self.root, self.entry = np.full((2, groups), NONE)
        self.root[self.of[line[first]]] = line[first]
        self.entry[self.of[line]] = line  # the last one of equal indices stays
        for column in (self.parent, self.current, self.next_evaluation, self.next_check_in):
            column[line[first]] = NONE
        begins = np.flatnonzero(self.newcomer & (self.rank < 0))
        self.current[begins] = self.node[self.entry[self.of[begins]]]
        below = np.flatnonzero(nth)
        below = below[self.parent[line[below]] != line[below - 1]]
        self.adopt(line[below], line[below - 1])

    def _draw(self, purpose: str, row: np.ndarray, *more: int) -> np.ndarray:
        """Return the draws of members: uint64."""
        number, name = self.period.group_number[self.group[row]], self.node[row]
        key = number, self.network.ring.node[name], *more
        return draws.bits_np(self.network.seed, f"overcast {purpose}", *key)

    # --- bandwidth

    def _count_flows(self) -> None:
        """Count the flows of the round, and the bandwidths of edges: rule E4."""
        child = np.flatnonzero(self.alive & (self.parent >= 0))
        child = child[self.alive[self.parent[child]]]
        routes = self.routes(self.parent[child], child)
        is_shared = self.rules.decide == SHARED
        of = routes, self.group[child], child
        self.flows = Flows.of(self.network.kernel, is_shared, *of)
        #: float64, shape (m,): the bandwidth of the edge from the parent; -1 without one
        self.edge = np.full(len(self.key), -1.0)
        self.edge[child] = self.flows.of_edges(routes, self.group[child])
        self.edge[self.root[self.root >= 0]] = np.inf

    def routes(self, a: np.ndarray, b: np.ndarray) -> Routes:
        """Return the routes between members (rows)."""
        ends = (self.network.ring.router[self.node[one]] for one in (a, b))
        return Routes.between(self.network.kernel, *ends)

    def probe(self, child: np.ndarray, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the bandwidth and the hops that children would have from parents: rule E5."""
        bandwidth, hops = np.empty(len(child)), np.empty(len(child), dtype=np.int64)
        for first in range(0, len(child), _PROBES):
            some = slice(first, first + _PROBES)
            routes = self.routes(parent[some], child[some])
            where = self.group[child[some]], child[some]
            bandwidth[some], hops[some] = self.flows.of_probes(routes, *where), routes.hops
        return bandwidth, hops

    # --- check-ins and leases

    def check_in(self) -> None:
        """Let members tell their parents what is new, or notice their deaths: rule E7."""
        due = np.flatnonzero(self.alive & (self.next_check_in == self.now))
        parent = self.parent[due]
        self._send(CHECK_IN, due, self.node[parent])
        is_answered = self.alive[parent]
        self._search(due[~is_answered])
        child = due[is_answered]
        listed = find_sorted(self.children["key"], self._edge_key(child))
        last = self.children["last"].copy()
        last[listed[listed >= 0]] = self.now
        self.children = {**self.children, "last": last}
        again = child[listed < 0]  # the parent has come back and does not know the child
        self.number[again] = self.now
        self._list(again)
        some, row = self.certificates.fresh_of(self.key[child])
        self._tell(again, child[some], row)
        self.next_check_in[child] = self._next_check_in(child)

    def _search(self, row: np.ndarray) -> None:
        """Let members without a living parent search from their nearest living ancestor."""
        above = self.parent[row]
        while (dead := (above >= 0) & ~self.alive[above]).any():
            above[dead] = self.parent[above[dead]]
        outside = (above < 0) | (self.rank[above] >= 0)
        above = np.where(outside, self.entry[self.of[row]], above)
        self.current[row] = self.node[above]
        for column in (self.parent, self.next_evaluation, self.next_check_in):
            column[row] = NONE

    def end_leases(self) -> None:
        """Let parents count silent children as dead: rule E8."""
        is_over = self.children["last"] <= self.now - self.rules.lease
        over = take(self.children, is_over)
        self.children = take(self.children, ~is_over)
        parent = over["key"] // self.size % self.size
        if len(parent):
            self.certificates.merge(certificate(over["key"], over["number"], parent, False))

    def _next_check_in(self, row: np.ndarray) -> np.ndarray:
        earlier = 1 + self._draw("check-in", row, self.now) % np.uint64(3)
        return self.now + self.rules.lease - earlier.astype(np.int64)

    def _edge_key(self, child: np.ndarray) -> np.ndarray:
        """Return the keys (group, parent, child) of members' edges."""
        return self.key[self.parent[child]] * self.size + self.node[child]

    def _list(self, child: np.ndarray) -> None:
        """Record the children that parents adopt now."""
        now = np.full(len(child), self.now)
        new = {"key": self._edge_key(child), "last": now, "number": now}
        kept = find_sorted(np.sort(new["key"]), self.children["key"]) < 0
        rows = concatenate([take(self.children, kept), new])
        self.children = take(rows, np.argsort(rows["key"], kind="stable"))

    def _tell(self, adopted: np.ndarray, child: np.ndarray, row: np.ndarray) -> None:
        """Let members tell their parents rows of certificates; if adopted, all and their own."""
        some, all_rows = self.certificates.of(self.key[adopted])
        child, row = np.r_[child, adopted[some]], np.r_[row, all_rows]
        parent = np.r_[self.parent[child], self.parent[adopted]]
        self.told_to_root += int(np.count_nonzero(self.rank[parent] == _ROOT))
        if not len(parent):
            return
        above = self.parent[adopted]
        own = certificate(self._edge_key(adopted), self.number[adopted], self.node[above], True)
        told = self.certificates.told(row, self.key[self.parent[child]])
        self.certificates.mark_told(row)
        self.certificates.merge(told, own)

    # --- moves

    def decide(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the members that ask to be adopted, and whom they ask (rows): rule E9."""
        search, at = self._searching()
        evaluate = self._evaluating()
        is_first, higher = self._going_up(evaluate)
        stay = evaluate[~is_first]
        bandwidth, _ = self.probe(search, at)
        actor, lists = np.r_[search, stay], np.r_[at, self.parent[stay]]
        best = self._best_child(actor, lists, np.r_[bandwidth, self.edge[stay]])
        found, goes_down = best[: len(search)], best[: len(search)] >= 0
        self.current[search[goes_down]] = self.node[found[goes_down]]
        beside, moves = best[len(search) :], best[len(search) :] >= 0
        asker = np.r_[search[~goes_down], evaluate[is_first], stay[moves]]
        return asker, np.r_[at[~goes_down], higher, beside[moves]]

    def _searching(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the searching members whose node lives, and its row; others begin anew."""
        row = np.flatnonzero(self.alive & (self.current >= 0))
        self._send(PROBE, row, self.current[row])
        at = find_sorted(self.key, key_of([self.group[row], self.current[row]], self.size))
        lives = (at >= 0) & self.alive[at]
        self._begin_anew(row[~lives])
        return row[lives], at[lives]

    def _begin_anew(self, row: np.ndarray) -> None:
        self.current[row] = self.node[self.entry[self.of[row]]]

    def _evaluating(self) -> np.ndarray:
        """Return the members that evaluate their position, and have a living parent.

        Those whom a parent listed anew in this round do not: a round has one certificate of a node.
        """
        due = np.flatnonzero(self.alive & (self.next_evaluation == self.now))
        self.next_evaluation[due] += self.rules.evaluation
        return due[self.alive[self.parent[due]] & (self.number[due] != self.now)]

    def _going_up(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mask of members that ask their grandparent, and the grandparents' rows."""
        parent = self.parent[row]
        above = self.parent[parent]
        enters = above == self.entry[self.of[row]]
        some = np.flatnonzero((above >= 0) & self.alive[above] & ((self.rank[above] < 0) | enters))
        child, above = row[some], above[some]
        self._send(PROBE, child, self.node[above])
        bandwidth, _ = self.probe(child, above)
        now = np.minimum(self.edge[child], self.edge[parent[some]])
        better = now < self.rules.tolerance * bandwidth
        goes = np.zeros(len(row), dtype=bool)
        goes[some[better]] = True
        return goes, above[better]

    def _best_child(self, actor: np.ndarray, of: np.ndarray, least: np.ndarray) -> np.ndarray:
        """Return the nearest child of a node that offers about a bandwidth; NONE without one."""
        ends = (
            np.searchsorted(self.children["key"], (self.key[of] + more) * self.size)
            for more in (0, 1)
        )
        index, row = expand(*ends)
        child = self.children["key"][row] % self.size
        other = child != self.node[actor[index]]
        index, child = index[other], child[other]
        self._send(PROBE, actor[index], child)
        at = find_sorted(self.key, key_of([self.group[actor[index]], child], self.size))
        fits = (at >= 0) & self.alive[at] & (self.rank[at] < 0) & (self.parent[at] >= 0)
        fits &= self.edge[at] >= 0
        # who has too little bandwidth is not probed for the computation
        fits &= self.edge[at] >= self.rules.tolerance * least[index]
        index, at = index[fits], at[fits]
        bandwidth, hops = self.probe(actor[index], at)
        bandwidth = np.minimum(bandwidth, self.edge[at])
        fits = bandwidth >= self.rules.tolerance * least[index]
        index, at, bandwidth, hops = index[fits], at[fits], bandwidth[fits], hops[fits]
        order = np.lexsort((self.node[at], -bandwidth, hops, index))
        first = order[run_starts(index[order])]
        best = np.full(len(actor), NONE)
        best[index[first]] = at[first]
        return best

    def ask(self, asker: np.ndarray, asked: np.ndarray) -> None:
        """Accept or refuse the nodes that ask for a parent: rule E10."""
        self._send(ADOPT, asker, self.node[asked])
        lost, waits = self._refused(asker, asked)
        searches = self.parent[asker] < 0
        self._begin_anew(asker[searches & lost])
        taken = ~(lost | waits)
        self.moves += int(np.count_nonzero(taken & ~searches))
        self.adopt(asker[taken], asked[taken])

    def _refused(self, asker: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the askers that lose, and the askers that wait, by row.

        An asker loses if the asked node is unattached or is below the asker.  An asker waits if
        the asked node, or an ancestor of the asked node, asks as well and has a greater id.
        """
        moves = np.zeros(len(self.key), dtype=bool)
        moves[asker[self.parent[asker] >= 0]] = True
        lost, waits = np.zeros((2, len(asker)), dtype=bool)
        row, at = np.arange(len(asker)), asked
        while len(row):
            waits[row] |= moves[at] & (self.node[at] > self.node[asker[row]])
            ends = self.parent[at] < 0
            lost[row] |= (at == asker[row]) | (ends & self.alive[at] & (self.rank[at] != _ROOT))
            on = ~ends & ~lost[row]
            row, at = row[on], self.parent[at[on]]
        return lost, waits

    def adopt(self, child: np.ndarray, parent: np.ndarray) -> None:
        """Make members children of others, whom they tell all that they know: rule E11."""
        self.number[child], self.parent[child], self.current[child] = self.now, parent, NONE
        self._list(child)
        nothing = np.empty(0, dtype=np.int64)
        self._tell(child, nothing, nothing)
        phase = self._draw("evaluation", child, self.now) % np.uint64(self.rules.evaluation)
        later = self.now + 1 + phase.astype(np.int64)
        self.next_evaluation[child] = np.where(self.rank[child] < 0, later, NONE)
        self.next_check_in[child] = self._next_check_in(child)

    def _send(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Count messages from members to positions."""
        ends = {"group": self.group[sender], "sender": self.node[sender], "to": to}
        self._sent[kind].append(ends)

    # --- the state

    def tables(self) -> dict[str, Columns]:
        """Return the tables of the state; pointers to which nobody points are left out."""
        named = distinct(self.parent[self.parent >= 0])
        kept = self.alive | (find_sorted(named, np.arange(len(self.key))) >= 0)
        kept &= (self.root >= 0)[self.of]
        columns = {name: getattr(self, name) for name in _COLUMNS}
        columns["parent"] = np.where(self.parent < 0, NONE, self.node[self.parent])
        columns |= {"group": self.group, "node": self.node, "alive": self.alive}
        by_key = {CHILDREN: self.children, CERTIFICATES: self.certificates.rows}
        grouped = {
            name: {"group": rows["key"] // self.size**2, **rows} for name, rows in by_key.items()
        }
        return {MEMBERS: take(columns, kept), **grouped}
