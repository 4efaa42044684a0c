"""Worlds whose publications have sizes, times, rates and parts; rules W9 to W16."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from living_groups import World, world_of
from oracle import bandwidth as oracle
from oracle.scribe_living.cases import random_world
from world_states import Played, events_of, flooders

from scribe_spark.bandwidth.rounds import RoundLinks
from scribe_spark.bandwidth.setting import INTERLEAVED, Parts
from scribe_spark.config import RunConfig
from scribe_spark.core import draws
from scribe_spark.core.arrays import NO_GROUP, NONE
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.measures.multicasts import MulticastMeasures
from scribe_spark.rounds.group_events import RoundTimes
from scribe_spark.rounds.system import SystemOnBuckets
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.round import live_gossipsub
from scribe_spark.topology.graph import NO_HOSTS

ROUNDS, LAN_US = 4, 1_000

#: The length of a round, and the size of a large publication.
ROUND_US, MB = 2_000_000, 1_000_000

#: Publications that are sent whole, or in parts that nodes recode.
WHOLE, RECODED = Parts(), Parts(3, 3, recoded=True)

SLOW = {"size": 128_000, "up": 50_000_000, "down": 30_000_000, "validation_us": 700}
SPARSE = {"d": 3, "d_low": 2, "d_high": 4, "d_out": 1, "dials": 3}


def links_of(size: int, **given) -> RoundLinks:
    """Sizes, rates and times; without limits where nothing is given."""
    usual = {"up": 0, "down": 0, "validation_us": 0, "uplink": INTERLEAVED, "shared": True}
    usual |= {"control": 64, "idontwant": 1, "lan_us": LAN_US, "seed": 1}
    classes = NodeClasses.of(RunConfig())
    return RoundLinks(**{"size": size, "classes": classes, "hosts": NO_HOSTS, **usual, **given})


def case_of(seed: int, source: str = "routed", delivery: str = "best-effort") -> World:
    """A world before round 0."""
    case = random_world(seed, most=30, rounds=ROUNDS)
    case = replace(case, buffer=16 if delivery == "reliable" else None)
    return world_of(replace(case, settings=replace(case.settings, source=source)))


def systems_of(world: World) -> dict[str, SystemOnBuckets]:
    """All systems; the meshes of GossipSub are sparse, and its sources do not flood."""
    sparse = live_gossipsub(GossipSubConfig(**SPARSE, flood_publish=False))
    return {**flooders(world), "sparse": sparse}


def often_useless(
    parts: Parts, seed: int, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray
) -> np.ndarray:
    """Return False for one copy in eight, so that cases are small; see `Parts.useful`."""
    return draws.bits_np(seed, "rlnc", message, sender, receiver) >> np.uint64(61) != 0


class Scheduled(Played):
    """A world whose publications have times and sizes: (round, time, group, node, size)."""

    def __init__(
        self, schedule: list[tuple[int, ...]], *args: Any, parts: Parts = WHOLE, **given: Any
    ) -> None:
        self.schedule, self.parts = schedule, parts
        super().__init__(*args, **given)

    def read(self, rows: list) -> None:
        groups = self.protocols.groups
        times = RoundTimes(ROUND_US, SLOW["size"], True, 1_000, self.parts)
        self.protocols = replace(self.protocols, groups=replace(groups, times=times))
        super().read(rows)

    def step(self, number: int, keeps_messages: bool = False) -> Any:
        rows = [(*event, NO_GROUP)[1:4] for event in self.world.case.events if event[0] == number]
        rows = [(*row, NONE, NONE) for row in rows if row[1] != "publish"]
        rows += [
            (node, "publish", group, at_us, size)
            for at, at_us, group, node, size in self.schedule
            if at == number
        ]
        columns = events_of(rows, "node", "event", "group", "time", "size")
        return self.state.play(number, columns, keeps_messages)


def schedule_of(seed: int, world: Any, most: int = 5) -> list[tuple[int, ...]]:
    """A schedule: each publication of the case up to `most` times, at few different times."""
    rng = np.random.default_rng(seed)
    found = []
    for number, node, event, *group in world.case.events:
        if event == "publish":
            for _ in range(int(rng.integers(1, most + 1))):
                at_us = int(rng.choice([0, 0, 1_000, 30_000, 30_000, 31_234, ROUND_US - 1]))
                size = int(rng.choice([0, 1, 20_000, 128_000, MB]))
                found.append((number, at_us, group[0], node, size or NONE))
    return found


def begin(
    seed: int, source: str = "routed", delivery: str = "best-effort", buckets: int = 1,
    links: Mapping[str, Any] | None = SLOW, schedule: list | None = None, parts: Parts = WHOLE,
    loses: bool = False, scheduled: bool = True, most: int = 5, **given: Any,
) -> Played:  # fmt: skip
    """A world whose publications are measured; its network may lose copies.

    By default publications have a schedule; without `links`, they have no size.
    """
    world = case_of(seed, source, delivery)
    if loses:
        world.with_losses()
    of_links = None if links is None else links_of(**links, parts=parts)
    of = {"lan_us": LAN_US, "source": source, "links": of_links}
    measures = MulticastMeasures(("bytes", "delay", "node_stress"), **of)
    given = {"more": systems_of(world), "measures": measures, **given}
    if not scheduled:
        return Played(world, buckets, **given)
    schedule = schedule_of(seed, world, most) if schedule is None else schedule
    return Scheduled(schedule, world, buckets, parts=parts, **given)


class Queue:
    """The oracle's network: places, which have names and are at nodes, and links between them."""

    def __init__(self, played: Played) -> None:
        self.kernel, self.router = played.world.pastry.kernel, played.known.router
        self.places: dict[tuple, int] = {}
        self.links: dict[tuple[int, int], oracle.Link] = {}

    def place(self, *name: int) -> int:
        """The place of a name, whose last part is its node."""
        return self.places.setdefault(name, len(self.places))

    def link(self, one: tuple, other: tuple, delay_us: int | None = None, *mesh: bool) -> None:
        """Link two places, unless they are linked, by default with the delay between nodes."""
        if delay_us is None:
            ends = np.array([self.router[one[-1]]]), np.array([self.router[other[-1]]])
            delay_us = int(self.kernel.delays(*ends)[0]) + 2 * LAN_US
        ends = self.place(*one), self.place(*other)
        self.links.setdefault(ends, oracle.Link(*ends, delay_us, *mesh))

    def play(self, published: list[oracle.Publication], rules: oracle.Rules) -> dict:
        """(publication, place) -> the first copy there."""
        node = oracle.Node(0, SLOW["up"], SLOW["down"], SLOW["validation_us"])
        nodes = {one: replace(node, ident=one) for one in range(len(self.router))}
        places = {number: name[-1] for name, number in self.places.items()}
        network = oracle.Network(nodes, places, [*self.links.values()])
        return oracle.play(network, published, rules).first
