"""A system in a run as its round 0, in which all members join and all sources publish.

A system with shorter own rounds plays several of them: see `rounds.system.play_run`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.runs import links_of, player_of
from scribe_spark.core.arrays import distinct, divided, find_sorted, index_sorted, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.engine.player import Player
from scribe_spark.engine.views import Names, read_view
from scribe_spark.experiments.scope import collected
from scribe_spark.experiments.stages import Stages
from scribe_spark.multicast import (
    CONTROL,
    COPIES,
    DELIVERIES,
    EDGES,
    HOPS,
    PICTURE,
    PUBLICATION,
    STATE,
    Multicast,
)
from scribe_spark.rounds.declaration import MESH, System
from scribe_spark.rounds.system import Pairs, Publishing, SystemOnBuckets
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import is_built_in, live_system
from scribe_spark.systems.scribe.groups import limits_by_number
from scribe_spark.worlds.round_of_run import (
    COPIED,
    DRAWN,
    EDGES_OF_TREES,
    KEPT,
    REACHED,
    SENT,
    Wanted,
    control_kinds,
    copy_rows,
    edge_rows,
    play_round,
    play_with_trees,
    state_rows,
    with_kinds,
)

#: The most members of all groups for which one task is faster than a job for each superstep.
_FEW_MEMBERS = 2**16

#: The most members of the group of a picture, so that edges can be told apart; unless all groups
#: have more.
_MOST_IN_PICTURE = 64


def play_round_0(system: System, stages: Stages) -> Multicast:
    """Play round 0 of a system, and return its tables."""
    live, ring, schedule = (
        live_system(system, stages.config),
        stages.overlay.ring,
        stages.publications,
    )
    (number,), several = collected(stages.source_rows, "group"), stages.schedule is not None
    tables_of_run = _wanted(system, live, several)
    if stages.grown.plays_silent and _is_played_with_trees(system, live):
        player = stages.silent_player
    else:
        player = _play(system, live, stages, tables_of_run)
    names = Names(ring.facts, stages.underlay.kernel, number)

    def view(name: str, schema: str, make: Any = dict) -> Callable[[], Batches]:
        def made() -> Batches:  # the first view that is read plays the programs that wait
            rows = player.tables.batches(f"{system.name}/{name}")
            return read_view(rows, names, schema, make)

        return made

    untimed = system.clock_of(stages.config) == HOPS
    kinds = *live.payload, *live.control
    copies = partial(copy_rows, untimed, schedule.at_us, kinds)
    more = f", {PUBLICATION}" if several else ""
    return Multicast(
        system.name,
        view(EDGES_OF_TREES, EDGES, edge_rows) if tables_of_run.edges else None,
        view(REACHED, DELIVERIES + more),
        merged=live.merged,
        copies=view(COPIED, COPIES + more, copies) if tables_of_run.copies else None,
        state=view(KEPT, STATE, partial(state_rows, tuple(live.state))) if live.state else None,
        control=view(SENT, CONTROL, partial(with_kinds, control_kinds(live)))
        if control_kinds(live)
        else None,
        picture=view(DRAWN, PICTURE) if system.picture is not None else None,
        scheduled=several,
    )


def _wanted(system: System, live: SystemOnBuckets, several: bool) -> Wanted:
    """Return the tables that buckets write for a system; with `several` publications of a group."""
    is_mesh = system.family == MESH or not live.has_trees
    return Wanted(is_mesh or several, not is_mesh)


def _is_played_with_trees(system: System, live: SystemOnBuckets) -> bool:
    """Return True if the tasks that have grown Scribe's trees can play a system, too."""
    return live.is_silent and not live.sources_join and is_built_in(system)


def playing_silent(stages: Stages, groups: pa.Table) -> Callable[[Player, np.ndarray], None]:
    """Return the function that plays silent systems in the tasks that have grown the trees."""
    every = [
        (system, live_system(system, stages.config))
        for system in stages.asked_for
        if system.plays_round_0
    ]
    ring = stages.overlay.ring
    number, hi, lo = collected(groups, "group", "key_hi", "key_lo")
    given = _of_network(stages) | _of_groups(number, hi, lo)
    of_ring = ring.facts, ring.bounds
    systems = [
        (system.name, live, _wanted(system, live, several=False))
        for system, live in every
        if _is_played_with_trees(system, live)
    ]
    return partial(play_with_trees, systems, given, *of_ring)


def _of_network(stages: Stages) -> dict[str, Any]:
    """Return the fields of `LivingRound` that are the same for all systems of a run."""
    return {
        **{"kernel": stages.underlay.kernel, "lan_us": stages.underlay.lan_us},
        **{"seed": stages.config.seed, "source": stages.config.groups.source},
        **{"capacity": _capacity(stages), "routers": len(stages.underlay.routers)},
    }


def _of_groups(number: np.ndarray, hi: np.ndarray, lo: np.ndarray) -> dict[str, Any]:
    return {"group": number, "key_hi": hi.view(np.uint64), "key_lo": lo.view(np.uint64)}


def _play(system: System, live: SystemOnBuckets, stages: Stages, tables_of_run: Wanted) -> OnSpark:
    """Play round 0 of a system by itself; return the player with its tables."""
    ring, schedule = stages.overlay.ring, stages.publications
    number, hi, lo = collected(stages.source_rows, "group", "key_hi", "key_lo")
    source = ring.facts.positions(schedule.source)
    publish = Publishing(
        index_sorted(number, schedule.group), source, schedule.at_us, schedule.size
    )
    join, guests = _members(stages, live, publish)
    given: dict[str, Any] = {
        **_of_network(stages),
        **_of_groups(number, hi, lo),
        **{"join": join, "publish": publish},
        "watched": _group_of_picture(np.bincount(join[0], minlength=len(number))),
    }
    if stages.config.bandwidth.on:
        given["links"] = links_of(stages)
        stages.note_clock(player_of(ring.layout))
    if live.is_silent and not stages.config.bandwidth.on:
        player = stages.silent_player
    else:
        known = stages.overlay.known if live.reads else []
        starts = BucketTables(ring.layout, ring.starts(), known)
        player = stages.own(OnSpark(starts, f"{system.label}, ", stages.progress))
    of_run = replace(tables_of_run, guests=guests)
    orchestrate = partial(play_round, system.name, live, given, ring.facts, ring.bounds, of_run)
    if live.is_silent or (len(join[0]) > _FEW_MEMBERS and not stages.in_tasks):
        orchestrate(player)
    else:
        player.play_in_tasks(orchestrate, "round 0", alone=not stages.in_tasks)
    return player


def _members(
    stages: Stages, live: SystemOnBuckets, publish: Publishing
) -> tuple[Pairs, np.ndarray]:
    """Return the members of groups, as pairs, and the sources that are no members.

    Pairs are (index of the group, ring position), ascending.  If the system lets sources join,
    these are among the members; their keys (group, node) are the second result.
    """
    size, pairs = len(stages.overlay.ring), stages.member_pairs
    if not live.sources_join:
        return pairs, whole_numbers()
    key = key_of(pairs, size)
    source = distinct(key_of([publish.group, publish.node], size))
    guests = source[find_sorted(key, source) < 0]
    return divided(np.sort(np.concatenate([key, guests])), size), guests


def _group_of_picture(size: np.ndarray) -> np.ndarray:
    """Return the index of the group whose picture is drawn.

    It is the largest of the groups that are small enough, or else the smallest.
    """
    small = np.where(size <= _MOST_IN_PICTURE, size, -size)
    return np.array([np.argmax(small)] if len(size) else [], dtype=np.int64)


def _capacity(stages: Stages) -> np.ndarray | None:
    """Return the user's limits of children by ring position: int64, (N,); None without a table."""
    if stages.config.trees.capacities is None:
        return None
    return limits_by_number(stages.given_capacities)[stages.overlay.ring.facts.ring.node]
