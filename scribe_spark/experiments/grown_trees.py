"""The nodes, groups and trees of a run when its sources publish.

A run without rounds grows them in a settled round 0.  A run with rounds plays a world: round 0 has
the CREATEs and JOINs, later rounds have the events of nodes and members.  When trees have had time
for repairs, the sources publish in the last round; the measures of the run are about these
messages, over the remaining nodes and members (docs/rules.md, S33).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.bandwidth.schedule import Schedule
from scribe_spark.config import WorldConfig
from scribe_spark.config.groups import PLAIN
from scribe_spark.config.section import VARIANTS
from scribe_spark.core.arrays import find_sorted
from scribe_spark.core.errors import InputError
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.experiments.engines import buckets_of, engine_of
from scribe_spark.experiments.round_in_run import playing_silent
from scribe_spark.experiments.saved_knowledge import saved_overlay
from scribe_spark.experiments.scope import collected, stage
from scribe_spark.experiments.stages import Stages
from scribe_spark.experiments.world_setup import make_world
from scribe_spark.overlay import Overlay
from scribe_spark.overlays import build_overlay
from scribe_spark.pastry import overlay as pastry_overlay
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.systems.registry import System, system_of_variant
from scribe_spark.systems.scribe import groups as scribe_groups
from scribe_spark.systems.scribe import trees as scribe_trees
from scribe_spark.systems.scribe import variants as scribe_variants
from scribe_spark.worlds.events import extent_of, world_events
from scribe_spark.worlds.groups import (
    MAY_MULTICAST,
    AccessLists,
    WorldGroups,
    group_keys,
    world_groups,
)
from scribe_spark.worlds.world import World

#: The systems whose trees grow in a world -> the variant; Scribe's own trees are plain.
_VARIANTS = {scribe_trees.SYSTEM: PLAIN} | {system_of_variant(name): name for name in VARIANTS}

#: The approximate greatest duration of a job of rounds, in seconds.
_A_JOB = 20.0


class GrownTrees:
    """The trees of a run without rounds; they grow in a settled round 0 (`scribe.trees`)."""

    def __init__(self, run: Stages) -> None:
        self._run = run
        self.stages: dict[str, Any] = {}

    @property
    def events(self) -> DataFrame | None:
        """The events of the rounds (`schemas.WORLD_EVENTS`); None without rounds."""
        return None

    def check(self) -> None:
        """Refuse an engine or events that are impossible, before any work."""
        if self._run.in_tasks:
            spark, nodes = self._run.spark, self._run.config.overlay.nodes
            engine_of("tasks", spark, bucket_count(spark, nodes))

    @property
    def node_count(self) -> int:
        """The number of nodes of the config."""
        return self._run.config.overlay.nodes

    @property
    def nodes(self) -> Table:
        """The nodes, which are drawn anew each time."""
        return pastry_overlay.draw_nodes(self._run.spark, *self._drawn_from)

    @property
    def rows_of_nodes(self) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        """The function from numbers of nodes to their columns (`schemas.NODES`), drawn anew."""
        return pastry_overlay.node_rows(*self._drawn_from)

    @property
    def _drawn_from(self) -> tuple[Any, ...]:
        run, hosts = self._run, self._run.graph.hosts
        return run.config, run.underlay.routers, hosts.shares, hosts.places

    def overlay(self) -> Overlay:
        """Return the overlay of all nodes."""
        run, config = self._run, self._run.config
        if config.knowledge is not None:
            return saved_overlay(run.spark, config, run.underlay)
        drawn = config.overlay, config.seed, run.progress, run.in_tasks
        return build_overlay(self.nodes, run.underlay, *drawn)

    @property
    def memberships(self) -> Table:
        """The members from the user's table, or random ones."""
        run = self._run
        if run.config.groups.members is not None:
            return run.given_members
        return scribe_groups.draw_members(run.spark, run.config)

    @property
    def members(self) -> Table:
        """The members with their routers for kernels: ``group, node, router``."""
        return self._built.read_members()

    def member_pairs(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the members of groups (numbers): indices of groups, and ring positions."""
        index, node = self._built.member_pairs()
        index = find_sorted(groups, self._built.number)[index]
        known = index >= 0
        return index[known], node[known]

    @stage
    def _groups(self) -> pa.Table:
        run = self._run
        return scribe_groups.make_groups(run.memberships, run.overlay.rows_of_nodes, run.config)

    @stage
    def _built(self) -> scribe_trees.Trees:
        run = self._run
        built = scribe_trees.build_trees(
            *(run.overlay, self._groups, run.memberships, run.progress),
            in_tasks=run.in_tasks,
            publishes=self.plays_silent,
            then=playing_silent(run, self._groups) if self.plays_silent else None,
        )
        return run.own(built)

    @property
    def joined(self) -> Table:
        """The members of all groups, as the buckets of the trees have them: ``group, node``."""
        return self._built.read_members().select(["group", "node"])

    @property
    def plays_silent(self) -> bool:
        """True if the tasks that grow the trees let roots publish, and play silent systems."""
        config = self._run.config
        # with bandwidth, links take time
        at_root = config.groups.source == "root" and not config.bandwidth.on
        return self._run.in_tasks and at_root

    def grow_trees(self) -> None:
        """Grow the trees now, if one job of tasks also fills the tables of the overlay's nodes."""
        if self._run.overlay.unfilled is not None:
            _ = self._built

    @property
    def trees(self) -> scribe_trees.Trees | None:
        """Scribe's own trees in the buckets of a ring of the live nodes; None in worlds."""
        return self._built

    @property
    def edges(self) -> Batches:
        """Scribe's tree edges: ``group, parent, child``, the routers of both ends, ``delay_us``."""
        return self._built.read_edges()

    def create_routes(self) -> pa.Table:
        """Return the route of each group's CREATE, with ``key_hi, key_lo, size``."""
        keys = self._groups.select(["group", "key_hi", "key_lo", "size"])
        routes = self._built.created().join(keys, "group", join_type="inner")
        return routes.sort_by("group").combine_chunks()

    def groups_with_root(self) -> pa.Table:
        """Return the groups with a root."""
        found = self._run.create_rows
        chosen = found.select(["group", "key_hi", "key_lo", "size", "node", "router"])
        return chosen.rename_columns({"node": "root", "router": "root_router"})

    def multicast_groups(self) -> pa.Table:
        """Return the groups with a source."""
        run, groups = self._run, self._run.group_rows
        if run.config.groups.source == "root":
            source = groups.select(["root", "root_router"])
            for name, column in zip(("source", "source_router"), source.columns, strict=True):
                groups = groups.append_column(name, column)
            return groups
        senders = scribe_groups.senders(run.members, run.config.seed).toArrow()
        return groups.join(senders, "group", join_type="inner").sort_by("group").combine_chunks()

    def group_numbers(self) -> np.ndarray:
        """Return the numbers of all groups, ascending."""
        return collected(self._run.group_rows, "group")[0]

    def possible(self, schedule: Schedule) -> Schedule:
        """Return the publications of a schedule that sources can send: without rounds, all."""
        return schedule

    def variant(self, system: System) -> scribe_variants.Variant | None:
        """Return the trees of a variant if rounds have grown them; without rounds, None."""
        return None

    def deliveries(self, system: str) -> Table | None:
        """Return the deliveries of Scribe's own trees (`multicast.DELIVERIES`); None for others."""
        if system != scribe_trees.SYSTEM:
            return None
        return self._built.delivered or self._run.multicast_along(self._built)


class _GrownInRounds(NamedTuple):
    """A finished world of a run: its last round is that in which the sources publish."""

    world: World
    sources: pa.Table
    extra_joins: pd.DataFrame
    overloaded: int | None

    def release(self) -> None:
        """Free the world's memory."""
        self.world.release()


class Rounds(GrownTrees):
    """The nodes and the overlay of a run with rounds and without groups."""

    def __init__(self, run: Stages) -> None:
        super().__init__(run)
        self._config = WorldConfig.of_run(run.config)
        self._buckets = run.buckets or buckets_of(self._config, run.spark, run.engine)
        self._engine = engine_of(run.engine, run.spark, self._buckets)
        self._network = type(run)(run.spark, self._config, progress=run.progress, shares=run)

    def check(self) -> None:
        _ = self.events

    # --- rounds

    @property
    def events(self) -> DataFrame:
        saved = self._run.saved
        if "events" in saved:
            return saved["events"]
        return self._events

    @stage
    def _events(self) -> DataFrame:
        made = world_events(self._network.nodes, self._config, times=False)
        return schemas.conform(made, schemas.WORLD_EVENTS)

    @property
    def world(self) -> World:
        """The world after its last round."""
        return self._without_groups

    @stage
    def _without_groups(self) -> World:
        world = self._run.own(self._begin(self._config))
        list(_play_until(world, 1 + _publication_round(self.events, self._config)))
        return world

    def _begin(self, config: WorldConfig) -> World:
        """Return a world before its first round, on a network that loses nothing."""
        network, where = self._run.underlay, (self._buckets, self._engine.name)
        self._network.underlay = replace(network, kernel=network.kernel.without_losses())
        return make_world(self._network, config, self.events, self._run.application, *where)

    # --- nodes

    @property
    def node_count(self) -> int:
        return self._run.nodes.count()

    @property
    def nodes(self) -> DataFrame:
        """The live nodes."""
        return self._live_nodes

    @stage
    def _live_nodes(self) -> DataFrame:
        return self._run.memory.materialise(self.world.nodes)

    def overlay(self) -> Overlay:
        """Return the overlay of the live nodes, which know live nodes only."""
        return self.world.overlay()


class RoundsOfRun(Rounds):
    """The nodes, groups and trees of a run with rounds; each variant has its own world."""

    @property
    def world(self) -> World:
        """The world of Scribe's own trees after its last round."""
        return self._grow().world

    @stage
    def _worlds(self) -> dict[str, _GrownInRounds]:
        return {}

    def _grow(self, variant: str = PLAIN) -> _GrownInRounds:
        """Return the world of a variant after its rounds, which are played once."""
        if variant not in self._worlds:
            self._worlds[variant] = self._run.own(self._play(variant))
        return self._worlds[variant]

    def _play(self, variant: str) -> _GrownInRounds:
        """Play the world of a variant up to its publications."""
        run = self._run
        config = WorldConfig.of_run(run.config, None if variant == PLAIN else variant)
        last = _publication_round(self.events, config)
        world = self._begin(config)
        joins: list[pd.DataFrame] = []
        try:
            if config.groups.source == "direct":  # sources learn the roots' addresses
                joins += _play_until(world, last - 1)
                world.scribe.multicast(self._publishers(world))
            joins += _play_until(world, last)
            publishers = self._publishers(world)
            world.scribe.multicast(publishers)
            measured = world.step()
            joins.append(world.extra_joins)
        except BaseException:
            world.release()
            raise
        run.progress.note(
            f"  {variant} trees: publications in round {last}, "
            f"{round(measured['nodes.live']):,} of {config.overlay.nodes:,} nodes are alive"
        )
        overloaded = measured.get(f"{scribe_trees.SYSTEM}.overloaded")
        over = None if overloaded is None else round(overloaded)
        return _GrownInRounds(world, publishers.toArrow(), pd.concat(joins), over)

    def _publishers(self, world: World) -> DataFrame:
        """Return the source of each group, a node with the right to multicast: ``group, node``."""
        rows, access = world.memberships.toArrow(), self._start.access
        group, node, member, root = (
            rows.column(name).to_numpy() for name in ("group", "node", "member", "root")
        )
        if self._config.groups.source == "root":
            return self._table(*_root_or_other(group[root], node[root], access, _live(world)))
        may = member & access.permits(MAY_MULTICAST, group, node)
        among = self._table(group[may], node[may]).withColumn("router", F.lit(0).cast("bigint"))
        drawn = scribe_groups.senders(among, self._config.seed)
        return drawn.select("group", F.col("source").alias("node"))

    @stage
    def _start(self) -> WorldGroups:
        groups = world_groups(self._config, extent_of(self._config), self._run.spark)
        assert groups is not None
        return groups

    def _table(self, group: np.ndarray, node: np.ndarray) -> DataFrame:
        return local_frame(self._run.spark, pa.table({"group": group, "node": node}))

    # --- groups

    @stage
    def _entries(self) -> DataFrame:
        """The nodes of each group's tree after the last round (`schemas.MEMBERSHIPS`)."""
        return self._run.memory.materialise(self.world.memberships)

    @property
    def _roots(self) -> DataFrame:
        return self._entries.where("root").groupBy("group").agg(F.min("node").alias("node"))

    @property
    def memberships(self) -> DataFrame:
        """The members of the groups that have a root."""
        members = self._entries.where("member").select(schemas.MEMBERS.names)
        return members.join(F.broadcast(self._roots), "group", "left_semi")

    @property
    def plays_silent(self) -> bool:
        return False  # the world plays Scribe only

    @property
    def joined(self) -> DataFrame:
        return self.memberships

    @property
    def members(self) -> DataFrame:
        return self._run.members

    def member_pairs(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._run.overlay.ring.members_of(groups, self._run.memberships)

    @stage
    def _keys(self) -> DataFrame:
        """The key and the creator of each created group: ``group, key_hi, key_lo, creator``."""
        config = self._config
        keys = group_keys(self._network.rows_of_nodes, self._start, config, extent_of(config))
        columns = ["group", "key_hi", "key_lo", "creator"]
        return local_frame(self._run.spark, keys.select(columns))

    def create_routes(self) -> pa.Table:
        """Return the routes of the CREATEs that creators, if alive, would send now."""
        run = self._run
        live = run.nodes.select(F.col("node").alias("creator"))
        groups = self._keys.join(live, "creator", "left_semi")
        created = scribe_trees.build_trees(run.overlay, groups, None, run.progress)
        made = created.created().sort_by("group")
        created.release()
        return made

    def groups_with_root(self) -> DataFrame:
        """Return the groups with a root, which have not lost all copies of their state."""
        run = self._run
        sizes = run.members.groupBy("group").agg(F.count("*").alias("size"))
        roots = run.overlay.with_router(self._roots)
        found = self._keys.drop("creator").join(F.broadcast(roots), "group", "inner")
        sized = found.join(F.broadcast(sizes), "group", "left")
        size = F.coalesce("size", F.lit(0)).cast("bigint").alias("size")
        root = F.col("node").alias("root"), F.col("router").alias("root_router")
        return run.memory.materialise(sized.select("group", "key_hi", "key_lo", size, *root))

    def multicast_groups(self) -> DataFrame:
        """Return the groups with a source: those with a live node that may multicast."""
        run = self._run
        sources, groups = local_frame(run.spark, self._grow().sources), run.groups_with_root
        if self._config.groups.source == "root":
            sources = groups.select("group", F.col("root").alias("node")).join(
                F.broadcast(sources.select("group")), "group", "left_semi"
            )
        begin = run.overlay.with_router(sources.select("group", "node"))
        named = {"node": "source", "router": "source_router"}
        joined = groups.join(F.broadcast(begin.withColumnsRenamed(named)), "group", "inner")
        return run.memory.persist(joined)

    def group_numbers(self) -> np.ndarray:
        return self._start.numbers

    def possible(self, schedule: Schedule) -> Schedule:
        """Return publications of live nodes with the right to multicast to groups with a source."""
        (groups,), live = collected(self._run.groups_with_source, "group"), _live(self.world)
        may = self._start.access.permits(MAY_MULTICAST, schedule.group, schedule.source)
        may &= np.isin(schedule.group, groups) & np.isin(schedule.source, live)
        if not may.any():
            config = self._run.config.bandwidth
            field = str(config.cause_of_several)
            remedy = "has no publication of a live node with the right to multicast"
            raise InputError(field, getattr(config, field), f"{remedy}; give others")
        return schedule.take(may)

    # --- trees

    @property
    def trees(self) -> None:
        """None, because the world has the trees (see `GrownTrees.trees`)."""

    @property
    def edges(self) -> Batches:
        """The tree edges on which copies went to live nodes."""
        return Batches.of(self._edges(PLAIN))

    def _edges(self, variant: str) -> DataFrame:
        """Return the tree edges of a variant, or of Scribe itself, with copies to live nodes."""
        edges = self._grow(variant).world.tree_edges.where(F.col("system") == scribe_trees.SYSTEM)
        live = self._run.nodes.select(F.col("node").alias("child"))
        names = ("group", "parent", "child", "parent_router", "child_router")
        taken = edges.join(live, "child", "left_semi").select(*names)
        return self._run.underlay.delay(taken, "parent_router", "child_router")

    def variant(self, system: System) -> scribe_variants.Variant | None:
        if system.name not in _VARIANTS:
            return None
        name = _VARIANTS[system.name]
        grown, joins = self._grow(name), None
        if system.joins_after is not None:
            joins = local_frame(self._run.spark, pa.Table.from_pandas(grown.extra_joins))
        return scribe_variants.Variant(self._edges(name), joins, grown.overloaded)

    def deliveries(self, system: str) -> Table | None:
        if system not in _VARIANTS:
            return None
        deliveries = self._grow(_VARIANTS[system]).world.deliveries
        delay_us = F.round(F.col("delay_ms") * MICROSECONDS).cast("bigint")
        return deliveries.where(F.col("system") == scribe_trees.SYSTEM).select(
            "group", "node", "hops", delay_us.alias("delay_us")
        )


def _live(world: World) -> np.ndarray:
    """Return the numbers of the live nodes, ascending."""
    live = world.nodes.select("node").toArrow()
    return np.sort(live.column("node").to_numpy())


def _publication_round(events: DataFrame, config: WorldConfig) -> int:
    """Return the round in which the sources publish (docs/rules.md, S33)."""
    begin = (F.col("round") == 0) & F.col("event").isin("create", "join")
    ends = F.max("round"), F.max(F.when(F.col("event") == "publish", F.col("round")))
    last, published = events.where(~begin).agg(*ends).collect()[0]
    after = 2 if config.groups.source == "direct" else 1
    if last is None:
        return after
    world, timers = config.world, config.scribe
    mended = max(world.detection + timers.parent_timeout, timers.child_timeout) + 2
    given_up = 0 if published is None or not timers.reliable else published + timers.deadline + 1
    return max(last + max(mended, after), given_up)


def _play_until(world: World, until: int) -> Iterator[pd.DataFrame]:
    """Play rounds before `until`; yield the JOINs that a variant added in them."""
    while world.number < until:
        world.play(until, _A_JOB)
        yield world.extra_joins


def _root_or_other(
    group: np.ndarray, root: np.ndarray, access: AccessLists, live: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups with a source and their sources: the root, or the first live node allowed.

    A message begins at the root, whichever node is the source. Groups to which no node may
    multicast are left out.
    """
    group, first = np.unique(group, return_index=True)
    node = root[first]
    may = access.permits(MAY_MULTICAST, group, node)
    for row in np.flatnonzero(~may):
        others = np.intersect1d(access.permitted(MAY_MULTICAST, group[row]), live)
        if len(others):
            node[row], may[row] = others[0], True
    return group[may], node[may]
