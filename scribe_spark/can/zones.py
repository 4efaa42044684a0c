"""The space of a CAN, a torus, and the zones that nodes own in it (docs/rules.md, C1 to C6, C12).

Points and zones are bit strings.  Zones and their neighbours follow from members and draws, so they
are facts that every bucket may read, like nodeIds.

References
----------
S. Ratnasamy, P. Francis, M. Handley, R. Karp, S. Shenker: A scalable content-addressable network,
SIGCOMM 2001 (recalled).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from pyspark.sql import SparkSession

from scribe_spark.core import draws
from scribe_spark.core.arrays import expand, index_sorted, offsets_of, row_numbers, run_starts
from scribe_spark.core.errors import InputError
from scribe_spark.core.key_limits import MOST_KEYS
from scribe_spark.core.keys import key_of
from scribe_spark.engine.facts import Ring
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Space:
    """A torus of `dimensions` dimensions; a point is an integer of `bits` bits."""

    dimensions: int  # at least 1
    bits: int  # at most `can.config.most_bits`; bit k halves dimension k mod d

    @property
    def points(self) -> int:
        """The number of points."""
        return 1 << self.bits

    @property
    def places(self) -> int:
        """U, the number of coordinates in each dimension; a power of two."""
        return 1 << -(-self.bits // self.dimensions)

    @functools.cached_property
    def dtype(self) -> type[np.signedinteger]:
        """The smallest integer type that holds coordinates and squared distances."""
        most = self.dimensions * max(self.places // 2, 2) ** 2
        kinds = (np.int16, np.int32, np.int64)
        return next(kind for kind in kinds if most <= np.iinfo(kind).max)

    def point(self, number: np.ndarray) -> np.ndarray:
        """Return the point of each number of 64 bits: its first `bits` bits: int64."""
        return (number >> np.uint64(64 - self.bits)).astype(np.int64)

    def coordinates(self, point: np.ndarray) -> np.ndarray:
        """Return the coordinates of points in each dimension: `dtype`, shape (dimensions, n)."""
        found = np.zeros((self.dimensions, len(point)), dtype=self.dtype)
        highest = self.places.bit_length() - 2
        for k in range(self.bits):
            turn, dimension = divmod(k, self.dimensions)
            bit = (point >> (self.bits - 1 - k)) & 1
            found[dimension] |= bit.astype(self.dtype) << (highest - turn)
        return found

    @functools.cached_property
    def sides(self) -> np.ndarray:
        """The side lengths of zones by depth: `dtype`, shape (dimensions, bits + 1)."""
        dimension, depth = np.ogrid[: self.dimensions, : self.bits + 1]
        halvings = (depth - dimension + self.dimensions - 1) // self.dimensions
        return (self.places >> halvings.clip(0)).astype(self.dtype)

    def beyond_face(
        self, corner: np.ndarray, depth: np.ndarray, dimension: int, upwards: bool
    ) -> np.ndarray:
        """Return the lower corner of the zone of equal depth across a face of each zone: int64."""
        mask = self._masks[dimension]
        last = (depth - 1 - dimension) // self.dimensions * self.dimensions + dimension
        side = np.int64(1) << (self.bits - 1 - last)
        moved = (corner | ~mask) + side if upwards else (corner & mask) - side
        return (moved & mask) | (corner & ~mask)

    @functools.cached_property
    def _masks(self) -> list[int]:
        """For each dimension, the bits of a point that belong to it."""
        bits_of = [range(j, self.bits, self.dimensions) for j in range(self.dimensions)]
        return [sum(1 << (self.bits - 1 - k) for k in bits) for bits in bits_of]


# --- the points of nodes

#: The number that stands for the group of all nodes in random draws.
ALL_NODES = -1


@dataclass(frozen=True)
class Placement:
    """The rule that gives nodes their points: uniform, or by landmarks (rules C2 to C4)."""

    space: Space
    seed: int
    #: Routers to which nodes measure their delay (distributed binning): indices, ascending.
    landmarks: np.ndarray | None = None

    def points(
        self, number: np.ndarray | int, position: np.ndarray, ring: Ring, kernel: Kernel
    ) -> np.ndarray:
        """Return the points of nodes (positions) in the CANs of groups (numbers): int64."""
        drawn = draws.bits_np(self.seed, "can point", number, ring.node[position])
        if self.landmarks is not None and len(self.landmarks) > 1:  # one landmark has one order
            order = _bins(self.landmarks, kernel, ring.router)[position]
            width = np.uint64(2**64 // math.factorial(len(self.landmarks)))
            drawn = order.astype(np.uint64) * width + drawn % width
        return self.space.point(drawn)

    def order(
        self,
        can: np.ndarray,
        number: np.ndarray | int,
        position: np.ndarray,
        ring: Ring,
        is_first: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the rows, CAN by CAN, in the order in which nodes join their CANs: rule C4."""
        drawn = draws.bits_np(self.seed, "can order", number, ring.node[position])
        late = np.zeros(len(can), dtype=bool) if is_first is None else ~is_first
        return np.lexsort((position, drawn, late, can))


def draw_landmarks(seed: int, count: int, routers: int) -> np.ndarray:
    """Return `count` drawn landmarks among routers: indices, ascending."""
    return draws.distinct_below(routers, count, seed, "can landmarks", 0)


def _bins(landmarks: np.ndarray, kernel: Kernel, router: np.ndarray) -> np.ndarray:
    """Return the bin of each router, the order of its delays to landmarks, as a number: int64."""
    asked, of = np.unique(router, return_inverse=True)
    delay = [kernel.delays(asked, np.full(len(asked), one)) for one in landmarks]
    order = np.argsort(np.stack(delay, axis=1), axis=1, kind="stable")
    found = np.zeros(len(asked), dtype=np.int64)
    for place in range(len(landmarks)):
        less = (order[:, place + 1 :] < order[:, [place]]).sum(axis=1)
        found = found * (len(landmarks) - place) + less
    return found[of]


# --- zones


@dataclass(frozen=True)
class Zones:
    """The zones of the nodes in some CANs, sorted by CAN and lower corner."""

    space: Space
    size: int  # N, the number of all nodes
    key: np.ndarray  # (Z,): the key of CAN and lower corner: can * 2**bits + point; ascending
    depth: np.ndarray  # int8, (Z,): the number of first bits that all points of the zone share
    node: np.ndarray  # (Z,): the position of the owner
    point: np.ndarray  # (Z,): the point with which the owner joined
    place: np.ndarray  # (Z,): the key of CAN and owner: can * N + position; ascending
    by_place: np.ndarray  # (Z,): the index of the zone for each of these keys

    @classmethod
    def of(
        cls, space: Space, can: np.ndarray, node: np.ndarray, point: np.ndarray, size: int
    ) -> Zones:
        """Return the zones of nodes in CANs; refuse too many CANs for int64 keys."""
        most = MOST_KEYS // (int(can.max(initial=0)) + 1)
        if space.points > most:
            remedy = f"must be at most {most.bit_length() - 1} with so many groups"
            raise InputError("can_bits", space.bits, remedy)
        corner, depth = split_zones(space, can, point)
        key = key_of([can, corner], space.points)
        order = np.argsort(key)
        place = key_of([can, node], size)[order]
        by_place = np.argsort(place)
        return cls(
            *(space, size, key[order], depth[order].astype(np.int8), node[order]),
            *(point[order], place[by_place], by_place),
        )

    def __len__(self) -> int:
        return len(self.key)

    @property
    def can(self) -> np.ndarray:
        """The index of the CAN of each zone: int64."""
        return self.key >> self.space.bits

    @property
    def corner(self) -> np.ndarray:
        """The lower corner of each zone, as a point: int64."""
        return self.key & (self.space.points - 1)

    @functools.cached_property
    def low(self) -> np.ndarray:
        """The coordinates of each zone's lower corner: `Space.dtype`, shape (dimensions, Z)."""
        return self.space.coordinates(self.corner)

    def side(self, zone: np.ndarray) -> np.ndarray:
        """Return the side lengths of zones (indices): `Space.dtype`, shape (dimensions, n)."""
        return self.space.sides[:, self.depth[zone]]

    def middle(self, zone: np.ndarray) -> np.ndarray:
        """Return the coordinates of the middle of each `zone`: `Space.dtype`, (dimensions, n)."""
        return self.low[:, zone] + self.side(zone) // 2

    def of_point(self, can: np.ndarray, point: np.ndarray) -> np.ndarray:
        """Return the zone (an index) of each CAN that contains the point: int64."""
        asked = key_of([can, point], self.space.points)
        return np.searchsorted(self.key, asked, side="right") - 1

    def of_node(self, can: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the index of the zone of each `node` in its `can`; each must own a zone: int64."""
        return self.by_place[index_sorted(self.place, key_of([can, node], self.size))]


#: The arrays of `Zones` and of `Neighbours`.
ZONE_ARRAYS = ("key", "depth", "node", "point", "place", "by_place")
NEIGHBOUR_ARRAYS = ("offsets", "neighbour", "face")


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of zones, in the order of zones; `offsets` is that of a ragged array."""

    offsets: np.ndarray  # int64, (Z + 1,)
    neighbour: np.ndarray  # int32: the zone of the neighbour
    face: np.ndarray  # int8: 2 i for the lower face of dimension i, 2 i + 1 for the upper one

    def rows(self) -> dict[str, np.ndarray]:
        """Return a row for each pair: ``zone, neighbour, face``."""
        zone = row_numbers(self.offsets)
        neighbour, face = self.neighbour.astype(np.int64), self.face.astype(np.int64)
        return {"zone": zone, "neighbour": neighbour, "face": face}


@dataclass(frozen=True)
class SharedZones:
    """Zones and their neighbours, which all tasks of a machine share; picklable."""

    space: Space
    size: int
    names: tuple[str, ...]  # the names of the shared arrays

    @classmethod
    def distribute(cls, spark: SparkSession, zones: Zones) -> SharedZones:
        """Distribute zones to all executors once; free them by `release`."""
        near = neighbours_of(zones)
        arrays = {f"zone_{name}": getattr(zones, name) for name in ZONE_ARRAYS}
        arrays |= {f"zone_{name}": getattr(near, name) for name in NEIGHBOUR_ARRAYS}
        names = distribute_arrays(spark, **arrays)
        return cls(zones.space, zones.size, tuple(names))

    def read(self) -> tuple[Zones, Neighbours]:
        """Return the zones and their neighbours, read from the arrays that tasks share."""
        return _open_zones(self.space, self.size, self.names)

    def release(self) -> None:
        """Delete the shared arrays."""
        discard_arrays(*self.names)


@functools.lru_cache(maxsize=2)
def _open_zones(space: Space, size: int, names: tuple[str, ...]) -> tuple[Zones, Neighbours]:
    arrays = [np.asarray(open_array(name)) for name in names]
    count = len(ZONE_ARRAYS)
    return Zones(space, size, *arrays[:count]), Neighbours(*arrays[count:])


def split_zones(space: Space, can: np.ndarray, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower corners and the depths of the zones of nodes after all have joined.

    Nodes are sorted by CAN and order of joining, and CANs are processed together, level by level.
    The second node of a zone takes the half with its point, and the first one keeps the other half.
    A zone that would be halved more often than the space has bits is refused.
    """
    corner, depth = np.zeros(len(can), dtype=np.int64), np.zeros(len(can), dtype=np.int64)
    row = np.arange(len(can))
    starts = run_starts(can)
    for level in range(space.bits + 1):
        # 1. a zone with one node is done
        length = np.diff(starts, append=len(row))
        shared = length > 1
        depth[row[starts[~shared]]] = level
        row, length = row[np.repeat(shared, length)], length[shared]
        if not len(row):
            return corner, depth
        if level == space.bits:
            remedy = f"leaves a zone with {length.max()} nodes; must be more"
            raise InputError("can_bits", level, remedy)
        starts = offsets_of(length)[:-1]
        # 2. decide the half of each node
        place = space.bits - 1 - level
        upper = (point[row] >> place) & 1 == 1
        upper[starts] = ~upper[starts + 1]
        # 3. reorder: the lower half of each zone, then the upper one
        before = np.cumsum(upper) - upper  # number of nodes in upper halves before each row
        uppers = np.add.reduceat(upper, starts, dtype=np.int64)
        rank = before - np.repeat(before[starts], length)
        index = np.arange(len(row)) - np.repeat(starts, length)
        lowers = length - uppers
        to = np.repeat(starts, length) + np.where(
            upper, np.repeat(lowers, length) + rank, index - rank
        )
        corner[row[upper]] |= 1 << place
        moved = np.empty_like(row)
        moved[to] = row
        row, starts = moved, np.column_stack([starts, starts + lowers]).ravel()
    raise AssertionError("unreachable: the loop returns or raises")


# --- neighbours


def neighbours_of(zones: Zones) -> Neighbours:
    """Return all pairs of neighbours: rule C6.

    The whole face of the deeper of two neighbours touches the other zone, so one look-up finds the
    other one from there; equally deep zones find each other.
    """
    space, (can, corner, depth) = zones.space, (zones.can, zones.corner, zones.depth.astype(int))
    none = np.empty(0, dtype=np.int64)
    pairs = [(none, none, none)]
    for face in range(2 * space.dimensions):
        dimension, upwards = face >> 1, face & 1 > 0
        # two zones that each span half of a dimension are neighbours across the lower face only
        zone = np.flatnonzero(depth > dimension + (space.dimensions if upwards else 0))
        beyond = space.beyond_face(corner[zone], depth[zone], dimension, upwards)
        there = zones.of_point(can[zone], beyond)
        found = depth[there] <= depth[zone]
        zone, there = zone[found], there[found]
        pairs.append((zone, there, np.full(len(zone), face)))
        # the shallower one does not find the deeper one
        told = depth[there] < depth[zone]
        zone, there = zone[told], there[told]
        twice = depth[zone] > dimension + space.dimensions
        pairs.append((there, zone, np.where(twice, face ^ 1, face)))
    zone, neighbour, face_of = (np.concatenate(part) for part in zip(*pairs, strict=True))
    order = np.argsort(zone, kind="stable")
    offsets = offsets_of(np.bincount(zone, minlength=len(zones)))
    return Neighbours(offsets, neighbour[order].astype(np.int32), face_of[order].astype(np.int8))


# --- greedy

_MESSAGES_AT_ONCE = 2**12  # messages whose neighbours fit into a core's cache


def distance(zones: Zones, zone: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the squared distance of each zone from the coordinates of a point; 0 inside of it."""
    space, depth = zones.space, zones.depth[zone]
    far, total = space.dtype(space.places - 1), np.zeros(len(zone), dtype=space.dtype)
    for mine, low, side in zip(place, zones.low, space.sides, strict=True):
        ahead = (mine - low[zone]) & far
        # the distance from the nearer end; at most 0 if the zone contains the coordinate
        away = np.minimum(far - ahead, ahead - side[depth]) + 1
        np.maximum(away, 0, out=away)
        total += away * away
    return total


def next_zones(zones: Zones, near: Neighbours, zone: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the zone to which each message goes next, or its own at its point: int64."""
    onward = zone.copy()
    rest = zones.space.bits - zones.depth[zone].astype(np.int64)
    moving = np.flatnonzero((zones.corner[zone] ^ point) >> rest != 0)
    place = zones.space.coordinates(point[moving])
    begin, end = near.offsets[zone[moving]], near.offsets[zone[moving] + 1]
    for start in range(0, len(moving), _MESSAGES_AT_ONCE):
        part = slice(start, start + _MESSAGES_AT_ONCE)
        message, pair = expand(begin[part], end[part])
        asked = near.neighbour[pair]
        away = distance(zones, asked, place[:, part][:, message])
        nearest = np.minimum.reduceat(away, np.flatnonzero(np.diff(message, prepend=-1)))
        best = np.flatnonzero(away == nearest[message])
        # ties go to the smallest nodeId
        best = best[np.lexsort((zones.node[asked[best]], message[best]))]
        first = np.flatnonzero(np.diff(message[best], prepend=-1))
        onward[moving[part]] = asked[best[first]]
    return onward


def zones_of_all(placement: Placement, ring: Ring, kernel: Kernel) -> Zones:
    """Return the zones of the CAN of all nodes, which is CAN 0; raises like `split_zones`."""
    can = np.zeros(len(ring), dtype=np.int64)
    node = placement.order(can, ALL_NODES, np.arange(len(ring)), ring)
    point = placement.points(ALL_NODES, node, ring, kernel)
    return Zones.of(placement.space, can, node, point, len(ring))
