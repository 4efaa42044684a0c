"""A period of Narada: members exchange what they know, and add and drop links of the mesh.

A member knows all members of its group, and has links to a few, its neighbours; all links are the
*mesh*.  In each period a member sends a vector to its neighbours: of each member the refresh
number, the cost of the way over the mesh, and whether the way leads back over the receiver.  From
the vectors of its neighbours it computes its next one.  It probes one drawn member, and adds a link
if that makes many ways much shorter; it drops the link of least use, and probes silent members.

Rules: docs/rules.md, D1 to D13.  All members play a rule at once, on the state before the period.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE, distinct, find_sorted, least_of, sums_at
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.rounds.grown_overlays import NumberedNodes, Sent
from scribe_spark.systems.narada import LIMIT, VECTOR_BYTES
from scribe_spark.systems.narada.meshes import UNREACHABLE, WAITING, Meshes

if TYPE_CHECKING:  # not on executors
    from scribe_spark.rounds.grown_overlays import Period
    from scribe_spark.systems.narada.config import NaradaConfig

#: The bytes of a vector: of all, and of each entry.
_HEAD, _ENTRY = 28, 20

#: The unit of utilities: a way that becomes shorter by all of its length counts as much.
_WHOLE = 2**20


class NaradaPeriod:
    """The rules of a period, for the groups of a builder; :meth:`play` has their order."""

    def __init__(self, rules: NaradaConfig, state: dict[str, Columns], period: Period) -> None:
        self._rules, self._period, self._state = rules, period, state
        self._now, self._network = period.number, period.network
        self._ring = period.network.ring
        self._meshes = Meshes.of(state, len(self._ring))
        #: newcomers who have not begun to join, and the periods in which they begin
        self._waiting = NumberedNodes.from_state(state, WAITING, len(self._ring))
        self._sent = Sent()

    def play(self) -> dict[str, Columns]:
        """Play the period, replace the state, and return the messages by kind."""
        self._hear_events()
        self._hear_numbers()
        self._drop_silent()
        adds = self._add()
        self._drop_useless()
        repairs = self._repair()
        self._exchange()
        self._link(*(np.concatenate(ends) for ends in zip(adds, repairs, strict=True)))
        self._change_entries()
        self._send_vectors()
        waiting = self._waiting.to_state(len(self._ring))
        self._state |= {WAITING: waiting, **self._meshes.tables()}
        return self._sent.by_kind()

    def _send(self, kind: str, a: np.ndarray, b: np.ndarray) -> None:
        """Count messages from entries `a` to entries `b`."""
        of = self._meshes
        self._sent.note(kind, of.group[a], of.node[a], of.node[b])

    def _give_up(self, e: np.ndarray, m: np.ndarray) -> None:
        """Note that entries `e` count the entries `m` as dead."""
        self._period.give_up(self._meshes.group[e], self._meshes.node[e], self._meshes.node[m])

    def _draw(self, purpose: str, e: np.ndarray, *more: np.ndarray | int) -> np.ndarray:
        """Return random bits of each entry `e`, keyed by its group, its node and `more`: uint64."""
        of = self._meshes
        return self._period.draw(f"narada {purpose}", of.group[e], of.node[e], *more)

    # --- events (rule D2)

    def _hear_events(self) -> None:
        """Let members quit and die; let newcomers wait until they begin to join."""
        of, period, size = self._meshes, self._period, len(self._ring)
        dies = ~period.alive
        dies[period.died] = True
        quits = key_of(period.quit, size)
        self._quit(find_sorted(quits, of.key) >= 0)
        of.is_in &= ~dies[of.node]
        of.keep_links(of.is_in[of.a] | of.is_in[of.b])
        waits = self._waiting.key
        self._waiting.keep(~dies[waits % size] & (find_sorted(quits, waits) < 0))
        self._join(key_of(period.join, size))

    def _quit(self, quits: np.ndarray) -> None:
        """End all links of members that `quits` (a mask) marks, and tell their neighbours."""
        of = self._meshes
        quits &= of.is_in
        told = quits[of.a]
        self._send("unlink", of.a[told], of.b[told])
        of.keep_links(~told & ~quits[of.b])
        of.is_in &= ~quits

    def _join(self, joins: np.ndarray) -> None:
        """Note newcomers (keys), which wait; those of a new group begin in random later periods."""
        of, size = self._meshes, len(self._ring)
        members = distinct(np.r_[of.key[of.is_in], self._waiting.key])
        joins = joins[find_sorted(members, joins) < 0]
        group, node = np.divmod(joins, size)
        drawn = self._period.draw("narada begin", group, node)
        later = (drawn % np.uint64(self._rules.join_periods)).astype(np.int64)
        later[find_sorted(distinct(members // size), group) >= 0] = 0
        self._waiting.insert(joins, number=self._now + later)
        # those that were members know nobody, and are nobody's neighbours
        back = find_sorted(joins, of.key) >= 0
        of.keep_links(~back[of.a] & ~back[of.b])
        of.forget(of.rows_of(np.flatnonzero(back))[1])
        self._period.refuse_large_groups("narada", np.r_[members, joins] // size, *LIMIT)

    # --- what neighbours have sent at the end of the last period (rules D3, D4)

    def _hear_numbers(self) -> None:
        """Record higher refresh numbers in the vectors of neighbours, and unknown members."""
        of = self._meshes
        heard, number = of.cells["heard"], of.cells["number"]
        told = np.where(heard >= 0, number, NONE)
        best = np.full_like(number, NONE)
        for squares in of.squares:
            numbers = squares.take(told)
            highest = np.full_like(numbers, NONE)
            for link in squares.slots(of.is_in):
                a, b = squares.rows(of.a[link]), squares.rows(of.b[link])
                highest[a] = np.maximum(highest[a], numbers[b])
            squares.put(best, highest)
        mine = self._own_cells()
        best[mine] = self._now
        news = best > number
        number[news], heard[news] = best[news], self._now

    def _own_cells(self) -> np.ndarray:
        """Return the cells of members about themselves, by ascending entries."""
        e = np.flatnonzero(self._meshes.is_in)
        return self._meshes.cell(e, e)

    def _silence(self, cells: np.ndarray) -> np.ndarray:
        """Return the periods since the entries of cells last received a higher refresh number."""
        return self._now - self._meshes.cells["heard"][cells]

    def _drop_silent(self) -> None:
        """End links to neighbours from which no higher refresh number has come for too long."""
        of = self._meshes
        silent = self._silence(of.cell(of.a, of.b)) >= self._rules.neighbour_periods
        silent &= of.is_in[of.a]
        self._give_up(of.a[silent], of.b[silent])
        of.end_links(of.a[silent], of.b[silent])
        self._known = of.known

    # --- decisions, on the costs of the last period (rules D5 to D8)

    def _add(self) -> tuple[np.ndarray, np.ndarray]:
        """Let members probe a drawn member each; return the links worth adding (D6, D7)."""
        of, degree = self._meshes, self._meshes.degree
        asks = of.is_in & (degree < self._rules.degree)
        silence = self._now - of.cells["heard"]
        there = self._strangers() & (silence < self._rules.neighbour_periods)
        number, drawn = self._ring.node[of.node], self._draw("add", np.arange(len(asks)), self._now)
        j = np.full(len(asks), NONE)
        for squares in of.squares:
            some = np.flatnonzero(asks[squares.e])
            e, may = squares.e[some], squares.take(there)[some]
            bits = draws.more_bits(drawn[e, None], squares.columns(number)[some])
            least = np.where(may, bits, np.uint64(2**64 - 1)).argmin(axis=1)
            j[e] = np.where(may.any(axis=1), of.top[e] + least, NONE)
        e = np.flatnonzero(j >= 0)
        j = j[e]
        self._send("probe", e, j)
        e, j = e[of.is_in[j]], j[of.is_in[j]]
        self._send("answer", j, e)
        free = degree[j] < self._rules.degree
        e, j = e[free], j[free]
        useful = self._utility(e, j) / _WHOLE > self._least_use(e, degree[e], degree[j])
        self._send("link", e[useful], j[useful])
        return e[useful], j[useful]

    def _strangers(self) -> np.ndarray:
        """Return True for cells of members about other known members that are no neighbours."""
        of = self._meshes
        known = of.cells["heard"] >= 0
        known[of.cell(of.a, of.b)] = False
        known[self._own_cells()] = False
        return known

    def _utility(self, e: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return by which shares (in `_WHOLE`) links from `e` to `j` shorten the ways of `e`."""
        of, use, direct = self._meshes, np.zeros(len(e), dtype=np.int64), self._distances(e, j)
        for squares in of.squares:
            some = np.flatnonzero(squares.rows(e) >= 0)
            row, beside = squares.rows(e[some]), squares.rows(j[some])
            heard, cost = (squares.take(of.cells[name]) for name in ("heard", "cost"))
            new = direct[some, None] + cost[beside]
            of_link, column = np.nonzero((new < cost[row]) & (heard[row] >= 0))
            old = cost[row[of_link], column].astype(np.int64)
            gain = (old - new[of_link, column]) * _WHOLE // np.maximum(old, 1)
            use[some] = sums_at(of_link, np.where(old < UNREACHABLE, gain, _WHOLE), len(some))
        return use

    def _least_use(self, e: np.ndarray, degree: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the least use of a link of the members `e`, by the degrees of both ends (D8)."""
        return self._rules.threshold * (self._known[e] * degree * other)

    def _drop_useless(self) -> None:
        """End each member's link of least use, if this use is little (D8)."""
        of, degree = self._meshes, self._meshes.degree
        a, b, rules = of.a, of.b, self._rules
        ways = self._ways_over_links()
        ways = np.maximum(ways, ways[of.find_links(b, a)])
        may = of.is_in[a] & (degree[a] >= 2) & (degree[b] >= 2)
        may &= self._silence(of.cell(a, b)) == 0
        may &= self._now - of.since >= rules.young_periods
        link = np.flatnonzero(may)
        link = link[np.lexsort((ways[link], a[link]))]
        link = link[np.unique(a[link], return_index=True)[1]]
        a, b, ways = a[link], b[link], ways[link]
        useless = ways < self._least_use(a, degree[a] - 1, degree[b] - 1)
        useless |= (degree[a] > rules.many_links) & (2 * ways < self._known[a])
        a, b = a[useless], b[useless]
        # of the drops that touch a member, only one may be
        first = np.full(len(of.node), len(of.node))
        np.minimum.at(first, a, a)
        np.minimum.at(first, b, a)
        agreed = (first[a] == a) & (first[b] == a)
        self._send("unlink", a[agreed], b[agreed])
        of.end_links(a[agreed], b[agreed])

    def _ways_over_links(self) -> np.ndarray:
        """Return for each link how many members are reached over it from its first end."""
        of = self._meshes
        ways = np.zeros(len(of.a), dtype=np.int64)
        for squares in of.squares:
            next = squares.take(of.cells["next"])
            for link in squares.slots(np.ones_like(of.is_in)):
                over = next[squares.rows(of.a[link])] == of.node[of.b[link], None]
                ways[link] = np.count_nonzero(over, axis=1)
        return ways

    def _repair(self) -> tuple[np.ndarray, np.ndarray]:
        """Probe members that have been silent for long; return the links to live ones (D5)."""
        of = self._meshes
        heard = of.cells["heard"]
        silent = self._strangers() & (self._now - heard > self._rules.silent_periods)
        cell = np.flatnonzero(silent)
        e = of.reader(cell)
        cell, e = cell[of.is_in[e]], e[of.is_in[e]]
        count = np.bincount(e, minlength=len(of.node)).astype(np.uint64)
        of_all = self._draw("repair", np.arange(len(of.node)), self._now)
        drawn = of_all % np.maximum(self._known, 1).astype(np.uint64)
        cell = cell[(drawn < count)[e]]
        e = of.reader(cell)
        first = least_of(e, heard[cell])
        e = e[first]
        m = cell[first] - of.start[e] + of.top[e]
        self._send("probe", e, m)
        lives = of.is_in[m]
        of.cells["heard"][of.cell(e[~lives], m[~lives])] = NONE
        self._give_up(e[~lives], m[~lives])
        e, m = e[lives], m[lives]
        self._send("answer", m, e)
        self._send("link", e, m)
        return e, m

    # --- effects (rules D9 to D12)

    def _exchange(self) -> None:
        """Compute the ways (cost and next hop) of members from their neighbours' vectors (D9)."""
        of = self._meshes
        old, node = of.cells, of.node.astype(np.int32)
        distance = np.minimum(of.distance, UNREACHABLE).astype(np.int32)
        computes, mine = np.repeat(of.is_in, of.width), self._own_cells()
        new_cost = np.where(computes, UNREACHABLE, old["cost"]).astype(np.int32)
        new_way = np.where(computes, NONE, old["next"]).astype(np.int32)
        new_cost[mine], new_way[mine] = 0, of.node[of.is_in]
        for squares in of.squares:
            cost, way = (squares.take(old[name]) for name in ("cost", "next"))
            best, over = squares.take(new_cost), squares.take(new_way)
            for link in squares.slots(of.is_in):
                a, b = of.a[link], of.b[link]
                row, beside, least = squares.rows(a), squares.rows(b), best[squares.rows(a)]
                found = cost[beside] + distance[link, None]
                better = (found < least) & (way[beside] != node[a, None])
                best[row] = np.where(better, found, least)
                over[row] = np.where(better, node[b, None], over[row])
            squares.put(new_cost, best)
            squares.put(new_way, over)
        lacks = computes & (old["heard"] < 0)
        new_cost[lacks], new_way[lacks] = UNREACHABLE, NONE
        of.cells |= {"cost": new_cost, "next": new_way}

    def _link(self, a: np.ndarray, b: np.ndarray) -> None:
        self._meshes.add_links(a, b, self._now, self._distances(a, b))

    def _distances(self, e: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the distances between entries: the means of both delays, in us (D1)."""
        return self._network.round_trips(self._meshes.node[e], self._meshes.node[j]) // 2

    def _change_entries(self) -> None:
        """Remove entries that nobody knows; add newcomers, with links to drawn members (D11)."""
        of = self._meshes
        kept, known = self._waiting.has(of.key), of.cells["heard"] >= 0
        for squares in of.squares:
            kept[squares.e] |= squares.any_row(squares.take(known) & of.is_in[squares.e, None])
        due = self._waiting.number <= self._now
        newcomers = self._waiting.key[due]
        self._waiting.keep(~due)
        more = newcomers[find_sorted(of.key[kept], newcomers) < 0]
        if len(more) or not kept.all():
            self._meshes = of.replaced(kept, more)
        if len(newcomers):
            self._begin_joining(find_sorted(self._meshes.key, newcomers))

    def _begin_joining(self, e: np.ndarray) -> None:
        """Let newcomers (entries `e`), one after the other, link drawn members."""
        of = self._meshes
        of.is_in[e] = True
        mine = of.cell(e, e)
        of.cells["heard"][mine] = of.cells["number"][mine] = self._now
        of.cells["cost"][mine], of.cells["next"][mine] = 0, of.node[e]
        later = np.full(len(of.node), NONE)
        later[e] = e
        row, _, column = of.rows_of(e)
        place = np.flatnonzero(of.is_in[column] & (later[column] < e[row]))
        row, column = row[place], column[place]
        drawn = draws.more_bits(self._draw("join", e)[row], self._ring.node[of.node[column]])
        order = np.lexsort((drawn, row))
        row, column = row[order], column[order]
        first = np.arange(len(row)) - np.searchsorted(row, row) < self._rules.contacts
        e, column = e[row[first]], column[first]
        self._send("link", e, column)
        self._link(e, column)

    def _send_vectors(self) -> None:
        """Let members send vectors to their neighbours (D12); count bytes, also of answers."""
        of = self._meshes
        sends = of.is_in[of.a]
        self._send("vector", of.a[sends], of.b[sends])
        sent, known = self._sent.by_kind(), of.known
        told = [of.find(sent[kind]["group"], sent[kind]["sender"]) for kind in ("vector", "answer")]
        size = _HEAD + _ENTRY * known[np.concatenate(told)]
        self._period.counts[VECTOR_BYTES] = int(size.sum())
