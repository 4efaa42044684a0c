"""A period of NICE: newcomers descend through the layers, members beat, leaders mend clusters.

A change of the leaders of a layer is a change of the members of the next one, whose turn comes
then.  Rules: docs/rules.md, V1 to V8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.core.arrays import distinct, find_sorted, index_in_run, run_starts, whole_numbers
from scribe_spark.engine import Columns
from scribe_spark.rounds.grown_overlays import NumberedNodes, Period, Sent
from scribe_spark.systems.nice.hierarchy import Clusters, Distances, Layer, layers_of, rows_of, tops

if TYPE_CHECKING:
    from scribe_spark.systems.nice.config import NiceConfig

#: The most numbers in an array of pairs of centres and members (rule V5).
_NUMBERS = 1 << 22


def halves(trip: np.ndarray) -> np.ndarray:
    """Mark the members of the first half of each cluster, from round trips: (c, m, m) to (c, m).

    The larger radius of the halves is the least one. For centres a and b, it is the least r such
    that each member is within r of a or b, and those within r of only one fit into its half.
    """
    count, m, _ = trip.shape
    step = max(1, _NUMBERS // m**3)
    if count > step:
        return np.concatenate([halves(trip[at : at + step]) for at in range(0, count, step)])
    first, row = (m + 1) // 2, np.arange(count)
    radius = _radii(trip, first)
    a, b = np.divmod(radius.reshape(count, m * m).argmin(axis=1), m)
    radius, to_a, to_b = radius[row, a, b, None], trip[row, a], trip[row, b]
    side = np.where(to_b > radius, 0, np.where(to_a > radius, 2, 1))
    side[row, a], side[row, b] = -1, 3
    order = np.lexsort((to_a - to_b, side), axis=1)  # stable, so equal ones are in order
    chosen = np.zeros((count, m), dtype=bool)
    np.put_along_axis(chosen, order[:, :first], True, axis=1)
    return chosen


def _radii(trip: np.ndarray, first: int) -> np.ndarray:
    """Return the least larger radius of halves by two centres; `first` members in the first."""
    m = trip.shape[1]
    radius = np.minimum(trip[:, :, None, :], trip[:, None, :, :]).max(axis=3)
    far_from_b = _nth_without(trip, first - 1).transpose(0, 2, 1)
    far_from_a = _nth_without(trip, m - first - 1)
    radius = np.maximum(radius, np.maximum(far_from_a, far_from_b))
    radius[:, *np.diag_indices(m)] = np.iinfo(np.int64).max
    return radius


def _nth_without(trip: np.ndarray, n: int) -> np.ndarray:
    """Return for i, j the n-th longest trip (from 0) of member i to all but member j: (c, m, m)."""
    longest = -np.sort(-trip, axis=2)  # its trip to itself comes last
    nth, next_one = longest[:, :, n, None], longest[:, :, n + 1, None]
    return np.where(trip >= nth, next_one, nth)


#: The tables of the state.
CLUSTERS, SILENT, WAITING = "clusters", "silent", "waiting"

#: Bytes of a control message: IP and UDP 28, fields 8; of a member that it names: id 8, distance 4.
MESSAGE, ENTRY = 36, 12


class NicePeriod:
    """The state of groups in a period, by keys (group, node), and the rules that change it."""

    def __init__(self, rules: NiceConfig, state: dict[str, Columns], period: Period) -> None:
        self._rules, self._period, self._size = rules, period, len(period.network.ring)
        self._most = 3 * rules.k + 1
        self._distances = Distances(period.network)
        self._layers = layers_of(state.get(CLUSTERS), self._size)
        #: the dead whom nobody has noticed, and the number of periods since their deaths
        self._silent = NumberedNodes.from_state(state, SILENT, self._size)
        #: newcomers without a cluster, and the period from which on each asks for one
        self._waiting = NumberedNodes.from_state(state, WAITING, self._size)
        self._lost = whole_numbers()
        self._sent, self._counts = Sent(), period.counts

    def play(self, state: dict[str, Columns]) -> dict[str, Columns]:
        """Play the period: replace the tables of the state, and return the messages."""
        self.take_events()
        newcomers, leaders = self.join()
        self.beat()
        self._layers = self._layers or [Layer()]
        self._layers[0].insert(newcomers, head=leaders)
        for number, _ in enumerate(self._layers):  # whose number may increase
            self.mend(number)
        self.dissolve()
        state[CLUSTERS] = rows_of(self._layers, self._size)
        state[SILENT] = self._silent.to_state(self._size)
        state[WAITING] = self._waiting.to_state(self._size)
        return self._sent.by_kind()

    def _send(self, kind: str, sender: np.ndarray, to: np.ndarray, entries: Any = 0) -> None:
        """Count messages of a kind between keys, and their bytes with `entries` entries each."""
        if len(sender):
            self._sent.note(kind, *np.divmod(sender, self._size), to % self._size)
            self._counts["control_bytes"] += MESSAGE * len(sender) + ENTRY * int(np.sum(entries))

    def _answers(self, key: np.ndarray) -> np.ndarray:
        """Return True for nodes that are neither silent (dead, not noticed) nor departing."""
        return find_sorted(self._mute, key) < 0

    # --- before the layers

    def take_events(self) -> None:
        """Record the members that are silent (dead), that depart or join in the period (V1)."""
        period, size = self._period, self._size
        join, quit = (pair[0] * size + pair[1] for pair in (period.join, period.quit))
        seated = self._layers[0].key if self._layers else whole_numbers()
        back = join[find_sorted(seated, join) >= 0]  # before their silence was noticed
        # 1. who is silent, and who departs
        quits = quit[(find_sorted(seated, quit) >= 0) & ~self._silent.has(quit)]
        self._quits = quits[find_sorted(period.died, quits % size) < 0]
        died = seated[find_sorted(period.died, seated % size) >= 0]
        silent = self._silent
        silent.insert(died[~silent.has(died)], number=0)
        silent.number = silent.number + 1
        late, again = silent.number >= self._rules.silence, find_sorted(back, silent.key) >= 0
        dead = silent.key[late & ~again]
        self._departs = distinct(np.r_[self._quits, back, dead])
        silent.keep(~(late | again))
        self._mute = distinct(np.r_[silent.key, self._departs])  # they do not answer
        self._give_up(dead)
        # 2. who waits
        waiting = self._waiting
        changes = find_sorted(np.sort(np.r_[join, quit]), waiting.key) >= 0
        waiting.keep(period.alive[waiting.key % size] & ~changes)
        periods = np.uint64(self._rules.join_periods if period.network.in_run else 1)
        begins = (period.draw("nice join", *np.divmod(join, size)) % periods).astype(np.int64)
        begins = np.maximum(begins, find_sorted(back, join) >= 0)
        waiting.insert(join, number=period.number + begins)

    def _give_up(self, dead: np.ndarray) -> None:
        """Note that peers of members (keys, ascending) count them as dead."""
        for layer in self._layers if len(dead) else ():
            clusters = layer.clusters
            rows = clusters.peers(find_sorted(dead, clusters.member) >= 0)
            member, peer = (clusters.member[row] for row in rows)
            heard = self._answers(peer)
            group, node = np.divmod(peer[heard], self._size)
            self._period.give_up(group, node, member[heard] % self._size)

    def join(self) -> tuple[np.ndarray, np.ndarray]:
        """Let newcomers descend from the top (V2); return those that got leaders, and leaders."""
        groups, top, head = tops(self._layers, self._size)
        self._heads = head[find_sorted(self._departs, head) < 0]  # the rendezvous points
        begun = self._waiting.take(self._waiting.number <= self._period.number)
        key, start = begun.key, begun.number
        at = find_sorted(groups, key // self._size)
        # 1. the first member of a group
        order = np.lexsort((key, start, key // self._size))
        order = order[at[order] < 0]
        first = key[order[run_starts(key[order] // self._size)]]
        # 2. all others ask the rendezvous point
        key, start, at = key[at >= 0], start[at >= 0], at[at >= 0]
        self._send("query", key, head[at])
        heard = self._answers(head[at])
        key, start, top, leader = key[heard], start[heard], top[at[heard]], head[at[heard]]
        # 3. the nearest in its cluster is asked for the layer below
        for number in range(int(top.max(initial=0)), -1, -1):
            asked = np.flatnonzero(top >= number) if number else np.flatnonzero(top == 0)
            if not len(asked):
                continue
            lower = asked[top[asked] > number]
            self._send("query", key[lower], leader[lower])
            clusters = self._layers[number].clusters
            size = clusters.size[find_sorted(clusters.head, leader[asked])]
            self._send("answer", leader[asked], key[asked], size)
            if number:
                pair, member = clusters.members_of(leader[asked])
                sender = key[asked[pair]]
                self._ping(sender, member, member != leader[asked[pair]])
                heard = self._answers(member)
                pair, member = pair[heard], member[heard]
                trip = self._distances.trips(sender[heard], member)
                leader[asked] = self._distances.nearest(pair, trip, member)[0]
        self._send("join", key, leader)
        # 4. a leader takes in those who have waited longest; the others ask again
        order = np.lexsort((key, start, leader))
        order = order[index_in_run(leader[order]) < self._rules.newcomers]
        key, leader = key[order], leader[order]
        newcomers, leader = np.r_[first, key], np.r_[first, leader]
        self._waiting.discard(newcomers)
        self._counts["joined"] += len(newcomers)
        return newcomers, leader

    def _ping(self, key: np.ndarray, leader: np.ndarray, some: np.ndarray) -> None:
        """Count pings of `some` rows of nodes to leaders, and the answers of live leaders."""
        key, leader = key[some], leader[some]
        self._send("ping", key, leader)
        heard = self._answers(leader)
        self._send("pong", leader[heard], key[heard])

    def beat(self) -> None:
        """Count the heartbeats of members, and their pings to the leaders above their leaders."""
        for layer, above in zip(self._layers, [*self._layers[1:], Layer()], strict=False):
            clusters, upper = layer.clusters, above.clusters
            member, head = clusters.member, clusters.head[clusters.index]
            answers = self._answers(member)
            row, other = clusters.peers(answers)
            at = find_sorted(upper.head, above.head_of(head))
            leads = (member == head) & (at >= 0)
            size = clusters.size[clusters.index]
            size[leads] += upper.size[at[leads]]
            self._send("heartbeat", member[row], member[other], size[row])
            asks = np.flatnonzero((member != head) & answers & self._answers(head))
            pair, leader = upper.members_of(above.head_of(head[asks]))
            self._ping(member[asks[pair]], leader, leader != head[asks[pair]])

    # --- the turn of a layer

    def mend(self, number: int) -> None:
        """Let the members of layer `number` repair its clusters, in its turn: rules V3 to V7."""
        self._layer = self._layers[number]
        self._above = self._layers[number + 1] if number + 1 < len(self._layers) else Layer()
        #: The changes of the layer above: new seats, with their heads; and seats that are lost.
        self._rise: list[tuple[np.ndarray, np.ndarray]] = []
        self._fall: list[np.ndarray] = []
        new, of_new = self.vacate()
        clusters = self._layer.clusters
        #: The clusters above, or NONE; and the leaders of this layer that answer, in them.
        self._upper = self._above.head_of(clusters.head)
        self._upper[find_sorted(clusters.head, new)] = of_new
        leads = self._answers(self._above.key) & (find_sorted(clusters.head, self._above.key) >= 0)
        self._leaders = self._above.take(leads).clusters
        self._acts = self._answers(clusters.head)
        self.move(clusters)
        clusters = self._layer.clusters
        is_top = (find_sorted(self._heads, clusters.head) >= 0) | (self._upper < 0)
        big = self._acts & (clusters.size > self._most)
        small = clusters.size < self._rules.k
        merged = self.merge(clusters, self._acts & small & (self._upper >= 0), is_top, big)
        self.lead_anew(clusters, np.flatnonzero(self._acts & ~is_top & ~merged & ~big & ~small))
        self.split(clusters, np.flatnonzero(big), is_top)
        self._layers[number] = self._layer
        self._lost = distinct(np.concatenate([whole_numbers(), *self._fall]))
        if sum(len(leader) for leader, _ in self._rise):
            leader, head = (np.concatenate(ends) for ends in zip(*self._rise, strict=True))
            self._above.insert(leader, head=head)
            self._layers[number + 1 : number + 2] = [self._above]

    def _promote(self, leader: np.ndarray, above: np.ndarray) -> None:
        """Give new leaders a seat in the clusters that the leaders `above` lead; count messages."""
        self._rise.append((leader, above))
        self._send("add", leader, above)

    def vacate(self) -> tuple[np.ndarray, np.ndarray]:
        """Remove members without a seat (V3); return new leaders, and their heads above or NONE."""
        layer = self._layer
        departs = find_sorted(self._departs, layer.key) >= 0
        goes = departs | (find_sorted(self._lost, layer.key) >= 0)
        key, head, stays = layer.key[goes], layer.head[goes], ~departs[goes]
        quits, leads = find_sorted(self._quits, key) >= 0, key == head
        for kind, some in (("leave", quits & ~leads), ("remove", stays & ~leads)):
            self._send(kind, key[some], head[some])
        old, speaks = key[leads], (quits | stays)[leads]
        above = self._above.head_of(old)
        self._fall.append(old)
        layer = layer.take(~goes)
        vacant = layer.take(find_sorted(old, layer.head) >= 0).clusters
        new, _ = self._distances.centres(vacant, self._answers(vacant.member))
        at = find_sorted(old, vacant.head)
        old, speaks, above = old[at], speaks[at], above[at]
        self._layer = layer.led_by(old, new)
        self._send("transfer", old[speaks], new[speaks], vacant.size[speaks])
        self._promote(new[above >= 0], above[above >= 0])
        self._counts["new_leaders"] += len(new)
        return new, above

    def _others(
        self, asks: np.ndarray, leader: np.ndarray, above: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the leaders beside `leader` below `above`: index in `asks`, key and round trip."""
        pair, other = self._leaders.members_of(above)
        some = other != leader[pair]
        pair, other = pair[some], other[some]
        return pair, other, self._distances.trips(asks[pair], other)

    def _saves(
        self, old: np.ndarray, new: np.ndarray, total: np.ndarray, number: np.ndarray
    ) -> np.ndarray:
        """Mark `new` round trips far below the `old` ones; their mean is `total` / `number`."""
        least_us = round(self._rules.least_gain_ms * 1000)
        least = np.maximum(self._rules.mean_percent * total, 200 * least_us * number)
        return number * (self._rules.stay_percent * old - 100 * new) > least

    def move(self, clusters: Clusters) -> None:
        """Let members go to another leader of their layer that is much nearer: rule V4."""
        key, head = self._layer.key, self._layer.head
        at = find_sorted(clusters.head, head)
        rows = np.flatnonzero(self._acts[at] & (key != head) & self._answers(key))
        pair, other, trip = self._others(key[rows], head[rows], self._upper[at[rows]])
        start = run_starts(pair)
        rows = rows[pair[start]]
        now = self._distances.trips(key[rows], head[rows])
        goal, near = self._distances.nearest(pair, trip, other)
        total = np.add.reduceat(trip, start) + now
        wants = self._saves(now, near, total, np.diff(start, append=len(pair)) + 1)
        gain = self._rules.stay_percent * now - 100 * near
        rows, goal, gain = rows[wants], goal[wants], gain[wants]
        room = (0, clusters.size - self._rules.k), (1, self._most - clusters.size)
        for end, places in room if self._rules.guard else ():  # both clusters keep their bounds
            of = (head[rows], goal)[end]
            order = np.lexsort((key[rows], -gain, of))
            some = order[index_in_run(of[order]) < places[find_sorted(clusters.head, of[order])]]
            rows, goal, gain = rows[some], goal[some], gain[some]
        self._send("leave", key[rows], head[rows])
        self._send("join", key[rows], goal)
        self._counts["moves"] += len(rows)
        head = head.copy()
        head[rows] = goal
        self._layer = Layer(key, head)

    def split(self, clusters: Clusters, some: np.ndarray, is_top: np.ndarray) -> None:
        """Split clusters into halves (V5), led by centres, or at the top by the old leader."""
        old = clusters.head[some]
        index, member = clusters.members_of(old)
        half = self._halves(index, member, clusters.size[some])
        sets = Clusters.of(2 * index + half, member)
        new, _ = self._distances.centres(sets, self._answers(sets.member))
        stays = is_top[some[index]] & (member == old[index])
        new[2 * index[stays] + half[stays]] = member[stays]
        head = self._layer.head.copy()
        head[find_sorted(self._layer.key, sets.member)] = new[sets.index]
        self._layer = Layer(self._layer.key, head)
        # seats above; two leaders of a top layer make a new one
        of, above = np.repeat(old, 2), np.repeat(self._upper[some], 2)
        others = new != of
        self._send("transfer", of[others], new[others], sets.size[others])
        self._promote(new[others], np.where(above < 0, of, above)[others])
        top = old[above[::2] < 0]
        self._rise.append((top, top))
        self._fall.append(old[others[::2] & others[1::2]])
        self._counts["splits"] += len(some)

    def _halves(self, index: np.ndarray, member: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return the half, 0 or 1, of each member of the clusters `index` with these sizes."""
        half = (index_in_run(index) >= (size[index] + 1) // 2).astype(np.int64)
        for m in distinct(size[size < 6 * self._rules.k]).tolist():
            rows = np.flatnonzero(size[index] == m)
            nodes = member[rows].reshape(-1, m)
            ends = np.broadcast_arrays(nodes[:, :, None], nodes[:, None, :])
            trip = self._distances.trips(*(end.ravel() for end in ends))
            half[rows] = ~halves(trip.reshape(-1, m, m)).ravel()
        return half

    def merge(
        self, clusters: Clusters, small: np.ndarray, is_top: np.ndarray, splits: np.ndarray
    ) -> np.ndarray:
        """Merge `small` clusters with the nearest one (V6); return the mask of all merged ones.

        The masks `is_top` and `splits` have clusters that let the other one come, and that split.
        """
        merged = np.zeros(len(clusters.head), dtype=bool)
        asks = clusters.head[small]
        pair, other, trip = self._others(asks, asks, self._upper[small])
        nearest, _ = self._distances.nearest(pair, trip, other)
        asks = asks[distinct(pair)]
        # 1. who goes where; the rendezvous point forces its choice to come
        forces = is_top[find_sorted(clusters.head, asks)]
        forced = np.sort(nearest[forces])
        goes = ~forces & (find_sorted(forced, asks) < 0)
        goes, to = np.r_[asks[goes], nearest[forces]], np.r_[nearest[goes], asks[forces]]
        order = np.argsort(goes)
        goes, to = goes[order], to[order]
        # 2. the least of two that would go to each other stays; who goes takes nobody in
        at = find_sorted(goes, to)
        stays = (at >= 0) & (to[at] == goes) & (goes < to)
        goes, to = goes[~stays], to[~stays]
        ends = np.stack([find_sorted(clusters.head, goes), find_sorted(clusters.head, to)])
        played = (find_sorted(goes, to) < 0) & ~splits[ends].any(axis=0)
        goes, to, ends = goes[played], to[played], ends[:, played]
        comes = find_sorted(forced, goes) >= 0
        self._send("force_merge", to[comes], goes[comes])
        self._send("merge", goes, to, clusters.size[ends[0]])
        self._layer = self._layer.led_by(goes, to)
        self._fall.append(goes)
        self._counts["merges"] += len(goes)
        merged[ends] = True
        return merged

    def lead_anew(self, clusters: Clusters, some: np.ndarray) -> None:
        """Replace leaders of clusters `some` by centres that are much nearer to all: rule V7."""
        old = clusters.head[some]
        index, member = clusters.members_of(old)
        sets = Clusters.of(index, member)
        new, radius = self._distances.centres(sets, self._answers(sets.member))
        total = np.add.reduceat(self._distances.trips(old[index], member), sets.first)
        longest, least = (radius[member == leader[index]] for leader in (old, new))
        goes = (new != old) & self._saves(longest, least, total, sets.size - 1)
        old, new = old[goes], new[goes]
        self._layer = self._layer.led_by(old, new)
        self._send("transfer", old, new, sets.size[goes])
        self._promote(new, self._upper[some[goes]])
        self._fall.append(old)
        self._counts["new_leaders"] += len(old)

    def dissolve(self) -> None:
        """Remove top layers that have a single member: rule V8."""
        upper = whole_numbers()  # the groups with a layer above
        for number in range(len(self._layers) - 1, 0, -1):
            layer, group = self._layers[number], self._layers[number].key // self._size
            members = np.bincount(group) if len(group) else group
            alone = (members[group] == 1) & (find_sorted(upper, group) < 0)
            self._layers[number] = layer.take(~alone)
            upper = distinct(self._layers[number].key // self._size)
        while self._layers and not len(self._layers[-1].key):
            self._layers.pop()
