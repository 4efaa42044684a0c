"""CAN multicast: one CAN for each group, flooded from the group's source.

References
----------
JSAC 2002, Section V; NGC 2001, Section 4; docs/rules.md, C1 to C16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.bandwidth.runs import clock_of, flood_along, play_on_spark
from scribe_spark.bandwidth.setting import TimedPublications
from scribe_spark.can.zones import (
    Placement,
    SharedZones,
    Space,
    Zones,
    across_faces,
    draw_landmarks,
    next_zones,
    opposite,
    zones_of_groups,
)
from scribe_spark.core.arrays import NONE, expand, find_sorted, index_sorted, run_starts
from scribe_spark.dissemination import (
    ARRIVALS,
    ARRIVED_COPIES,
    EDGES,
    START,
    Dissemination,
    read_spread,
)
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.engine.views import Names, view_together
from scribe_spark.multicast import CONTROL, STATE, Multicast
from scribe_spark.runtime.batches import Batches
from scribe_spark.schemas import MICROSECONDS

if TYPE_CHECKING:  # not on executors
    from scribe_spark.can.config import CanConfig

#: The variants: rules 1 to 4; rules 1 to 5; and a variant without duplicates.
DIRECTED, CORNER, OPTIMAL = "directed", "corner", "optimal"

_EDGES_AT_ONCE = 2**17


def may_cross(zones: Zones, flooding: str, edges: Columns, source: np.ndarray) -> np.ndarray:
    """Return True for neighbours that may receive a multicast, however it arrived at the zone.

    `edges` has ``zone, neighbour, face``; `source` has the zone of the multicast's source for each.
    """
    kept = np.empty(len(source), dtype=bool)
    for start in range(0, len(source), _EDGES_AT_ONCE):
        part = slice(start, start + _EDGES_AT_ONCE)
        zone, neighbour, face = (edges[name][part] for name in ("zone", "neighbour", "face"))
        if flooding == OPTIMAL:
            kept[part] = _optimal(zones, zone, neighbour, face, source[part])
        else:
            corner = flooding == CORNER
            kept[part] = _directed(zones, zone, neighbour, face, source[part], corner)
    return kept


def _directed(
    zones: Zones,
    zone: np.ndarray,
    neighbour: np.ndarray,
    face: np.ndarray,
    source: np.ndarray,
    corner: bool,
) -> np.ndarray:
    """Apply rule 3, and rule 5 if `corner`."""
    places, dimension, upper = zones.space.places, face >> 1, face & 1 == 1
    begin = _along(zones.low, dimension, source) + _side(zones, dimension, source) // 2
    at = _along(zones.low, dimension, zone) + _side(zones, dimension, zone) * upper
    gone = np.where(upper, at - begin, begin - at) & (places - 1)
    kept = gone < places // 2
    kept &= ~upper | (gone > 0)
    if corner:
        first = np.flatnonzero(kept & (dimension == 0))
        holds = _holds(zones, zone[first], zones.low[:, neighbour[first]])
        kept[first] = holds[1:].all(axis=0)
    return kept


def _along(of: np.ndarray, dimension: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the values of an array (dimensions, n), each along its own dimension: int64."""
    return of.ravel()[dimension * of.shape[1] + index].astype(np.int64)


def _side(zones: Zones, dimension: np.ndarray, zone: np.ndarray) -> np.ndarray:
    return _along(zones.space.sides, dimension, zones.depth[zone])


def _optimal(
    zones: Zones, zone: np.ndarray, neighbour: np.ndarray, face: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """Return True if the zone is the parent of its neighbour."""
    places, low = zones.space.places, zones.low
    dimension, upper = face >> 1, face & 1 == 1
    begin, corner = zones.middle(source), low[:, neighbour]
    mine = dimension, np.arange(len(zone))
    # 1. the face is in the first dimension in which the neighbour excludes the source's middle
    kept = np.argmin(_holds(zones, neighbour, begin), axis=0) == dimension
    kept &= neighbour != source
    # 2. the direction is the shorter one; any, if both zones span half of the dimension
    away = (corner[mine] - begin[mine]) & (places - 1)
    upwards = (away > 0) & (away < places // 2)
    halves = zones.side(neighbour)[mine] == places // 2
    halves &= zones.side(zone)[mine] == places // 2
    kept &= halves | (upwards == upper)
    # 3. the zone contains that middle in lower dimensions, and the neighbour's corner in higher
    asked = np.where(np.arange(zones.space.dimensions)[:, None] < dimension, begin, corner)
    holds = _holds(zones, zone, asked)
    holds[mine] = True
    return kept & holds.all(axis=0)


def _holds(zones: Zones, zone: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return whether zones contain a coordinate, by dimension: bool, shape (dimensions, n)."""
    inside = place - zones.low[:, zone]
    return (inside >= 0) & (inside < zones.side(zone))


def goes_on(first: Columns, edges: Columns) -> np.ndarray:
    """Apply rules 1 and 2: return whether a node sends across a face, given its first copy.

    The ``face`` of a first copy is the one of the sender's zone that the copy crossed.
    """
    came, face = first["face"], edges["face"]
    return (first["sender"] < 0) | (face >> 1 < came >> 1) | (face == came)


# --- joining

# tables of a bucket
NEIGHBOURS, TAKEN = "neighbours", "control"
#: The codes of messages while joining.
CONTACT, JOIN = range(2)
KINDS = ("CONTACT", "JOIN")

_BEGIN, _FOUND, _ROUTED = "begin", "found", "routed"


@dataclass(frozen=True)
class FindNeighbours:
    """Zones find adjacent zones that are not deeper, and tell shallower ones of themselves."""

    bounds: np.ndarray  # (B + 1,)
    known: SharedZones

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
    flooding: str
    #: (C,): for each flood: the index of the group (ascending), and the position of the source.
    group: np.ndarray
    source: np.ndarray
    #: The floods, which start when nodes know their neighbours.  They only read the faces that
    #: multicasts may cross; otherwise neither reads what the other writes.
    flood: Dissemination | None = None

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
            sent = self._begin(bucket, tables)
            if self.flood is not None:
                first, last = self.bounds[bucket : bucket + 2]
                own = np.flatnonzero((self.first_node >= first) & (self.first_node < last))
                sent[START] = {AT: self.first_node[own], "group": own}
            return sent
        sent = self._go_on(tables, inbox[_ROUTED], superstep) if _ROUTED in inbox else {}
        if self.flood is not None:
            sent |= self.flood.step(bucket, tables, inbox, superstep)
        return sent

    def _begin(self, bucket: int, tables: Tables) -> dict[str, Columns]:
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

    def _go_on(self, tables: Tables, came: Columns, superstep: int) -> dict[str, Columns]:
        """Count the received messages, and forward them."""
        taken = ("kind", "group", "sender", AT)
        counted = add_rows("messages", {name: came[name] for name in (*taken, "messages")}, *taken)
        counted["receiver"] = counted.pop(AT)
        tables[f"{TAKEN} {superstep}"] = counted
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


# --- a run

SYSTEM = "can"


def placement_of(config: CanConfig, seed: int, routers: int) -> Placement:
    """Return the rule that gives nodes their points; refuse fewer routers than landmarks."""
    landmarks = None
    if config.landmarks:
        config.refuse_routers(routers)
        landmarks = draw_landmarks(seed, config.landmarks, routers)
    return Placement(Space(config.dimensions, config.halvings), seed, landmarks)


def multicast(stages: Any) -> Multicast:
    """Build the CANs of all groups, and flood each from its source; see `systems.System`."""
    config, ring, underlay = stages.config, stages.overlay.ring, stages.underlay
    listed = stages.multicast_groups.select("group", "key_hi").toArrow().sort_by("group")
    number = listed.column("group").to_numpy()
    key = listed.column("key_hi").to_numpy().view(np.uint64)
    channels = stages.publications.by_source()
    of_channel = index_sorted(number, channels.group)
    sources = ring.facts.positions(channels.source)
    first = run_starts(of_channel)
    source = sources[first[index_sorted(of_channel[first], np.arange(len(number)))]]

    # 1. assign zones to nodes
    placement = placement_of(config.can, config.seed, len(underlay.routers))
    index, member = ring.members_of(number, stages.memberships)
    index, member = with_others(index, member, of_channel, sources, len(ring))
    zones = zones_of_groups(
        placement, ring.facts.ring, underlay.kernel, number, source, index, member
    )
    known = stages.own(SharedZones.distribute(stages.spark, zones))

    # 2. find neighbours, send the messages of joining, and flood
    point = (key >> np.uint64(64 - placement.space.bits)).astype(np.int64)
    floods = of_channel, sources
    flood = Dissemination(
        *(ring.bounds, ring.facts, underlay.kernel, underlay.lan_us),
        rule=goes_on,
        carried=("face",),
        clock=config.can.clock,
        processing_us=round(config.can.processing_ms * MICROSECONDS),
    )
    tables = stages.own(BucketTables(ring.layout, ring.starts()))
    together = None if config.bandwidth.on else flood
    join = Joining(ring.bounds, known, point, source, config.can.flooding, *floods, together)
    counts = tables.play(join, "CAN", stages.progress)
    if config.bandwidth.on:
        clock = clock_of(stages, flood.processing_us, held_back=False, spares=False)
        schedule, of = stages.publications, channels.of
        published = TimedPublications.of(schedule.at_us, of, sources[of], schedule.size)
        of_flood = EDGES, ARRIVALS, ARRIVED_COPIES
        played = flood_along(clock, published, of_flood, goes_on, flood.carried)
        play_on_spark(tables, played, "CAN with bandwidth")
    names, scheduled = Names(ring.facts, underlay.kernel, number), stages.schedule is not None
    copies, deliveries = read_spread(tables, flood, channels.group, scheduled)
    return Multicast(
        SYSTEM,
        None,
        deliveries,
        copies=copies,
        state=_state(tables, known, names),
        control=_control(tables, len(counts), names),
        scheduled=scheduled,
    )


def with_others(
    group: np.ndarray, member: np.ndarray, of: np.ndarray, source: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Add the sources that are not members to the members of groups."""
    pair = of * size + source
    new = pair[find_sorted(np.sort(group * size + member), pair) < 0]
    return np.concatenate([group, new // size]), np.concatenate([member, new % size])


def _state(tables: BucketTables, known: SharedZones, names: Names) -> Batches:
    """Return the number of neighbours of each node, in all CANs: `multicast.STATE`."""

    def rows(bucket: int, tables: Mapping[str, Columns]) -> Iterator[dict[str, Any]]:
        zones = known.zones
        zone, entries = np.unique(tables[NEIGHBOURS]["zone"], return_counts=True)
        group, node = zones.can[zone], zones.node[zone]
        group = np.where(group == len(names.groups), NONE, group)
        yield {"group": group, "node": node, "kind": "neighbours", "entries": entries}

    return view_together(tables.rows(NEIGHBOURS), names, STATE, rows)


def _control(tables: BucketTables, supersteps: int, names: Names) -> Batches:
    """Return the CONTACT and JOIN messages that were received: `multicast.CONTROL`."""

    def rows(bucket: int, tables: Mapping[str, Columns]) -> Iterator[dict[str, Any]]:
        every = concatenate(tables.values())
        added = add_rows("messages", every, "kind", "group", "sender", "receiver")
        yield {**added, "kind": np.array(KINDS)[added["kind"]]}

    taken = [f"{TAKEN} {superstep}" for superstep in range(supersteps)]
    return view_together(tables.rows(*taken), names, CONTROL, rows)
