"""A period of Narada: members exchange what they know, and add and drop links of the mesh.

Each member knows all members of its group.  It keeps links to a few of them, its neighbours; the
links of all members are the *mesh*.  In each period a member sends a vector to its neighbours: for
each member the refresh number, the cost of the way over the mesh, and whether the way leads back
over the receiver.  From the vectors of its neighbours it computes its own next one, as routers with
distance vectors do.  It probes one drawn member, and adds a link if that makes many ways much
shorter; it drops the link of least use.  It also probes members of whom it has not heard, since the
mesh may have come apart.

The rules are D1 to D13 in docs/rules.md.  All members of all groups play a rule at once, on the
state in which the period began.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE, distinct, find_sorted
from scribe_spark.core.errors import InputError
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.systems.narada import MOST_MEMBERS, TOO_MANY
from scribe_spark.systems.narada.meshes import UNREACHABLE, WAITING, CellRows, Meshes, read_waiting
from scribe_spark.underlay.protocol import node_delays

if TYPE_CHECKING:  # not on executors
    from scribe_spark.rounds.grown_overlays import Period
    from scribe_spark.systems.narada.config import NaradaConfig

#: The unit of utilities: a way that becomes shorter by all of its length counts as much.
_WHOLE = 2**20


def distances(network: Network, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the mean delays of both directions between nodes, in whole microseconds (D1)."""
    ends = network.ring.router[a], network.ring.router[b]
    there = node_delays(network.kernel, network.lan_us, *ends)
    return (there + node_delays(network.kernel, network.lan_us, *ends[::-1])) // 2


class NaradaPeriod:
    """A period of the groups of a builder; :meth:`play` has the order of its rules."""

    def __init__(self, rules: NaradaConfig, state: dict[str, Columns], period: Period) -> None:
        self._rules, self._period, self._state = rules, period, state
        self._now, self._network = period.number, period.network
        self._ring = period.network.ring
        self._meshes = Meshes.of(state, len(self._ring))
        self._waiting = read_waiting(state)
        self._sent: dict[str, list[Columns]] = defaultdict(list)

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
        self._state |= {WAITING: self._waiting, **self._meshes.tables()}
        return {kind: concatenate(parts) for kind, parts in self._sent.items()}

    def _send(self, kind: str, a: np.ndarray, b: np.ndarray) -> None:
        """Count messages from entries `a` to entries `b`."""
        of = self._meshes
        rows = {"group": of.group[a], "sender": of.node[a], "to": of.node[b]}
        self._sent[kind].append(rows)

    def _draw(self, purpose: str, e: np.ndarray, *more: np.ndarray | int) -> np.ndarray:
        """Return a draw of each entry."""
        of = self._meshes
        keys = self._period.group_number[of.group[e]], self._ring.node[of.node[e]]
        return draws.bits_np(self._network.seed, f"narada {purpose}", *keys, *more)

    # --- events (rule D2)

    def _hear_events(self) -> None:
        of, alive = self._meshes, self._period.alive
        gone = ~alive[of.node] | (find_sorted(self._period.died, of.node) >= 0)
        self._quit(of.find(*self._period.quit))
        of.is_in &= ~gone
        of.keep_links(of.is_in[of.a] | of.is_in[of.b])
        waits = alive[self._waiting["node"]]
        waits &= find_sorted(self._period.died, self._waiting["node"]) < 0
        waits &= find_sorted(self._key(*self._period.quit), self._waiting_key()) < 0
        self._waiting = take(self._waiting, waits)
        self._join(*self._period.join)
        self._check_sizes()

    def _key(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        return key_of([group, node], len(self._ring))

    def _waiting_key(self) -> np.ndarray:
        return self._key(self._waiting["group"], self._waiting["node"])

    def _quit(self, e: np.ndarray) -> None:
        """End all links of members that say so."""
        of = self._meshes
        quits = np.zeros(len(of.node), dtype=bool)
        quits[e[e >= 0]] = True
        quits &= of.is_in
        told = quits[of.a]
        self._send("unlink", of.a[told], of.b[told])
        of.keep_links(~told & ~quits[of.b])
        of.is_in &= ~quits

    def _join(self, group: np.ndarray, node: np.ndarray) -> None:
        """Let newcomers wait for their turn; those of a new group come in a drawn order."""
        of, size = self._meshes, len(self._ring)
        members = distinct(np.r_[of.key[of.is_in], self._waiting_key()])
        new = find_sorted(members, self._key(group, node)) < 0
        group, node = group[new], node[new]
        begins = np.full(len(group), self._now)
        first = np.flatnonzero(find_sorted(distinct(members // size), group) < 0)
        keys = self._period.group_number[group[first]], self._ring.node[node[first]]
        drawn = draws.bits_np(self._network.seed, "narada begin", *keys)
        begins[first] += (drawn % np.uint64(self._rules.join_periods)).astype(np.int64)
        parts = self._waiting, {"group": group, "node": node, "begins": begins}
        self._waiting = concatenate(parts)
        self._waiting = take(self._waiting, np.argsort(self._waiting_key()))
        back = of.find(group, node)
        self._come_back(back[back >= 0])

    def _come_back(self, e: np.ndarray) -> None:
        """Let entries know nobody, as newcomers, and nobody be their neighbour."""
        of = self._meshes
        back = np.zeros(len(of.node), dtype=bool)
        back[e] = True
        of.keep_links(~back[of.a] & ~back[of.b])
        of.forget(of.rows(e).cell)

    def _check_sizes(self) -> None:
        """Refuse groups whose cells would be too many."""
        of, groups = self._meshes, len(self._period.group_number)
        group = np.r_[of.group[of.is_in], self._waiting["group"]]
        members = np.bincount(group, minlength=groups)
        if members.max(initial=0) > MOST_MEMBERS:
            which = int(members.argmax())
            number, count = self._period.group_number[which], int(members[which])
            remedy = f"has {count:,} members in group {number}; {TOO_MANY}"
            raise InputError("systems", "narada", remedy)

    # --- what neighbours have sent at the end of the last period (rules D3, D4)

    def _hear_numbers(self) -> None:
        """Note higher refresh numbers, and the members that are heard of first by them."""
        of = self._meshes
        heard, number = of.cells["heard"], of.cells["number"]
        told = np.where(heard >= 0, number, NONE)
        best = np.full_like(number, NONE)
        for link in of.by_slot(of.is_in):
            rows = of.rows(of.a[link])
            best[rows.cell] = np.maximum(best[rows.cell], told[rows.beside(of.b[link])])
        mine = self._own_cells()
        best[mine] = self._now
        news = best > number
        number[news], heard[news] = best[news], self._now

    def _own_cells(self) -> np.ndarray:
        """Return the cells of members about themselves."""
        e = np.flatnonzero(self._meshes.is_in)
        return self._meshes.cell(e, e)

    def _silence(self, cells: np.ndarray) -> np.ndarray:
        """Return the periods since the last receipt of a higher number."""
        return self._now - self._meshes.cells["heard"][cells]

    def _drop_silent(self) -> None:
        """End the links to neighbours that have been silent for too long."""
        of = self._meshes
        silent = self._silence(of.cell(of.a, of.b)) >= self._rules.neighbour_periods
        silent &= of.is_in[of.a]
        of.end_links(of.a[silent], of.b[silent])
        self._known = of.known

    # --- decisions, on the costs of the last period (rules D5 to D8)

    def _add(self) -> tuple[np.ndarray, np.ndarray]:
        """Probe a drawn member each; return the links that make ways much shorter (D6, D7)."""
        of, degree = self._meshes, self._meshes.degree
        e = np.flatnonzero(of.is_in & (degree < self._rules.degree))
        rows = of.rows(e)
        place = self._strangers(rows)
        place = place[self._silence(rows.cell[place]) < self._rules.neighbour_periods]
        drawn = draws.more_bits(
            self._draw("add", e, self._now)[rows.of[place]],
            self._ring.node[of.node[rows.column(place)]],
        )
        j = rows.least(place, drawn)
        e, j = e[j >= 0], j[j >= 0]
        self._send("probe", e, j)
        e, j = e[of.is_in[j]], j[of.is_in[j]]
        self._send("answer", j, e)
        free = degree[j] < self._rules.degree
        e, j = e[free], j[free]
        useful = self._utility(e, j) / _WHOLE > self._least_use(e, degree[e], degree[j])
        self._send("link", e[useful], j[useful])
        return e[useful], j[useful]

    def _strangers(self, rows: CellRows) -> np.ndarray:
        """Return the places in rows of known members that are no neighbours."""
        of = self._meshes
        known = of.cells["heard"] >= 0
        known[of.cell(of.a, of.b)] = False
        known[of.cell(rows.e, rows.e)] = False
        return np.flatnonzero(known[rows.cell])

    def _utility(self, e: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return by how much links from `e` to `j` shorten the ways of `e`, in `_WHOLE`."""
        of, rows = self._meshes, self._meshes.rows(e)
        cost = of.cells["cost"]
        direct = distances(self._network, of.node[e], of.node[j])
        old, new = cost[rows.cell], rows.each(direct) + cost[rows.beside(j)]
        gain = np.zeros(len(old), dtype=np.int64)
        shorter = np.flatnonzero((new < old) & (of.cells["heard"][rows.cell] >= 0))
        old, new = old[shorter].astype(np.int64), new[shorter]
        gain[shorter] = np.where(old < UNREACHABLE, (old - new) * _WHOLE // old, _WHOLE)
        return rows.sums(gain)

    def _least_use(self, e: np.ndarray, degree: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the use that a link must have, from the members known and the degrees."""
        return self._rules.threshold * (self._known[e] * degree * other)

    def _drop_useless(self) -> None:
        """End the link of least use of each member, if that is little (D8)."""
        of, degree = self._meshes, self._meshes.degree
        a, b, rules = of.a, of.b, self._rules
        ways = self._ways_over_links()
        ways = np.maximum(ways, ways[of.find_links(b, a)])
        may = of.is_in[a] & (degree[a] >= 2) & (degree[b] >= 2)
        may &= self._silence(of.cell(a, b)) == 0
        may &= self._now - of.since >= rules.young_periods
        link = np.flatnonzero(may)
        link = link[np.lexsort((ways[link], a[link]))]
        link = link[np.r_[True, a[link[1:]] != a[link[:-1]]]] if len(link) else link
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
        """Return for each link the number of members that its first end reaches over it."""
        of = self._meshes
        ways = np.zeros(len(of.a), dtype=np.int64)
        for link in of.by_slot(np.ones(len(of.node), dtype=bool)):
            rows = of.rows(of.a[link])
            ways[link] = rows.sums(of.cells["next"][rows.cell] == rows.each(of.node[of.b[link]]))
        return ways

    def _repair(self) -> tuple[np.ndarray, np.ndarray]:
        """Probe silent members; return links to those that live, and forget the others (D5)."""
        of = self._meshes
        e = np.flatnonzero(of.is_in)
        rows = of.rows(e)
        place = self._strangers(rows)
        place = place[self._silence(rows.cell[place]) > self._rules.silent_periods]
        silent = np.bincount(rows.of[place], minlength=len(e))
        drawn = self._draw("repair", e, self._now) % self._known[e].astype(np.uint64)
        probes = drawn < silent.astype(np.uint64)
        place = place[probes[rows.of[place]]]
        m = rows.least(place, of.cells["heard"][rows.cell[place]])
        e, m = e[m >= 0], m[m >= 0]
        self._send("probe", e, m)
        lives = of.is_in[m]
        of.cells["heard"][of.cell(e[~lives], m[~lives])] = NONE
        e, m = e[lives], m[lives]
        self._send("answer", m, e)
        self._send("link", e, m)
        return e, m

    # --- effects (rules D9 to D12)

    def _exchange(self) -> None:
        """Compute the ways of all members from the vectors of their neighbours (D9)."""
        of = self._meshes
        knows, cost, way = (of.cells[name] for name in ("heard", "cost", "next"))
        rows = of.rows(np.flatnonzero(of.is_in))
        new_cost, new_way = cost.copy(), way.copy()
        new_cost[rows.cell], new_way[rows.cell] = UNREACHABLE, NONE
        mine = self._own_cells()
        new_cost[mine], new_way[mine] = 0, of.node[of.is_in]
        for link in of.by_slot(of.is_in):
            a, b = of.a[link], of.b[link]
            rows = of.rows(a)
            beside = rows.beside(b)
            found = cost[beside] + rows.each(of.distance[link])
            better = found < new_cost[rows.cell]
            better &= way[beside] != rows.each(of.node[a])
            better &= knows[rows.cell] >= 0
            better = np.flatnonzero(better)
            cell = rows.cell[better]
            new_cost[cell], new_way[cell] = found[better], of.node[b][rows.of[better]]
        of.cells |= {"cost": new_cost, "next": new_way}

    def _link(self, a: np.ndarray, b: np.ndarray) -> None:
        """Begin links."""
        of = self._meshes
        of.add_links(a, b, self._now, distances(self._network, of.node[a], of.node[b]))

    def _change_entries(self) -> None:
        """Remove entries that nobody knows; let newcomers link drawn members (D11, D12)."""
        of = self._meshes
        rows = of.rows(np.flatnonzero(of.is_in))
        known = rows.column(np.flatnonzero(of.cells["heard"][rows.cell] >= 0))
        kept = np.bincount(known, minlength=len(of.node)) > 0
        due = self._waiting["begins"] <= self._now
        newcomers = self._waiting_key()[due]
        self._waiting = take(self._waiting, ~due)
        more = newcomers[find_sorted(of.key[kept], newcomers) < 0]
        if len(more) or not kept.all():
            self._meshes = of.replaced(kept, more)
        if len(newcomers):
            self._begin_joining(find_sorted(self._meshes.key, newcomers))

    def _begin_joining(self, e: np.ndarray) -> None:
        """Let newcomers, one after the other, link drawn members."""
        of = self._meshes
        of.is_in[e] = True
        mine = of.cell(e, e)
        of.cells["heard"][mine] = of.cells["number"][mine] = self._now
        of.cells["cost"][mine], of.cells["next"][mine] = 0, of.node[e]
        later = np.full(len(of.node), NONE)
        later[e] = e
        rows = of.rows(e)
        column = rows.column()
        place = np.flatnonzero(of.is_in[column] & (later[column] < rows.each(e)))
        row, column = rows.of[place], column[place]
        drawn = draws.more_bits(self._draw("join", e)[row], self._ring.node[of.node[column]])
        order = np.lexsort((drawn, row))
        row, column = row[order], column[order]
        first = np.arange(len(row)) - np.searchsorted(row, row) < self._rules.contacts
        e, column = e[row[first]], column[first]
        self._send("link", e, column)
        self._link(e, column)

    def _send_vectors(self) -> None:
        """Let each member send its vector to its neighbours."""
        of = self._meshes
        sends = of.is_in[of.a]
        self._send("vector", of.a[sends], of.b[sends])
