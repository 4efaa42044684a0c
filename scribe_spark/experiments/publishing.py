"""The publications of a run: systems in their round 0, and messages along Scribe's trees.

In its round 0, all members of a system join, and all sources publish; a system with shorter own
rounds plays several of them (`rounds.system.play_run`).  A run may have several publications of a
group, with sizes, with losses.

References
----------
docs/rules.md, W9; N1 and N5 (losses on trees).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.bandwidth.rounds import Ways, replayed
from scribe_spark.bandwidth.runs import links_of, player_of
from scribe_spark.bandwidth.schedule import Schedule, check_schedule, draw_schedule
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import ExperimentConfig, RunConfig
from scribe_spark.core.arrays import distinct, divided, find_sorted, index_sorted, whole_numbers
from scribe_spark.core.errors import InputError, in_series
from scribe_spark.core.keys import key_of
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine.buckets import Names, read_view
from scribe_spark.engine.losses import are_lost, loses, publication_keys
from scribe_spark.engine.on_spark import BucketTables, OnSpark
from scribe_spark.engine.player import Player
from scribe_spark.experiments.stages import Stages, collected
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
from scribe_spark.overlay import Application
from scribe_spark.rounds.declaration import MESH, System
from scribe_spark.rounds.system import Pairs, Publishing, SystemOnBuckets
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.schemas import SCHEDULE as SCHEDULE_TABLE
from scribe_spark.schemas import arrow_table
from scribe_spark.systems.registry import is_built_in, live_system
from scribe_spark.topology.graph import Graph
from scribe_spark.underlay.protocol import Kernel
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

# --- systems in round 0

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
    if stages.plays_silent and _is_played_with_trees(system, live):
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
    limits = stages.limits
    return {
        **{"kernel": stages.underlay.kernel, "lan_us": stages.underlay.lan_us},
        **{"seed": stages.config.seed, "source": stages.config.groups.source},
        "capacity": None if limits is None else limits[stages.overlay.ring.facts.ring.node],
        "routers": len(stages.underlay.routers),
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


# --- publications along trees: several of a group, with sizes, with losses

#: The greatest number of deliveries of all publications by a system, as they are in memory.
MOST_DELIVERIES = 2 * 10**9


def schedule_of(run: Stages) -> Schedule | None:
    """Return the messages of a run in which a group may have several; None for other runs."""
    config = run.config.bandwidth
    return Parts.of(config).split(_publications(run)) if config.several else None


def _publications(run: Stages) -> Schedule:
    config = run.config.bandwidth
    if config.schedule is None:
        group, source = collected(run.groups_with_source, "group", "source")
        drawn = draw_schedule(config, run.config.seed, group, source, _publishers(run))
        # the sources of groups have been chosen by their rights
        return drawn if config.published_by == "source" else run.possible(drawn)
    found = check_schedule(config.schedule, run.config.overlay.nodes, config.size, run.spark)
    refuse_unknown_groups(config.schedule, found, run.group_numbers)
    refuse_slow(run.config, found, run.graph)
    found = run.possible(found)
    known, size = collected(run.group_rows, "group", "size")
    refuse_deliveries(run.config, int(size[index_sorted(known, found.group)].sum()))
    return found


def refuse_slow(config: ExperimentConfig, schedule: Schedule, graph: Graph | None) -> None:
    """Refuse rates at which the largest publication takes too long."""
    links, rates = config.bandwidth, () if graph is None else graph.hosts.least_rates()
    table = "schedule", links.schedule, int(schedule.size.max(initial=0))
    links.refuse_slow(config.classes, rates, table)


def refuse_deliveries(config: RunConfig, deliveries: int) -> None:
    """Refuse publications with more deliveries than fit into memory."""
    deliveries *= config.bandwidth.parts_sent
    if deliveries > MOST_DELIVERIES:
        field = str(config.bandwidth.cause_of_several)
        makes = f"makes {deliveries:,} deliveries; must be at most {MOST_DELIVERIES:,}"
        remedy = f"{makes}; give fewer publications, or smaller groups"
        raise InputError(field, getattr(config.bandwidth, field), remedy)


def refuse_unknown_groups(path: str, schedule: Schedule, known: np.ndarray) -> None:
    """Refuse a schedule with a publication to an unknown group."""
    unknown = np.setdiff1d(schedule.group, known)
    if len(unknown):
        names = in_series([str(group) for group in unknown[:3]], len(unknown))
        given = f"; groups are {known.min()} to {known.max()}" if len(known) else ""
        raise InputError("schedule", path, f"names no group of the run: {names}{given}")


def _publishers(run: Stages) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups and nodes of all members, if members publish."""
    if run.config.bandwidth.published_by == "source":
        return whole_numbers(), whole_numbers()
    rows = Batches.of(run.memberships, ["group", "node"]).frame.select("group", "node").toArrow()
    return rows["group"].to_numpy(), rows["node"].to_numpy()


def once(run: Stages) -> Schedule:
    """Return a schedule with one publication of each group that has a source, at time 0."""
    group, source = collected(run.source_rows, "group", "source")
    zero = np.zeros(len(group), dtype=np.int64)
    return Schedule.of(zero, group, source, zero + run.config.bandwidth.size)


def schedule_rows(schedule: Schedule) -> pa.Table:
    """Return the rows of the table `schedule`: publications, or their parts."""
    columns = {
        "publication": np.arange(len(schedule)),
        "group": schedule.group,
        "node": schedule.source,
        "time_ms": schedule.at_us / MICROSECONDS,
        "bytes": schedule.size,
    }
    return pa.table(columns, schema=arrow_table([], SCHEDULE_TABLE).schema)


def along_trees(run: Stages, made: Multicast) -> Multicast:
    """Return the publications of the run along trees that work like Scribe's.

    `made` has the edges, and the deliveries without losses, sizes and times.  If publications have
    sizes or times, or a group has several, the clock computes the deliveries.
    """
    if run.schedule is None:
        made = with_losses(run, made)
    if not run.config.bandwidth.on:
        return made
    # sources that do not route send directly to roots
    routed = run.config.groups.source == "routed"
    ways: Ways | None = partial(_routed_ways, run) if routed else None
    return replayed(run, made, ways)


def _routed_ways(
    run: Stages, group: np.ndarray, source: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the hops and delays (us) of the routes from sources to the roots of groups."""
    rows = {"group": group, "node": source, "way": np.arange(len(group))}
    keys = F.broadcast(run.groups_with_root.select("group", "key_hi", "key_lo"))
    messages = local_frame(run.spark, pa.table(rows)).join(keys, "group")
    sent = messages.select("node", "key_hi", "key_lo", "way")
    routed = run.overlay.route(Application(), sent, name="ways to roots", progress=run.progress)
    _, hops, delay_us = collected(routed.outcomes(), "way", "hops", "delay_us")
    routed.release()
    return hops, delay_us


_EDGE = [column.split()[0] for column in EDGES.split(", ")]


def with_losses(run: Stages, made: Multicast) -> Multicast:
    """Return a multicast along trees without the copies that are not sent or do not arrive.

    The edges of the result are those on which a copy is sent.
    """
    kernel = run.underlay.kernel
    if made.tree_edges is None or made.merged or not loses(kernel):
        return made

    @cache
    def fates() -> DataFrame:
        assert made.edges is not None
        edges = Batches.of(made.edges, _EDGE).frame
        seed, sources = run.config.seed, collected(run.source_rows, "group", "source")

        def of_group(table: pa.Table) -> pa.Table:
            return _fates(kernel, seed, sources, table)

        flags = "sent boolean, arrives boolean"
        played = edges.groupBy("group").applyInArrow(of_group, f"{EDGES}, {flags}")
        return run.memory.materialise(played)

    def delivered() -> DataFrame:
        node = fates().groupBy("group", F.col("child").alias("node"))
        gone = node.agg(F.bool_or("arrives").alias("arrives")).where("NOT arrives")
        return Batches.of(made.deliveries).frame.join(gone, ["group", "node"], "left_anti")

    sent = lambda: fates().where("sent").select(_EDGE)  # noqa: E731
    return replace(made, tree_edges=sent, delivered=delivered)


def _fates(kernel: Kernel, seed: int, sources: Sequence[np.ndarray], edges: pa.Table) -> pa.Table:
    """Return the edges of a tree with whether a copy is sent on each, and whether it arrives.

    `sources` are the groups, ascending, and the source of each.
    """
    group, parent, child, *routers = (edges.column(name).to_numpy() for name in _EDGE)
    sends, passes = np.ones((2, len(group)), dtype=bool)
    if kernel.withheld is not None:
        is_source = parent == sources[1][index_sorted(sources[0], group)]
        sends = is_source | ~kernel.withheld.of_nodes(parent)
    share = kernel.losses(*map(kernel.index, routers))
    if share is not None:
        passes = ~are_lost(publication_keys(seed, group, 0), share, parent, child)
    node, index = np.unique(np.concatenate([parent, child]), return_inverse=True)
    above, below = np.split(index, 2)
    has = np.ones(len(node), dtype=bool)
    has[below] = False  # the tops of trees
    while not has[below[sends & passes & has[above]]].all():
        has[below[sends & passes & has[above]]] = True
    sent = sends & has[above]
    edges = edges.append_column("sent", pa.array(sent))
    return edges.append_column("arrives", pa.array(sent & passes))
