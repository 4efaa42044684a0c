"""The systems of a run with a schedule: several publications of a group, from several sources.

If links depend on the source, a system is built for each *channel*, a group and one of its
sources, as if it were a group.

References
----------
docs/rules.md, W9; N1 and N5 (losses on trees).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.bandwidth.parts import Parts
from scribe_spark.bandwidth.replay import Ways, replayed
from scribe_spark.bandwidth.schedule import Channels, Schedule, draw_schedule, read_schedule
from scribe_spark.config import ExperimentConfig, RunConfig
from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.errors import InputError, in_series
from scribe_spark.core.units import canonical
from scribe_spark.engine.losses import are_lost, loses, publication_keys
from scribe_spark.experiments.round_in_run import play_round_0
from scribe_spark.experiments.scope import collected
from scribe_spark.experiments.stages import Stages
from scribe_spark.experiments.system_rows import multicast_of
from scribe_spark.multicast import EDGES, Multicast, refuse
from scribe_spark.overlay import Application
from scribe_spark.rounds.declaration import IP
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.schemas import MICROSECONDS, arrow_table
from scribe_spark.schemas import SCHEDULE as SCHEDULE_TABLE
from scribe_spark.systems import baselines
from scribe_spark.systems.reference_tree.multicast import copies
from scribe_spark.systems.registry import System
from scribe_spark.topology.graph import Graph
from scribe_spark.underlay.protocol import Kernel

#: The greatest number of deliveries of all publications by a system, as they are in memory.
MOST_DELIVERIES = 2 * 10**9


def schedule_of(run: Stages) -> Schedule | None:
    """Return the messages of a run in which a group may have several; None for other runs.

    These messages are publications, or parts of publications.
    """
    config = run.config.bandwidth
    return Parts.of(config).split(_publications(run)) if config.several else None


def _publications(run: Stages) -> Schedule:
    config = run.config.bandwidth
    if config.schedule is None:
        group, source = collected(run.groups_with_source, "group", "source")
        drawn = draw_schedule(config, run.config.seed, group, source, _members(run))
        # the sources of groups have been chosen by their rights
        return drawn if config.published_by == "source" else run.grown.possible(drawn)
    found = read_schedule(run.spark, config.schedule, run.config.overlay.nodes, config.size)
    refuse_unknown_groups(config.schedule, found, run.grown.group_numbers())
    refuse_slow(run.config, found, run.graph)
    found = run.grown.possible(found)
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


def groups_with_publications(run: Stages, schedule: Schedule) -> DataFrame:
    """Return the groups that have publications in a schedule, with the first one's source."""
    channels = schedule.by_group()
    first = {"group": channels.group, "source": channels.source}
    sources = local_frame(run.spark, pa.table(first))
    found = run.groups_with_root.join(F.broadcast(sources), "group")
    return found.join(_routers_of_sources(run), "source")


def _routers_of_sources(run: Stages) -> DataFrame:
    return run.nodes.select(F.col("node").alias("source"), F.col("router").alias("source_router"))


def timed(run: Stages, system: System) -> Multicast:
    """Return the tables of a system of the run.

    If publications have sizes or times, or a group has several, the clock computes the deliveries
    along trees, and IP multicast is played as a round, by rule W11.
    """
    schedule = run.schedule
    if system.build is None:
        return multicast_of(system, run)  # the round has played sizes and times
    if system.family == IP and run.config.bandwidth.on:
        return play_round_0(system, run)
    if schedule is None:
        made = with_losses(run, multicast_of(system, run))
        if not run.config.bandwidth.on or made.tree_edges is None:
            return made
        _refuse_merged(made)
        channels = run.publications.by_group()
        return replayed(run, made, not system.from_root, channels, _ways(run))
    channels = schedule.by_group() if system.from_root else schedule.by_source()
    stages: Any = run if channels.are_groups else _Channelled(run, channels)
    made = multicast_of(system, stages)
    if made.tree_edges is None:
        raise refuse(system.name, "hands over copies, of which a schedule has more; give edges")
    _refuse_merged(made)
    played = replayed(run, made, not system.from_root, channels, _ways(run))
    return played if channels.are_groups else _by_group(played, made, channels)


def _refuse_merged(made: Multicast) -> None:
    if made.merged:
        remedy = "hands over merged routes, but only IP multicast has rules for sizes and times"
        raise refuse(made.system, f"{remedy}; leave out merged")


def _ways(run: Stages) -> Ways | None:
    """Return a function that gives the routes from sources to roots; None: they send directly."""
    return partial(_routed_ways, run) if run.config.groups.source == "routed" else None


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


class _Channelled:
    """The stages of a run, with a group for each channel (a group and one of its sources).

    All sources of a group are members of its channels, so that these have the same members. The
    properties are those of `Simulation`.
    """

    def __init__(self, run: Stages, channels: Channels) -> None:
        self._run, self._channels = run, channels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    @cached_property
    def _frame(self) -> DataFrame:
        """The channels: ``channel, group, source``."""
        one = self._channels
        columns = {"channel": one.number, "group": one.group, "source": one.source}
        return F.broadcast(local_frame(self._run.spark, pa.table(columns)))

    @cached_property
    def multicast_groups(self) -> DataFrame:
        """The channels as groups, with the columns of `Simulation.multicast_groups`."""
        groups = self._run.multicast_groups.drop("source", "source_router")
        joined = groups.join(self._frame, "group").join(_routers_of_sources(self._run), "source")
        return joined.drop("group").withColumnRenamed("channel", "group")

    @cached_property
    def source_rows(self) -> pa.Table:
        """The rows of `multicast_groups`, on the driver."""
        return self.multicast_groups.toArrow()

    @property
    def groups_with_root(self) -> DataFrame:
        """The channels as groups, with the columns of `Simulation.groups_with_root`."""
        return self.multicast_groups.drop("source", "source_router")

    @cached_property
    def members(self) -> DataFrame:
        """The members of channels, with the columns of `Simulation.members`."""
        named = self._frame.select("group", "channel")
        sources = self._run.overlay.with_router(
            self._frame.select("group", F.col("source").alias("node"))
        )
        columns = "group", "node", "router"
        every = self._run.members.select(*columns).union(sources.select(*columns)).distinct()
        joined = every.join(named, "group").drop("group").withColumnRenamed("channel", "group")
        return joined.select(*columns)

    @property
    def memberships(self) -> Table:
        """The members of channels, with the columns of `Simulation.memberships`."""
        return self.members.select("group", "node")

    @cached_property
    def unicasts(self) -> Batches:
        """The routes from sources to members; a source that is no member gets none."""
        named = self._frame.select("group", "channel")
        mine = self._run.members.join(named, "group").select(
            F.col("channel").alias("group"), "node", "router"
        )
        return baselines.unicasts(self.source_rows, mine, self._run.underlay)

    @cached_property
    def reference_tree_copies(self) -> DataFrame:
        """The copies of each channel's message along the reference tree."""
        run, tree = self._run, self._run.config.reference_tree
        made = copies(
            *(run.nodes, self.multicast_groups, self.members, run.underlay),
            *(tree.children, tree.assignment, run.progress),
        )
        return run.memory.own_table(made)


def _by_group(played: Multicast, made: Multicast, channels: Channels) -> Multicast:
    """Return the results of a system with groups in place of channels.

    A node keeps its state, and joins, once per group.
    """
    first = channels.first_of_groups()
    state, control = (
        None if table is None else _named(Batches.of(table), channels, first)
        for table in (made.table(name) for name in ("state", "control"))
    )
    assert made.edges is not None
    edges = _named(Batches.of(made.edges), channels)
    return replace(played, tree_edges=edges, state=state, control=control)


def _named(table: Batches, channels: Channels, among: np.ndarray | None = None) -> Batches:
    """Return rows of a table with groups in place of channels.

    By default these are all rows; with `among`, those of some channels and of none (NULL).
    """

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            column = batch.column("group")
            if among is not None:
                kept = pc.or_(pc.is_null(column), pc.is_in(column, pa.array(among)))
                batch = batch.filter(kept)
            place = batch.schema.get_field_index("group")
            known = pa.array(channels.group)
            number = pa.array(channels.number)
            named = known.take(pc.index_in(batch.column("group"), number))
            yield batch.set_column(place, "group", named)

    return table.then(rows, table.schema)


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
    return replace(made, tree_edges=sent, delivered=delivered, partial=True)


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
