"""One round of Overcast for all groups of a builder: rules E6 to E12.

Every phase acts on the state that the phase before it left; within a phase, all members act at
once.  Members are rows, ascending by group and position.  A *pointer* is the row of a node that has
died or quit, and is still among the ancestors of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import take
from scribe_spark.rounds.grown_overlays import Period, Sent
from scribe_spark.systems.overcast import LIMIT, SHARED
from scribe_spark.systems.overcast.tables import (
    CERTIFICATES,
    CHILDREN,
    MEMBERS,
    Certificates,
    Children,
    Members,
)
from scribe_spark.underlay.flows import Flows

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.overcast.config import OvercastConfig

#: Kinds of messages.
PROBE, ADOPT, CHECK_IN = "probe", "adopt", "check-in"

#: The rank of the root; linear nodes have the next ones, other members NONE.
_ROOT = 0


class Round(Members):
    """The members of a builder during a round; `parent` has rows.

    ``of`` has the index of each member's group in the builder, ``root`` and ``entry`` the rows of
    each group's root and of the node at which newcomers begin.  ``moves`` are accepted members that
    had a parent, ``told_to_root`` the certificates that reached a root, ``news_to_root`` new ones.
    """

    def __init__(self, rules: OvercastConfig, state: dict[str, Columns], period: Period) -> None:
        self.rules, self.now, self.period = rules, period.number, period
        self.size, self.network = len(period.alive), period.network
        self.moves = self.told_to_root = self.news_to_root = 0
        self.sent = Sent()
        self.children = arrays.read_table(Children, state, CHILDREN)
        self.certificates = arrays.read_table(Certificates, state, CERTIFICATES)
        super().__init__(**Members.from_state(state, MEMBERS, self.size).to_columns())
        self._take_in_events()
        self._choose_roots()
        self._count_flows()

    def play(self) -> dict[str, Columns]:
        """Play the phases of the round; return the messages by kind."""
        self.check_in()
        self.end_leases()
        self.ask(*self.decide())
        return self.sent.by_kind()

    # --- events

    def _take_in_events(self) -> None:
        """Remove members that quit or die, and add newcomers: rule E6, a and b."""
        period, size = self.period, self.size
        join, quit = (key_of(pair, size) for pair in (period.join, period.quit))
        again, had = arrays.find_sorted(join, self.key) >= 0, self.alive
        self.alive = had & period.alive[self.key % size] & (arrays.find_sorted(quit, self.key) < 0)
        gone = self.key[had & (~self.alive | again)]
        self.keep(~again)
        self.insert(join, **dict.fromkeys(self.columns(), arrays.NONE) | {"alive": True})
        for name in self.columns():  # those of a saved table cannot be written
            setattr(self, name, getattr(self, name).copy())
        self.group, self.node = arrays.divided(self.key, size)
        self.newcomer = arrays.find_sorted(join, self.key) >= 0
        self.rank[~self.alive] = arrays.NONE
        above = self._row(self.parent, np.arange(len(self)))
        self.parent = np.where(self.parent < 0, arrays.NONE, above)
        self.of = np.searchsorted(arrays.distinct(self.group), self.group)
        period.refuse_large_groups("overcast", self.group[self.alive], *LIMIT)
        for table in (self.children, self.certificates) if len(gone) else ():
            table.keep(arrays.find_sorted(gone, table.key // size) < 0)

    def _choose_roots(self) -> None:
        """Choose roots and linear nodes, or close gaps in their lines: rule E6, c to e."""
        groups = int(self.of[-1]) + 1 if len(self.of) else 0
        ranked, known = (
            np.bincount(self.of[some], minlength=groups) > 0
            for some in (self.alive & (self.rank >= 0), self.alive & ~self.newcomer)
        )
        wanted = np.where(ranked, 0, np.where(known, 1, 1 + self.rules.linear))
        some = np.flatnonzero(self.alive & (wanted[self.of] > 0))
        some = some[np.lexsort((self.node[some], self._draw("root", some), self.of[some]))]
        nth = arrays.index_in_run(self.of[some])
        chosen = nth < wanted[self.of[some]]
        self.rank[some[chosen]] = nth[chosen]
        line = np.flatnonzero(self.alive & (self.rank >= 0))
        line = line[np.lexsort((self.rank[line], self.of[line]))]
        nth = arrays.index_in_run(self.of[line])
        self.rank[line] = nth
        first = line[nth == 0]
        self.root, self.entry = np.full((2, groups), arrays.NONE)
        self.root[self.of[first]] = first
        self.entry[self.of[line]] = line  # the last one of equal indices stays
        for column in (self.parent, self.current, self.next_evaluation, self.next_check_in):
            column[first] = arrays.NONE
        self._begin_anew(np.flatnonzero(self.newcomer & (self.rank < 0)))
        below = np.flatnonzero(nth)
        below = below[self.parent[line[below]] != line[below - 1]]
        self.adopt(line[below], line[below - 1])

    def _row(self, position: np.ndarray, like: np.ndarray) -> np.ndarray:
        """Return the row of each position in the group of the row `like`; NONE if it has none."""
        return arrays.find_sorted(self.key, self.group[like] * self.size + position)

    def _begin_anew(self, row: np.ndarray) -> None:
        """Let members search for a parent from the end of the line of linear nodes."""
        self.current[row] = self.node[self.entry[self.of[row]]]

    def _draw(self, purpose: str, row: np.ndarray, *more: int) -> np.ndarray:
        """Return a random draw of each member for a purpose: uint64."""
        return self.period.draw(f"overcast {purpose}", self.group[row], self.node[row], *more)

    # --- bandwidth

    def _count_flows(self) -> None:
        """Count the flows of the round, and the bandwidths of edges: rule E4."""
        child = np.flatnonzero(self.alive & (self.parent >= 0))
        child = child[self.alive[self.parent[child]]]
        router, shared = self.network.ring.router[self.node], self.rules.decide == SHARED
        ends = self.group, child, self.parent[child]
        self.flows = Flows(self.network.kernel, shared, router, *ends)
        self.flows.edge[self.root[self.root >= 0]] = np.inf

    # --- check-ins and leases

    def check_in(self) -> None:
        """Let members tell their parents what is new, or notice their deaths: rule E7."""
        due = np.flatnonzero(self.alive & (self.next_check_in == self.now))
        parent = self.parent[due]
        self._send(CHECK_IN, due, self.node[parent])
        is_answered = self.alive[parent]
        lost = due[~is_answered]
        self.period.give_up(self.group[lost], self.node[lost], self.node[self.parent[lost]])
        self._search(lost)
        child = due[is_answered]
        key = self._edge_key(child)
        listed = self.children.find(key)
        number = np.r_[self.children.number, self.now][listed]
        self.children.put(key, last=self.now, number=number)
        again = child[listed < 0]  # the parent has come back and does not know the child
        self.number[again] = self.now
        some, row = self.certificates.fresh_of(self.key[child], self.size)
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
            column[row] = arrays.NONE

    def end_leases(self) -> None:
        """Let parents count silent children as dead: rule E8."""
        is_over = self.children.last <= self.now - self.rules.lease
        if is_over.any():
            over = self.children.take(is_over)
            self.children.keep(~is_over)
            parent = over.key // self.size % self.size
            self.period.give_up(over.key // self.size**2, parent, over.key % self.size)
            self.certificates.merge(Certificates.of(over.key, over.number, parent, False))

    def _next_check_in(self, row: np.ndarray) -> np.ndarray:
        earlier = 1 + self._draw("check-in", row, self.now) % np.uint64(3)
        return self.now + self.rules.lease - earlier.astype(np.int64)

    def _edge_key(self, child: np.ndarray) -> np.ndarray:
        """Return the keys (group, parent, child) of members' edges."""
        return self.key[self.parent[child]] * self.size + self.node[child]

    def _tell(self, adopted: np.ndarray, child: np.ndarray, row: np.ndarray) -> None:
        """Let each `child` tell its parent the certificate `row`, and the `adopted` ones all."""
        some, all_rows = self.certificates.below(self.key[adopted], self.size)
        child, row = np.r_[child, adopted[some]], np.r_[row, all_rows]
        parent, above = self.parent[child], self.parent[adopted]
        reached = np.r_[parent, above]
        self.told_to_root += int(np.count_nonzero(self.rank[reached] == _ROOT))
        if not len(reached):
            return
        told = self.certificates.told(row, self.key[parent], self.size)
        edge, number = self._edge_key(adopted), self.number[adopted]
        own = Certificates.of(edge, number, self.node[above], True)
        self.certificates.mark_told(row)
        news = self.certificates.merge(Certificates.join(told, own)) // self.size
        self.news_to_root += int(np.isin(news, self.key[self.rank == _ROOT]).sum())

    # --- moves

    def decide(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the members that ask for adoption, and the nodes that they ask, as rows: E9."""
        search, at = self._searching()
        evaluate = self._evaluating()
        is_first, higher = self._going_up(evaluate)
        stay = evaluate[~is_first]
        bandwidth, _ = self.flows.bandwidth(search, at)
        actor, lists = np.r_[search, stay], np.r_[at, self.parent[stay]]
        best = self._best_child(actor, lists, np.r_[bandwidth, self.flows.edge[stay]])
        found, goes_down = best[: len(search)], best[: len(search)] >= 0
        self.current[search[goes_down]] = self.node[found[goes_down]]
        beside, moves = best[len(search) :], best[len(search) :] >= 0
        asker = np.r_[search[~goes_down], evaluate[is_first], stay[moves]]
        return asker, np.r_[at[~goes_down], higher, beside[moves]]

    def _searching(self) -> tuple[np.ndarray, np.ndarray]:
        """Return members that search, and where they are; those at dead nodes begin anew."""
        row = np.flatnonzero(self.alive & (self.current >= 0))
        self._send(PROBE, row, self.current[row])
        at = self._row(self.current[row], row)
        lives = (at >= 0) & self.alive[at]
        self._begin_anew(row[~lives])
        return row[lives], at[lives]

    def _evaluating(self) -> np.ndarray:
        """Return members that evaluate their position now, and have a living parent."""
        due = np.flatnonzero(self.alive & (self.next_evaluation == self.now))
        self.next_evaluation[due] += self.rules.evaluation
        # a round has one certificate of a node: none who was listed anew in this round
        return due[self.alive[self.parent[due]] & (self.number[due] != self.now)]

    def _going_up(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mask of members in `row` that ask their grandparents, and the latter."""
        parent = self.parent[row]
        above = self.parent[parent]
        enters = above == self.entry[self.of[row]]
        some = np.flatnonzero((above >= 0) & self.alive[above] & ((self.rank[above] < 0) | enters))
        child, above = row[some], above[some]
        self._send(PROBE, child, self.node[above])
        bandwidth, _ = self.flows.bandwidth(child, above)
        now = np.minimum(self.flows.edge[child], self.flows.edge[parent[some]])
        better = now < self.rules.tolerance * bandwidth
        goes = np.zeros(len(row), dtype=bool)
        goes[some[better]] = True
        return goes, above[better]

    def _best_child(self, actor: np.ndarray, of: np.ndarray, least: np.ndarray) -> np.ndarray:
        """Return the child of the node `of` to which each member `actor` moves, or NONE."""
        index, row = self.children.below(self.key[of], self.size)
        child = self.children.key[row] % self.size
        other = child != self.node[actor[index]]
        index, child = index[other], child[other]
        self._send(PROBE, actor[index], child)
        at = self._row(child, actor[index])
        # who has too little bandwidth, or no edge, is not probed for the computation
        enough = self.flows.edge[at] >= self.rules.tolerance * least[index]
        fits = (at >= 0) & (self.rank[at] < 0) & enough
        index, at = index[fits], at[fits]
        bandwidth, hops = self.flows.bandwidth(actor[index], at)
        bandwidth = np.minimum(bandwidth, self.flows.edge[at])
        fits = bandwidth >= self.rules.tolerance * least[index]
        index, at, bandwidth, hops = index[fits], at[fits], bandwidth[fits], hops[fits]
        order = np.lexsort((self.node[at], -bandwidth, hops, index))
        first = order[arrays.run_starts(index[order])]
        best = np.full(len(actor), arrays.NONE)
        best[index[first]] = at[first]
        return best

    def ask(self, asker: np.ndarray, asked: np.ndarray) -> None:
        """Adopt or refuse the nodes `asker`, which ask the nodes `asked` for adoption: E10."""
        self._send(ADOPT, asker, self.node[asked])
        lost, waits = self._refused(asker, asked)
        searches = self.parent[asker] < 0
        self._begin_anew(asker[searches & lost])
        taken = ~(lost | waits)
        self.moves += int(np.count_nonzero(taken & ~searches))
        self.adopt(asker[taken], asked[taken])

    def _refused(self, asker: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the masks of askers that lose (the node is unattached or below) and that wait."""
        moves = np.zeros(len(self), dtype=bool)
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
        """Make each `child` (row) a child of its `parent`; the child tells what it knows: E11."""
        self.number[child], self.parent[child], self.current[child] = self.now, parent, arrays.NONE
        self.children.put(self._edge_key(child), last=self.now, number=self.now)
        nothing = np.empty(0, dtype=np.int64)
        self._tell(child, nothing, nothing)
        phase = self._draw("evaluation", child, self.now) % np.uint64(self.rules.evaluation)
        later = self.now + 1 + phase.astype(np.int64)
        self.next_evaluation[child] = np.where(self.rank[child] < 0, later, arrays.NONE)
        self.next_check_in[child] = self._next_check_in(child)

    def _send(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Count messages from members to positions."""
        self.sent.note(kind, self.group[sender], self.node[sender], to)

    # --- the state

    def tables(self) -> dict[str, Columns]:
        """Return the tables of the state; pointers to which nobody points are left out."""
        kept = self.alive.copy()
        kept[self.parent[self.parent >= 0]] = True
        kept &= (self.root >= 0)[self.of]
        columns = {name: getattr(self, name) for name in (*self.columns(), "group", "node")}
        columns["parent"] = np.where(self.parent < 0, arrays.NONE, self.node[self.parent])
        known = {CHILDREN: self.children, CERTIFICATES: self.certificates}
        return {MEMBERS: take(columns, kept)} | {
            name: {"group": table.groups(self.size), **table.to_columns()}
            for name, table in known.items()
        }
