"""Flooding over Pastry of one oracle case, played by the engine in process."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import bayeux_played
import numpy as np
import worlds
from oracle.flooding.flood import FloodingCase
from poisoned import Poisoned, play_blind

from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.program import AT
from scribe_spark.engine.ring import Ring
from scribe_spark.flooding.flood import (
    COPIES,
    COPY,
    Flood,
    GroupRings,
    kept_of,
    known_of_places,
    place_bounds,
    starting,
    told,
)

__all__ = ["Flooded", "flood_groups", "flood_overlay"]


@dataclass
class Flooded:
    """What is left of a flood; nodes and groups are the case's own numbers."""

    copies: list[tuple]  # (group, sender, receiver, hop, sent_us, at_us), sorted
    state: Counter  # (group, node, kind) -> entries
    announcements: Counter  # (group, sender, receiver) -> messages


def flood_groups(case: FloodingCase, buckets: int) -> Flooded:
    """Every group's source floods the group's own ring."""
    one, sources = worlds.world(case.case), case.sources
    groups, ring = sorted(one.case.keys), one.ring
    index = {group: place for place, group in enumerate(groups)}
    members = sorted({*one.case.joins(), *sources.items()})
    group = np.array([index[group] for group, _ in members], dtype=np.int64)
    at = ring.positions(np.array([node + one.base for _, node in members], dtype=np.int64))
    rings = GroupRings.of(group, at, len(groups), len(ring))
    places, bounds = ring.take(rings.position), place_bounds(rings.begins, buckets)
    known = [
        known_of_places(
            *(places, rings.begins, int(a), int(z), one.kernel),
            *(one.case.b, one.case.leaf_set_size // 2),
        )
        for a, z in itertools.pairwise(bounds)
    ]
    listed = [(index[group], node + one.base) for group, node in sorted(sources.items())]
    start_group = np.array([group for group, _ in listed], dtype=np.int64)
    start = ring.positions(np.array([node for _, node in listed], dtype=np.int64))
    first = {AT: rings.find(start_group, start, len(ring)), **starting(start_group)}
    copies = _play(one, places, bounds, [mine.tables() for mine in known], first, True)
    node = places.node - one.base

    def name(place: int) -> tuple[int, int]:
        return groups[int(rings.group[place])], int(node[place])

    state, announcements = Counter(), Counter()
    for states in known:
        for kind, kept in kept_of(states).items():
            mine = {(*name(at), kind): int(n) for at, n in zip(states.own, kept, strict=True) if n}
            state.update(mine)
        for teller, place in zip(*told(states), strict=True):
            announcements[(*name(teller), name(place)[1])] += 1
    copies = sorted((groups[group], *rest) for group, *rest in copies)
    return Flooded(copies, state, announcements)


def flood_overlay(one: FloodingCase, buckets: int) -> list[tuple]:
    """Every group's source floods the overlay: copies as in `Flooded`."""
    world = worlds.world(one.case)
    ring, bounds = world.ring, bucket_bounds(world.ring, buckets, one.case.b)
    known = bayeux_played.known_of(world, one.overlay(), bounds)
    groups = np.array(sorted(one.sources), dtype=np.int64)
    nodes = np.array([one.sources[group] + world.base for group in groups.tolist()], np.int64)
    first = {AT: ring.positions(nodes), **starting(groups)}
    return sorted(_play(world, ring, bounds, known, first, one.damage is None))


def _play(
    one: worlds.World, ring: Ring, bounds: np.ndarray, known: list, first: dict, perfect: bool
) -> list[tuple]:
    tables = [Poisoned.of(mine) for mine in known]
    program = Flood(bounds, RingInMemory(ring), one.kernel, worlds.LAN_US, perfect)
    play_blind(program, tables, {COPY: first})
    node = ring.node - one.base
    names = ("group", "sender", AT, "hops", "sent_us", "at_us")
    return [
        (int(group), int(node[sender]), int(node[at]), *map(int, rest))
        for mine in tables
        for table in (mine[name] for name in mine if name.startswith(f"{COPIES} "))
        for group, sender, at, *rest in zip(*(table[name] for name in names), strict=True)
    ]
