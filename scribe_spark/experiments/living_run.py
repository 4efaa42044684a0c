"""A run with rounds: its trees are those of a world, in which nodes and members come and go.

CREATEs and JOINs are in round 0, events in theirs.  When trees have had time to be mended, the
source of each group multicasts one message; what a run measures is measured of these, over the
nodes and members that are left (docs/rules.md, S33).  All of Pastry and Scribe is the world's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas, scribe
from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.config.trees import PLAIN
from scribe_spark.experiments.engines import engine_of
from scribe_spark.experiments.scope import stage
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.experiments.world_buckets import buckets_of
from scribe_spark.experiments.world_setup import make_world, network_of
from scribe_spark.multicast import Multicast
from scribe_spark.overlay import Application, Overlay
from scribe_spark.progress import Progress
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.scribe.upcalls import Application as ScribeApplication
from scribe_spark.systems import System, system_of_variant
from scribe_spark.worlds import World, check_start, extent_of, world_events, world_groups
from scribe_spark.worlds.access import MAY_MULTICAST, AccessLists
from scribe_spark.worlds.group_measures import PREFIX
from scribe_spark.worlds.groups import WorldGroups, group_keys

#: Makes an application of the user's on Scribe's upcalls, given how many nodes there are.
MakeApplication = Callable[[int], ScribeApplication]

#: The variants whose trees grow in a world.
_IN_WORLDS = ("bottleneck", "collapse", "lazy")

#: The seconds that a job of rounds takes at most, about.
_A_JOB = 20.0


def simulation_of(
    spark: SparkSession,
    config: RunConfig,
    *,
    progress: Progress | None = None,
    shares: Simulation | None = None,
    application: MakeApplication | None = None,
    buckets: int | None = None,
    engine: str = "auto",
) -> Simulation:
    """The stages of a run, those with rounds where its config or an application needs them.

    Parameters
    ----------
    progress, shares
        As of `Simulation`.
    application : callable, optional
        See `make_world`.
    buckets : int, optional
        In how many the nodes are in the rounds; picked if it is not given.
    engine : str
        See `engine_of`.
    """
    if config.has_rounds or application is not None:
        return LivingRun(spark, config, progress, shares, application, buckets, engine)
    return Simulation(spark, config, progress=progress, shares=shares, engine=engine)


@dataclass(frozen=True)
class _Grown:
    """A world after the round in which the groups' sources have multicast.

    Attributes
    ----------
    world : World
    sources : pyarrow.Table
        ``group, node``: who has asked for each multicast.
    extra_joins : pandas.DataFrame
        JOINs that a variant has added in all rounds, as of `World`.
    overloaded : int or None
        How many nodes are above their limit of children at the end, if they have limits.
    """

    world: World
    sources: pa.Table
    extra_joins: pd.DataFrame
    overloaded: int | None

    def release(self) -> None:
        """Free the world's memory."""
        self.world.release()


class LivingRun(Simulation):
    """The stages of a run with rounds; those of trees are read off a world for each variant.

    Parameters
    ----------
    spark, config, progress, shares
        As of `Simulation`.
    application : callable, optional
        See `make_world`.
    buckets : int, optional
        In how many the nodes are in the rounds; picked as for worlds if it is not given.
    engine : str
        See `engine_of`.

    Raises
    ------
    InputError
        No world starts with the overlay.
    """

    _has_rounds = True

    def __init__(
        self,
        spark: SparkSession,
        config: RunConfig,
        progress: Progress | None = None,
        shares: Simulation | None = None,
        application: MakeApplication | None = None,
        buckets: int | None = None,
        engine: str = "auto",
    ) -> None:
        check_start(config.overlay.kind)
        super().__init__(spark, config, progress=progress, shares=shares)
        self.application = application
        self.buckets = buckets or buckets_of(self._of_world, spark, engine)
        self.engine = engine_of(engine, spark, self.buckets)
        self._network = Simulation(spark, network_of(config), progress=progress, shares=self)

    @property
    def takes_part(self) -> dict[str, list[str]]:
        """See `Simulation.takes_part`; the application too."""
        names = [getattr(self.application, "__qualname__", repr(self.application))]
        return {**super().takes_part, "application": names if self.application else []}

    def read_inputs(self) -> None:
        """See `Simulation.read_inputs`; events and access lists too."""
        super().read_inputs()
        _ = self.events

    # --- rounds

    @functools.cached_property
    def _of_world(self) -> WorldConfig:
        """The config of the world of the plain trees."""
        return WorldConfig.of_run(self.config)

    @property
    def events(self) -> DataFrame:
        """`schemas.WORLD_EVENTS`: CREATEs, JOINs, and what happens to nodes and members."""
        return self._saved_or("events", lambda: self._all_events)

    @stage
    def _all_events(self) -> DataFrame:
        made = world_events(self._network.nodes, self._of_world)
        return schemas.conform(made, schemas.WORLD_EVENTS)

    @stage
    def _grown(self) -> dict[str, _Grown]:
        return {}

    def _grow(self, variant: str = PLAIN) -> _Grown:
        """Return the world of a variant, played once."""
        if variant not in self._grown:
            self._grown[variant] = self._memory.own(self._play(variant))
        return self._grown[variant]

    def _play(self, variant: str) -> _Grown:
        config = WorldConfig.of_run(self.config, None if variant == PLAIN else variant)
        events = self.events
        last = _publication_round(events, config)
        where = self.buckets, self.engine.name
        world = make_world(self._network, config, events, self.application, *where)
        joins: list[pd.DataFrame] = []
        try:
            if config.scribe.source == "direct":  # so the sources learn the roots' addresses
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
        self.progress.note(
            f"  {variant} trees: publications in round {last}, "
            f"{round(measured['nodes.live']):,} of {config.overlay.nodes:,} nodes are alive"
        )
        overloaded = measured.get(f"{PREFIX}overloaded")
        over = None if overloaded is None else round(overloaded)
        return _Grown(world, publishers.toArrow(), pd.concat(joins), over)

    def _publishers(self, world: World) -> DataFrame:
        """``group, node``: the node with the right that multicasts to each group."""
        rows, access = world.memberships.toArrow(), self._start.access
        group, node, member, root = (
            rows.column(name).to_numpy() for name in ("group", "node", "member", "root")
        )
        if self.config.groups.source == "root":
            return self._table(*_root_or_other(group[root], node[root], access, self._live(world)))
        may = member & access.permits(MAY_MULTICAST, group, node)
        among = self._table(group[may], node[may]).withColumn("router", F.lit(0).cast("bigint"))
        drawn = scribe.senders(among, self.config.seed)
        return drawn.select("group", F.col("source").alias("node"))

    @stage
    def _start(self) -> WorldGroups:
        """The groups as they are created, and their access lists."""
        config = self._of_world
        groups = world_groups(config, extent_of(config), self.spark)
        assert groups is not None  # `RunConfig` refuses rounds without groups
        return groups

    def _live(self, world: World) -> np.ndarray:
        """The numbers of the live nodes, ascending."""
        live = world.nodes.select("node").toArrow()
        return np.sort(live.column("node").to_numpy())

    def _table(self, group: np.ndarray, node: np.ndarray) -> DataFrame:
        return local_frame(self.spark, pa.table({"group": group, "node": node}))

    # --- overlay

    @property
    def node_count(self) -> int:
        """See `Simulation.node_count`."""
        return self.nodes.count()

    @stage
    def made_nodes(self) -> DataFrame:
        """`schemas.NODES` of the nodes that are alive when the sources multicast."""
        return self._memory.materialise(self._grow().world.nodes)

    @stage
    def overlay(self) -> Overlay:
        """The knowledge of the live nodes about live nodes at that time."""
        return self._memory.own(self._grow().world.overlay())

    # --- trees

    @stage
    def _entries(self) -> DataFrame:
        """`schemas.MEMBERSHIPS`: the nodes of each tree."""
        return self._memory.materialise(self._grow().world.memberships)

    @property
    def memberships(self) -> Table:
        """`schemas.MEMBERS` of the groups that have a root, when the sources multicast."""
        if "members" in self.saved:
            return self.saved.batches("members", schemas.MEMBERS.names)
        members = self._entries.where("member").select(schemas.MEMBERS.names)
        return members.join(F.broadcast(self._roots), "group", "left_semi")

    @property
    def _members(self) -> Table:
        """See `Simulation._members`."""
        return self.members

    @property
    def _roots(self) -> DataFrame:
        """``group, node``."""
        return self._entries.where("root").groupBy("group").agg(F.min("node").alias("node"))

    @stage
    def _keys(self) -> DataFrame:
        """``group, key_hi, key_lo, creator`` of all groups that were created."""
        config = self._of_world
        keys = group_keys(self._network.nodes, self._start, config, extent_of(config))
        return self._memory.persist(keys.select("group", "key_hi", "key_lo", "creator"))

    @stage
    def groups_with_root(self) -> DataFrame:
        """See `Simulation.groups_with_root`; those that have lost all copies are left out."""
        sizes = self.members.groupBy("group").agg(F.count("*").alias("size"))
        roots = self.overlay.with_router(self._roots)
        found = self._keys.drop("creator").join(F.broadcast(roots), "group", "inner")
        sized = found.join(F.broadcast(sizes), "group", "left")
        size = F.coalesce("size", F.lit(0)).cast("bigint").alias("size")
        root = F.col("node").alias("root"), F.col("router").alias("root_router")
        return self._memory.materialise(sized.select("group", "key_hi", "key_lo", size, *root))

    @stage
    def multicast_groups(self) -> DataFrame:
        """See `Simulation.multicast_groups`; groups to which nobody may multicast are left out."""
        sources = local_frame(self.spark, self._grow().sources)
        groups = self.groups_with_root
        if self.config.groups.source == "root":
            sources = groups.select("group", F.col("root").alias("node")).join(
                F.broadcast(sources.select("group")), "group", "left_semi"
            )
        begin = self.overlay.with_router(sources.select("group", "node"))
        named = {"node": "source", "router": "source_router"}
        joined = groups.join(F.broadcast(begin.withColumnsRenamed(named)), "group", "inner")
        return self._memory.persist(joined)

    @stage
    def create_routes(self) -> DataFrame:
        """Routes to the groupIds when the sources multicast, from the creators that are left."""
        keys = self._keys.withColumnRenamed("creator", "node")
        sent = keys.join(self.nodes.select("node"), "node", "left_semi")
        routed = self.overlay.route(Application(), sent, name="CREATE", progress=self.progress)
        found = routed.outcomes().withColumnRenamed("start", "source")
        made = self._memory.materialise(found)
        routed.release()
        return made

    @property
    def scribe_edges(self) -> Batches:
        """See `Simulation.scribe_edges`: the edges on which payloads went."""
        return Batches.of(self._edges(PLAIN))

    def _edges(self, variant: str) -> DataFrame:
        """``group, parent, child, parent_router, child_router, delay_us``."""
        edges = self._grow(variant).world.tree_edges.where(F.col("system") == scribe.SYSTEM)
        taken = edges.join(self.nodes.select(F.col("node").alias("child")), "child", "left_semi")
        names = ("group", "parent", "child", "parent_router", "child_router")
        return self.underlay.delay(taken.select(*names), "parent_router", "child_router")

    def _trees_of(self, system: System) -> scribe.Variant:
        """See `Simulation._trees_of`; what worlds know of grows in one of its own."""
        variant = system.variant
        if variant not in _IN_WORLDS:
            return super()._trees_of(system)
        grown, joins = self._grow(variant), None
        if system.joins_after is not None:
            joins = local_frame(self.spark, pa.Table.from_pandas(grown.extra_joins))
        return scribe.Variant(self._edges(variant), joins, grown.overloaded)

    @property
    def _trees_in_buckets(self) -> None:
        """See `Simulation._trees_in_buckets`: they are in a world."""

    def multicast(self, system: str, edges: Table, built: scribe.Trees | None = None) -> Multicast:
        """See `Simulation.multicast`; of a world's trees it is the multicast of the world."""
        grown = {system_of_variant(name): name for name in _IN_WORLDS} | {scribe.SYSTEM: PLAIN}
        if system not in grown:
            return super().multicast(system, edges, built)
        return Multicast(system, edges, lambda: self._deliveries(grown[system]))

    def _deliveries(self, variant: str) -> DataFrame:
        """`multicast.DELIVERIES`."""
        deliveries = self._grow(variant).world.deliveries
        delay_us = F.round(F.col("delay_ms") * schemas.MICROSECONDS).cast("bigint")
        return deliveries.where(F.col("system") == scribe.SYSTEM).select(
            "group", "node", "hops", delay_us.alias("delay_us")
        )


def _publication_round(events: DataFrame, config: WorldConfig) -> int:
    """The round in which the sources multicast (docs/rules.md, S33)."""
    begin = (F.col("round") == 0) & F.col("event").isin("create", "join")
    (last,) = events.where(~begin).agg(F.max("round")).collect()[0]
    after = 2 if config.scribe.source == "direct" else 1
    if last is None:
        return after
    world, timers = config.world, config.scribe
    mended = max(world.detection + timers.parent_timeout, timers.child_timeout) + 2
    return last + max(mended, after)


def _play_until(world: World, until: int) -> Iterator[pd.DataFrame]:
    """Play rounds; yield the JOINs that a variant has added in them."""
    while world.number < until:
        world.play(until, _A_JOB)
        yield world.extra_joins


def _root_or_other(
    group: np.ndarray, root: np.ndarray, access: AccessLists, live: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return groups and their multicasting nodes: the root, or the first live node with the right.

    A message begins at the root, whoever has asked for it; groups to which nobody may multicast are
    left out.
    """
    group, first = np.unique(group, return_index=True)
    node = root[first]
    may = access.permits(MAY_MULTICAST, group, node)
    for place in np.flatnonzero(~may):
        others = np.intersect1d(access.permitted(MAY_MULTICAST, group[place]), live)
        if len(others):
            node[place], may[place] = others[0], True
    return group[may], node[may]
