"""SplitStream as a system of runs and worlds: channels in the buckets that build them.

A period finds where SUBSCRIBEs enter the channels that are not at rest (`routes.FindRoutes`, by
Pastry's tables), opens them (`channels.open_channels`), and plays hops until nothing moves
(`protocol.Hops`).  Publications go down the tree of one stripe each.

Rules: docs/rules.md, L1 to L11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    find_sorted,
    rank_in_group,
    run_starts,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import take
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period
from scribe_spark.rounds.system import SystemPlayer
from scribe_spark.systems.splitstream import CONTROL
from scribe_spark.systems.splitstream.channels import CHANNELS, NODES, Setting, open_channels
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
    tables: ClassVar[tuple[str, ...]] = (NODES, CHANNELS)
    handed: ClassVar[tuple[str, ...]] = (ROUTES,)
    counted: ClassVar[tuple[str, ...]] = ("orphans", "anycasts", "cycles", "hops")
    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)
    recodes: ClassVar[tuple[str, ...]] = ()  # parts go different ways
    control: ClassVar[tuple[str, ...]] = CONTROL
    rounds_before: ClassVar[int] = 0  # members join before the publications

    def before_period(self, player: SystemPlayer, of_period: tuple[Any, ...]) -> None:
        """Find the routes of channels that are not at rest, for the period's SUBSCRIBEs."""
        player.play(FindRoutes(*of_period))

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """See `GrownOverlays.play_period`."""
        setting, size = Setting(self.rules, self.b, period), len(period.alive)
        begun = open_channels(state, setting)
        if len(begun.played):
            forest = Forest(begun, setting)
            routes = Routes.of(period.handed.get(ROUTES, {}), size, setting.width)
            hops = Hops(forest, routes, self.rules.policy, begun.sent)
            hops.play()
            begun.nodes = forest.nodes_after()
            period.counts.update(hops.counts)
        state[NODES], state[CHANNELS] = begun.nodes.to_state(size), begun.channels
        return begun.sent.by_kind()

    @property
    def ways(self) -> int:
        """The number of stripes: a source's publications take the stripes in turn (L11)."""
        return self.rules.stripes

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of the stripe down which each publication goes: rule L11.

        See `GroupOverlays.edges`.
        """
        nodes, channels = (overlays.state.get(name, {}) for name in (NODES, CHANNELS))
        if not channels:
            return {name: whole_numbers() for name in ("publication", "node", "peer")}
        # the stripe and its root
        order = np.lexsort((overlays.source, overlays.of))
        rank = rank_in_group(overlays.of[order])[np.argsort(order)]
        row = find_sorted(channels["group"], overlays.of)
        stripe = (channels["period"][row] + rank) % self.rules.stripes
        root = np.where(row < 0, NONE, channels["root"][row, stripe].astype(np.int64))
        rows = {"group": nodes["group"], "row": np.arange(len(nodes["node"]))}
        each = overlays.each_publication(rows)
        publication, at = each["publication"], each["row"]
        ends = {"node": nodes["parent"][at, stripe[publication]], "peer": nodes["node"][at]}
        down = take({"publication": publication, **ends}, ends["node"] >= 0)
        return overlays.from_sources(down, root)

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges above and below one node of each group, for a picture.

        The node is an inner node of many stripes, at most four.
        """
        nodes = overlays.state.get(NODES)
        if nodes is None:
            return {}
        row, stripe = np.nonzero(nodes["parent"] >= 0)
        ends = nodes["parent"][row, stripe], nodes["node"][row]
        above, below = (key_of([nodes["group"][row], end], len(network.ring)) for end in ends)
        inner, children = np.unique(above * self.rules.stripes + stripe, return_counts=True)
        node, first = np.unique(inner // self.rules.stripes, return_index=True)
        stripes, children = np.diff(first, append=len(inner)), np.add.reduceat(children, first)
        worth = np.where(stripes > 4, 0, stripes)
        node = node[np.lexsort((-children, -worth, node // len(network.ring)))]
        node = node[run_starts(node // len(network.ring))]
        down, up = (find_sorted(node, end) >= 0 for end in (above, below))
        return {
            "group": np.r_[nodes["group"][row[up]], nodes["group"][row[down]]],
            "parent": np.r_[ends[1][up], ends[0][down]],
            "child": np.r_[ends[0][up], ends[1][down]],
            "rank": np.r_[stripe[up] * 0, -1 - stripe[down]],
            "value": np.r_[stripe[up] * 1.0, np.full(len(stripe[down]), np.nan)],
        }

    def sums(self, state: Mapping[str, Columns]) -> dict[str, float]:
        """Return sums over channels, by name.

        ``members`` are live nodes, ``at_most_one`` those interior in at most one stripe,
        ``interior`` the pairs of a live node and a stripe in which the node is interior, and
        ``open`` the missing parents of nodes that are no roots.
        """
        nodes, stripes = state[NODES], self.rules.stripes
        living = nodes["died"] < 0
        node, group = nodes["node"], nodes["group"]
        size = int(node.max(initial=0)) + 1
        row, stripe = np.nonzero(nodes["parent"] >= 0)
        key = group * size + node
        above = find_sorted(key, group[row] * size + nodes["parent"][row, stripe])
        children = np.zeros((len(key), stripes), dtype=bool)
        children[above, stripe] = True
        interior = children[living].sum(axis=1)
        roots = len(state[CHANNELS]["group"]) * stripes
        return {
            "members": float(np.count_nonzero(living)),
            "at_most_one": float(np.count_nonzero(interior <= 1)),
            "interior": float(interior.sum()),
            "trees": float(roots),
            "open": float(np.count_nonzero(nodes["parent"][living] < 0) - roots),
        }

    def measures_of(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the measures of a round."""
        members, trees = (max(1.0, sums.get(name, 1.0)) for name in ("members", "trees"))
        return {
            "interior.one": sums.get("at_most_one", 0.0) / members,
            "interior.nodes": sums.get("interior", 0.0) / trees,
            "open": sums.get("open", 0.0),
        }
