"""Flooding over Pastry, in runs and worlds: over a ring of each group, or over all nodes.

A group's ring has perfect tables, which are built anew in each round; a run also counts what this
takes (F6, F7).  The overlay of all nodes has the tables that Pastry keeps.

Rules: docs/rules.md, F1 to F7, O1 to O9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE, expand
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT, in_bucket, take_tables
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.states import CELLS, LEAVES, States
from scribe_spark.rounds.group_overlays import Built, GroupOverlays, Network, OverlayRound, Overlays
from scribe_spark.rounds.system import LivingRound, SystemPlayer
from scribe_spark.systems.flooding.flood import (
    COPIES,
    COPY,
    Flood,
    GroupRings,
    kept_of,
    known_of_places,
    starting,
    told,
)

#: The message by which a node announces itself to the nodes in its tables.
ANNOUNCEMENT = "announcement"

#: The kinds of entries that nodes keep -> their tables.
_KEPT = {kind: f"entries of {kind}s" for kind in ("routing table", "leaf set")}


@dataclass(frozen=True)
class LiveFlooding(GroupOverlays):
    """Each group has a ring with perfect tables; publications are flooded, each along a tree."""

    b: int
    leaf_set: int

    state: ClassVar[Mapping[str, str]] = _KEPT
    building: ClassVar[tuple[str, ...]] = (ANNOUNCEMENT,)

    def build(self, overlays: Overlays, network: Network) -> Built:
        """Return the copies of publications, and what the rings take: rules F1, F2, F6 and F7."""
        nodes = len(network.ring)
        rings = GroupRings.of(overlays.group, overlays.node, len(overlays.number), nodes)
        states = self._states(rings, network)
        edges = _copies(rings, states.cells, overlays, nodes)
        if not network.in_run:
            return Built(edges)
        group = rings.group
        ends = {"group": group, "node": rings.position}
        kept = {kind: {**ends, "entries": count} for kind, count in kept_of(states).items()}
        teller, place = told(states)
        sender, to = rings.position[teller], rings.position[place]
        return Built(
            edges, kept, {ANNOUNCEMENT: {"group": group[place], "sender": sender, "to": to}}
        )

    def _states(self, rings: GroupRings, network: Network) -> States:
        """Return the tables of all places in the groups' rings: F1."""
        count, known = len(rings.position), network.ring.take(rings.position)
        ring = Ring(known.hi, known.lo, np.arange(count), known.router)
        bounds = rings.begins, 0, count
        return known_of_places(ring, *bounds, network.kernel, self.b, self.leaf_set // 2)


def _copies(rings: GroupRings, cells: np.ndarray, overlays: Overlays, nodes: int) -> Columns:
    """Return the copies of each publication, level by level: rule F2."""
    place, row, digit = np.nonzero(cells >= 0)
    entry, rows = cells[place, row, digit].astype(np.int64), cells.shape[1]
    row_of_place = place * rows + row
    publication = np.arange(len(overlays.of))
    at = rings.find(overlays.of, overlays.source, nodes)
    came = np.full(len(at), NONE)
    levels = []
    while len(at):
        # the entries of rows after the one by which the copy arrived
        begin = np.searchsorted(row_of_place, at * rows + came + 1)
        which, chosen = expand(begin, np.searchsorted(row_of_place, (at + 1) * rows))
        publication, sender = publication[which], at[which]
        at, came = entry[chosen], row[chosen]
        ends = {"node": rings.position[sender], "peer": rings.position[at]}
        levels.append({"publication": publication, **ends})
    return concatenate(levels)


# --- over the overlay of all nodes


@dataclass(frozen=True)
class FloodedOverlay(GroupOverlays):
    """Publications go to all nodes, along the routing tables of Pastry: rule F5."""

    perfect: bool  # True if a cell is empty only if no node fits

    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)
    state: ClassVar[Mapping[str, str]] = _KEPT

    @property
    def begun(self) -> None:
        """All publications: the clock replays their copies."""
        return None

    def spread(self, player: SystemPlayer, round: OverlayRound, now: LivingRound) -> None:
        """Flood, and write the copies as `Dissemination` does."""
        publication = np.arange(len(now.publish))
        flood = Flood(
            *(round.bounds, round.facts, now.kernel, now.lan_us),
            perfect=self.perfect,
            alive=None if now.in_run else now.alive,
            lost=now.lost_copies(round.facts),
        )
        player.play(flood, {COPY: {AT: now.publish.node, **starting(publication)}})
        player.play(_Write(round, now.in_run))


@dataclass(frozen=True)
class _Write:
    """Convert the copies of :class:`Flood`; in a run, also count the entries of nodes."""

    round: OverlayRound
    in_run: bool
    silent: ClassVar[bool] = True

    @property
    def bounds(self) -> np.ndarray:
        """The positions at which the buckets begin, and the number of nodes."""
        return self.round.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write `dissemination.ARRIVALS` and `ARRIVED_COPIES`; nothing is sent."""
        parts = take_tables(tables, COPIES)
        if parts:
            came = dict(concatenate(parts))
            came |= {"node": came.pop(AT), "publication": came["group"]}
            first = ~came["lost"] if "lost" in came else np.ones(len(came["node"]), dtype=bool)
            tables[ARRIVED_COPIES] = {**came, "first": first}
            names = ("publication", "node", "sender", "hops", "at_us")
            arrivals = take({name: came[name] for name in names}, first)
            tables[ARRIVALS] = self._with_sources(bucket, arrivals)
        else:
            tables[ARRIVALS] = self._with_sources(bucket, {})
        if self.in_run:
            self._count_entries(bucket, tables)
        return {}

    def _with_sources(self, bucket: int, arrivals: Columns) -> Columns:
        """Return arrivals with those of the sources in the bucket."""
        source = self.round.publish.node
        mine = np.flatnonzero(in_bucket(self.bounds, bucket, source))
        zero = np.zeros_like(mine)
        ends = {"publication": mine, "node": source[mine], "sender": zero - 1}
        return concatenate(
            [{**ends, "hops": zero, "at_us": zero}, *([arrivals] if arrivals else [])]
        )

    def _count_entries(self, bucket: int, tables: Tables) -> None:
        first, last = self.round.bounds[bucket : bucket + 2]
        if first == last:
            return
        states = States.of_tables(self.round.facts.ring, int(first), tables)
        for kind, entries in kept_of(states).items():
            # the group NONE: the key is negative, and its last part is the node
            key = states.own - self.round.size
            tables[_KEPT[kind]] = {"key": key, "entries": entries}
