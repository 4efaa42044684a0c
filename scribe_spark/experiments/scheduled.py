"""The publications of a run along Scribe's trees: several of a group, with sizes, with losses.

References
----------
docs/rules.md, W9; N1 and N5 (losses on trees).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.bandwidth.rounds import Ways, replayed
from scribe_spark.bandwidth.schedule import Schedule, draw_schedule, read_schedule
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import ExperimentConfig, RunConfig
from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.errors import InputError, in_series
from scribe_spark.core.units import MICROSECONDS, canonical
from scribe_spark.engine.losses import are_lost, loses, publication_keys
from scribe_spark.experiments.stages import Stages, collected
from scribe_spark.multicast import EDGES, Multicast
from scribe_spark.overlay import Application
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.schemas import SCHEDULE as SCHEDULE_TABLE
from scribe_spark.schemas import arrow_table
from scribe_spark.topology.graph import Graph
from scribe_spark.underlay.protocol import Kernel

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
        drawn = draw_schedule(config, run.config.seed, group, source, _members(run))
        # the sources of groups have been chosen by their rights
        return drawn if config.published_by == "source" else run.possible(drawn)
    found = read_schedule(run.spark, config.schedule, run.config.overlay.nodes, config.size)
    refuse_unknown_groups(config.schedule, found, run.group_numbers)
    refuse_slow(run.config, found, run.graph)
    found = run.possible(found)
    known, size = collected(run.group_rows, "group", "size")
    refuse_deliveries(run.config, int(size[index_sorted(known, found.group)].sum()))
    return found


def refuse_slow(config: ExperimentConfig, schedule: Schedule, graph: Graph | None) -> None:
    """Refuse rates at which the largest publication takes too long."""
    links = config.bandwidth
    rates = links.rates(config.classes)
    for least in () if graph is None else graph.hosts.least_rates():
        rates.setdefault(least, canonical("rate", least))
    for bits, shown in rates.items():
        links.refuse_slow(bits, shown)
    links.refuse_slow_sizes("schedule", links.schedule, int(schedule.size.max(initial=0)), rates)


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


def _members(run: Stages) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups and nodes of all members."""
    if run.config.bandwidth.published_by == "source":
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    rows = Batches.of(run.memberships, ["group", "node"]).frame.select("group", "node").toArrow()
    group, node = (rows.column(name).to_numpy() for name in ("group", "node"))
    return group, node


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
