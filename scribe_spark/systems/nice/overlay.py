"""NICE as a system whose overlay grows in periods: its state, its edges and its measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core.arrays import distinct, expand, find_sorted, run_starts, whole_numbers
from scribe_spark.engine import Columns
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period
from scribe_spark.systems.nice.hierarchy import read_layers, tops
from scribe_spark.systems.nice.period import CLUSTERS, SILENT, WAITING, NicePeriod

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.nice.config import NiceConfig

#: The layer of a copy from a source that is no member.
GUEST = -2

#: Events of a period, which are counted.
EVENTS = ("joins", "moves", "splits", "merges", "new_leaders")


@dataclass(frozen=True)
class Nice(GrownOverlays):
    """NICE; `rules` are `Section.for_tasks`."""

    rules: NiceConfig
    tables: ClassVar[tuple[str, ...]] = (CLUSTERS, SILENT, WAITING)
    carried: ClassVar[tuple[str, ...]] = ("layer",)
    counted: ClassVar[tuple[str, ...]] = (*EVENTS, "control_bytes")
    control: ClassVar[tuple[str, ...]] = (
        *("query", "answer", "ping", "pong", "join", "leave", "heartbeat"),
        *("transfer", "add", "remove", "merge", "force_merge"),
    )

    @property
    def rounds_before(self) -> int:
        """The number of periods of a run before its publications."""
        return (self.rules.join_periods or 40) + self.rules.settle_periods

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """Play one period: rules V1 to V8."""
        played = NicePeriod(self.rules, state, period)
        played.play()
        state.clear()
        state |= played.state()
        period.counts["control_bytes"] = played.sent.bytes
        return played.sent.by_kind()

    # --- publications

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges between the members of each cluster, and those of guests: rule V9."""
        size, state = len(network.ring), overlays.state
        layers = read_layers(state.get(CLUSTERS), size)
        parts = [_edges_of(layer.clusters, number) for number, layer in enumerate(layers)]
        names = "node", "peer", "layer"
        parts = parts or [(whole_numbers(),) * 3]
        made = dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))
        silent = state.get(SILENT, {"group": whole_numbers(), "node": whole_numbers()})
        beats = find_sorted(silent["group"] * size + silent["node"], made["node"]) < 0
        made = {name: column[beats] for name, column in made.items()}
        edges = overlays.each_publication(
            {
                "group": made["node"] // size,
                **{name: made[name] % size for name in ("node", "peer")},
                "layer": made["layer"],
            }
        )
        # a guest sends to the rendezvous point
        groups, _, head = tops(layers, size)
        seated = layers[0].key if layers else whole_numbers()
        at = find_sorted(groups, overlays.of)
        guest = (find_sorted(seated, overlays.of * size + overlays.source) < 0) & (at >= 0)
        publication = np.flatnonzero(guest)
        more = {
            "publication": publication,
            "node": overlays.source[guest],
            "peer": head[at[guest]] % size,
            "layer": np.full(len(publication), GUEST),
        }
        return {name: np.r_[column, more[name]] for name, column in edges.items() if name in more}

    def forwards(self, first: Columns, edges: Columns) -> np.ndarray:
        """Forward to all clusters but that of the first copy: rule V9."""
        return edges["layer"] != first["layer"]

    # --- measures

    def sums(self, state: Mapping[str, Columns]) -> dict[str, float]:
        """Count groups, members, clusters and peers at the end of a round."""
        rows, waiting = state.get(CLUSTERS), state.get(WAITING)
        found = {"waiting": 0 if waiting is None else len(waiting["node"])}
        if rows is None:
            return found
        start = run_starts(rows["group"], rows["layer"], rows["leader"])
        size = np.diff(start, append=len(rows["group"]))
        group, layer = rows["group"][start], rows["layer"][start]
        last = np.append(group[1:] != group[:-1], True)  # the cluster of the top layer
        bad = (size > self.rules.most) | (size < np.where(last, 1, self.rules.k))
        groups = len(distinct(group))
        return {
            **found,
            "members": int(np.count_nonzero(rows["layer"] == 0)),
            "groups": groups,
            "layers": int((layer[last] + 1).sum()),
            "clusters": len(start),
            "peers": int((size * (size - 1)).sum()),
            "sound": groups - len(distinct(group[bad])),
        }

    def measures_of(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the means over groups and members; see `sums`."""
        groups, members = (max(1.0, sums.get(name, 0.0)) for name in ("groups", "members"))
        found = {name: sums.get(name, 0.0) / groups for name in ("layers", "clusters", "sound")}
        waiting = sums.get("waiting", 0.0)
        everybody = max(1.0, sums.get("members", 0.0) + waiting)
        return {**found, "peers": sums.get("peers", 0.0) / members, "waiting": waiting / everybody}


def _edges_of(clusters, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends of all edges in the clusters of a layer, and the layer."""
    first, end = (np.repeat(bound, clusters.size) for bound in (clusters.first, clusters.end))
    row, other = expand(first, end)
    some = row != other
    row, other = clusters.member[row[some]], clusters.member[other[some]]
    return row, other, np.full(len(row), number)
