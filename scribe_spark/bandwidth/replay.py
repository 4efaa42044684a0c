"""Replay of multicasts by the clock, along edges that do not depend on times.

If a system returns the edges of its trees, the clock plays the same edges again with sizes and
rates, and computes the deliveries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.bandwidth.runs import Clock, clock_of
from scribe_spark.bandwidth.schedule import Channels
from scribe_spark.bandwidth.setting import ROOMS, TimedPublications
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES
from scribe_spark.core.arrays import find_sorted, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine.exchange import distinct_rows
from scribe_spark.engine.facts import Facts, KnowsRing
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import AT, Inbox, Tables
from scribe_spark.engine.views import Names, read_view
from scribe_spark.multicast import COPIES as COPY_ROWS
from scribe_spark.multicast import DELIVERIES, PAYLOAD, PUBLICATION, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.runtime.sessions import local_frame

# kinds of messages; members are a table, too
_EDGE, _WAY, _MEMBER = "edge", "way to the root", "member"

#: The tables of a bucket's deliveries, and of its copies.
_DELIVERED, _SENT = "delivered", "sent"


def replayed(stages: Any, made: Multicast, from_source: bool, channels: Channels) -> Multicast:
    """Return a multicast along trees, with the deliveries that the clock computes.

    If copies do not start at the source, the source sends its message to the root first.
    `channels` has the tree of each publication, by the number in the column ``group`` of the edges.
    """
    played = _Replay(stages, made, from_source, channels)
    if stages.schedule is None:
        return replace(made, delivered=played.deliveries)
    return replace(made, delivered=played.deliveries, copies=played.copies, scheduled=True)


@dataclass(frozen=True)
class _Read:
    """Returns the links of edges, and of ways from sources to roots, for the clock; picklable."""

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
    """Stores the first copies at members, and copies along trees; picklable."""

    published: TimedPublications
    group: np.ndarray  # (C,): the index of the group of each topic
    root: np.ndarray  # (C,)
    size: int
    keeps_copies: bool

    def __call__(self, tables: Tables) -> None:
        """See `runs.Write`."""
        came, members = tables.pop(ARRIVALS), tables.pop(_MEMBER)
        wanted = np.sort(key_of([members["group"], members[AT]], self.size))
        p, topic = came["publication"], came["room"] // ROOMS
        kept = (came["room"] % ROOMS == 0) & (came["node"] != self.published.source[p])
        member = key_of([self.group[topic], came["node"]], self.size)
        kept &= find_sorted(wanted, member) >= 0
        tables[_DELIVERED] = {
            "group": topic[kept],
            "node": came["node"][kept],
            "hops": came["hops"][kept],
            "delay_us": (came["at_us"] - self.published.at_us[p])[kept],
            "publication": p[kept],
        }
        if self.keeps_copies:
            copies = tables.pop(COPIES)
            p, topic = copies["publication"], copies["room"] // ROOMS
            # the copy from a source to the root is not a result
            kept = ~self.published.relayed[p] | (copies["node"] != self.root[topic])
            sent = {"group": topic, **{name: copies[name] for name in _COPY_COLUMNS}}
            tables[_SENT] = take(sent, kept)


_COPY_COLUMNS = ("publication", "node", "sender", "sent_us", "hops", "first")


@dataclass
class _Replay:
    """A multicast along trees by the clock, which is played when a table is first read."""

    stages: Any
    #: See :func:`replayed`.
    made: Multicast
    from_source: bool
    channels: Channels

    def deliveries(self) -> Batches:
        """Return `multicast.DELIVERIES`; with a schedule, by publication."""
        columns = DELIVERIES if self._schedule is None else f"{DELIVERIES}, {PUBLICATION}"
        return read_view(self._tables.rows(_DELIVERED), self._names, columns)

    def copies(self) -> Batches:
        """Return `multicast.COPIES` by publication."""

        def rows(some: Columns) -> dict[str, Any]:
            renamed = {"receiver": some["node"], "hop": some["hops"], "kind": PAYLOAD}
            return {**some, **renamed}

        return read_view(self._tables.rows(_SENT), self._names, f"{COPY_ROWS}, {PUBLICATION}", rows)

    @property
    def _schedule(self) -> Any:
        return self.stages.schedule

    @property
    def _names(self) -> Names:
        ring, underlay = self.stages.overlay.ring, self.stages.overlay.underlay
        return Names(ring.facts, underlay.kernel, self.channels.group)

    @cached_property
    def _tables(self) -> BucketTables:
        stages, channels = self.stages, self.channels
        clock = clock_of(stages, held_back=False, spares=False, seed=None)
        ring, facts = stages.overlay.ring, stages.overlay.ring.facts
        group, of_topic = np.unique(channels.group, return_inverse=True)
        roots = self._roots()
        root = facts.positions(roots)
        schedule = stages.publications
        source = facts.positions(schedule.source)
        relayed = (root[channels.of] != source) & (not self.from_source)
        published = clock.publications(schedule, source, channels.of, relayed)
        sent = [ring.messages(self._edges(), _EDGE, "parent", partial(_edge, channels.number))]
        if relayed.any():
            sent.append(ring.messages(self._ways(roots, relayed), _WAY, "source", _way))
        members = self._among(Batches.of(stages.memberships, ["group", "node"]), group)
        sent.append(ring.messages(members, _MEMBER, "node", partial(_index, group)))
        tables = stages.own(BucketTables(ring.layout, union_tables(sent)))
        keeps_copies = self._schedule is not None
        write = _Write(published, of_topic, root, len(ring), keeps_copies)
        called = f"{self.made.system} with bandwidth"
        kept = ("room", *_COPY_COLUMNS) if keeps_copies else ()
        clock.play(tables, published, _Read(clock), write, called, kept=kept)
        return tables

    def _roots(self) -> np.ndarray:
        """Return the number of the root of each channel's group."""
        listed = self.stages.multicast_groups.select("group", "root").toArrow().sort_by("group")
        group, root = (listed.column(name).to_numpy() for name in ("group", "root"))
        return root[np.searchsorted(group, self.channels.group)]

    def _edges(self) -> Batches:
        assert self.made.edges is not None
        edges = Batches.of(self.made.edges, ["group", "parent", "child"])
        return self._among(edges, self.channels.number)

    def _among(self, rows: Batches, group: np.ndarray) -> Batches:
        """Return the rows of groups with publications."""
        return rows if self._schedule is None else rows.among("group", group)

    def _ways(self, roots: np.ndarray, relayed: np.ndarray) -> DataFrame:
        """Return the ways from sources to roots, each once."""
        topic = self.channels.of[relayed]
        source = self.stages.publications.source[relayed]
        _, (topic, source), _ = distinct_rows(topic, source)
        ways = {"topic": topic, "source": source, "root": roots[topic]}
        return local_frame(self.stages.spark, pa.table(ways))


def _edge(number: np.ndarray, facts: Facts, batch: pa.RecordBatch) -> Columns:
    peer = facts.positions(batch.column("child").to_numpy())
    return {"peer": peer, **_index(number, facts, batch)}


def _index(number: np.ndarray, facts: KnowsRing, batch: pa.RecordBatch) -> Columns:
    return {"group": np.searchsorted(number, batch.column("group").to_numpy())}


def _way(facts: Facts, batch: pa.RecordBatch) -> Columns:
    peer = facts.positions(batch.column("root").to_numpy())
    return {"peer": peer, "group": batch.column("topic").to_numpy()}
