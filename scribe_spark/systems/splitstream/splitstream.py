"""SplitStream as a system of runs and worlds: channels in the buckets that build them.

A period finds where SUBSCRIBEs enter the channels that are not at rest (`routes.FindRoutes`, by
Pastry's tables), begins (`period.begin`), and plays hops until nothing moves (`protocol.Hops`).
Publications go down the tree of one stripe each.

Rules: docs/rules.md, L1 to L12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core.arrays import distinct, find_sorted, index_in_run, run_starts
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds.group_events import to_nodes
from scribe_spark.rounds.group_overlays import Network, OverlayRound, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period
from scribe_spark.rounds.system import LivingRound, SystemPlayer
from scribe_spark.systems.splitstream.find_routes import JOINED, ROUTES, FindRoutes
from scribe_spark.systems.splitstream.period import (
    CHANNELS,
    NODES,
    Setting,
    begin,
    cleared,
    harvest,
    plant,
)
from scribe_spark.systems.splitstream.protocol import CONTROL, Hops
from scribe_spark.systems.splitstream.routes import Routes

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig


@dataclass(frozen=True)
class SplitStream(GrownOverlays):
    """SplitStream; `rules` are `Section.for_tasks`."""

    rules: SplitStreamConfig
    b: int = 4  # the bits of a digit
    tables: ClassVar[tuple[str, ...]] = (NODES, CHANNELS)
    handed: ClassVar[tuple[str, ...]] = (ROUTES,)
    counted: ClassVar[tuple[str, ...]] = ("orphans", "anycasts", "cycles", "hops")
    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)

    @property
    def control(self) -> tuple[str, ...]:
        """See `SystemOnBuckets.control`."""
        return CONTROL

    @property
    def rounds_before(self) -> int:
        """See `SystemOnBuckets.rounds_before`: members join before the publications."""
        return 0

    def setting(
        self, network: Network, number: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> Setting:
        """Return what the rules of channels need besides their state."""
        of_rules = self.rules, self.b, network.seed, network.capacity
        return Setting(network.ring, key_hi, key_lo, number, *of_rules)

    def before_period(self, player: SystemPlayer, round: OverlayRound, now: LivingRound) -> None:
        """Find the routes of channels that are not at rest."""
        changed = distinct(np.concatenate([now.join[0], now.quit[0]]))
        of_round = now.key_lo, now.number, np.sort(now.events.fail), changed
        program = FindRoutes(round, self.setting, *of_round)
        player.play(program, {JOINED: to_nodes(now.join)})

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """See `GrownOverlays.play_period`."""
        assert period.key_hi is not None
        assert period.key_lo is not None
        groups = period.group_number, period.key_hi, period.key_lo
        setting = self.setting(period.network, *groups)
        events = period.number, period.alive, period.died, period.join, period.quit
        begun = begin(state, setting, *events)
        sent = {kind: [rows] for kind, rows in begun.told.items()}
        nodes = begun.nodes
        if len(begun.played):
            forest = plant(begun, setting, period.number, period.alive)
            table = period.handed.get(ROUTES, {})
            routes = Routes.of(table, len(period.alive), setting.width)
            hops = Hops(forest, routes, self.rules.policy)
            hops.play(cleared(forest))
            nodes = harvest(begun, forest)
            for kind, rows in hops.sent.items():
                sent.setdefault(kind, []).extend(rows)
            period.counts.update(hops.counts)
        state[NODES], state[CHANNELS] = nodes, begun.channels
        return {kind: concatenate(rows) for kind, rows in sent.items() if rows}

    @property
    def ways(self) -> int:
        """The number of stripes: the publications of a source take them in turn (L11)."""
        return self.rules.stripes

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of each publication's stripe; see `GroupOverlays.edges` and L11."""
        nodes, channels = (overlays.state.get(name, {}) for name in (NODES, CHANNELS))
        none = np.empty(0, dtype=np.int64)
        if not channels:
            return {"publication": none, "node": none, "peer": none}
        # the stripe and its root
        order = np.lexsort((overlays.source, overlays.of))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = index_in_run(overlays.of[order])
        row = find_sorted(channels["group"], overlays.of)
        stripe = (channels["period"][row] + rank) % self.rules.stripes
        root = channels["root"][row, stripe].astype(np.int64)
        # down the tree, but not to the source
        rows = {"group": nodes["group"], "node": np.arange(len(nodes["node"]))}
        each = overlays.each_publication(rows)
        publication, at = each["publication"], each["node"]
        parent, node = nodes["parent"][at, stripe[publication]], nodes["node"][at]
        some = (parent >= 0) & (node != overlays.source[publication])
        up = np.flatnonzero((row >= 0) & (root != overlays.source))
        return {
            "publication": np.r_[publication[some], up],
            "node": np.r_[parent[some], overlays.source[up]].astype(np.int64),
            "peer": np.r_[node[some], root[up]],
        }

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of one node of each group: with most inner stripes, but at most four."""
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
        """Return numbers of nodes, trees, interior nodes and missing parents."""
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
