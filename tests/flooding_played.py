"""Flooding over Pastry of one oracle case, played in process as round 0 of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import bayeux_played
import numpy as np
import worlds
from oracle.flooding.flood import FloodingCase

from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import Tables
from scribe_spark.experiments import round_in_run
from scribe_spark.flooding.live import FloodedOverlay, LiveFlooding
from scribe_spark.rounds.system import Publishing

__all__ = ["Flooded", "flood"]


@dataclass
class Flooded:
    """What is left of a flood; nodes and groups are the case's own numbers."""

    copies: list[tuple]  # (group, sender, receiver, hop, sent_us, delay), sorted
    deliveries: list[tuple]  # (group, node, hops, delay_us), sorted
    state: Counter  # (group or None, node, kind) -> entries
    announcements: Counter  # (group, sender, receiver) -> messages


def flood(case: FloodingCase, buckets: int) -> Flooded:
    """Every group's source floods the group's ring, or the overlay."""
    one = worlds.world(case.case)
    ring, numbers = one.ring, sorted(one.case.keys)
    of_overlay = case.over == "overlay"

    def at(nodes: list[int]) -> np.ndarray:
        return ring.positions(np.array(nodes, dtype=np.int64) + one.base)

    members = [(index, n) for index, g in enumerate(numbers) for n in sorted(one.case.members[g])]
    group, node = np.array([g for g, _ in members]), at([n for _, n in members])
    order = np.lexsort((node, group))
    sources = np.arange(len(numbers)), at([case.sources[g] for g in numbers])
    given = {
        **{"group": np.array(numbers), "key_hi": None, "key_lo": None, "capacity": None},
        **{"join": (group[order], node[order]), "publish": Publishing.at_begin(sources)},
        **{"source": "source", "seed": 1, "kernel": one.kernel, "lan_us": worlds.LAN_US},
    }
    bounds = bucket_bounds(ring, buckets, one.case.b)
    mine = [Tables() for _ in range(buckets)]
    system = LiveFlooding(one.case.b, one.case.leaf_set_size)
    if of_overlay:
        known = bayeux_played.known_of(one, case.overlay(), bounds)
        mine, system = [Tables.of(tables) for tables in known], FloodedOverlay(not case.damage)
    player, wanted = InTask(mine), round_in_run._Wanted(copies=True, edges=False)
    round_in_run._play("flooding", system, given, RingInMemory(ring), bounds, wanted, player)
    names = ("copies", "deliveries", "state", "control")
    found = player.gather(*(f"system/{name} of round 0" for name in names))

    def rows(name: str, *columns: str) -> list[tuple]:
        table = found.get(f"system/{name} of round")
        values = [] if table is None else [table[column].tolist() for column in columns]
        return list(zip(*values, strict=True))

    def named(place: int) -> int:
        return int(ring.node[place]) - one.base

    copies = rows("copies", "group", "sender", "to", "hops", "sent_us")
    came = rows("deliveries", "group", "node", "hops", "delay_us")
    kinds = tuple(system.state)
    return Flooded(
        sorted((numbers[g], named(a), named(b), *rest) for g, a, b, *rest in copies),
        sorted((numbers[g], named(n), *rest) for g, n, *rest in came),
        Counter(
            {
                (numbers[g] if g >= 0 else None, named(n), kinds[kind]): entries
                for g, n, kind, entries in rows("state", "group", "node", "kind", "entries")
                if entries
            }
        ),
        Counter(
            {
                (numbers[g], named(a), named(b)): count
                for g, a, b, count in rows("control", "group", "sender", "receiver", "messages")
            }
        ),
    )
