"""Joining of CANs: the neighbours that nodes learn, and the messages by which they join.

References
----------
JSAC 2002, Section V; docs/rules.md, C6, C13 to C15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.can.flooding import may_cross
from scribe_spark.can.greedy import next_zones
from scribe_spark.can.neighbours import across_faces, opposite
from scribe_spark.can.zones import KnowsZones, Zones
from scribe_spark.core.arrays import expand
from scribe_spark.dissemination import EDGES, START, Dissemination
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.on_spark import ROWS, pack_rows
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT

# tables of a bucket
NEIGHBOURS, CONTROL = "neighbours", "control"
#: The codes of messages while joining.
CONTACT, JOIN = range(2)
KINDS = ("CONTACT", "JOIN")

_BEGIN, _FOUND, _ROUTED = "begin", "found", "routed"


def start_buckets(ring: BucketRing) -> DataFrame:
    """Return a message for each bucket, so that all are played in superstep 0: `ROWS`."""
    bounds = ring.bounds

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket in batch.column("bucket").to_pylist():
                yield from pack_rows(
                    bucket, bucket, False, _BEGIN, {AT: bounds[bucket : bucket + 1]}
                )

    return ring.each_bucket().mapInArrow(run, ROWS)


@dataclass(frozen=True)
class FindNeighbours:
    """Zones find adjacent zones that are not deeper, and tell shallower ones of themselves."""

    bounds: np.ndarray  # (B + 1,)
    known: KnowsZones

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write NEIGHBOURS: ``zone, neighbour, face``, sorted by zone."""
        zones = self.known.zones
        first, last = int(self.bounds[bucket]), int(self.bounds[bucket + 1])
        if superstep == 0:
            return self._look(zones, first, last, tables)
        if superstep == 1:
            self._write(tables, inbox)
        return {}

    def _look(self, zones: Zones, first: int, last: int, tables: Tables) -> Outbox:
        if first == last:
            return {}
        zone, neighbour, face = across_faces(zones, zones.of_bucket(first, last))
        tables[NEIGHBOURS] = _small(zone, neighbour, face)
        told = zones.depth[neighbour] < zones.depth[zone]
        zone, neighbour, face = zone[told], neighbour[told], face[told]
        seen = {"zone": neighbour, "neighbour": zone, "face": opposite(zones, zone, face)}
        # all buckets must be played in the next superstep, even without a message
        begin = {AT: np.array([first])}
        return {_FOUND: {AT: zones.node[neighbour], **seen}, _BEGIN: begin}

    def _write(self, tables: Tables, inbox: Inbox) -> None:
        known = [tables[NEIGHBOURS]]
        if _FOUND in inbox:
            known.append(_small(*(inbox[_FOUND][name] for name in known[0])))
        both = concatenate(known)
        tables[NEIGHBOURS] = take(both, np.argsort(both["zone"], kind="stable"))


def _small(zone: np.ndarray, neighbour: np.ndarray, face: np.ndarray) -> dict[str, np.ndarray]:
    """Return pairs of neighbours in small integer types, which can be mapped without a copy."""
    zones = {"zone": zone.astype(np.int32), "neighbour": neighbour.astype(np.int32)}
    return {**zones, "face": face.astype(np.int8)}


@dataclass(frozen=True)
class Joining(FindNeighbours):
    """CONTACT and JOIN of all members of all groups, and the faces that multicasts may cross.

    CANs have the indices of the groups; the last one is the CAN of all nodes.
    """

    group_point: np.ndarray  # (G,): the points of the groupIds
    #: (G,): the position of the first node of each CAN: a source, and the contact of later nodes.
    first_node: np.ndarray
    flooding: str  # See `flooding`
    #: (C,): for each flood: the index of the group (ascending), and the position of the source.
    group: np.ndarray
    source: np.ndarray

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Find the neighbours of zones (supersteps 0 and 1), then forward messages.

        The program writes NEIGHBOURS, EDGES (``group``, an index of floods, ``node, peer, face``),
        and for each superstep a table of received messages: ``kind, group, sender, receiver,
        messages``.
        """
        if superstep == 0:
            return super().step(bucket, tables, inbox, superstep)
        if superstep == 1:
            super().step(bucket, tables, inbox, superstep)
            return self._begin(bucket, tables)
        return self._go_on(tables, inbox[_ROUTED], superstep) if _ROUTED in inbox else {}

    def _begin(self, bucket: int, tables: Tables) -> Outbox:
        """Choose the faces that multicasts may cross; send the first CONTACTs and JOINs."""
        zones, groups = self.known.zones, len(self.first_node)
        known = tables[NEIGHBOURS]
        can = zones.can[known["zone"]]
        own = take(known, can < groups)
        can = can[can < groups]
        first_zone = zones.of_node(np.arange(groups), self.first_node)
        own["face"] = own["face"].astype(np.int64)
        first, end = (np.searchsorted(self.group, can, side) for side in ("left", "right"))
        row, flood = expand(first, end)
        own = take(own, row)
        source = zones.of_node(self.group, self.source)[flood]
        crossed = may_cross(zones, self.flooding, own, source)
        tables[EDGES] = {
            "group": flood[crossed],
            "node": zones.node[own["zone"][crossed]],
            "peer": zones.node[own["neighbour"][crossed]],
            "face": own["face"][crossed],
        }
        own_zones = zones.of_bucket(int(self.bounds[bucket]), int(self.bounds[bucket + 1]))
        own_zones = own_zones[zones.can[own_zones] < groups]
        can, node = zones.can[own_zones], zones.node[own_zones]
        contact = {
            "zone": zones.of_node(np.full(len(own_zones), groups), node),
            "kind": np.full(len(own_zones), CONTACT),
            "group": can,
            "point": self.group_point[can],
            "ends_before": np.full(len(own_zones), zones.size),  # no node
            "messages": np.ones(len(own_zones), dtype=np.int64),
        }
        onward = self._move(tables, contact)
        late = node != self.first_node[can]
        can, node = can[late], node[late]
        join = {
            AT: self.first_node[can],
            "sender": node,
            "zone": first_zone[can],
            "kind": np.full(len(can), JOIN),
            "group": can,
            "point": zones.point[own_zones[late]],
            "ends_before": node,
            "messages": np.ones(len(can), dtype=np.int64),
        }
        return {_ROUTED: concatenate([onward, join])}

    def _go_on(self, tables: Tables, came: Columns, superstep: int) -> Outbox:
        """Count the received messages, and forward them."""
        taken = ("kind", "group", "sender", AT)
        counted = add_rows("messages", {name: came[name] for name in (*taken, "messages")}, *taken)
        counted["receiver"] = counted.pop(AT)
        tables[f"{CONTROL} {superstep}"] = counted
        # CONTACTs of a group at the same zone are merged
        onward = {name: column for name, column in came.items() if name not in ("sender", AT)}
        contact = came["kind"] == CONTACT
        met = add_rows("messages", take(onward, contact), "group", "zone")
        return {_ROUTED: self._move(tables, concatenate([met, take(onward, ~contact)]))}

    def _move(self, tables: Tables, messages: Columns) -> dict[str, np.ndarray]:
        """Return the messages that travel on, at their next nodes."""
        zones, known = self.known.zones, tables[NEIGHBOURS]
        zone = messages["zone"]
        onward = next_zones(zones, known, zone, messages["point"])
        node = zones.node[onward]
        goes = (onward != zone) & (node != messages["ends_before"])
        moved = take(messages, goes) | {"zone": onward[goes]}
        return {AT: node[goes], "sender": zones.node[zone[goes]], **moved}


@dataclass(frozen=True)
class JoinAndFlood:
    """Play joining and floods together; floods start when nodes know their neighbours.

    The flood only reads the faces that multicasts may cross; otherwise neither reads what the other
    writes.
    """

    join: Joining
    flood: Dissemination

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.join.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Play a superstep of joining and sending; sources send from superstep 2 on."""
        sent = dict(self.join.step(bucket, tables, inbox, superstep))
        if superstep == 1:
            source = self.join.first_node
            own = np.flatnonzero(
                (source >= self.bounds[bucket]) & (source < self.bounds[bucket + 1])
            )
            sent[START] = {AT: source[own], "group": own}
        elif superstep > 1:
            sent |= self.flood.step(bucket, tables, inbox, superstep)
        return sent
