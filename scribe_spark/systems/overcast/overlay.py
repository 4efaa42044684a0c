"""Overcast as a system that keeps its trees between periods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import find_sorted
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period
from scribe_spark.systems.overcast.config import OvercastConfig
from scribe_spark.systems.overcast.measures import QUOTIENTS, drawn, measured, tree_edges
from scribe_spark.systems.overcast.tables import CERTIFICATES, CHILDREN, MEMBERS
from scribe_spark.systems.overcast.tree import ADOPT, CHECK_IN, PROBE, Round

#: The table of the measures of trees at the end of a round of the world.
_MEASURED = "measured"


@dataclass(frozen=True)
class Overcast(GrownOverlays):
    """Overcast by rules E1 to E14; `rules` is its section of the config (`Section.for_tasks`)."""

    rules: OvercastConfig

    tables: ClassVar[tuple[str, ...]] = (MEMBERS, CHILDREN, CERTIFICATES, _MEASURED)
    counted: ClassVar[tuple[str, ...]] = ("moves", "certificates")

    @property
    def control(self) -> tuple[str, ...]:
        """See `GroupOverlays.control`."""
        return (PROBE, ADOPT, CHECK_IN)

    @property
    def rounds_before(self) -> int:
        """See `SystemOnBuckets.rounds_before`."""
        return self.rules.rounds

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """Play one round of Overcast; see `GrownOverlays.play_period`."""
        round = Round(self.rules, state, period)
        sent = round.play()
        period.counts.update(moves=round.moves, certificates=round.told_to_root)
        state.update(round.tables())
        if period.ends_round:
            state[_MEASURED] = measured(state, period.network)
        return sent

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of trees, and those from other sources to the root: rule E13."""
        members = overlays.state.get(MEMBERS)
        if members is None or not len(members["group"]):
            none = np.empty(0, dtype=np.int64)
            return {"publication": none, "node": none, "peer": none}
        child, parent = tree_edges(members, len(network.ring))
        ends = {"node": members["node"][parent], "peer": members["node"][child]}
        down = overlays.each_publication({"group": members["group"][child], **ends})
        other = down["peer"] != overlays.source[down["publication"]]
        down = take({name: down[name] for name in ("publication", "node", "peer")}, other)
        is_root = members["rank"] == 0
        top = find_sorted(members["group"][is_root], overlays.of)
        root = np.where(top < 0, overlays.source, members["node"][is_root][top])
        publication = np.flatnonzero(root != overlays.source)
        first = {"publication": publication, "node": overlays.source[publication]}
        return concatenate([down, {**first, "peer": root[publication]}])

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """See `GroupOverlays.picture`."""
        members = overlays.state.get(MEMBERS)
        return {} if members is None else drawn(members, network)

    def sums(self, state: Mapping[str, Columns]) -> dict[str, float]:
        """See `GrownOverlays.sums`."""
        rows = state.get(_MEASURED, {})
        return {name: float(column.sum()) for name, column in rows.items() if name != "group"}

    def measures_of(self, sums: Mapping[str, float]) -> dict[str, float]:
        """See `GrownOverlays.measures_of`."""
        return {
            name: sums.get(above, 0.0) / max(1.0, sums.get(below, 0.0))
            for name, (above, below) in QUOTIENTS.items()
        }
