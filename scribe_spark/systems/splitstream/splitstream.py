"""SplitStream as a system of runs and worlds: channels in the buckets that build them.

A period finds where SUBSCRIBEs enter the channels that are not at rest (`routes.FindRoutes`, by
Pastry's tables), opens them (`channels.Channels`), and plays hops until nothing moves
(`protocol.Hops`).  Publications go down the tree of one stripe each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import take
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import MEASURED, GrownOverlays, Period, entry_tables
from scribe_spark.rounds.system import SystemPlayer
from scribe_spark.systems.splitstream import CONTROL, COUNTED, MEASURES
from scribe_spark.systems.splitstream.channels import (
    CHANNELS,
    NODES,
    ChannelNodes,
    Channels,
    width_of,
)
from scribe_spark.systems.splitstream.forest import Forest
from scribe_spark.systems.splitstream.protocol import Hops
from scribe_spark.systems.splitstream.routes import ROUTES, FindRoutes, Routes

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig


@dataclass(frozen=True)
class SplitStream(GrownOverlays):
    """SplitStream as a system; `rules` is its section of the config (`Section.for_tasks`)."""

    rules: SplitStreamConfig
    b: int = 4  # the bits of a digit
    tables: ClassVar[tuple[str, ...]] = (NODES, CHANNELS, MEASURED)
    handed: ClassVar[tuple[str, ...]] = (ROUTES,)
    counted: ClassVar[tuple[str, ...]] = tuple(COUNTED)
    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)
    recodes: ClassVar[tuple[str, ...]] = ()  # parts go different ways
    control: ClassVar[tuple[str, ...]] = CONTROL
    notes_failures: ClassVar[bool] = True
    quotients: ClassVar[Mapping[str, tuple[str, str | None]]] = {
        name: (above, below) for name, (_, above, below) in MEASURES.items()
    }
    state: ClassVar[Mapping[str, str]] = entry_tables(
        *("children", "parents", "ancestors", "spare children", "spare parents", "waiting")
    )
    rounds_before: ClassVar[int] = 0  # members join before the publications

    def before_period(self, player: SystemPlayer, of_period: tuple[Any, ...]) -> None:
        """Find the Pastry routes of SUBSCRIBEs for the builders, except in channels at rest."""
        player.play(FindRoutes(*of_period))

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """See `GrownOverlays.play_period`."""
        channels = Channels(self.rules, state, period)
        if len(channels.played):
            handed, size = period.handed.get(ROUTES, {}), len(period.alive)
            forest = Forest(channels, self.b, Routes.of(handed, size, width_of(self.rules)))
            hops = Hops(forest)
            hops.play()
            channels.nodes = forest.nodes_after()
            period.counts.update(hops.counts)
        state |= channels.tables()
        return channels.sent.by_kind()

    def trees_of(self, number: int, group: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Return the stripes of publications: a group's sources take them in turn (L11)."""
        stripes = self.rules.stripes
        of_source = key_of([group, source], 1 + int(source.max(initial=0)))
        way = of_source * stripes + arrays.rank_in_group(of_source) % stripes
        _, first, of = np.unique(way, return_index=True, return_inverse=True)
        return (number + arrays.index_in_run(group[first])[of]) % stripes

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of the stripe down which each publication goes."""
        nodes, channels = (overlays.state.get(name, {}) for name in (NODES, CHANNELS))
        if not channels:
            return {name: arrays.whole_numbers() for name in ("publication", "node", "peer")}
        row, stripe = arrays.find_sorted(channels["group"], overlays.of), overlays.tree
        root = np.where(row < 0, arrays.NONE, channels["root"][row, stripe].astype(np.int64))
        rows = {"group": nodes["group"], "row": np.arange(len(nodes["node"]))}
        each = overlays.each_publication(rows)
        publication, at = each["publication"], each["row"]
        ends = {"node": nodes["parent"][at, stripe[publication]], "peer": nodes["node"][at]}
        down = take({"publication": publication, **ends}, ends["node"] >= 0)
        return overlays.from_sources(down, root)

    def entries(self, state: Mapping[str, Columns], network: Network) -> dict[str, Columns]:
        """Return the numbers of entries that nodes keep of channels.

        ``waiting`` are the stripes without a parent, of which the node is not the root.
        """
        of = ChannelNodes.from_state(state, NODES, size := len(network.ring))
        group, node = arrays.divided(of.key, size)
        above, spare_above = of.above(size), of.find(group * size + of.spare_parent)
        waits = (of.parent < 0) & ~of.hold_roots(state[CHANNELS], size)[:, : self.rules.stripes]
        counts = (
            np.bincount(above[above >= 0], minlength=len(of)),
            (of.parent >= 0).sum(axis=1),
            (of.ancestors >= 0).sum(axis=(1, 2)),
            np.bincount(
                spare_above[(of.spare_parent >= 0) & (spare_above >= 0)], minlength=len(of)
            ),
            (of.spare_parent >= 0).astype(np.int64),
            waits.sum(axis=1),
        )
        return self.by_kind({"group": group, "node": node}, *counts)

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges above and below one inner node of many stripes, at most four."""
        if not (nodes := overlays.state.get(NODES)):
            return {}
        row, stripe = np.nonzero(nodes["parent"] >= 0)
        ends = nodes["parent"][row, stripe], nodes["node"][row]
        above, below = (key_of([nodes["group"][row], end], len(network.ring)) for end in ends)
        inner, children = np.unique(above * self.rules.stripes + stripe, return_counts=True)
        node, first = np.unique(inner // self.rules.stripes, return_index=True)
        stripes, children = np.diff(first, append=len(inner)), np.add.reduceat(children, first)
        worth = np.where(stripes > 4, 0, stripes)
        node = node[np.lexsort((-children, -worth, node // len(network.ring)))]
        node = node[arrays.run_starts(node // len(network.ring))]
        down, up = (arrays.find_sorted(node, end) >= 0 for end in (above, below))
        return {
            "group": np.r_[nodes["group"][row[up]], nodes["group"][row[down]]],
            "parent": np.r_[ends[1][up], ends[0][down]],
            "child": np.r_[ends[0][up], ends[1][down]],
            "rank": np.r_[stripe[up] * 0, -1 - stripe[down]],
            "value": np.r_[stripe[up] * 1.0, np.full(len(stripe[down]), np.nan)],
        }
