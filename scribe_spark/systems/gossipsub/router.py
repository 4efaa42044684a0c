"""The GossipSub router of many nodes in many topics: which peers to GRAFT, PRUNE or refuse.

Every step is a function of the nodes' tables and of keyed random draws; the programs of
:mod:`.mesh` and :mod:`.round` play it on buckets.  The peer scoring of v1.1 is not implemented: no
peer is refused or dropped for its score, and opportunistic grafting never happens (rule G5).

References
----------
libp2p/specs, gossipsub-v1.0.md, "Topic Membership", "Mesh Maintenance"; gossipsub-v1.1.md, "Prune
Backoff", "Outbound Mesh Quotas".
docs/rules.md, G5 to G9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scribe_spark.core import arrays, draws
from scribe_spark.core.keys import key_of
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.core.registry import FrozenFields

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.gossipsub.config import GossipSubConfig


def least(of: np.ndarray, bits: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the `count` rows with the least bits of each owner `of`, sorted by (`of`, `bits`)."""
    likely = _likely(of, bits, count) if len(of) > _MANY else slice(None)
    order = draws.order_of_draws(of[likely], bits[likely])
    owner = of[likely][order]
    chosen = order[arrays.index_in_run(owner) < count[owner]]
    return chosen if isinstance(likely, slice) else likely[chosen]


#: Up to this number of rows, sorting all is faster than selecting candidates first.
_MANY = 2**16


def _likely(of: np.ndarray, bits: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return candidates that include the `count` smallest rows of each owner: int64, ascending."""
    rows = np.bincount(of, minlength=len(count))
    share = np.minimum((count + 2.5 * np.sqrt(count) + 1) / np.maximum(rows, 1), 1.0)
    most = (share * (2.0**64 - 2.0**11)).astype(np.uint64)
    most[share == 1.0] = np.uint64(2**64 - 1)
    below = bits <= most[of]
    found = np.bincount(of[below], minlength=len(count))
    few = found < np.minimum(count, rows)
    if few.any():
        below |= few[of]
    return np.flatnonzero(below)


# --- links

#: How a connection was made, seen from one end: this end dialled the other (the link is outbound),
#: the other end dialled this one, or both (the sum).
DIALLED, WAS_DIALLED = 1, 2

#: The number of rows whose scan takes as long as one binary search.
_ROWS_OF_A_SEARCH = 64

#: The number of links whose intermediate results fit into the processor's cache.
_LINKS_AT_ONCE = 2**15


@dataclass
class Links(arrays.SortedTable):
    """Links of nodes to peers in topics, by (topic, node, peer): connections, or meshes."""

    #: int8: :data:`DIALLED`, :data:`WAS_DIALLED`, or their sum.
    way: np.ndarray = field(default_factory=arrays.codes)


@dataclass
class BackOff(arrays.SortedTable):
    """Peers to which a node must not send GRAFT for some time; by (topic, node, peer)."""

    #: The first heartbeat in which it may send GRAFT again.
    until: np.ndarray = field(default_factory=arrays.whole_numbers)

    def holds(self, keys: np.ndarray, heartbeat: int) -> np.ndarray:
        """Return True for links (keys) on which no GRAFT may be sent in a heartbeat."""
        row = self.find(keys)
        found = row >= 0
        found[found] = self.until[row[found]] > heartbeat
        return found


@dataclass
class Runs(arrays.SortedTable):
    """The range of rows of each (topic, node) in a table of links."""

    #: The first row, and the row after the last one.
    first: np.ndarray = field(default_factory=arrays.whole_numbers)
    last: np.ndarray = field(default_factory=arrays.whole_numbers)

    def rows(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each place and the row after the last one; equal without rows."""
        at = self.find(place)
        if not len(self):
            return at, at
        first = self.first[at]
        return first, np.where(at >= 0, self.last[at], first)


@dataclass(frozen=True)
class LinkSpace:
    """Conversion between topics, nodes, peers and keys of tables, and draws keyed by numbers.

    A *place* is the key of a topic and a node: ``topic * size + node``.
    """

    size: int  # K, the number of nodes
    #: The numbers of topics (by index) and of nodes (by position), and the seed, which key draws.
    topic: np.ndarray = field(default_factory=arrays.whole_numbers)
    number: np.ndarray = field(default_factory=arrays.whole_numbers)
    seed: int = 0

    def bits(
        self, purpose: str, heartbeat: int, topic: np.ndarray, *nodes: np.ndarray
    ) -> np.ndarray:
        """Return *draw*(purpose, heartbeat, topic, nodes), keyed by numbers: uint64."""
        rows = [self.number[one] for one in nodes]
        return draws.bits_np(self.seed, purpose, heartbeat, self.topic[topic], *rows)

    def bits_of_peers(
        self, purpose: str, heartbeat: int, place: np.ndarray, of: np.ndarray, peer: np.ndarray
    ) -> np.ndarray:
        """Return a draw for each `peer` of the place in row `of`: uint64."""
        bits = self.bits(purpose, heartbeat, *arrays.divided(place, self.size))
        return draws.more_bits(bits[of], self.number[peer])

    def key(self, place: np.ndarray, peer: np.ndarray) -> np.ndarray:
        """Return the keys (topic, node, peer) of places (topic, node) and peers."""
        return key_of([place, peer], self.size)

    def split(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split keys into topic, node and peer."""
        place, peer = arrays.divided(key, self.size)
        return *arrays.divided(place, self.size), peer

    def peers_among(self, key: np.ndarray, marked: np.ndarray) -> np.ndarray:
        """Return True for links whose peer is marked in `marked` (bool, by position)."""
        found = np.empty(len(key), dtype=bool)
        for start in range(0, len(key), _LINKS_AT_ONCE):
            some = slice(start, start + _LINKS_AT_ONCE)
            found[some] = marked[arrays.divided(key[some], self.size)[1]]
        return found

    def rows(self, table: arrays.SortedTable, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each place in a table, and the row after the last one."""
        if len(place) * _ROWS_OF_A_SEARCH < len(table):
            first = np.searchsorted(table.key, place * self.size)
            return first, np.searchsorted(table.key, (place + 1) * self.size)
        return self.runs(table).rows(place)

    def runs(self, table: arrays.SortedTable) -> Runs:
        """Return the range of rows of each place (topic, node) in a table of links."""
        key = table.key
        first = arrays.run_starts(key // self.size)
        return Runs(key[first] // self.size, first, np.append(first, len(key))[1:])

    def at(self, table: arrays.SortedTable, place: np.ndarray) -> np.ndarray:
        """Return the keys of all rows of some places (keys of topic and node) in a table."""
        return table.key[arrays.expand(*self.rows(table, place))[1]]

    def count(self, table: arrays.SortedTable, place: np.ndarray) -> np.ndarray:
        """Return the number of rows in `table` that each place (key of topic and node) has."""
        first, last = self.rows(table, place)
        return last - first


def turned_way(way: np.ndarray) -> np.ndarray:
    """Return `Links.way` of connections as seen from their other ends."""
    return ((way & DIALLED) << 1 | (way & WAS_DIALLED) >> 1).astype(np.int8)


# --- degrees


class Degrees(NamedTuple):
    """The desired sizes of meshes D, D_low, D_high and D_out of some nodes: int64 arrays."""

    d: np.ndarray
    low: np.ndarray
    high: np.ndarray
    out: np.ndarray


def with_classes(config: GossipSubConfig, classes: NodeClasses | None) -> Any:
    """Return GossipSub's settings for tasks, and with them the classes of nodes."""
    return FrozenFields(**vars(config.filled().for_tasks()), classes=classes)


def degrees(rules: Any, node: np.ndarray, number: Any) -> Degrees:
    """Return the desired sizes of the meshes of nodes; `number` has the numbers of all nodes."""
    classes: NodeClasses | None = getattr(rules, "classes", None)
    if classes is None or not classes.says("degree"):
        usual = rules.d, rules.d_low, rules.d_high, rules.d_out
        return Degrees(*(np.broadcast_to(np.int64(value), node.shape) for value in usual))
    d = classes.values("degree", number[node], rules.d)
    low = np.clip(rules.d_low + d - rules.d, 1, d)
    high = np.maximum(rules.d_high + d - rules.d, d)
    return Degrees(d, low, high, np.minimum(np.minimum(rules.d_out, d // 2), low - 1))


# --- router

_NOBODY = np.empty(0, dtype=np.int64)


@dataclass
class Router:
    """The peers of a bucket's nodes in topics, and the decisions of the protocol."""

    rules: GossipSubConfig  # the section of the config with defaults filled in
    space: LinkSpace
    connections: Links
    mesh: Links = field(default_factory=Links)
    back_off: BackOff = field(default_factory=BackOff)
    #: ``has_joined(topic, node)`` returns True for peers that have joined; None if all have.
    has_joined: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    # ---- what nodes decide

    def join(self, place: np.ndarray, heartbeat: int) -> np.ndarray:
        """Let nodes (places) JOIN topics (G6); return the links on which they send GRAFT."""
        return self._graft("gossipsub join", place, self._wished(place).d, heartbeat)

    def heartbeat(self, place: np.ndarray, heartbeat: int) -> tuple[np.ndarray, np.ndarray]:
        """Let nodes (places) maintain their meshes (G7); return added and pruned links."""
        wished = self._wished(place)
        degree = self.space.count(self.mesh, place)
        few = degree < wished.low
        grafted = self._graft("gossipsub graft", place[few], (wished.d - degree)[few], heartbeat)
        pruned = self._prune(place, heartbeat)
        degree, outbound = self._degrees(place)
        lacking = np.flatnonzero((degree >= wished.low) & (outbound < wished.out))
        wanted = (wished.out - outbound)[lacking]
        more = self._graft("gossipsub outbound", place[lacking], wanted, heartbeat, DIALLED)
        return np.concatenate([grafted, more]), pruned

    def unsettled(self, place: np.ndarray) -> np.ndarray:
        """Return those of some places (topic, node) whose meshes a heartbeat may change."""
        wished, (degree, outbound) = self._wished(place), self._degrees(place)
        too_many = degree >= wished.high + (not self.rules.prune_at_d_high)
        return place[(degree < wished.low) | (outbound < wished.out) | too_many]

    def _wished(self, place: np.ndarray) -> Degrees:
        """Return the desired sizes of meshes of the nodes of places (keys of topic and node)."""
        return degrees(self.rules, place % self.space.size, self.space.number)

    def _graft(
        self, purpose: str, place: np.ndarray, wanted: np.ndarray, heartbeat: int, way: int = 0
    ) -> np.ndarray:
        """Add ``wanted[i]`` drawn eligible peers to the mesh of ``place[i]``; return the new links.

        With a `way` (`Links.way`), only peers are eligible whose connection was made in that way.
        """
        of, row = self._eligible(place, heartbeat)
        if way:
            kept = (self.connections.way[row] & way) > 0
            of, row = of[kept], row[kept]
        if not len(row):
            return _NOBODY
        peer = self.connections.key[row] % self.space.size
        bits = self.space.bits_of_peers(purpose, heartbeat, place, of, peer)
        row = row[least(of, bits, wanted)]
        key = self.connections.key[row]
        self.mesh.insert(key, way=self.connections.way[row])
        return key

    def _eligible(self, place: np.ndarray, heartbeat: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the peers that may be grafted (rule G5): index into `place`, row of the link."""
        of, row = arrays.expand(*self.space.rows(self.connections, place))
        key = self.connections.key[row]
        kept = ~self.mesh.has(key) & ~self.back_off.holds(key, heartbeat)
        of, row = of[kept], row[kept]
        if self.has_joined is None:
            return of, row
        topic, _, peer = self.space.split(self.connections.key[row])
        kept = self.has_joined(topic, peer)
        return of[kept], row[kept]

    def _prune(self, place: np.ndarray, heartbeat: int) -> np.ndarray:
        """Remove peers from meshes that are too large; return the removed links."""
        first, last = self.space.rows(self.mesh, place)
        wished = self._wished(place)
        many = last - first >= wished.high + (not self.rules.prune_at_d_high)
        if not many.any():
            return _NOBODY
        of, row = arrays.expand(first[many], last[many])
        d, out = wished.d[many], wished.out[many]
        peer = self.mesh.key[row] % self.space.size
        bits = self.space.bits_of_peers("gossipsub keep", heartbeat, place[many], of, peer)
        order = draws.order_of_draws(of, bits)
        of, row = of[order], row[order]
        # keep outbound peers up to the quota first, then the others
        outbound = (self.mesh.way[row] & DIALLED) > 0
        quota = np.zeros(len(row), dtype=bool)
        quota[outbound] = arrays.index_in_run(of[outbound]) < out[of[outbound]]
        order = np.lexsort((~quota, of))
        dropped = row[order[arrays.index_in_run(of[order]) >= d[of[order]]]]
        key = self.mesh.key[dropped]
        self.mesh.drop(dropped)
        self.take_back_off(key, heartbeat + self.rules.prune_backoff)
        return key

    def _degrees(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how many peers are in each place's mesh, and how many of them the node dialled."""
        first, last = self.space.rows(self.mesh, place)
        outbound = np.r_[0, np.cumsum((self.mesh.way & DIALLED) > 0)]
        return last - first, outbound[last] - outbound[first]

    # ---- what nodes take

    def take_back_off(self, key: np.ndarray, until: int) -> None:
        """Forbid GRAFT on links (keys) until a heartbeat; an existing later end is kept."""
        key = arrays.distinct(key)
        row = self.back_off.find(key)
        there = row >= 0
        longest = np.full(len(key), until, dtype=np.int64)
        longest[there] = np.maximum(self.back_off.until[row[there]], until)
        self.back_off.drop(row[there])
        self.back_off.insert(key, until=longest)

    def disconnect(self, key: np.ndarray) -> None:
        """Remove connections and their mesh links; rule G17."""
        for links in (self.connections, self.mesh):
            links.discard(key)

    def take_grafts(self, key: np.ndarray, way: np.ndarray, heartbeat: int) -> np.ndarray:
        """Handle received GRAFTs (G8); return the refused links, which forbid GRAFT now.

        `key` and `way` are seen from the receiving nodes; each link occurs once.
        """
        order = np.argsort(key)  # ties go to the smaller nodeId
        order = order[~self.mesh.has(key[order])]
        key, way = key[order], way[order]
        refused = self.back_off.holds(key, heartbeat)
        open_rows = np.flatnonzero(~refused)
        place, peer = arrays.divided(key[open_rows], self.space.size)
        places, of = np.unique(place, return_inverse=True)
        bits = self.space.bits_of_peers("gossipsub take", heartbeat, places, of, peer)
        order = draws.order_of_draws(of, bits)
        before = self.space.count(self.mesh, places)[of[order]] + arrays.index_in_run(of[order])
        # a full mesh still accepts peers that the node has dialled
        inbound = (way[open_rows[order]] & DIALLED) == 0
        full = before >= self._wished(places).high[of[order]]
        refused[open_rows[order[full & inbound]]] = True
        self.mesh.insert(key[~refused], way=way[~refused])
        self.take_back_off(key[refused], heartbeat + self.rules.prune_backoff)
        return key[refused]
