"""Bayeux of one oracle case, played by the engine in process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import worlds
from identifiers import parts
from oracle.bayeux.cases import BayeuxCase
from oracle.pastry import Overlay
from poisoned import OneAtATime, Poisoned

from scribe_spark.bayeux.bayeux import ENTRIES, Sums
from scribe_spark.bayeux.protocol import (
    BEGUN,
    COPIES,
    DELIVERED,
    JOIN,
    MEMBER,
    SENT,
    TREE,
    Deliver,
    Join,
    NextHops,
    Record,
    Tree,
    Ways,
    flood,
)
from scribe_spark.bayeux.sessions import Sessions
from scribe_spark.dissemination import EDGES, START
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_task import play
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Keys
from scribe_spark.pastry.overlay import PastryNextHop
from scribe_spark.pastry.states import CELLS

__all__ = ["Played", "Publications", "join_all", "known_of", "publish"]


@dataclass
class Played:
    """What JOIN and TREE have left; nodes and groups are the case's own numbers."""

    one: worlds.World
    sessions: Sessions
    groups: list[int]
    tables: list[Tables]

    def rows(self, name: str) -> list[dict]:
        for mine in self.tables:
            if isinstance(mine, Poisoned):
                mine.open = True
        return [mine[name] for mine in self.tables if name in mine]

    def _node(self, position: int) -> int:
        return int(self.one.ring.node[position]) - self.one.base

    def _session(self, session: int) -> tuple[int, int]:
        group, partition = divmod(int(session), self.sessions.partitions)
        return self.groups[group], partition

    def roots(self) -> dict[tuple[int, int], int]:
        """(group, partition) -> root."""
        return {
            self._session(session): self._node(root)
            for session, root in enumerate(self.sessions.root_of)
            if root >= 0
        }

    def edges(self) -> list[tuple[int, int, int, int]]:
        """(group, partition, node, next hop), sorted."""
        return sorted(
            (*self._session(session), self._node(node), self._node(peer))
            for table in self.rows(EDGES)
            for session, node, peer in zip(*table.values(), strict=True)
        )

    def state(self) -> Counter:
        """(group, node) -> entries of its member lists."""
        found: Counter = Counter()
        for table in self.rows(ENTRIES):
            for group, node, entries in zip(*table.values(), strict=True):
                place = self._session(group * self.sessions.partitions)[0], self._node(node)
                assert place not in found  # a row for each, however many partitions there are
                found[place] = int(entries)
        return found

    def control(self) -> Counter:
        """(group, sender, receiver, kind) -> messages."""
        found: Counter = Counter()
        for kind in (JOIN, TREE):
            for table in self.rows(f"{SENT} {kind}"):
                for session, sender, receiver, messages in zip(*table.values(), strict=True):
                    group = self._session(session)[0]
                    found[group, self._node(sender), self._node(receiver), kind] += int(messages)
        return found


def join_all(one: BayeuxCase, buckets: int, poisoned: bool = False) -> Played:
    """JOIN and TREE of a case over a number of buckets."""
    case, options, world = one.case, one.options, worlds.world(one.case)
    ring, bounds = world.ring, bucket_bounds(world.ring, buckets, case.b)
    groups = sorted(case.keys)
    hi, lo = parts(case.keys[group] for group in groups)
    facts = RingInMemory(ring)
    sessions = Sessions.of(
        *(bounds, facts, world.kernel, worlds.LAN_US, Keys(hi, lo), PastryNextHop(facts)),
        b=case.b,
        partitions=options.partitions,
        root=options.root,
        hops=options.hops,
    )
    overlay, kind = one.overlay(), Poisoned if poisoned else Tables
    tables = [kind.of(known) for known in known_of(world, overlay, bounds)]
    wrap = OneAtATime if poisoned else (lambda program: program)
    joins = case.joins()
    group = np.searchsorted(np.array(groups, dtype=np.int64), [group for group, _ in joins])
    nodes = np.array([node for _, node in joins], dtype=np.int64) + world.base
    member = {"group": group.astype(np.int64), AT: ring.positions(nodes)}
    play(wrap(Join(sessions)), tables, {MEMBER: member})
    for program in (Tree, Record, NextHops, Sums):
        play(wrap(program(sessions)), tables)
    return Played(world, sessions, groups, tables)


def known_of(world: worlds.World, overlay: Overlay, bounds: np.ndarray) -> list[dict]:
    """The tables of an oracle's overlay, whose leaf sets are right."""
    tables = world.make_tables(bounds)
    for first, known in zip(bounds[:-1].tolist(), tables, strict=True):
        cells = np.full_like(known[CELLS]["cells"], -1)
        known[CELLS] = {"cells": cells}
        for place in range(len(cells)):
            node = int(world.ring.node[first + place]) - world.base
            for (row, digit), entry in overlay.routing_table(node).items():
                at = world.ring.positions(np.array([entry + world.base]))[0]
                cells[place, row, digit] = at
    return tables


def publish(played: Played, ways: dict[int, tuple[int, int, int] | None]) -> Publications:
    """Each group's source multicasts a message.

    Ways: group -> source, hops and delay to the root of partition 0; hops are -1 for a lost
    message.
    """
    sessions, ring, base = played.sessions, played.one.ring, played.one.base
    rows = np.array([ways[group] for group in played.groups], dtype=np.int64).reshape(-1, 3)
    way = Ways.of(sessions, ring.positions(rows[:, 0] + base), rows[:, 1], rows[:, 2])
    begun = np.concatenate([np.empty(0, np.int64), *(one["session"] for one in played.rows(BEGUN))])
    session = way.started(begun, sessions.partitions)
    start = {AT: sessions.root_of[session], "group": session}
    play(flood(sessions), played.tables, {START: start})
    play(Deliver(sessions, way), played.tables)
    node = ring.node - base

    def read(name: str, ends: tuple[str, ...], rest: tuple[str, ...]) -> list[tuple]:
        return sorted(
            (
                played.groups[int(group)],
                *(int(node[at]) for at in row[: len(ends)]),
                *row[len(ends) :],
            )
            for table in played.rows(name)
            for group, *row in zip(
                *(table[column].tolist() for column in ("group", *ends, *rest)), strict=True
            )
        )

    return Publications(
        read(DELIVERED, ("node",), ("hops", "at_us")),
        read(COPIES, ("sender", "node"), ("hops", "sent_us", "first")),
    )


@dataclass
class Publications:
    """What comes of publications."""

    deliveries: list[tuple]  # (group, node, hops, delay_us), sorted
    copies: list[tuple]  # (group, sender, receiver, hop, sent_us, first), sorted
