"""Multicasts along edges that do not depend on the clock: trees, and copies from a source.

A system that hands over the edges of its trees is played again by the clock: the deliveries are
those of the same edges with sizes and rates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.runs import Clock, clock_of
from scribe_spark.bandwidth.setting import ROOMS
from scribe_spark.bandwidth.windows import ARRIVALS
from scribe_spark.core.arrays import find_sorted, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine.facts import Facts, KnowsRing
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, concatenate
from scribe_spark.engine.program import AT, Inbox, Tables
from scribe_spark.engine.views import Names, read_view
from scribe_spark.multicast import DELIVERIES, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import union_tables

# kinds of messages; members are a table, too
_EDGE, _WAY, _MEMBER = "edge", "way to the root", "member"

#: The table of a bucket's deliveries.
_DELIVERED = "delivered"


def replayed(stages: Any, made: Multicast, from_source: bool) -> Multicast:
    """Return a multicast along trees with the deliveries of the clock with bandwidth.

    Parameters
    ----------
    stages : Simulation
        See `systems.System`.
    made : Multicast
        With edges of trees.
    from_source : bool
        Whether the copies begin at the source; else at the root, where the source's message is
        sent first.
    """
    return replace(made, delivered=partial(_deliver, stages, made, from_source))


@dataclass(frozen=True)
class _Read:
    """Makes links of edges, and of the ways from sources to roots; picklable."""

    clock: Clock

    def __call__(self, tables: Tables, inbox: Inbox) -> Columns:
        """See `runs.Read`."""
        tables[_MEMBER] = dict(inbox.get(_MEMBER, _NO_EDGES))
        parts = [self._links(inbox[_EDGE], 0)] if _EDGE in inbox else []
        if _WAY in inbox:
            parts.append(self._links(inbox[_WAY], 1))
        return concatenate(parts) if parts else self._links(_NO_EDGES, 0)

    def _links(self, edges: Columns, relayed: int) -> dict[str, np.ndarray]:
        node, peer, room = edges[AT], edges["peer"], edges["group"] * ROOMS
        return {
            "room": room + relayed,
            "node": node,
            "to_room": room,
            "peer": peer,
            "delay_us": self.clock.delay(node, peer),
            "mesh": np.ones(len(node), dtype=bool),
            "order": peer,
        }


_NO_EDGES = {name: whole_numbers() for name in (AT, "peer", "group")}


@dataclass(frozen=True)
class _Write:
    """Keeps the first copies of members; picklable.

    Attributes
    ----------
    source : ndarray of int64, shape (G,)
        Of each group, which gets no delivery.
    """

    source: np.ndarray
    size: int

    def __call__(self, tables: Tables) -> None:
        """See `runs.Write`."""
        came, members = tables.pop(ARRIVALS), tables.pop(_MEMBER)
        wanted = np.sort(key_of([members["group"], members[AT]], self.size))
        group, relayed = np.divmod(came["room"], ROOMS)
        kept = (relayed == 0) & (came["node"] != self.source[group])
        kept &= find_sorted(wanted, key_of([group, came["node"]], self.size)) >= 0
        tables[_DELIVERED] = {
            "group": group[kept],
            "node": came["node"][kept],
            "hops": came["hops"][kept],
            "delay_us": came["at_us"][kept],
        }


def _deliver(stages: Any, made: Multicast, from_source: bool) -> Batches:
    assert made.edges is not None
    clock = clock_of(stages, held_back=False, spares=False, seed=None)
    ring, facts = stages.overlay.ring, stages.overlay.ring.facts
    listed = stages.multicast_groups.select("group", "root", "source").toArrow().sort_by("group")
    number = listed.column("group").to_numpy()
    root, source = (facts.positions(listed.column(n).to_numpy()) for n in ("root", "source"))
    relayed = (root != source) & (not from_source)

    def edge(facts: Facts, batch: pa.RecordBatch) -> Columns:
        peer = facts.positions(batch.column("child").to_numpy())
        return {"peer": peer, **group(facts, batch)}

    def way(facts: Facts, batch: pa.RecordBatch) -> Columns:
        peer = facts.positions(batch.column("root").to_numpy())
        return {"peer": peer, **group(facts, batch)}

    def group(facts: KnowsRing, batch: pa.RecordBatch) -> Columns:
        return {"group": np.searchsorted(number, batch.column("group").to_numpy())}

    edges = Batches.of(made.edges, ["group", "parent", "child"])
    sent = [ring.messages(edges, _EDGE, "parent", edge)]
    if relayed.any():
        ways = stages.multicast_groups.select("group", "root", "source").where("root != source")
        sent.append(ring.messages(ways, _WAY, "source", way))
    members = Batches.of(stages.memberships, ["group", "node"])
    sent.append(ring.messages(members, _MEMBER, "node", group))
    tables = stages.own(BucketTables(ring.layout, union_tables(sent)))
    published = clock.publications(np.arange(len(number)), source, relayed=relayed)
    called = f"{made.system} with bandwidth"
    clock.play(tables, published, _Read(clock), _Write(source, len(ring)), called)

    names = Names(facts, clock.kernel, number)
    return read_view(tables.rows(_DELIVERED), names, DELIVERIES)
