"""CAN multicast: one CAN for each group, flooded from the sources of its publications.

References
----------
JSAC 2002, Section V; NGC 2001, Section 4; docs/rules.md, C1 to C16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.can.zones import (
    ALL_NODES,
    NEIGHBOUR_ARRAYS,
    ZONE_ARRAYS,
    Neighbours,
    Placement,
    Space,
    Zones,
    draw_landmarks,
    neighbours_of,
    next_zones,
    zones_of_all,
)
from scribe_spark.core.arrays import NO_GROUP, NONE, run_starts, whole_numbers
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine import Columns
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.multicast import TIME
from scribe_spark.rounds.group_overlays import Built, GroupOverlays, Network, Overlays
from scribe_spark.rounds.system import SystemPlayer

if TYPE_CHECKING:  # not on executors
    from scribe_spark.can.config import CanConfig

#: The variants: rules 1 to 4; rules 1 to 5; and a variant without duplicates.
DIRECTED, CORNER, OPTIMAL = "directed", "corner", "optimal"

_EDGES_AT_ONCE = 2**17


def may_cross(zones: Zones, flooding: str, edges: Columns, source: np.ndarray) -> np.ndarray:
    """Return True for edges over which a multicast may go, however it arrived at the zone."""
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
    """Return True for each neighbour to which a zone may send: rule 3, and rule 5 if `corner`.

    Row i is about the zone ``zone[i]``, its neighbour across ``face[i]``, and a message of the zone
    ``source[i]``: a message goes along a dimension half of the way around at most.
    """
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
    """Return ``of[dimension[i], index[i]]`` for each i, as int64."""
    return of.ravel()[dimension * of.shape[1] + index].astype(np.int64)


def _side(zones: Zones, dimension: np.ndarray, zone: np.ndarray) -> np.ndarray:
    return _along(zones.space.sides, dimension, zones.depth[zone])


def _optimal(
    zones: Zones, zone: np.ndarray, neighbour: np.ndarray, face: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """Return True for each zone that is the parent of its neighbour in the tree of the source."""
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
    """Return True where a zone contains a coordinate, by dimension: bool, (dimensions, n)."""
    inside = place - zones.low[:, zone]
    return (inside >= 0) & (inside < zones.side(zone))


def goes_on(first: Columns, edges: Columns) -> np.ndarray:
    """Return True for each edge on which a node sends after its first copy (rules 1 and 2)."""
    came, face = first["face"], edges["face"]
    return (first["sender"] < 0) | (face >> 1 < came >> 1) | (face == came)


# --- joining

#: The kinds of messages by which members join, which runs count: rules C13 and C14.
CONTACT, JOIN = "CONTACT", "JOIN"

#: The entries of nodes in a run, and their table.
_NEIGHBOURS, _ENTRIES = "neighbours", "neighbours of zones"


def count_routes(zones: Zones, near: Neighbours, moving: Columns, together: bool) -> Columns:
    """Return the hops of greedy routes with their numbers: ``group, sender, to, messages``.

    `moving` has the messages' ``zone, point, group, messages``, and the node ``stop`` that ends
    them.  With `together`, messages of a group at the same zone go on as one.
    """
    none = whole_numbers()
    parts: list[Columns] = [{"group": none, "messages": none, "sender": none, "to": none}]
    while count_rows(moving):
        onward = next_zones(zones, near, moving["zone"], moving["point"])
        to = zones.node[onward]
        goes = (onward != moving["zone"]) & (to != moving["stop"])
        moving, onward, to = take(moving, goes), onward[goes], to[goes]
        sent = {name: moving[name] for name in ("group", "messages")}
        parts.append({**sent, "sender": zones.node[moving["zone"]], "to": to})
        moving = {**moving, "zone": onward}
        if together and len(onward):
            moving = add_rows("messages", moving, "group", "zone")
    return concatenate(parts)


def _entries(zones: Zones, near: Neighbours, group: np.ndarray) -> dict[str, np.ndarray]:
    """Return the number of neighbours of each node that has some, by group."""
    entries = np.diff(near.offsets)
    zone = np.flatnonzero(entries)
    return {"group": group[zones.can[zone]], "node": zones.node[zone], "entries": entries[zone]}


# --- the system


@dataclass(frozen=True)
class LiveCan(GroupOverlays):
    """The members of a group own the zones of a CAN: rules C1 to C16, O1 to O9."""

    space: Space
    seed: int
    flooding: str
    clock: str = TIME
    processing_us: int = 0
    landmarks: int = 0
    carried: ClassVar[tuple[str, ...]] = ("face",)
    state: ClassVar[Mapping[str, str]] = {_NEIGHBOURS: _ENTRIES}
    building: ClassVar[tuple[str, ...]] = (CONTACT, JOIN)

    def build(self, overlays: Overlays, network: Network) -> Built:
        zones = self.zones(overlays, network)
        known = neighbours_of(zones)
        edges = self._edges(zones, known, overlays)
        if not network.in_run:
            return Built(edges)
        of_zones, of_pairs = (
            [network.shared[name] for name in names] for names in (ZONE_ARRAYS, NEIGHBOUR_ARRAYS)
        )
        everybody = Zones(self.space, len(network.ring), *of_zones)
        pairs = Neighbours(*of_pairs)
        kept = _entries(zones, known, np.arange(len(overlays.number)))
        if overlays.is_first:
            kept = concatenate([kept, _entries(everybody, pairs, np.array([NONE]))])
        contacts = self._contacts(everybody, pairs, zones, overlays)
        joins = self._joins(zones, known, self._contact(overlays, network.ring))
        return Built(edges, {_NEIGHBOURS: kept}, {CONTACT: contacts, JOIN: joins})

    def shared_in_run(self, network: Network, player: SystemPlayer) -> dict[str, np.ndarray]:
        everybody = zones_of_all(self._placement(network), network.ring, network.kernel)
        pairs = neighbours_of(everybody)
        made = {name: getattr(pairs, name) for name in NEIGHBOUR_ARRAYS}
        return made | {name: getattr(everybody, name) for name in ZONE_ARRAYS}

    def _placement(self, network: Network) -> Placement:
        landmarks = draw_landmarks(self.seed, self.landmarks, network.routers)
        return Placement(self.space, self.seed, landmarks)

    def zones(self, overlays: Overlays, network: Network) -> Zones:
        """Return the zones of the members of each group, which join in the order of C4 or O9."""
        ring, placement = network.ring, self._placement(network)
        named = np.where(overlays.number == ALL_NODES, NO_GROUP, overlays.number)  # C2
        group, node, number = overlays.group, overlays.node, named[overlays.group]
        first = node == self._contact(overlays, ring)[group] if network.in_run else None
        order = placement.order(group, number, node, ring, first)
        group, node, number = group[order], node[order], number[order]
        point = placement.points(number, node, ring, network.kernel)
        return Zones.of(self.space, group, node, point, len(ring))

    def _contact(self, overlays: Overlays, ring: Ring) -> np.ndarray:
        """Return the first node of each group's CAN in a run: its source of smallest number."""
        order = np.lexsort((ring.node[overlays.source], overlays.of))
        return overlays.source[order[run_starts(overlays.of[order])]]

    def _edges(self, zones: Zones, known: Neighbours, overlays: Overlays) -> Columns:
        pairs = known.rows()
        pairs = overlays.each_publication({**pairs, "group": zones.can[pairs["zone"]]})
        source = zones.of_node(overlays.of, overlays.source)[pairs["publication"]]
        pairs = take(pairs, may_cross(zones, self.flooding, pairs, source))
        return {
            "publication": pairs["publication"],
            "node": zones.node[pairs["zone"]],
            "peer": zones.node[pairs["neighbour"]],
            "face": pairs["face"],
        }

    def _contacts(
        self, everybody: Zones, pairs: Neighbours, zones: Zones, overlays: Overlays
    ) -> Columns:
        """Return the CONTACTs that members send before they join their groups' CANs: rule C13.

        They are routed in the CAN of all nodes (`everybody` with its `pairs` of neighbours), to the
        points of the groupIds.  `zones` has the zones of the members in the CANs of the groups.
        """
        group, node = zones.can, zones.node
        assert overlays.key_hi is not None
        point = self.space.point(overlays.key_hi)
        moving = {
            "zone": everybody.of_node(np.zeros(len(node), dtype=np.int64), node),
            **{"group": group, "point": point[group], "messages": np.ones_like(group)},
            "stop": np.full(len(node), NONE),
        }
        return count_routes(everybody, pairs, moving, together=True)

    def _joins(self, zones: Zones, known: Neighbours, contact: np.ndarray) -> Columns:
        """Return the JOINs of all members but the first one of each group: rule C14.

        A JOIN goes to the contact of the group, whose node `contact` has by group, and from there
        to the member's point.
        """
        late = np.flatnonzero(zones.node != contact[zones.can])
        group, node = zones.can[late], zones.node[late]
        to, messages = contact[group], np.ones_like(group)
        moving = {"zone": zones.of_node(group, to), "point": zones.point[late], "stop": node}
        moving |= {"group": group, "messages": messages}
        told = {"group": group, "sender": node, "to": to, "messages": messages}
        return concatenate([told, count_routes(zones, known, moving, together=False)])

    def forwards(self, first: Columns, edges: Columns) -> np.ndarray:
        return goes_on(first, edges)


def live_can(config: CanConfig, seed: int) -> LiveCan:
    """Return the system CAN multicast for a run or world with this config."""
    processing_us = round(config.processing_ms * MICROSECONDS)
    return LiveCan(
        Space(config.dimensions, config.halvings),
        seed,
        config.flooding,
        config.clock,
        processing_us,
        config.landmarks,
    )
