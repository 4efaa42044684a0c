"""A period of SplitStream: who comes and goes, and the protocol, hop by hop: rules L1 to L10.

A *channel* is a group with its S stripes.  Nodes are rows, ascending by (group, position); a *pair*
is a node and a stripe, ``row * S + stripe``.  All messages take one hop, and all nodes play a hop
at once: replies, then requests, of which a *turn* has one at each node; then refused ones go on.
The policies are those of FreePastry (``SplitStreamScribePolicy``) and of Mace
(``splitstream.mac``), which has the paper's spare-capacity group (Section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from scribe_spark.core import arrays, draws, u128
from scribe_spark.core.arrays import NONE, children_in, distinct, divided, find_sorted
from scribe_spark.core.keys import key_of
from scribe_spark.core.lists import Lists, pieces, visit
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Keys
from scribe_spark.pastry import next_hop
from scribe_spark.pastry.routes import ROUTES, Routes
from scribe_spark.rounds.grown_overlays import GroupNodes, Period, Sent, convergence
from scribe_spark.systems.splitstream import CONTROL, COUNTED, MOST_TIGHT, SPARE, refuse_few_places

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig as Rules

#: The table of the state with `ChannelNodes`; periods until the neighbours of a failed node notice.
NODES, NOTICE = "nodes", 2

#: Hops until a node asks again after a FAIL; after so many FAILs, it asks more slowly, and then no
#: more in the period; the number of hops of a period in which nodes ask (settled).
SOON, LATER, QUICK_TRIES, TRIES, MOST_HOPS = 1, 5, 5, 30, 3000

#: The kinds of messages: replies as in `CONTROL`, and requests by Pastry's route, from a list, to a
#: node that has to decide, as the list is empty, by anycast; and those that wait at the subscriber.
LEAVE, ACK, DROP, PATH, FAIL, BY_ROUTE, FROM_LIST, FINAL, SEEKING, WAITING = range(10)

#: Room of a node without a bound; ranks of children that make room: of stripes that the node is
#: there for, and of those that stay.
ENDLESS, _OWN, _NEVER = 2**40, 2**60, 2**62


def width_of(rules: Rules) -> int:
    """Return the number of ids of a channel: the stripes', and the spare group's."""
    return rules.stripes + (rules.policy == SPARE)


def ids_of(rules: Rules, group: Keys) -> Keys:
    """Return the ids of the S stripes of groups, and of their spare groups, by group: rule L1.

    A stripe's number replaces the first bits of the groupId; the spare id is the groupId inverted.
    """
    bits = np.uint64(64 - rules.stripes.bit_length() + 1)
    stripe = np.arange(rules.stripes, dtype=np.uint64) << bits
    rest = group.hi[:, None] & ((np.uint64(1) << bits) - np.uint64(1))
    hi = np.c_[rest | stripe, ~group.hi]
    lo = np.c_[np.repeat(group.lo[:, None], rules.stripes, axis=1), ~group.lo]
    return Keys(*(half[:, : width_of(rules)].ravel() for half in (hi, lo)))


@dataclass
class ChannelNodes(GroupNodes):
    """The nodes of channels; parents and ancestors are positions, NONE: none.

    ``died`` is the period of a silent death, ``root`` (n, width) marks the ids whose root the node
    is; ``parent`` (n, S) and ``ancestors`` (n, S, w; upwards) are in each stripe's tree.
    """

    member: np.ndarray = field(default_factory=arrays.flags)
    died: np.ndarray = field(default_factory=arrays.whole_numbers)
    root: np.ndarray = field(default_factory=arrays.flags)
    spare_parent: np.ndarray = field(default_factory=arrays.whole_numbers)
    parent: np.ndarray = field(default_factory=arrays.whole_numbers)
    ancestors: np.ndarray = field(default_factory=arrays.whole_numbers)

    @classmethod
    def of(cls, state: Mapping[str, Columns], size: int, rules: Rules) -> Self:
        """Return the nodes of channels from a state; `size` is K."""
        if NODES in state:
            return cls.from_state(state, NODES, size)
        trees, root = np.empty((0, rules.stripes, 1), dtype=np.int32), (0, width_of(rules))
        return cls(root=np.empty(root, dtype=bool), parent=trees[:, :, 0], ancestors=trees)

    def above(self, size: int) -> np.ndarray:
        """Return the rows of the parents in each stripe's tree, or NONE: (n, S)."""
        keys = self.key[:, None] // size * size + self.parent
        found = find_sorted(self.key, keys.ravel()).reshape(keys.shape)
        return np.where(self.parent < 0, NONE, found)

    def children(self, size: int) -> np.ndarray:
        """Return the numbers of children in each stripe's tree: (n, S)."""
        above = self.above(size)
        pair = above * above.shape[1] + np.arange(above.shape[1])
        return np.bincount(pair[above >= 0], minlength=above.size).reshape(above.shape)


class Channels:
    """The channels of a builder after the events of a period, with deaths not noticed: rule L1."""

    def __init__(self, rules: Rules, state: Mapping[str, Columns], period: Period) -> None:
        self.rules, self.period, self.network = rules, period, period.network
        alive, self.size, self.stripes = period.alive, len(period.alive), rules.stripes
        self.sent, self.nodes = Sent(), (nodes := ChannelNodes.of(state, self.size, rules))
        joins, quits = (key_of(pair, self.size) for pair in (period.join, period.quit))
        # 1. the dead, who stay silently until that is noticed, and the members
        node, was_dead = nodes.key % self.size, nodes.died >= 0
        lives = alive[node]
        silent = was_dead | (~lives & (find_sorted(period.died, node) >= 0))
        nodes.died = np.where(silent & ~was_dead, period.number, nodes.died)
        stays = np.where(silent, ~lives & (period.number - nodes.died < NOTICE), lives)
        nodes.member = nodes.member & stays & (find_sorted(quits, nodes.key) < 0)
        nodes.member |= find_sorted(joins, nodes.key) >= 0
        # 2. the roots
        self.groups = distinct(np.r_[nodes.key[nodes.member], joins] // self.size)
        holders, live, width = self.groups[:0], np.flatnonzero(alive), width_of(rules)
        if len(live):
            ids = ids_of(rules, period.keys(self.groups))
            holders = next_hop.roots(self.network.ring, live, ids)
            holders += np.repeat(self.groups * self.size, width)
        roots = distinct(holders)
        # 3. who goes, and who comes; newcomers that are no roots come in waves
        stays &= silent | nodes.member | (find_sorted(roots, nodes.key) >= 0)
        moved = nodes.key[~stays] // self.size
        if len(moved):
            self._remove(~stays, ~stays & ~was_dead)
        new = distinct(np.r_[joins, roots])
        new = new[~nodes.has(new)]
        nothing = dict.fromkeys(("died", "spare_parent", "parent", "ancestors"), NONE)
        nodes.insert(new, member=find_sorted(joins, new) >= 0, root=False, **nothing)
        self.group, self.node = divided(nodes.key, self.size)
        row, self.wave = nodes.find(new[find_sorted(roots, new) < 0]), np.zeros_like(self.node)
        drawn = period.draw("splitstream wave", self.group[row], self.node[row])
        row = row[np.lexsort((drawn, self.group[row]))]
        nth, members = arrays.index_in_run(self.group[row]), np.bincount(self.group[row])
        self.wave[row] = nth * rules.waves // members[self.group[row]]
        # 4. new roots leave their parents; who has to ask for a parent
        had, nodes.root = nodes.root, np.zeros_like(nodes.root)
        nodes.root[nodes.find(holders), np.arange(len(holders)) % width] = True
        is_new = nodes.root & ~had
        leaves = is_new[:, : self.stripes] & (nodes.parent >= 0)
        row, parent = np.nonzero(leaves)[0], nodes.parent[leaves]
        self.sent.note("leave", self.group[row], self.node[row], parent)
        nodes.parent = np.where(leaves, NONE, nodes.parent)
        lacks = (nodes.parent < 0) & ~nodes.root[:, : self.stripes] & alive[self.node, None]
        moved = np.r_[moved, self.group[is_new.any(axis=1) | lacks.any(axis=1)]]
        self.played = np.intersect1d(self.groups, moved)  # the channels that are not at rest

    def _remove(self, gone: np.ndarray, told: np.ndarray) -> None:
        """Remove nodes, some of which tell it; their children lose their parents."""
        nodes, size, above = self.nodes, self.size, self.nodes.above(self.size)
        row, stripe = np.nonzero(above >= 0)
        up, (group, node) = above[row, stripe], divided(nodes.key, size)
        for kind, at, peer in (("leave", row, up), ("drop", up, row)):
            some = told[at]
            self.sent.note(kind, group[at[some]], node[at[some]], node[peer[some]])
        at, peer = np.r_[row, up], np.r_[up, row]
        some = (self.period.alive[node] & ~gone)[at] & (gone & ~told)[peer]
        noticed = distinct(key_of([nodes.key[at[some]], node[peer[some]]], size))
        self.period.give_up(*divided(noticed // size, size), noticed % size)
        nodes.parent = np.where((above >= 0) & gone[above], NONE, nodes.parent)
        nodes.keep(~gone)

    def measured(self, before: Columns) -> dict[str, np.ndarray]:
        """Return the table `MEASURED` of the period, sums over channels; `before`: the last one.

        ``interior`` are pairs, ``lost`` those that no publication reaches, ``hit`` their nodes.
        """
        nodes, lives = self.nodes, self.period.alive[self.nodes.key % self.size]
        is_root, above = nodes.root[:, : self.stripes], nodes.above(self.size)
        inner = (nodes.children(self.size) > 0).sum(axis=1)
        up = above * self.stripes + np.arange(self.stripes)
        up = np.where((above >= 0) & lives[:, None], up, NONE)
        lost = arrays.unrooted(up.ravel(), is_root.ravel()).reshape(up.shape) & lives[:, None]
        of_nodes = {
            "members": lives,
            "at_most_one": lives & (inner <= 1),
            "interior": inner * lives,
            "open": ((nodes.parent < 0) & ~is_root).sum(axis=1) * lives,
            "lost": lost.sum(axis=1),
            "hit": lost.any(axis=1),
            "trees": is_root.sum(axis=1),
        }
        # dead nodes, not noticed yet, of groups without members are added up behind the groups
        of, count = find_sorted(self.groups, nodes.key // self.size), len(self.groups) + 1
        found = {name: arrays.sums_at(of, one, count)[:-1] for name, one in of_nodes.items()}
        return found | convergence(before, self.groups, found["lost"] > 0, self.period.number)


@dataclass(frozen=True)
class Messages(arrays.Rows):
    """Messages under way: requests of pairs to nodes, and replies, of which a LEAVE is a pair's."""

    kind: np.ndarray
    pair: np.ndarray  # the node that has asked, and the stripe
    at: np.ndarray  # the node (a row) to which a request goes, or that replies
    third: np.ndarray  # the node (a row) that sends a request, or that a DROP names
    due: np.ndarray  # the hop in which the message arrives
    visited: Lists
    todo: Lists


class Hops(Channels):
    """The trees of the channels that are played, and the hops that change them.

    ``here`` marks live nodes whose `wave` has come.  By pair, ``parent`` has the node that it knows
    as its parent, ``holder`` the pair that has it as a child: they differ while a message is under
    way.  ``ancestors`` (positions) are as last heard; the last column is free.  In the tree of the
    spare group are the nodes ``inside``; ``above`` has the next node on the route to its id.
    """

    def __init__(self, rules: Rules, state: Mapping[str, Columns], period: Period, b: int) -> None:
        super().__init__(rules, state, period)
        self.b, self.hop, self.spare = b, -1, rules.policy == SPARE
        mine, ring = find_sorted(self.played, self.group) >= 0, self.network.ring
        self._resting, self.nodes = self.nodes.take(~mine), (nodes := self.nodes.take(mine))
        self.group, self.node, self.wave = self.group[mine], self.node[mine], self.wave[mine]
        self.of, self.number = find_sorted(self.played, self.group), ring.node[self.node]
        self._ids, self._width = ids_of(rules, period.keys(self.played)), width_of(rules)
        self._routes = Routes(period.handed.get(ROUTES, {}), self.size, self._width)
        self.bound = np.full(len(nodes), rules.bound or ENDLESS)
        if self.network.capacity is not None:
            self.bound, members = self.network.capacity[self.node], np.bincount(self.of)
            means = np.bincount(self.of, weights=self.bound) / members
            least = min(means[members > MOST_TIGHT], default=ENDLESS)
            refuse_few_places("mean of capacities", float(least), self.stripes)
        digits = ring.hi[self.node] >> np.uint64(65 - self.stripes.bit_length())
        self.primary, self.root = digits.astype(np.int64), nodes.root[:, : self.stripes].ravel()
        self.spare_root = nodes.root[:, self.stripes :].any(axis=1)
        above = nodes.above(self.size)
        pair = above * self.stripes + np.arange(self.stripes)
        self.parent, self.holder = above.ravel(), np.where(above < 0, NONE, pair).ravel()
        lists = np.pad(nodes.ancestors, ((0, 0), (0, 0), (0, 1)), constant_values=NONE)
        self.ancestors = lists.reshape(above.size, lists.shape[2])
        self.above, self._mail = np.full_like(self.of, NONE), list[Messages]()
        self.inside, self.here = np.zeros((2, len(nodes)), dtype=bool)
        self._fails, self._last_hop = np.zeros_like(self.parent), np.zeros_like(self.played)

    def draw(self, what: str, pair: np.ndarray, of: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Return draws in this hop, keyed by ``pair[of]`` (node and stripe) and by `number`."""
        who, stripe = divided(pair, self.stripes)
        key = self.period.group_number[self.group[who]], self.period.number, self.hop, stripe
        found = draws.bits_np(self.network.seed, f"splitstream {what}", *key, self.number[who])
        return draws.more_bits(found[of], number)

    def match(self, row: np.ndarray, stripe: np.ndarray) -> np.ndarray:
        """Return how many first digits nodeIds of rows share with the ids of stripes."""
        ring, at = self.network.ring, self.node[row]
        key = self._ids.take(self.of[row] * self._width + stripe)
        return u128.shared_digits_np(ring.hi[at], ring.lo[at], key.hi, key.lo, self.b)

    def asked(self, pair: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the pairs of the nodes `at` (rows) and the stripes of `pair`."""
        return at * self.stripes + pair % self.stripes

    def room(self) -> np.ndarray:
        """Return how many more children nodes take over all stripes."""
        parents = self.holder[self.holder >= 0] // self.stripes
        return self.bound - np.bincount(parents, minlength=len(self.bound))

    def play(self) -> None:
        """Play hops until nothing moves; then `nodes` are those of all channels of the builder."""
        self.period.counts.update(dict.fromkeys(COUNTED, 0))
        while self._begin_hop():
            self.hear()
            self.answer()
            if self.spare:
                self._change_spare_tree()
        self.period.counts["hops"] += int(self._last_hop.sum())
        nodes, parent = self.nodes, self.node[self.holder // self.stripes].astype(np.int32)
        nodes.parent = np.where(self.holder < 0, NONE, parent).reshape(nodes.parent.shape)
        nodes.ancestors = self.ancestors.reshape(*nodes.parent.shape, self.ancestors.shape[1])
        every = ChannelNodes.join(self._resting, nodes)
        self.nodes = every.take(np.argsort(every.key, kind="stable"))
        width = (every.ancestors >= 0).sum(axis=2).max(initial=1)
        self.nodes.ancestors = self.nodes.ancestors[:, :, :width]

    def _begin_hop(self) -> bool:
        """Begin a hop if a channel still moves; let the next wave enter channels at rest: L10."""
        self.hop += 1
        moving = [self.of[:0], *(one.pair for one in self._mail)]
        busy = np.zeros(len(self._last_hop), dtype=bool)
        busy[self.of[np.concatenate(moving) // self.stripes]] = True
        self._last_hop[busy] = self.hop
        waits = np.flatnonzero((self.wave >= 0) & ~busy[self.of])
        if len(waits):
            wave = np.full(len(busy), np.iinfo(np.int64).max)
            np.minimum.at(wave, self.of[waits], self.wave[waits])
            enters = self.wave == wave[self.of]
            self.wave[enters] = NONE
            self.here = self.period.alive[self.node] & (self.wave < 0)
            lacks = (self.parent < 0) & ~self.root & np.repeat(enters & self.here, self.stripes)
            pair = np.flatnonzero(lacks)
            self._send(WAITING, pair, pair // self.stripes, hops=0)
            some = np.flatnonzero(self.here & ~self.spare_root & self.spare)
            self.above[some] = self._entries(some, some, np.full(len(some), self.stripes))[0]
        return bool(len(waits) or busy.any())

    def _entries(self, start: np.ndarray, who: np.ndarray, stripe: np.ndarray) -> Any:
        """Return the first other nodes (rows) on routes, or roots after a FAIL: `Routes.follow`."""
        group, pair = self.group[start], self.asked(stripe, who)
        to_root = (self._fails[pair] > 0) & (stripe < self.stripes) & self.spare

        def meets(index: np.ndarray, node: np.ndarray) -> np.ndarray:
            found = self.nodes.find(group[index] * self.size + node)
            fits = (found >= 0) & self.here[found] & (found != start[index]) & (found != who[index])
            fits &= ~to_root[index] | self.root[self.asked(pair[index], found)]
            return np.where(fits, found, NONE)

        return self._routes.follow(group, self.node[start], stripe, meets)

    def _send(self, kind: Any, pair: Any, at: Any, third: Any = NONE, hops: Any = 1) -> None:
        """Let messages with empty lists arrive after some hops."""
        columns: Any = np.broadcast_arrays(kind, pair, at, third, self.hop + hops)
        self._mail.append(Messages(*columns, *[Lists.empty(len(pair))] * 2))

    def _reply(self, kind: int, pair: np.ndarray, at: np.ndarray, third: Any = NONE) -> None:
        """Let nodes `at` reply to pairs; a LEAVE goes the other way."""
        ends = at, pair // self.stripes
        self.note(CONTROL[kind], *(ends[::-1] if kind == LEAVE else ends))
        self._send(kind, pair, at, third)

    def _due(self, replies: bool) -> Messages:
        """Return the replies, or the requests, that arrive in this hop."""
        every = Messages.join(*self._mail)
        mine = (every.due == self.hop) & ((every.kind < BY_ROUTE) == replies)
        self._mail = [every.take(~mine)]
        return every.take(mine)

    def note(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Count messages of a kind between rows."""
        self.sent.note(kind, self.group[sender], self.node[sender], self.node[to])

    def hear(self) -> None:
        """Handle the replies of the hop before: rules L3 and L9."""
        came = self._due(replies=True)
        came = came.take((came.kind == LEAVE) | self.here[came.pair // self.stripes])
        leaves, acks, drops, paths, fails = (came.take(came.kind == kind) for kind in range(5))
        is_child = self.holder[leaves.pair] == self.asked(leaves.pair, leaves.at)
        self.holder[leaves.pair[is_child]] = NONE
        told = Messages.join(acks, paths)
        lists = np.c_[self.node[told.at], self.ancestors[self.asked(told.pair, told.at), :-1]]
        had = np.flatnonzero(self.parent < 0)
        had = had[self.ancestors[had, 0] >= 0]
        heard = distinct(np.r_[had, told.pair, drops.pair])
        before = self.ancestors[heard]
        self.ancestors[had] = NONE
        self.parent[acks.pair], self._fails[acks.pair] = acks.at, 0
        # 1. the dropped ask; one that has left the sender, as the least of a ring, asks already
        asks = distinct(self._mail[0].pair)
        lost = (self.parent[drops.pair] < 0) & (find_sorted(asks, drops.pair) < 0)
        drops = drops.take(lost | (self.parent[drops.pair] == drops.at))
        self.parent[drops.pair], self.ancestors[drops.pair] = NONE, NONE
        direct, who = (drops.third >= 0) & (self.hop < MOST_HOPS), drops.pair // self.stripes
        to, kind = np.where(direct, drops.third, who), SEEKING if self.spare else WAITING
        self._send(np.where(direct, FROM_LIST, kind), drops.pair, to, who, direct)
        self.note("subscribe", who, to)
        # 2. paths; the least node of a ring leaves its parent
        by_parent = self.parent[told.pair] == told.at
        self.ancestors[told.pair[by_parent]] = lists[by_parent]
        lists, own = self.ancestors[heard], self.node[heard // self.stripes]
        self.ancestors[heard], is_least = arrays.cut_to_rings(lists, own)
        rings = heard[is_least]
        self._reply(LEAVE, rings, self.parent[rings])
        self.parent[rings], self.ancestors[rings] = NONE, NONE
        self.period.counts.update(orphans=len(drops), cycles=len(rings))
        # 3. after a FAIL a node asks again, after longer and longer
        self._fails[fails.pair] += 1
        again = fails.pair[self._fails[fails.pair] <= TRIES]
        later = np.where(self._fails[again] <= QUICK_TRIES, SOON, LATER)
        pair, later = np.r_[rings, again], np.r_[rings * 0, later]
        self._send(WAITING, pair, pair // self.stripes, hops=later)
        # 4. nodes whose ancestors have changed tell their children
        changed = (before != self.ancestors[heard]).any(axis=1)
        if (self.ancestors[heard, -1] >= 0).any():  # keep the last column free
            self.ancestors = np.pad(self.ancestors, ((0, 0), (0, 2)), constant_values=NONE)
        heard = heard[changed & self.here[heard // self.stripes]]
        of, child = children_in(self.holder, heard)
        self._reply(PATH, child, heard[of] // self.stripes)

    def answer(self) -> None:
        """Answer the requests that arrive; refused ones go on: rules L4 to L8."""
        came = self._due(replies=False)
        came = came.take(slice(len(came) * (self.hop < MOST_HOPS)))
        who, stripe = divided(came.pair, self.stripes)
        order = np.lexsort((who, stripe, came.kind == SEEKING, came.at))
        came, who = came.take(order), who[order]
        mine, seeks = self.asked(came.pair, came.at), came.kind == SEEKING
        is_below = (self.ancestors[mine] == self.node[who, None]).any(axis=1)
        self.period.counts["anycasts"] += int(np.count_nonzero(seeks & (came.at == came.third)))
        # 1. who waits asks; a request on its way to the root passes nodes below the subscriber
        passes = (came.kind == WAITING) | (is_below & (came.kind == BY_ROUTE))
        start, (new, stripe) = came.at[passes], divided(came.pair[passes], self.stripes)
        entry, hops, (row, *ends) = self._entries(start, new, stripe)
        some, lost, pair = entry >= 0, (entry < 0) & (start != new), came.pair[passes]
        self.sent.note("subscribe", *(e[some[row]] for e in (self.group[start[row]], *ends)))
        self._send(BY_ROUTE, pair[some], entry[some], start[some], hops[some])
        self._reply(FAIL, pair[lost], start[lost])
        # 2. a node takes the first ones, and orphans if it is attached, and in the spare tree
        attached = self.root[mine] | (self.parent[mine] >= 0)
        able = ~seeks | (self.inside[came.at] & (came.at != who) & attached)
        able &= ~is_below & ~passes
        accepted, at = np.zeros_like(able), came.at[able]
        accepted[able] = arrays.index_in_run(at) < self.room()[at]
        self.holder[came.pair[accepted]] = mine[accepted]
        self._reply(ACK, came.pair[accepted], came.at[accepted])
        # 3. a full node answers as the policy says; one below the subscriber refuses
        full, refused = able & ~seeks & ~accepted, ~accepted & ~passes
        refused[full] = self._make_room(came.take(full))
        ends = refused & ~seeks & (self.spare | (came.kind == FINAL))
        self._reply(DROP if self.spare else FAIL, came.pair[ends], came.at[ends])
        self._go_on(came.take(refused & ~ends))

    def _make_room(self, asks: Messages) -> np.ndarray:
        """Let newcomers take the places of children at full nodes; return a mask of the refused."""
        full = distinct(asks.at)
        of, child = children_in(self.holder // self.stripes, full)
        offsets = arrays.offsets_of(np.bincount(of, minlength=len(full)))
        lost = np.full(len(asks), NONE)  # the newcomer itself, if it is pushed down
        for some in arrays.turns(asks.at):
            turn, at = asks.take(some), np.searchsorted(full, asks.at[some])
            row, place = arrays.expand(offsets[at], offsets[at + 1])
            pairs = np.r_[child[place], turn.pair]
            chosen = self._choose(turn, np.r_[row, np.arange(len(turn))], pairs)
            lost[some] = np.append(pairs, NONE)[chosen]
            takes = (chosen >= 0) & (chosen < len(place))
            child[place[chosen[takes]]] = turn.pair[takes]
        new = asks.take((lost >= 0) & (lost != asks.pair))
        self.holder[new.pair] = self.asked(new.pair, new.at)
        self._reply(ACK, new.pair, new.at)
        pair, at = lost[lost >= 0], asks.at[lost >= 0]
        self.holder[pair], named = NONE, np.full(len(pair), NONE)
        if self.spare:  # a random sibling in its primary stripe
            row, child = children_in(self.holder, self.asked(pair, at))
            child, stripe = divided(child, self.stripes)
            fits = self.here[child] & (self.primary[child] == stripe)
            row, child = row[fits], child[fits]
            first = arrays.least_of(row, self.draw("sibling", pair, row, self.number[child]))
            named[row[first]] = child[first]
        self._reply(DROP, pair, at, named)
        return lost < 0

    def _choose(self, asks: Messages, row: np.ndarray, pair: np.ndarray) -> np.ndarray:
        """Return which of its children, or newcomers (last), leaves each node, or NONE: L6, L7."""
        (who, of), at = divided(pair, self.stripes), asks.at[row]
        newcomer, stripe = divided(asks.pair[row], self.stripes)
        cell, new = row * self.stripes + of, slice(len(row) - len(asks), None)
        number, same = np.bincount(cell)[cell], of == stripe
        is_root, is_primary = self.root[self.asked(pair, at)], of == self.primary[at]
        own = is_root | is_primary
        # 1. the least rank: stripes that the node is there for come last, the largest first
        last = np.where(number > 1, _OWN - number * self.stripes, _NEVER)
        if self.spare:
            rank = np.where(own, last, 0) + (of - stripe) % self.stripes
            rank[new][~own[new]] = -1
        else:
            final = (asks.kind == FINAL)[row]
            takes = np.where(final, is_root[new][row], own[new][row])
            frees = takes & (final | (number[new] == 1)[row]) & ~same
            rank, some = np.where(frees & own, last + of, _NEVER), np.flatnonzero(frees & ~own)
            rank[some] = self.draw("stripe", asks.pair, row[some], of[some]) >> np.uint64(4)
            some = np.flatnonzero(same & takes & ~final)
            less = self.match(who[some], of[some]) < self.match(newcomer[some], of[some])
            rank[some[less]] = 0
            rank[final & same & (who == asks.third[row])] = _NEVER - 1
        best = np.full(len(asks), _NEVER)
        np.minimum.at(best, row, rank)
        # 2. a random one; with the spare group, the worst match in the primary stripe
        some = np.flatnonzero((rank == best[row]) & (rank < _NEVER))
        row, who = row[some], who[some]
        drawn = self.draw("drop", asks.pair, row, self.number[who])
        if self.spare:
            worst = np.flatnonzero(is_primary[some])
            drawn[worst] = self.match(who[worst], of[some[worst]]) << 32 | who[worst]
        least = np.full(len(asks), np.iinfo(np.uint64).max)
        np.minimum.at(least, row, drawn)
        first = np.flatnonzero(drawn == least[row])
        chosen = np.arange(new.start, len(pair)) if self.spare else np.full(len(asks), NONE)
        chosen[row[first]] = some[first]
        return chosen

    def _go_on(self, refused: Messages) -> None:
        """Let refused requests go on to the next node of their lists: rules L6 and L8.

        Children are in drawn order, the parent is last; with FreePastry's policy, nodes in their
        primary stripe are in front of the list, and others behind it, the parent before them.
        """
        # a list may become longer by about 256 nodes
        for some in pieces(2**8 + refused.visited.lengths() + refused.todo.lengths()):
            asks = refused.take(some)
            (who, stripe), at = divided(asks.pair, self.stripes), asks.at
            mine, seen = self.asked(asks.pair, at), at
            if self.spare:
                inside = self.inside[at]
                row, child = children_in(np.where(self.inside, self.above, NONE), at)
                parent = np.where(inside | (asks.visited.lengths() == 0), self.above[at], NONE)
                seen = np.where(inside, at, NONE)
            else:
                row, child = children_in(self.holder, mine)
                child, parent = child // self.stripes, self.parent[mine]
                parent[~self.here[parent]] = NONE
            parent[parent == who] = NONE
            good = self.here[child] & (child != parent[row]) & (child != who[row])
            up = np.flatnonzero(parent >= 0)
            of, node = np.r_[row[good], up], np.r_[child[good], parent[up]]
            is_parent = np.arange(len(of)) >= len(of) - len(up)
            first = ~is_parent if self.spare else self.primary[node] == stripe[of]
            drawn = self.draw(
                "anycast" if self.spare else "child", asks.pair, of, self.number[node]
            )
            order = draws.order_of_draws(of * 2 + (first == is_parent), drawn)
            of, node, first = of[order], node[order], first[order]
            front, back = (Lists.of(of[one], node[one], len(asks)) for one in (first, ~first))
            visited, todo = visit(asks.visited, asks.todo, seen, front, back, len(self.nodes))
            to, todo = todo.popped()
            kind = np.where(to < 0, FINAL, SEEKING if self.spare else FROM_LIST)
            last = np.where(self.root[mine], at, parent) if not self.spare else NONE
            to = np.where(to < 0, last, to)
            self._reply(FAIL, asks.pair[to < 0], at[to < 0])
            onward = Messages(kind, asks.pair, to, at, asks.due + 1, visited, todo).take(to >= 0)
            self.note("anycast" if self.spare else "subscribe", onward.third, onward.at)
            self._mail.append(onward)

    def _change_spare_tree(self) -> None:
        """Let nodes with room, and the nodes above them, be in the spare group's tree: rule L8."""
        self.inside = self.here & self.spare_root
        below = np.flatnonzero(self.here & (self.room() > 0))
        while len(below):
            self.inside[below] = True
            above = distinct(self.above[below])
            below = above[(above >= 0) & ~self.inside[above]]
        old = self.nodes.spare_parent
        new = np.where(self.inside & (self.above >= 0), self.node[self.above], NONE)
        new = np.where(self.here, new, old)
        for kind, parent in (("spare_leave", old), ("spare_join", new)):
            some = (old != new) & (parent >= 0)
            self.sent.note(kind, self.group[some], self.node[some], parent[some])
        self.nodes.spare_parent = new
