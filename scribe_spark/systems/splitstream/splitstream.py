"""SplitStream as a system of runs and worlds: channels in the buckets that build them.

A period finds where SUBSCRIBEs enter the channels that are not at rest (`FindRoutes`, by Pastry's
tables), opens them (`channels.Channels`), and plays hops until nothing moves (`protocol`).
Publications go down the tree of one stripe each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT, append, in_bucket
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.states import CELLS, LEAVES, States
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import (
    MEASURED,
    BuilderProgram,
    GrownOverlays,
    Period,
    entry_tables,
)
from scribe_spark.rounds.system import SystemPlayer
from scribe_spark.systems.splitstream import CONTROL, COUNTED, MEASURES
from scribe_spark.systems.splitstream.channels import (
    NODES,
    ChannelNodes,
    Channels,
    ids_of,
    width_of,
)
from scribe_spark.systems.splitstream.protocol import POLICIES

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.splitstream.config import SplitStreamConfig

#: The table of next hops in a builder: the key (group, node, id) and ``next``, a position.
ROUTES = "routes"

# kinds of messages: nodes whose routes a builder needs, a visit by a route, a next hop
_ASKS, _VISIT, _NEXT = "asks", "visit", "next"

#: The table of a bucket with the keys of the visits that routes have made.
_VISITED = "visited"


@dataclass(frozen=True)
class FindRoutes(BuilderProgram):
    """Follow Pastry's routes to the ids of channels, which say where SUBSCRIBEs enter: rule L5.

    A builder tells the buckets which of their nodes are in channels that are not at rest. A *visit*
    is a node on the route to an id (of a stripe, or of the spare group): a key (group, node, id).
    A next hop depends on the node and the id only, so each bucket finds it once, and tells it to
    the builder: :data:`ROUTES`.  Where a route ends, the next hop is the node itself or NONE.
    """

    rules: SplitStreamConfig

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Follow routes to the edge of the bucket; return visits of others, and next hops."""
        round, width = self.round, width_of(self.rules)
        if not superstep:
            tables[_VISITED] = {"key": arrays.whole_numbers()}
            return self._ask_for_routes(tables)
        if _NEXT in inbox:
            append(tables, ROUTES, {name: inbox[_NEXT][name] for name in ("key", "next")})
        visits = inbox[_VISIT]["key"] if _VISIT in inbox else arrays.whole_numbers()
        if _ASKS in inbox:
            place = key_of([inbox[_ASKS]["group"], inbox[_ASKS][AT]], round.size)
            visits = np.r_[visits, (place[:, None] * width + np.arange(width)).ravel()]
        if not len(visits):
            return {}
        ids = ids_of(self.rules, Keys(self.own.key_hi, self.own.key_lo))
        states = States.of_tables(round.facts.ring, int(self.bounds[bucket]), tables)
        seen, found, leaving = tables[_VISITED]["key"], list[Columns](), list[np.ndarray]()
        while len(visits):
            visits = arrays.distinct(visits)
            visits = visits[arrays.find_sorted(seen, visits) < 0]
            seen = np.sort(np.r_[seen, visits], kind="stable")
            place, stripe = arrays.divided(visits, width)
            group, at = arrays.divided(place, round.size)
            keys = ids.take(group * width + stripe)
            onward, _ = hop(states, self.own.overlay.is_alive, at, keys)
            found.append({AT: round.builders(group), "key": visits, "next": onward})
            goes = (onward >= 0) & (onward != at)
            visits = (visits + (onward - at) * width)[goes]
            inside = in_bucket(self.bounds, bucket, onward[goes])
            leaving.append(visits[~inside])
            visits = visits[inside]
        tables[_VISITED] = {"key": seen}
        away = arrays.distinct(np.concatenate(leaving))
        onward = away // width % round.size
        return {_NEXT: concatenate(found)} | (
            {_VISIT: {AT: onward, "key": away}} if len(away) else {}
        )

    def _ask_for_routes(self, tables: Tables) -> Outbox:
        """Ask for the routes of the live nodes in this builder's channels that are not at rest."""
        round = self.round
        state = round.system.state_of(tables, np.arange(len(self.own.group)))
        begun = Channels(self.rules, state, self.period(tables, {}))
        group, node = arrays.divided(begun.nodes.key, round.size)
        asks = self.own.alive[node] & (arrays.find_sorted(begun.played, group) >= 0)
        return {_ASKS: {AT: node[asks], "group": group[asks]}} if asks.any() else {}


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
        player.play(FindRoutes(*(*of_period, self.rules)))

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """See `GrownOverlays.play_period`."""
        channels, before = Channels(self.rules, state, period), state.get(MEASURED, {})
        if len(channels.played):
            hops = POLICIES[self.rules.policy](channels, self.b, period.handed.get(ROUTES, {}))
            hops.play()
            channels.nodes = hops.nodes_after()
            period.counts.update(hops.counts)
        state[NODES] = channels.nodes.to_state(channels.size)
        if not period.network.in_run:
            state[MEASURED] = channels.measured(before)
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
        if not (nodes := overlays.state.get(NODES)):
            return {name: arrays.whole_numbers() for name in ("publication", "node", "peer")}
        rows = {"group": nodes["group"], "row": np.arange(len(nodes["node"]))}
        each = overlays.each_publication(rows)
        publication, at = each["publication"], each["row"]
        node, stripe = nodes["node"][at], overlays.tree[publication]
        is_root, root = nodes["root"][at, stripe], np.full(len(overlays.of), arrays.NONE)
        root[publication[is_root]] = node[is_root]
        down = {"publication": publication, "node": nodes["parent"][at, stripe], "peer": node}
        return overlays.from_sources(take(down, down["node"] >= 0), root)

    def entries(self, state: Mapping[str, Columns], network: Network) -> dict[str, Columns]:
        """Return the numbers of entries that nodes keep of channels.

        ``waiting`` are the stripes without a parent, of which the node is not the root.
        """
        of = ChannelNodes.from_state(state, NODES, size := len(network.ring))
        group, node = arrays.divided(of.key, size)
        has, above = of.spare_parent >= 0, of.find(group * size + of.spare_parent)
        ups = of.above(size)
        children, spare = (
            np.bincount(up[up >= 0], minlength=len(of)) for up in (ups, np.where(has, above, -1))
        )
        counts = (
            *(children, (of.parent >= 0).sum(axis=1), (of.ancestors >= 0).sum(axis=(1, 2))),
            *(spare, has.astype(np.int64)),
            ((of.parent < 0) & ~of.root[:, : self.rules.stripes]).sum(axis=1),
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
