"""NICE as a system whose overlay grows in periods: its state, its edges and its measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE, find_sorted, numbered, run_starts, whole_numbers
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import count_rows
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, NumberedNodes, Period, entry_tables
from scribe_spark.systems.nice import EVENTS
from scribe_spark.systems.nice.hierarchy import Layer, layers_of, tops
from scribe_spark.systems.nice.period import CLUSTERS, SILENT, WAITING, NicePeriod

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.nice.config import NiceConfig

#: The layer of a copy from a source that is no member; a source itself has -1.
GUEST = -2


@dataclass(frozen=True)
class Nice(GrownOverlays):
    """NICE by rules V1 to V9; `rules` is the section ``nice`` of the config."""

    rules: NiceConfig
    notes_failures: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = (CLUSTERS, SILENT, WAITING)
    structure: ClassVar[tuple[str, ...]] = (CLUSTERS, "group", "layer", "leader", "node")
    carried: ClassVar[tuple[str, ...]] = ("layer",)
    counted: ClassVar[tuple[str, ...]] = (*EVENTS, "control_bytes")
    state: ClassVar[Mapping[str, str]] = entry_tables(
        "members of layer", "leaders of layer", "distances of layer"
    )
    control: ClassVar[tuple[str, ...]] = (
        *("query", "answer", "ping", "pong", "join", "leave", "heartbeat"),
        *("transfer", "add", "remove", "merge", "force_merge"),
    )

    @property
    def rounds_before(self) -> int:
        """The number of periods of a run before its publications."""
        return self.rules.join_periods + self.rules.settle_periods

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """Play one period: rules V1 to V8."""
        return NicePeriod(self.rules, state, period).play(state)

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of members, and those of sources that are no members: rule V9."""
        size, state = len(network.ring), overlays.state
        layers = layers_of(state.get(CLUSTERS), size)
        mute = NumberedNodes.from_state(state, SILENT, size).key
        parts = [(whole_numbers(),) * 3]
        for number, layer in enumerate(layers):
            clusters = layer.clusters
            ends = clusters.peers(find_sorted(mute, clusters.member) < 0)
            key, peer = (clusters.member[end] for end in ends)
            parts.append((key, peer, np.full(len(key), number)))
        key, peer, of_layer = map(np.concatenate, zip(*parts, strict=True))
        edges = {"group": key // size, "node": key % size, "peer": peer % size, "layer": of_layer}
        made = overlays.each_publication(edges)
        groups, _, head = tops(layers, size)
        point = np.append(head % size, NONE)[find_sorted(groups, overlays.of)]
        seated = layers[0].key[find_sorted(mute, layers[0].key) < 0] if layers else mute
        guest = (point >= 0) & (point != overlays.source)
        guest &= find_sorted(seated, overlays.of * size + overlays.source) < 0
        which = np.flatnonzero(guest)
        more = which, overlays.source[which], point[which], np.full(len(which), GUEST)
        names = "publication", "node", "peer", "layer"
        return {name: np.r_[made[name], some] for name, some in zip(names, more, strict=True)}

    def entries(self, state: Mapping[str, Columns], network: Network) -> dict[str, Columns]:
        """Return the members, leaders and distances that nodes keep of each layer: rule V1."""
        size, parts = len(network.ring), [(whole_numbers(),) * 6]
        layers = layers_of(state.get(CLUSTERS), size)
        for number, (layer, above) in enumerate(zip(layers, [*layers[1:], Layer()], strict=False)):
            clusters, upper = layer.clusters, above.clusters
            others = clusters.size[clusters.index] - 1
            leads = clusters.head[clusters.index] == clusters.member
            # a member that does not lead also knows the leaders beside its own one
            at = find_sorted(upper.head, above.head_of(clusters.head))
            leaders = 1 + np.where(leads, 0, np.append(upper.size - 1, 0)[at][clusters.index])
            distances = np.where(leads, others * (others + 1) // 2, others + leaders - 1)
            group, node = np.divmod(clusters.member, size)
            of_layer = np.full(len(node), number)
            parts.append((group, node, of_layer, others, leaders, distances))
        *ends, others, leaders, distances = map(np.concatenate, zip(*parts, strict=True))
        of = dict(zip(("group", "node", "layer"), ends, strict=True))
        return self.by_kind(of, others, leaders, distances)

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges from leaders to members; the top layer has the least rank."""
        if not (rows := overlays.state.get(CLUSTERS)):
            return {}
        return {**rows, "parent": rows["leader"], "child": rows["node"], "rank": -rows["layer"]}

    def forwards(self, first: Columns, edges: Columns) -> np.ndarray:
        """Return True for edges of other clusters than that from which a first copy came: V9."""
        return edges["layer"] != first["layer"]

    def sums(self, state: Mapping[str, Columns]) -> dict[str, float]:
        """Return sums over groups; ``unsound`` counts the clusters whose size is out of bounds."""
        found = {"waiting": float(len(state[WAITING]["node"])) if WAITING in state else 0.0}
        rows = state.get(CLUSTERS, {})
        if not count_rows(rows):
            return found
        start = run_starts(rows["group"], rows["layer"], rows["leader"])
        size = np.diff(start, append=len(rows["group"]))
        is_top = np.append(np.diff(rows["group"][start]) != 0, True)
        unsound = (size > 3 * self.rules.k + 1) | (size < np.where(is_top, 1, self.rules.k))
        lowest = rows["layer"] == 0
        top = rows["layer"][start][is_top][numbered(rows["group"][lowest])]
        names = "members", "layers", "clusters", "peers", "unsound"
        totals = lowest.sum(), (top + 1).sum(), len(start), (size * (size - 1)).sum(), unsound.sum()
        return found | {name: float(total) for name, total in zip(names, totals, strict=True)}
