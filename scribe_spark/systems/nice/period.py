"""A period of NICE: newcomers descend through the layers, members beat, leaders mend clusters.

The layers are mended from 0 up, all clusters of a layer at once.  A change of the leaders of a
layer is a change of the members of the next one, whose turn comes then.  Rules: docs/rules.md, V1
to V8.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    expand,
    find_sorted,
    index_in_run,
    run_starts,
    whole_numbers,
    without,
)
from scribe_spark.engine import Columns
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.nice.halves import halves
from scribe_spark.systems.nice.hierarchy import (
    Clusters,
    Distances,
    Layer,
    layer_table,
    read_layers,
    tops,
)

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.nice.config import NiceConfig

#: The tables of the state.
CLUSTERS, SILENT, WAITING = "clusters", "silent", "waiting"


class Sent:
    """The messages of a period, by kind, and their bytes."""

    def __init__(self, rules: NiceConfig, size: int) -> None:
        self._rules, self._size, self.bytes = rules, size, 0
        self._rows: dict[str, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)

    def send(self, kind: str, sender: np.ndarray, to: np.ndarray, entries: Any = 0) -> None:
        """Send messages between seats of a group; `entries` are the members that each contains."""
        if len(sender):
            self._rows[kind].append((sender, to))
            self.bytes += self._rules.message_bytes * len(sender)
            self.bytes += self._rules.entry_bytes * int(np.sum(entries))

    def by_kind(self) -> dict[str, Columns]:
        """Return the messages as `GrownOverlays.play_period` does."""
        found = {}
        for kind, rows in self._rows.items():
            sender, to = (np.concatenate(ends) for ends in zip(*rows, strict=True))
            group, node = np.divmod(sender, self._size)
            found[kind] = {"group": group, "sender": node, "to": to % self._size}
        return found


class NicePeriod:
    """The state of a builder's groups in a period, and the rules that change it.

    Nodes in groups are keys (group, node); `_mute` are those with seats that do not answer.
    """

    def __init__(self, rules: NiceConfig, state: dict[str, Columns], period: Period) -> None:
        self._rules, self._period, self._size = rules, period, len(period.network.ring)
        self._distances = Distances(period.network)
        self._layers = read_layers(state.get(CLUSTERS), self._size)
        self._silent, self._missed = self._pairs(state.get(SILENT), "periods")
        self._waiting, self._start = self._pairs(state.get(WAITING), "start")
        self._quits = self._departs = whole_numbers()
        self.sent = Sent(rules, self._size)

    def _pairs(self, rows: Columns | None, column: str) -> tuple[np.ndarray, np.ndarray]:
        if rows is None:
            return whole_numbers(), whole_numbers()
        return rows["group"] * self._size + rows["node"], rows[column]

    def play(self) -> None:
        """Play the period."""
        self.take_events()
        groups, top, head = tops(self._layers, self._size)
        self._head = head[find_sorted(self._departs, head) < 0]  # the rendezvous points
        newcomers, leader = self.join(groups, top, head)
        self.beat()
        if len(newcomers):
            first = self._layers[:1] or [Layer()]
            self._layers[:1] = [first[0].with_seats(newcomers, leader)]
        self._count("joins", newcomers)
        self._lost = whole_numbers()
        number = 0
        while number < len(self._layers):
            self._mend(number)
            number += 1
        self.dissolve()

    def state(self) -> dict[str, Columns]:
        """Return the tables of the state."""
        found = {CLUSTERS: layer_table(self._layers, self._size)} if self._layers else {}
        names = (SILENT, "periods", self._silent, self._missed), (
            WAITING, "start", self._waiting, self._start,
        )  # fmt: skip
        for name, column, key, value in names:
            group, node = np.divmod(key, self._size)
            found[name] = {"group": group, "node": node, column: value}
        return found

    def _count(self, name: str, events: np.ndarray) -> None:
        counts = self._period.counts
        counts[name] = counts.get(name, 0) + len(events)

    def _answers(self, key: np.ndarray) -> np.ndarray:
        """Mark the nodes that are neither silent nor departing."""
        return find_sorted(self._mute, key) < 0

    # --- before the layers

    def take_events(self) -> None:
        """Note who is silent, departs or wants to join: rule V1."""
        period, size = self._period, self._size
        join, quit = (pair[0] * size + pair[1] for pair in (period.join, period.quit))
        seated = self._layers[0].key if self._layers else whole_numbers()
        # 1. the dead
        dead = seated[find_sorted(period.died, seated % size) >= 0]
        self._keep_silent(distinct(np.r_[self._silent, dead]))
        self._keep_waiting(period.alive[self._waiting % size])
        # 2. quits, and nodes that are back before their silence was noticed
        has_seat = find_sorted(seated, quit) >= 0
        self._quits = quit[has_seat & (find_sorted(self._silent, quit) < 0)]
        self._keep_waiting(find_sorted(quit, self._waiting) < 0)
        back = join[find_sorted(seated, join) >= 0]
        self._keep_silent(without(self._silent, back))
        # 3. newcomers
        spread = np.zeros(len(join), dtype=np.int64)
        if period.network.in_run or not period.number:
            spread = self._spread(join)
        waiting = np.r_[self._waiting, join]
        order = np.argsort(waiting, kind="stable")
        self._waiting = waiting[order]
        self._start = np.r_[self._start, period.number + spread][order]
        # 4. one more heartbeat is missed
        self._missed = self._missed + 1
        noticed = self._missed >= self._rules.silence
        self._departs = distinct(np.r_[self._quits, back, self._silent[noticed]])
        self._silent, self._missed = self._silent[~noticed], self._missed[~noticed]
        self._mute = distinct(np.r_[self._silent, self._departs])

    def _keep_silent(self, key: np.ndarray) -> None:
        at = find_sorted(self._silent, key)
        had = self._missed[at] if len(self._missed) else 0
        self._silent, self._missed = key, np.where(at < 0, 0, had)

    def _keep_waiting(self, some: np.ndarray) -> None:
        self._waiting, self._start = self._waiting[some], self._start[some]

    def _spread(self, key: np.ndarray) -> np.ndarray:
        """Return the number of periods after which members begin to join."""
        network = self._period.network
        periods = self._rules.join_periods or (40 if network.in_run else 6)
        group, node = np.divmod(key, self._size)
        numbers = self._period.group_number[group], network.ring.node[node]
        drawn = draws.bits_np(network.seed, "nice join", *numbers)
        return (drawn % np.uint64(periods)).astype(np.int64)

    def join(
        self, groups: np.ndarray, top: np.ndarray, head: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Let newcomers descend from the top; return them and their leaders: rule V2.

        `groups` have members; `top` and `head` are the top layers and their leaders.
        """
        begins = np.flatnonzero(self._start <= self._period.number)
        key = self._waiting[begins]
        at = find_sorted(groups, key // self._size)
        # 1. the first member of a group
        new = np.flatnonzero(at < 0)
        order = new[np.lexsort((key[new], self._start[begins[new]], key[new] // self._size))]
        first = key[order[run_starts(key[order] // self._size)]]
        # 2. all others ask the rendezvous point
        key, at = key[at >= 0], at[at >= 0]
        self.sent.send("query", key, head[at])
        heard = self._answers(head[at])
        key, top, now = key[heard], top[at[heard]], head[at[heard]]
        for number in range(int(top.max(initial=0)), -1, -1):
            mine = np.flatnonzero(top >= number)
            if number < top.max(initial=0):
                lower = mine[top[mine] > number]
                if number:
                    self.sent.send("query", key[lower], now[lower])
            clusters = self._layers[number].clusters if len(mine) else Clusters.of(key, key)
            asked = mine if number else mine[top[mine] == 0]
            self.sent.send(
                "answer", now[asked], key[asked], clusters.size[clusters.find(now[asked])]
            )
            if number:
                now[mine] = self._nearest_of(clusters, key[mine], now[mine])
        self.sent.send("join", key, now)
        newcomers, leader = np.r_[first, key], np.r_[first, now]
        order = np.argsort(newcomers)
        self._keep_waiting(find_sorted(newcomers[order], self._waiting) < 0)
        return newcomers[order], leader[order]

    def _nearest_of(self, clusters: Clusters, key: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Return the nearest member that answers, in the cluster of a leader."""
        pair, member = clusters.members_of(now)
        others = member != now[pair]
        heard = self._answers(member)
        self.sent.send("ping", key[pair[others]], member[others])
        pongs = others & heard
        self.sent.send("pong", member[pongs], key[pair[pongs]])
        pair, member = pair[heard], member[heard]
        return self._distances.nearest(pair, self._distances.trips(key[pair], member), member)[0]

    def beat(self) -> None:
        """Send heartbeats; members that do not lead measure the leaders above.

        A leader's heartbeat also has the members of the cluster above.
        """
        for layer, above in zip(self._layers, [*self._layers[1:], Layer()], strict=False):
            clusters, upper = layer.clusters, above.clusters
            answers = self._answers(clusters.member)
            size = np.repeat(clusters.size, clusters.size)
            first, end = (np.repeat(b, clusters.size) for b in (clusters.first, clusters.end))
            row, other = expand(np.where(answers, first, 0), np.where(answers, end, 0))
            some = row != other
            row, other = row[some], other[some]
            head = np.repeat(clusters.head, clusters.size)
            up = upper.find(above.head_of(head))
            known = np.where(up < 0, 0, upper.size[up]) if len(upper) else np.zeros_like(up)
            entries = size + np.where(clusters.member == head, known, 0)
            ends = clusters.member[row], clusters.member[other]
            self.sent.send("heartbeat", *ends, entries[row])
            asks = np.flatnonzero((clusters.member != head) & answers & self._answers(head))
            pair, leader = upper.members_of(above.head_of(head[asks]))
            some = leader != head[asks[pair]]
            member, leader = clusters.member[asks[pair[some]]], leader[some]
            self.sent.send("ping", member, leader)
            heard = self._answers(leader)
            self.sent.send("pong", leader[heard], member[heard])

    # --- the turn of a layer

    def _mend(self, number: int) -> None:
        """Play the turn of a layer: rules V3 to V7."""
        self._layer = self._layers[number]
        self._above = self._layers[number + 1] if number + 1 < len(self._layers) else Layer()
        #: New seats in the layer above, with their heads; and those who lose theirs.
        self._rise: list[tuple[np.ndarray, np.ndarray]] = []
        self._fall: list[np.ndarray] = []
        self.vacate()
        clusters = self._layer.clusters
        here = self._answers(self._above.key) & (clusters.find(self._above.key) >= 0)
        #: The leaders of the layer that answer, in their clusters above.
        self._leaders = self._above.take(here).clusters
        self._member_of = self._heads_above(clusters.head)
        self._move(clusters)
        self._change(self._layer.clusters)
        self._layers[number] = self._layer
        rise = self._rise or [(whole_numbers(), whole_numbers())]
        key, head = (np.concatenate(ends) for ends in zip(*rise, strict=True))
        self._lost = distinct(np.concatenate([whole_numbers(), *self._fall]))
        if len(key):
            self._layers[number + 1 : number + 2] = [self._above.with_seats(key, head)]

    def _promote(self, leader: np.ndarray, above: np.ndarray) -> None:
        """Give new leaders a seat in clusters above."""
        self._rise.append((leader, above))
        self.sent.send("add", leader, above)

    def vacate(self) -> None:
        """Remove those who depart or have lost their seat; centres lead their clusters: rule V3."""
        layer, lost = self._layer, self._lost
        departs = find_sorted(self._departs, layer.key) >= 0
        goes = departs | (find_sorted(lost, layer.key) >= 0)
        self._renamed = whole_numbers(), whole_numbers()
        if not goes.any():
            return
        key, head, departs = layer.key[goes], layer.head[goes], departs[goes]
        quits = find_sorted(self._quits, key) >= 0
        leads = key == head
        for kind, some in (("leave", quits), ("remove", ~departs)):
            self.sent.send(kind, key[some & ~leads], head[some & ~leads])
        old, speaks = key[leads], (quits | ~departs)[leads]
        above = self._above.head_of(old)
        self._fall.append(old[above >= 0])
        layer = layer.take(~goes)
        # the clusters that have members but no leader
        vacant = find_sorted(old, layer.head) >= 0
        rest = Clusters.of(layer.head[vacant], layer.key[vacant])
        new = self._distances.centres(rest, self._answers(rest.member))
        at = find_sorted(old, rest.head)
        old, speaks, above = old[at], speaks[at], above[at]
        self._layer = layer.led_by(old, new)
        self._renamed = new, above
        self.sent.send("transfer", old[speaks], new[speaks], rest.size[speaks])
        self._promote(new[above >= 0], above[above >= 0])
        self._count("new_leaders", new)

    def _heads_above(self, head: np.ndarray) -> np.ndarray:
        """Return the clusters above of clusters, also of those whose leader is new; or NONE."""
        above = self._above.head_of(head)
        new, of_new = self._renamed
        above[find_sorted(head, new)] = of_new
        return above

    def _candidates(
        self, asks: np.ndarray, leader: np.ndarray, above: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the other leaders above that answer: the index in `asks`, leader, round trip."""
        pair, other = self._leaders.members_of(above)
        some = other != leader[pair]
        pair, other = pair[some], other[some]
        return pair, other, self._distances.trips(asks[pair], other)

    def _saves(
        self, mean: tuple[np.ndarray, np.ndarray], old: np.ndarray, new: np.ndarray
    ) -> np.ndarray:
        """Mark the round trips that are enough below old ones; `mean` is a sum and a number."""
        rules, (total, number) = self._rules, mean
        gain = number * (rules.stay_percent * old - 100 * new)
        return gain > np.maximum(
            rules.mean_percent * total, 200 * number * rules.least_gain_us
        )

    def _move(self, clusters: Clusters) -> None:
        """Let members go to a leader that is much nearer: rule V4."""
        acts = (self._member_of >= 0) & self._answers(clusters.head)
        at = clusters.find(self._layer.head)
        key, leader = self._layer.key, self._layer.head
        rows = np.flatnonzero(acts[at] & (key != leader) & self._answers(key))
        pair, other, trip = self._candidates(
            key[rows], leader[rows], self._member_of[at[rows]]
        )
        if not len(pair):
            return
        start = run_starts(pair)
        rows = rows[pair[start]]
        number = np.diff(start, append=len(pair)) + 1
        stays = self._distances.trips(key[rows], leader[rows])
        total = np.add.reduceat(trip, start) + stays
        goal, near = self._distances.nearest(pair, trip, other)
        wants = self._saves((total, number), stays, near)
        gain = self._rules.stay_percent * stays - 100 * near
        rows, goal, gain = rows[wants], goal[wants], gain[wants]
        if self._rules.guard:
            may_go = self._first_of_each(
                leader[rows], gain, key[rows], clusters, clusters.size - self._rules.k
            )
            rows, goal, gain = rows[may_go], goal[may_go], gain[may_go]
            may_come = self._first_of_each(
                goal, gain, key[rows], clusters, self._rules.most - clusters.size
            )
            rows, goal = rows[may_come], goal[may_come]
        self.sent.send("leave", key[rows], leader[rows])
        self.sent.send("join", key[rows], goal)
        self._count("moves", rows)
        leader = leader.copy()
        leader[rows] = goal
        self._layer = Layer(key, leader)

    @staticmethod
    def _first_of_each(
        head: np.ndarray, gain: np.ndarray, key: np.ndarray, clusters: Clusters, room: np.ndarray
    ) -> np.ndarray:
        """Return the moves of most gain for which each cluster has room."""
        order = np.lexsort((key, -gain, head))
        head = head[order]
        return order[index_in_run(head) < room[clusters.find(head)]]

    def _change(self, clusters: Clusters) -> None:
        """Split, merge, or lead anew."""
        acts = self._answers(clusters.head)
        below = self._member_of >= 0
        is_head = (find_sorted(self._head, clusters.head) >= 0) | ~below
        big = clusters.size > self._rules.most
        small = below & (clusters.size < self._rules.k)
        changed = self.merge(clusters, acts & small, is_head, acts & big)
        steady = acts & below & ~big & ~small & ~is_head & ~changed
        self.lead_anew(clusters, np.flatnonzero(steady))
        self.split(clusters, np.flatnonzero(acts & big), is_head)

    def split(self, clusters: Clusters, some: np.ndarray, is_head: np.ndarray) -> None:
        """Split large clusters into halves, which their centres lead: rule V5."""
        if not len(some):
            return
        index, row = expand(clusters.first[some], clusters.end[some])
        member, old = clusters.member[row], clusters.head[some]
        half = self._halves(clusters, some, index, member)
        sets = Clusters.of(2 * index + half, member)
        new = self._distances.centres(sets, self._answers(sets.member))
        stays = is_head[some[index]] & (member == old[index])
        new[2 * index[stays] + half[stays]] = member[stays]
        # 1. the members of halves have new leaders
        head = self._layer.head.copy()
        head[find_sorted(self._layer.key, sets.member)] = np.repeat(new, sets.size)
        self._layer = Layer(self._layer.key, head)
        # 2. seats above
        of, above = np.repeat(old, 2), np.repeat(self._member_of[some], 2)
        others = new != of
        self.sent.send("transfer", of[others], new[others], sets.size[others])
        self._promote(new[others], np.where(above < 0, of, above)[others])
        ends = above[::2] < 0
        self._rise.append((old[ends], old[ends]))
        self._fall.append(old[others[::2] & others[1::2]])
        self._count("splits", some)

    def _halves(
        self, clusters: Clusters, some: np.ndarray, index: np.ndarray, member: np.ndarray
    ) -> np.ndarray:
        """Return the half of each member: 0 or 1."""
        size = clusters.size[some]
        place = index_in_run(index)
        half = (place >= (size[index] + 1) // 2).astype(np.int64)
        for m in distinct(size[size < 6 * self._rules.k]).tolist():
            rows = np.flatnonzero(size[index] == m)
            nodes = member[rows].reshape(-1, m)
            ends = np.broadcast_arrays(nodes[:, :, None], nodes[:, None, :])
            trip = self._distances.trips(*(end.ravel() for end in ends))
            half[rows] = ~halves(trip.reshape(-1, m, m)).ravel()
        return half

    def merge(
        self, clusters: Clusters, small: np.ndarray, is_head: np.ndarray, splits: np.ndarray
    ) -> np.ndarray:
        """Merge small clusters with the nearest one; mark both: rule V6."""
        changed = np.zeros(len(clusters), dtype=bool)
        asks = clusters.head[small]
        pair, other, trip = self._candidates(asks, asks, self._member_of[small])
        if not len(pair):
            return changed
        nearest = self._distances.nearest(pair, trip, other)[0]
        asks = asks[pair[run_starts(pair)]]
        # 1. who goes where; the rendezvous point forces its choice to come
        forces = is_head[clusters.find(asks)]
        forced = nearest[forces]
        keeps = ~forces & (find_sorted(np.sort(forced), asks) < 0)
        goes, to = np.r_[asks[keeps], forced], np.r_[nearest[keeps], asks[forces]]
        order = np.argsort(goes)
        goes, to = goes[order], to[order]
        # 2. the least of two that would go to each other stays; who goes takes nobody in
        at = find_sorted(goes, to)
        mutual = (at >= 0) & (to[at] == goes) & (goes < to)
        goes, to = goes[~mutual], to[~mutual]
        ends = clusters.find(goes), clusters.find(to)
        played = (find_sorted(goes, to) < 0) & ~splits[ends[0]] & ~splits[ends[1]]
        goes, to, ends = goes[played], to[played], tuple(end[played] for end in ends)
        comes = find_sorted(np.sort(forced), goes) >= 0
        self.sent.send("force_merge", to[comes], goes[comes])
        self.sent.send("merge", goes, to, clusters.size[ends[0]])
        self._layer = self._layer.led_by(goes, to)
        self._fall.append(goes)
        self._count("merges", goes)
        changed[ends[0]] = changed[ends[1]] = True
        return changed

    def lead_anew(self, clusters: Clusters, some: np.ndarray) -> None:
        """Replace leaders by centres that are much nearer to all: rule V7."""
        index, row = expand(clusters.first[some], clusters.end[some])
        sets = Clusters.of(index, clusters.member[row])
        old = clusters.head[some]
        answers = self._answers(sets.member)
        radius = self._distances.radii(sets)
        ranked = np.where(answers, radius, np.iinfo(np.int64).max >> 28)
        if not len(old):
            return
        new, least = self._distances.nearest(sets.index, ranked, sets.member)
        trip = self._distances.trips(old[sets.index], sets.member)
        mean = np.add.reduceat(trip, sets.first), sets.size - 1
        longest = np.maximum.reduceat(trip, sets.first)
        goes = (new != old) & self._saves(mean, longest, least)
        old, new, above = old[goes], new[goes], self._member_of[some[goes]]
        self._layer = self._layer.led_by(old, new)
        self.sent.send("transfer", old, new, sets.size[goes])
        self._promote(new, above)
        self._fall.append(old)
        self._count("new_leaders", old)

    def dissolve(self) -> None:
        """Remove top layers of one member: rule V8."""
        for number in range(len(self._layers) - 1, 0, -1):
            layer, group = self._layers[number], self._layers[number].key // self._size
            start = run_starts(group)
            alone = np.zeros(len(group), dtype=bool)
            alone[start] = np.diff(start, append=len(group)) == 1
            if number + 1 < len(self._layers):
                upper = self._layers[number + 1].key // self._size
                alone &= find_sorted(distinct(upper), group) < 0
            self._layers[number] = layer.take(~alone)
        while self._layers and not len(self._layers[-1].key):
            self._layers.pop()
