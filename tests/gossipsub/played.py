"""A case of GossipSub's oracle, played by the kernels in process."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import worlds
from oracle.gossipsub.cases import GossipCase
from oracle.gossipsub.topic import Settings
from poisoned import OneAtATime, Poisoned
from spread_out import FarApart, SpreadOut

from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import play
from scribe_spark.gossipsub.mesh import (
    BACK_OFF,
    CONNECTIONS,
    GRAPH,
    MESH,
    TOLD,
    Directory,
    Topics,
    building,
)
from scribe_spark.gossipsub.publication import (
    ANSWERS,
    ARRIVALS,
    COPIES,
    TOLD_OF,
    UNWANTED,
    Messages,
    publish,
)
from scribe_spark.gossipsub.router import Space
from scribe_spark.rounds.lives import Lives

__all__ = ["Played", "config_of", "other_ends", "play_case"]


def other_ends(space: Space, key: np.ndarray) -> np.ndarray:
    """Return the keys of the same links at their other ends."""
    topic, node, peer = space.split(key)
    return space.key(topic * space.size + peer, node)


def config_of(settings: Settings) -> GossipSubConfig:
    """Return the config that says the oracle's settings."""
    own = {"prune_backoff", "unsubscribe_backoff", "detection", "deadline", "heartbeat_ms"}
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
    """What the kernels have left of all topics of a case; nodes and groups by their numbers."""

    topics: Topics
    tables: list[Tables]
    #: After each wave and heartbeat: (group, x, y), and (group, x, y, until).
    meshes: list[set[tuple[int, ...]]]
    backoffs: list[set[tuple[int, ...]]]
    lazy_heartbeats: int

    def rows(self, name: str) -> list[tuple]:
        """Return the rows of a table of links of all buckets: group, x, y, and what they have."""
        return rows_of(self.topics, self.tables, name)

    def named(self, prefix: str) -> list[tuple[str, dict]]:
        """Return the tables of all buckets whose names begin so."""
        found = []
        for mine in self.tables:
            mine.open = True
            found += [(name, mine[name]) for name in mine if name.startswith(prefix + " ")]
        return found

    def messages(self, prefix: str) -> list[tuple[str, tuple]]:
        """Return (table, (group, receiver, sender, ...)) of tables of messages."""
        node, number = self.topics.facts.ring.node, self.topics.number
        out = []
        for name, table in self.named(prefix):
            more = [table[one].tolist() for one in _REST if one in table]
            columns = (number[table["message"]], node[table["node"]], node[table["sender"]])
            out += [(name, row) for row in zip(*(c.tolist() for c in columns), *more, strict=True)]
        return out

    def told(self) -> list[tuple[str, tuple[int, int, int]]]:
        """Return (kind, (group, receiver, sender)) of GRAFTs and PRUNEs."""
        return [
            (name.split()[1], row)
            for name, table in self.named(TOLD)
            if name.split()[1] in ("GRAFT", "PRUNE")
            for row in _links(self.topics, table["key"])
        ]

    def arrivals(self) -> dict[tuple[int, int], tuple[int, int, int | None]]:
        """Return (group, node) -> (hops, at, sender)."""
        node, number = self.topics.facts.ring.node, self.topics.number
        found = {}
        for mine in self.tables:
            mine.open = True
            if ARRIVALS not in mine:
                continue
            table = mine[ARRIVALS]
            message, place = np.divmod(table["key"], len(node))
            for m, x, hops, at, s in zip(
                message, place, table["hops"], table["at"], table["sender"], strict=True
            ):
                sender = int(node[s]) if s >= 0 else None
                found[int(number[m]), int(node[x])] = (int(hops), int(at), sender)
        return found


_REST = ("sent", "hops", "lost", "first")


def _links(topics: Topics, key: np.ndarray) -> list[tuple[int, int, int]]:
    topic, x, y = topics.space.split(key)
    node = topics.facts.ring.node
    return list(zip(*(c.tolist() for c in (topics.number[topic], node[x], node[y])), strict=True))


def rows_of(topics: Topics, tables: list[Tables], name: str) -> list[tuple]:
    """Return the rows of a table of links: group, x, y, and what the rows have besides."""
    found = []
    for mine in tables:
        mine.open = True
        if name in mine:
            more = [column.tolist() for one, column in mine[name].items() if one != "key"]
            found += [
                (*link, *rest)
                for link, *rest in zip(_links(topics, mine[name]["key"]), *more, strict=True)
            ]
    return found


def play_case(
    one: GossipCase, buckets: int, poisoned: bool = False, spread_out: bool = False
) -> Played:
    """Play all topics of a case at once; nodes may be as far apart as keys allow."""
    case = one.case
    world = worlds.World(case, case.routes(), case.overlay(case.routes()), 0)
    ring, kernel = world.ring, world.kernel
    numbers = np.array(sorted(case.keys), dtype=np.int64)
    where = {int(node): at for at, node in enumerate(ring.node)}
    alive = ~np.isin(ring.node, list(one.dead))
    if spread_out:
        out = SpreadOut.of(len(ring), len(numbers))
        where = {node: int(out.at[at]) for node, at in where.items()}
        ring, alive = out.ring(ring), FarApart(out.at, alive, out.size)
    bounds = np.linspace(0, len(ring), buckets + 1).astype(np.int64)
    place = [
        index * len(ring) + where[node]
        for index, number in enumerate(numbers.tolist())
        for node in {*case.members[number], one.sources[number]}
    ]
    config = config_of(one.settings)
    topics = Topics(
        bounds,
        RingInMemory(ring),
        numbers,
        Directory.of(np.array(place, dtype=np.int64), len(numbers), len(ring)),
        config.filled(),
        kernel,
        worlds.LAN_US,
        case.seed,
    )
    tables = [(Poisoned if poisoned else Tables).of({}) for _ in range(buckets)]
    wrap = OneAtATime if poisoned else (lambda program: program)
    meshes, backoffs = [], []
    for name, program in building(topics, config):
        play(wrap(program), tables)
        if name == "JOIN" or (name.startswith("heartbeat") and _last(program)):
            meshes.append(set(rows_of(topics, tables, MESH)))
            backoffs.append(set(rows_of(topics, tables, BACK_OFF)))
    source = np.array([where[one.sources[number]] for number in numbers.tolist()], dtype=np.int64)
    clock = one.settings.clock
    messages = Messages(np.arange(len(numbers)), source, clock)
    if one.dead:
        topics = replace(topics, lives=Lives.of(len(ring), np.flatnonzero(alive)))

    def played(program, name):
        return play(wrap(program), tables)

    lazy = publish(played, topics, messages)
    return Played(topics, tables, meshes, backoffs, lazy)


def _last(program) -> bool:
    return program.phase == program.topics.rules.heartbeat_phases - 1


NAMES = (ANSWERS, CONNECTIONS, COPIES, GRAPH, TOLD_OF, UNWANTED)
