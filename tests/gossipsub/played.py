"""A case of GossipSub's oracle as a run of the kernels in process: own rounds on buckets."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import worlds
from oracle.gossipsub.cases import GossipCase
from oracle.gossipsub.topic import Settings
from poisoned import PoisonedTask
from spread_out import FarApart, SpreadOut
from withholding import Named

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.rounds.events import Events, Lives
from scribe_spark.rounds.player import TRAFFIC, Tally
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Publishing,
    SystemPlayer,
    play_rounds_of_run,
)
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.mesh import BACK_OFF, MESH
from scribe_spark.systems.gossipsub.round import LiveGossipSub
from scribe_spark.systems.gossipsub.router import LinkSpace

Rows = set[tuple[int, ...]]


def config_of(settings: Settings) -> GossipSubConfig:
    """Return the config that says the oracle's settings."""
    own = {
        *("prune_backoff", "unsubscribe_backoff", "detection", "deadline", "heartbeat_ms"),
        *("withholds", "withholds_announcements"),
    }
    given = {name: value for name, value in vars(settings).items() if name not in own}
    heartbeat_ms = float(settings.heartbeat_ms)
    return GossipSubConfig(
        **{**given, "processing_ms": float(settings.processing_ms)},
        heartbeat_ms=heartbeat_ms,
        prune_backoff_ms=settings.prune_backoff * heartbeat_ms,
        unsubscribe_backoff_ms=settings.unsubscribe_backoff * heartbeat_ms,
    )


@dataclass
class Played:
    """The tables of all topics of a case; nodes and groups by their numbers."""

    player: SystemPlayer
    number: np.ndarray
    kinds: tuple[str, ...]
    #: After each own round before the publications: (group, x, y), and (group, x, y, until).
    meshes: list[Rows] = field(default_factory=list)
    backoffs: list[Rows] = field(default_factory=list)

    def table(self, name: str) -> dict[str, np.ndarray]:
        """Return a table of all buckets."""
        return self.player.gather(name).get(name, {})

    def links(self, name: str) -> list[tuple[int, ...]]:
        """Return the rows of a table of links: group, x, y, and its further columns."""
        table = dict(self.table(name))
        topic, x, y = LinkSpace(len(self.player.facts.ring)).split(
            table.pop("key", whole_numbers())
        )
        return self._rows(topic, (x, y), *table.values())

    def messages(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (kind, (group, sender, receiver, sent, hop, first)) of publications' messages."""
        table = self.table(CARRIED)
        if not table:
            return []
        columns = (table[name] for name in ("sent_us", "hops", "first"))
        rows = self._rows(table["group"], (table["sender"], table["to"]), *columns)
        return list(zip((self.kinds[kind] for kind in table["kind"]), rows, strict=True))

    def joining(self) -> Counter[tuple]:
        """Return the counts of (kind, group or None, sender, receiver) while nodes join."""
        table = self.table(TRAFFIC)
        if not table:
            return Counter()
        known = (table["group"] >= 0).tolist()
        rows = self._rows(np.maximum(table["group"], 0), (table["sender"], table["to"]))
        return Counter(
            (self.kinds[kind], group if has else None, sender, to)
            for kind, has, (group, sender, to) in zip(table["kind"], known, rows, strict=True)
        )

    def deliveries(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return (group, node) -> (hops, delay)."""
        table = self.table(DELIVERED)
        if not table:
            return {}
        rows = self._rows(table["group"], (table["node"],), table["hops"], table["delay_us"])
        return {(group, node): (hops, at) for group, node, hops, at in rows}

    def _rows(self, topic: np.ndarray, nodes: tuple[np.ndarray, ...], *more: np.ndarray) -> list:
        node = self.player.facts.ring.node
        columns = (self.number[topic], *(node[one] for one in nodes), *more)
        return list(zip(*(column.tolist() for column in columns), strict=True))


def play_case(
    one: GossipCase, buckets: int, poisoned: bool = False, spread_out: bool = False
) -> Played:
    """Play all topics of a case at once; nodes may be as far apart as keys allow."""
    case = one.case
    world = worlds.World(case, case.routes(), case.overlay(case.routes()), 0)
    ring, numbers = world.ring, np.array(sorted(case.keys), dtype=np.int64)
    where = {int(node): at for at, node in enumerate(ring.node)}
    alive = ~np.isin(ring.node, list(one.dead))
    if spread_out:
        out = SpreadOut.of(len(ring), len(numbers))
        where = {node: int(out.at[at]) for node, at in where.items()}
        all_live = FarApart(out.at, np.ones(len(ring), dtype=bool), out.size)
        ring, alive = out.ring(ring), FarApart(out.at, alive, out.size)
    else:
        all_live = np.ones(len(ring), dtype=bool)
    pairs = sorted(
        (index, where[node])
        for index, number in enumerate(numbers.tolist())
        for node in {*case.members[number], one.sources[number]}
    )
    join = tuple(np.array([pair[end] for pair in pairs], dtype=np.int64) for end in (0, 1))
    source = np.array([where[one.sources[number]] for number in numbers.tolist()], dtype=np.int64)
    silent = Named.of(one.settings.withholds, one.settings.withholds_announcements)
    kernel = replace(world.kernel, withheld=silent)
    system = LiveGossipSub(config_of(one.settings).filled(), one.settings.clock)
    kinds = (*system.payload, *system.control)
    engine = (PoisonedTask if poisoned else InTask)([Tables() for _ in range(buckets)])
    bounds = np.linspace(0, len(ring), buckets + 1).astype(np.int64)
    player = SystemPlayer(engine, RingInMemory(ring), bounds, "system/")
    nobody = whole_numbers(), whole_numbers()
    now = LivingRound(
        *(0, 1, ring, lives_of(all_live), Events(), numbers, numbers, numbers),
        *(join, nobody, Publishing.at_begin((np.arange(len(numbers)), source))),
        *(kernel, worlds.LAN_US, case.seed, 0),
        *(Tally(kinds, kinds, groups=True), nobody[0]),
        measures=("delay", "node_stress"),
        in_run=True,
    )
    played, kept, before = Played(player, numbers, kinds), Tables(), system.rounds_before
    for number in range(before):
        play_rounds_of_run(system, player, kept, now, [number])
        played.meshes.append({row[:3] for row in played.links(MESH)})
        played.backoffs.append(set(played.links(BACK_OFF)))
    if one.dead:
        now = replace(now, overlay=lives_of(alive))
    play_rounds_of_run(system, player, kept, now, count(before))
    return played


def lives_of(alive: np.ndarray | FarApart) -> Lives:
    """Return the lives of nodes, of which those that are dead never lived."""
    return Lives(alive, *[np.zeros(1)] * 3)
