"""The GossipSub router of many nodes in many topics: which peers to GRAFT, PRUNE or refuse.

Every step is a function of the nodes' tables and of keyed random draws; the programs of
:mod:`.mesh` and :mod:`.round` play it on buckets.

References
----------
libp2p/specs, gossipsub-v1.0.md, "Topic Membership", "Mesh Maintenance"; gossipsub-v1.1.md, "Prune
Backoff", "Outbound Mesh Quotas".
docs/rules.md, G5 to G9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core.arrays import distinct, divided, expand, index_in_run
from scribe_spark.gossipsub.choosing import Names, in_order, least
from scribe_spark.gossipsub.degrees import Degrees, degrees
from scribe_spark.gossipsub.links import DIALLED, BackOff, Links, Space
from scribe_spark.gossipsub.score import score

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.gossipsub import GossipSubConfig

_NOBODY = np.empty(0, dtype=np.int64)


@dataclass
class Router:
    """The peers of nodes in topics, and the decisions of the protocol."""

    rules: GossipSubConfig  # the section of the config with defaults filled in
    names: Names
    space: Space
    connections: Links
    mesh: Links = field(default_factory=Links)
    back_off: BackOff = field(default_factory=BackOff)
    #: ``has_joined(topic, node)`` returns True for peers that have joined; None if all have.
    has_joined: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    # ---- what nodes decide

    def join(self, place: np.ndarray, heartbeat: int) -> np.ndarray:
        """Nodes JOIN topics (rule G6); return the links on which they send GRAFT, added to their
        meshes.
        """
        return self._graft("gossipsub join", place, self._wished(place).d, heartbeat)

    def heartbeat(self, place: np.ndarray, heartbeat: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes maintain their meshes (rule G7); return the links that were added and removed.

        The removed ones are in back-off now.
        """
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
        """Return the places whose meshes a heartbeat may change."""
        wished, (degree, outbound) = self._wished(place), self._degrees(place)
        too_many = degree >= wished.high + (not self.rules.prune_at_d_high)
        return place[(degree < wished.low) | (outbound < wished.out) | too_many]

    def _wished(self, place: np.ndarray) -> Degrees:
        """Return the desired degrees of the nodes of places."""
        return degrees(self.rules, place % self.space.size, self.names.node)

    def _graft(
        self, purpose: str, place: np.ndarray, wanted: np.ndarray, heartbeat: int, way: int = 0
    ) -> np.ndarray:
        """GRAFT eligible peers; `way` restricts them to connections made that way."""
        of, row = self._eligible(place, heartbeat)
        if way:
            kept = (self.connections.way[row] & way) > 0
            of, row = of[kept], row[kept]
        if not len(row):
            return _NOBODY
        topic, node = divided(place, self.space.size)
        peer = self.connections.key[row] % self.space.size
        bits = self.names.bits_of_peers(purpose, heartbeat, topic, node, of, peer)
        row = row[least(of, bits, wanted)]
        key = self.connections.key[row]
        self.mesh.insert(key, way=self.connections.way[row])
        return key

    def _eligible(self, place: np.ndarray, heartbeat: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the peers that may be grafted (rule G5): index into `place`, row of the link."""
        of, row = expand(*self.space.rows(self.connections, place))
        key = self.connections.key[row]
        kept = ~self.mesh.has(key) & ~self.back_off.holds(key, heartbeat)
        of, row = of[kept], row[kept]
        topic, node, peer = self.space.split(self.connections.key[row])
        kept = score(topic, node, peer) >= 0
        if self.has_joined is not None:
            kept &= self.has_joined(topic, peer)
        return of[kept], row[kept]

    def _prune(self, place: np.ndarray, heartbeat: int) -> np.ndarray:
        """Remove peers from meshes that are too large."""
        rules, size = self.rules, self.space.size
        first, last = self.space.rows(self.mesh, place)
        wished = self._wished(place)
        many = last - first >= wished.high + (not rules.prune_at_d_high)
        if not many.any():
            return _NOBODY
        of, row = expand(first[many], last[many])
        d, out = wished.d[many], wished.out[many]
        topic, node = divided(place[many], size)
        peer = self.mesh.key[row] % size
        bits = self.names.bits_of_peers("gossipsub keep", heartbeat, topic, node, of, peer)
        order = in_order(of, bits)
        of, row = of[order], row[order]
        # keep outbound peers up to the quota first, then the others
        outbound = (self.mesh.way[row] & DIALLED) > 0
        quota = np.zeros(len(row), dtype=bool)
        quota[outbound] = index_in_run(of[outbound]) < out[of[outbound]]
        order = np.lexsort((~quota, of))
        dropped = row[order[index_in_run(of[order]) >= d[of[order]]]]
        key = self.mesh.key[dropped]
        self.mesh.drop(dropped)
        self.take_back_off(key, heartbeat + rules.prune_backoff)
        return key

    def _degrees(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of peers in each place's mesh, and of outbound ones among them."""
        first, last = self.space.rows(self.mesh, place)
        outbound = np.r_[0, np.cumsum((self.mesh.way & DIALLED) > 0)]
        return last - first, outbound[last] - outbound[first]

    # ---- what nodes take

    def take_back_off(self, key: np.ndarray, until: int) -> None:
        """Put links into back-off until a heartbeat; back-off is never shortened."""
        key = distinct(key)
        row = self.back_off.find(key)
        there = row >= 0
        longest = np.full(len(key), until, dtype=np.int64)
        longest[there] = np.maximum(self.back_off.until[row[there]], until)
        self.back_off.drop(row[there])
        self.back_off.insert(key, until=longest)

    def disconnect(self, key: np.ndarray) -> None:
        """Remove connections and their mesh links; rule G17."""
        for links in (self.connections, self.mesh):
            row = links.find(key)
            links.drop(row[row >= 0])

    def take_prunes(self, key: np.ndarray, until: int) -> None:
        """Handle received PRUNEs; rule G8."""
        row = self.mesh.find(key)
        self.mesh.drop(row[row >= 0])
        self.take_back_off(key, until)

    def take_grafts(self, key: np.ndarray, way: np.ndarray, heartbeat: int) -> np.ndarray:
        """Handle received GRAFTs (rule G8); return the refused links, in back-off now.

        `key` and `way` are seen from the receiving nodes; each link occurs once.
        """
        order = np.argsort(key)  # ties go to the smaller nodeId
        order = order[~self.mesh.has(key[order])]
        key, way = key[order], way[order]
        backing_off = self.back_off.holds(key, heartbeat)
        topic, node, peer = self.space.split(key)
        refused = backing_off | (score(topic, node, peer) < 0)
        open_rows = np.flatnonzero(~refused)
        place = key[open_rows] // self.space.size
        places, of = np.unique(place, return_inverse=True)
        bits = self.names.bits(
            "gossipsub take", heartbeat, topic[open_rows], node[open_rows], peer[open_rows]
        )
        order = in_order(of, bits)
        before = self.space.count(self.mesh, places)[of[order]] + index_in_run(of[order])
        # a full mesh still accepts peers that the node has dialled
        inbound = (way[open_rows[order]] & DIALLED) == 0
        full = before >= self._wished(places).high[of[order]]
        refused[open_rows[order[full & inbound]]] = True
        self.mesh.insert(key[~refused], way=way[~refused])
        self.take_back_off(key[refused], heartbeat + self.rules.prune_backoff)
        return key[refused]
