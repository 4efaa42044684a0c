"""SplitStream as a system of runs and worlds: channels in the buckets that build them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.arrays import divided
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import take
from scribe_spark.pastry.routes import ROUTES, FindRoutes
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds.group_events import Pairs
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import MEASURED, GrownOverlays, Period, entry_tables
from scribe_spark.rounds.system import SystemPlayer
from scribe_spark.systems.splitstream import CONTROL, COUNTED, MEASURES
from scribe_spark.systems.splitstream.period import NODES, ChannelNodes, Channels, Hops, ids_of

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig


@dataclass(frozen=True)
class SplitStream(GrownOverlays):
    """SplitStream as a system; `rules` is its section of the config (`Section.for_tasks`)."""

    rules: SplitStreamConfig
    b: int = 4  # the bits of a digit
    tables: ClassVar[tuple[str, ...]] = (NODES, MEASURED)
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
        player.play(FindRoutes(*(*of_period, self.that_move, partial(ids_of, self.rules))))

    def that_move(self, period: Period, tables: Tables) -> Pairs:
        """Return the live nodes in a builder's channels that are not at rest."""
        state = self.state_of(tables, np.arange(len(period.group_number)))
        begun = Channels(self.rules, state, period)
        some = period.alive[begun.node] & (arrays.find_sorted(begun.played, begun.group) >= 0)
        return begun.group[some], begun.node[some]

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """See `GrownOverlays.play_period`."""
        hops, before = Hops(self.rules, state, period, self.b), state.get(MEASURED, {})
        hops.play()
        state[NODES] = hops.nodes.to_state(hops.size)
        if not period.network.in_run:
            state[MEASURED] = hops.measured(before)
        return hops.sent.by_kind()

    def trees_of(self, number: int, group: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Return the stripes of publications: a group's sources take them in turn (L11)."""
        stripes = self.rules.stripes
        of_source = key_of([group, source], 1 + int(source.max(initial=0)))
        way = of_source * stripes + arrays.rank_in_group(of_source) % stripes
        _, first, of = np.unique(way, return_index=True, return_inverse=True)
        return (number + arrays.index_in_run(group[first])[of]) % stripes

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of the stripe down which each publication goes."""
        of = ChannelNodes.of(overlays.state, size := len(network.ring), self.rules)
        group, node = divided(of.key, size)
        each = overlays.each_publication({"group": group, "row": np.arange(len(of))})
        publication, at = each["publication"], each["row"]
        node, stripe, root = node[at], overlays.tree[publication], overlays.of * 0 + arrays.NONE
        is_root = of.root[at, stripe]
        root[publication[is_root]] = node[is_root]
        down = {"publication": publication, "node": of.parent[at, stripe], "peer": node}
        return overlays.from_sources(take(down, down["node"] >= 0), root)

    def entries(self, state: Mapping[str, Columns], network: Network) -> dict[str, Columns]:
        """Return the numbers of entries that nodes keep; ``waiting`` are missing parents."""
        of = ChannelNodes.from_state(state, NODES, size := len(network.ring))
        group, node = divided(of.key, size)
        has, above = of.spare_parent >= 0, of.find(group * size + of.spare_parent)
        counts = (
            *(of.children(size).sum(axis=1), (of.parent >= 0).sum(axis=1)),
            (of.ancestors >= 0).sum(axis=(1, 2)),
            *(np.bincount(above[has & (above >= 0)], minlength=len(of)), has.astype(np.int64)),
            ((of.parent < 0) & ~of.root[:, : self.rules.stripes]).sum(axis=1),
        )
        return self.by_kind({"group": group, "node": node}, *counts)

    def picture(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges above and below one inner node of many stripes, at most four."""
        of = ChannelNodes.of(overlays.state, size := len(network.ring), self.rules)
        (group, node), above, children = divided(of.key, size), of.above(size), of.children(size)
        stripes = (children > 0).sum(axis=1)
        order = np.lexsort((-children.sum(axis=1), -np.where(stripes > 4, 0, stripes), group))
        is_middle = np.zeros(len(of), dtype=bool)
        is_middle[order[arrays.run_starts(group[order])]] = True
        some = (above >= 0) & (is_middle[:, None] | is_middle[above])
        (row, stripe), up = np.nonzero(some), above[some]
        is_up = is_middle[row]  # the others lead to its children
        return {
            "group": group[row],
            "parent": node[np.where(is_up, row, up)],
            "child": node[np.where(is_up, up, row)],
            "rank": np.where(is_up, 0, -1 - stripe),
            "value": np.where(is_up, stripe, np.nan),
        }
