"""CAN multicast in buckets, beside the oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from scribe_spark import draws
from scribe_spark.can.cans import Placement, zones_of_groups
from scribe_spark.can.flooding import goes_on
from scribe_spark.can.joining import CONTROL, KINDS, NEIGHBOURS, Joining
from scribe_spark.can.points import Landmarks
from scribe_spark.can.space import Space
from scribe_spark.can.zones import ZonesInMemory
from scribe_spark.config.can import most_bits
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, START, Dissemination
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT, Tables
from scribe_spark.engine.ring import Ring
from tests.oracle.can.cases import CanCase, random_can
from tests.seeds import seeds

LAN_US = 1000


@dataclass(frozen=True)
class Routers:
    """The routes of a case; indices of routers are their ids."""

    delay_us: np.ndarray

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.delay_us[a, b]


class Played:
    """A case as kernels play it."""

    def __init__(self, given: CanCase, buckets: int) -> None:
        self.given, case = given, given.case
        self.routes = case.routes()
        many = len(case.routers)
        self.kernel = Routers(
            np.array([[self.routes.delay[a][b] for b in range(many)] for a in range(many)])
        )
        nodes = sorted(case.ids, key=case.ids.__getitem__)
        ids = [case.ids[node] for node in nodes]
        self.ring = Ring(
            np.array([one >> 64 for one in ids], dtype=np.uint64),
            np.array([one & (2**64 - 1) for one in ids], dtype=np.uint64),
            np.array(nodes),
            np.array([case.router[node] for node in nodes]),
        )
        self.bounds = np.linspace(0, len(nodes), buckets + 1).astype(np.int64)
        most = most_bits(given.dimensions)
        self.space = Space(given.dimensions, min(given.bits or most, most))
        self.number = np.array(sorted(case.keys), dtype=np.int64)
        self.landmarks = None
        if given.landmarks:
            self.landmarks = Landmarks.drawn(case.seed, given.landmarks, many)

    @cached_property
    def tables(self) -> list[Tables]:
        given, case, ring = self.given, self.given.case, self.ring
        space = self.space
        source = ring.positions(np.array([given.sources[g] for g in self.number.tolist()], int))
        rows = [
            (index, node)
            for index, group in enumerate(self.number.tolist())
            for node in case.members[group]
        ]
        group, member = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        placement = Placement(space, case.seed, self.landmarks)
        zones = zones_of_groups(
            *(placement, ring, self.kernel, self.number, source, group, ring.positions(member))
        )
        self.known = ZonesInMemory(zones)
        point = np.array([case.keys[g] >> (128 - space.bits) for g in self.number.tolist()], int)
        join = Joining(self.bounds, self.known, point, source, given.flooding)
        tables = [Tables() for _ in self.bounds[1:]]
        self.supersteps = len(play(join, tables))
        flood = Dissemination(
            *(self.bounds, RingInMemory(ring), self.kernel, LAN_US, goes_on, ("face",)),
            clock=given.clock,
            processing_us=given.processing_us,
        )
        play(flood, tables, {START: {AT: source, "group": np.arange(len(source))}})
        return tables

    def rows(self, *names: str) -> dict[str, np.ndarray]:
        """The rows of tables of all buckets; nodes and groups by number."""
        found = [one[name] for one in self.tables for name in names if name in one]
        if not found:
            return {}
        every = concatenate(found)
        for name in ("node", "sender", "receiver"):
            if name in every:
                known = every[name] >= 0
                every[name] = np.where(known, self.ring.node[every[name]], every[name])
        if "group" in every:
            every["group"] = self.number[every["group"]]
        return every


def _rows(columns: dict[str, np.ndarray], *names: str) -> list[tuple]:
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True)) if columns else []


@pytest.mark.parametrize("seed", seeds(range(200), 30))
def test_every_row_is_the_oracles(seed):
    given = random_can(seed)
    case, draw = given.case, _draw_of(given.case.seed)
    played = Played(given, 1)
    ids = () if played.landmarks is None else tuple(played.landmarks.routers.tolist())
    points = given.points(played.routes, draw, ids)
    everybody = given.everybody(points)
    copies, first, control, state = [], [], Counter(), Counter()
    for group in sorted(case.keys):
        can = given.can(group, points)
        spread = given.published(group, can, played.routes)
        for copy in spread.copies:
            dimension, direction = copy.way
            face = 2 * dimension + (direction > 0)
            copies.append((group, copy.receiver, copy.sender, copy.hop, face))
        for node, copy in spread.first.items():
            at = (copy.arrives,) if given.clock == "time" else ()
            first.append((group, node, copy.sender, copy.hop, *at))
        for (sender, receiver, kind), messages in given.control(group, can, everybody).items():
            control[group, sender, receiver, kind] += messages
        for x, y, _, _ in can.adjacent:
            state[group, x, y] += 1
    state.update((-1, x, y) for x, y, _, _ in everybody.adjacent)
    for buckets in (1, 2, 7):
        played = Played(given, buckets)
        found = played.rows(ARRIVED_COPIES)
        assert _rows(found, "group", "node", "sender", "hops", "face") == sorted(copies)
        arrivals = played.rows(ARRIVALS)
        at = ("at_us",) if given.clock == "time" else ()
        got = [row for row in _rows(arrivals, "group", "node", "sender", "hops", *at) if row[3]]
        assert got == sorted(first)
        assert _control(played) == control
        zones = played.known.zones
        pairs = concatenate([one[NEIGHBOURS] for one in played.tables if NEIGHBOURS in one])
        named = np.append(played.number, -1)[zones.can[pairs["zone"]]].tolist()
        x, y = (played.ring.node[zones.node[pairs[n]]].tolist() for n in ("zone", "neighbour"))
        assert Counter(zip(named, x, y, strict=True)) == state


def _draw_of(seed: int):
    def draw(purpose: str, *numbers: int) -> int:
        return int(draws.bits_np(seed, purpose, *numbers))

    return draw


def _control(played: Played) -> Counter:
    """(group, sender, receiver, kind) -> messages."""
    names = [f"{CONTROL} {superstep}" for superstep in range(played.supersteps)]
    taken = played.rows(*names)
    found: Counter = Counter()
    for group, sender, receiver, kind, messages in _rows(
        taken, "group", "sender", "receiver", "kind", "messages"
    ):
        found[group, sender, receiver, KINDS[kind]] += messages
    zones = played.known.zones
    for one in played.tables:
        if NEIGHBOURS in one:
            pairs = one[NEIGHBOURS]
            own = zones.can[pairs["zone"]] < len(played.number)
            group = played.number[zones.can[pairs["zone"][own]]].tolist()
            ends = [
                played.ring.node[zones.node[pairs[name][own]]].tolist()
                for name in ("neighbour", "zone")
            ]
            found.update((g, x, y, "UPDATE") for g, x, y in zip(group, *ends, strict=True))
    return found
