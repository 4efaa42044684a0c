"""A run as a chain of stages; each stage is computed from earlier ones at its first use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.bandwidth.schedule import Schedule
from scribe_spark.config import ExperimentConfig, RunConfig, WorldConfig
from scribe_spark.config.groups import PLAIN
from scribe_spark.config.section import VARIANTS
from scribe_spark.core.arrays import divided, find_sorted, whole_numbers
from scribe_spark.core.errors import InputError, check_names
from scribe_spark.core.keys import key_of
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine.on_spark import BucketTables, OnSpark
from scribe_spark.experiments import publishing
from scribe_spark.experiments.publishing import play_round_0, playing_silent
from scribe_spark.experiments.saved_knowledge import verify_saved_knowledge
from scribe_spark.experiments.stages import Stages, collected, stage, with_columns
from scribe_spark.experiments.system_rows import Known, checked_variant
from scribe_spark.experiments.world_setup import buckets_of, engine_of, make_world
from scribe_spark.measures.parts import with_parts
from scribe_spark.multicast import Multicast
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.overlay import as_pastry, node_vertices
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.runtime.users_code import analysed
from scribe_spark.schemas import TREE_GRAPH_EDGES, conform
from scribe_spark.systems.registry import System, is_built_in, system_of_variant
from scribe_spark.systems.scribe import groups as scribe_groups
from scribe_spark.systems.scribe import trees as scribe_trees
from scribe_spark.systems.scribe import variants as scribe_variants
from scribe_spark.topology.links import Topology
from scribe_spark.worlds.events import extent_of, world_events
from scribe_spark.worlds.groups import (
    MAY_MULTICAST,
    AccessLists,
    WorldGroups,
    group_keys,
    world_groups,
)
from scribe_spark.worlds.round_of_run import tree_edges
from scribe_spark.worlds.save import check_start
from scribe_spark.worlds.world import World

#: The systems whose trees grow in a world -> the variant; Scribe's own trees are plain.
_VARIANTS = {scribe_trees.SYSTEM: PLAIN} | {system_of_variant(name): name for name in VARIANTS}

#: The columns of `World.memberships` that are read.
_ENTRY = ("group", "node", "member", "root")

#: The approximate greatest duration of a job of rounds, in seconds.
_A_JOB = 20.0


@dataclass(frozen=True)
class TreeGraph(GraphTables):
    """The trees of all groups and systems in one graph.

    `vertices` has every node, also nodes in no tree: ``id, id_hi, id_lo, router``.  `edges` has one
    row per copy from node to node: ``src, dst, system, group``.  For IP multicast and naive
    unicast, edges go from a group's source to each of its other members.
    """

    vertices: DataFrame
    edges: DataFrame

    @classmethod
    def of(cls, nodes: DataFrame, tree_edges: DataFrame) -> TreeGraph:
        """Return the graph of a run's nodes and tree edges."""
        ends = tree_edges.withColumnsRenamed({"parent": "src", "child": "dst"})
        return cls(node_vertices(nodes), conform(ends, TREE_GRAPH_EDGES))


class Simulation(Stages):
    """The stages of a run as properties; each stage is computed once, when it is first read.

    Stages on the driver or in files (`graph`, `underlay`) are kept until :meth:`close`, stages in
    the executors' memory until :meth:`release`.  If a table is already saved, it is read.

    Parameters
    ----------
    spark : SparkSession
        The session in which the stages are computed.
    config : RunConfig or WorldConfig
        The settings of the run.  Of a world, the simulation has the network, nodes and overlay.
    progress : Progress, optional
        The object to which progress is reported; by default no object.
    shares : Simulation, optional
        A simulation in the same session; its graph and routes are used if its network is equal.
    engine : str
        The way to simulate rounds: ``tasks`` (long Spark tasks), ``jobs`` (a Spark job for each
        superstep) or ``auto``.  A run without rounds uses tasks only with ``tasks``.
    application : callable, optional
        ``application(nodes)`` returns the user's Scribe application; a run with an application has
        rounds.
    buckets : int, optional
        The number of buckets in rounds; by default chosen by the number of nodes.

    Attributes
    ----------
    has_rounds : bool
        True if rounds of events are played before the sources publish.

    Raises
    ------
    InputError
        The run has rounds, and rounds cannot start from the overlay of the config.
    """

    def __new__(
        cls, spark: SparkSession, config: ExperimentConfig, *given: Any, **settings: Any
    ) -> Simulation:
        """Return an object of the class for runs without or with rounds, with or without groups."""
        rounds = isinstance(config, RunConfig) and config.has_rounds
        if rounds or settings.get("application") is not None:
            check_start(config.overlay.kind)
            cls = GroupsInRounds if config.groups.has_groups else InRounds
        return object.__new__(cls)

    # --- the user's tables

    has_rounds = False

    def read_inputs(self) -> None:
        """Read and check the user's tables and the engine before any other work."""
        if self.config.knowledge is not None:
            verify_saved_knowledge(self.spark, self.config)
        if self.config.groups.members is not None:
            _ = self.given_members
        if self.config.trees.capacities is not None:
            _ = self.given_capacities
        self._check_rounds()

    def _check_rounds(self) -> None:
        """Refuse an engine or events that are impossible."""
        if self.in_tasks:
            engine_of("tasks", self.spark, bucket_count(self.spark, self.config.overlay.nodes))

    # --- topology and underlay

    @cached_property
    def topology(self) -> Topology:
        """The graph of routers and links as DataFrames of vertices and edges."""
        return Topology.from_graph(self.spark, self.graph)

    @property
    def network_tables(self) -> dict[str, pa.Table]:
        """The graph as the tables ``routers`` and ``links``."""
        routers = self.graph.vertices.rename(columns={"id": "router"})
        return {
            "routers": schemas.arrow_table(routers, schemas.ROUTERS),
            "links": schemas.arrow_table(self.graph.edges, schemas.LINKS),
        }

    # --- overlay

    @property
    def events(self) -> DataFrame | None:
        """The events of a run with rounds: ``round, node, event, group``; None for other runs."""
        return None

    @property
    def node_count(self) -> int:
        """The number of :attr:`nodes`, N."""
        return self.config.overlay.nodes

    @property
    def written_nodes(self) -> Table:
        """The table :attr:`nodes`, with each node's ``class`` and ``region`` if there are any."""
        return with_parts(self.node_rows, self.node_parts)

    @property
    def leaf_sets(self) -> DataFrame:
        """The leaf sets of all nodes: ``node, leaf, place``.

        ``place`` is 1, 2, ... for the next larger nodeIds and -1, -2, ... for the next smaller
        ones.

        Raises
        ------
        TypeError
            The overlay is not Pastry.
        """
        return as_pastry(self.overlay).leaf_sets

    @property
    def routing_table(self) -> DataFrame:
        """The filled cells of all nodes' routing tables: ``node, row, col, entry``."""
        return self.overlay.routing_table()

    # --- members, groups and Scribe's trees, which grow in a settled round 0

    @property
    def memberships(self) -> Table:
        """The members of all groups, as batches: ``group, node``."""
        if "members" in self.saved:
            return self.saved.batches("members", schemas.MEMBERS.names)
        return self._memberships()

    def _memberships(self) -> Table:
        if self.config.groups.members is not None:
            return self.given_members
        return scribe_groups.draw_members(self.spark, self.config)

    @stage
    def members(self) -> DataFrame:
        """The members of all groups with their routers: ``group, node, router``."""
        members = Batches.of(self.memberships).frame
        return self.memory.persist(self.overlay.with_router(members.select("group", "node")))

    @stage
    def member_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The members of the groups in :attr:`source_rows`: indices of groups, and positions.

        The pairs are ascending.
        """
        index, node = self._grown.member_pairs()
        groups = self.source_rows["group"].to_numpy()
        index = find_sorted(groups, self._grown.number)[index]
        known = index >= 0
        return _ascending((index[known], node[known]), len(self.overlay.ring))

    @stage
    def _groups(self) -> pa.Table:
        return scribe_groups.make_groups(self.memberships, self.overlay.rows_of_nodes, self.config)

    @stage
    def _grown(self) -> scribe_trees.Trees:
        return self.own(
            scribe_trees.build_trees(
                *(self.overlay, self._groups, self.memberships, self.progress),
                in_tasks=self.in_tasks,
                publishes=self.plays_silent,
                then=playing_silent(self, self._groups) if self.plays_silent else None,
            )
        )

    @property
    def built_trees(self) -> scribe_trees.Trees | None:
        """Scribe's trees in the buckets of a ring of the live nodes; None if a world has them."""
        return self._grown

    @property
    def joined(self) -> Table:
        """The members of all groups, as the buckets of the trees have them: ``group, node``."""
        return self._grown.read_members().select(["group", "node"])

    @property
    def plays_silent(self) -> bool:
        """True if the tasks that grow the trees let roots publish, and play silent systems."""
        # with bandwidth, links take time
        at_root = self.config.groups.source == "root" and not self.config.bandwidth.on
        return self.in_tasks and at_root

    @stage
    def silent_player(self) -> OnSpark:
        """The player of all systems whose programs send no messages; one job plays them."""
        if self.plays_silent:
            return self._grown.engine
        ring = self.overlay.ring
        tables = BucketTables(ring.layout, ring.starts())
        return self.own(OnSpark(tables, "silent systems, ", self.progress))

    @stage
    def create_rows(self) -> pa.Table:
        """The rows of `create_routes`, on the driver, by group."""
        keys = self._groups.select(["group", "key_hi", "key_lo", "size"])
        routes = self._grown.created().join(keys, "group", join_type="inner")
        return routes.sort_by("group").combine_chunks()

    @stage
    def create_routes(self) -> DataFrame:
        """The route of each group's CREATE message: creator, root, hops and delay."""
        return local_frame(self.spark, self.create_rows)

    @stage
    def group_rows(self) -> pa.Table:
        """The rows of `groups_with_root`, on the driver, by group."""
        names = ["group", "key_hi", "key_lo", "size", "node", "router"]
        return self.create_rows.select(names).rename_columns([*names[:4], "root", "root_router"])

    @stage
    def groups_with_root(self) -> DataFrame:
        """The groups that have a root: ``group, key_hi, key_lo, size, root, root_router``.

        ``key_hi`` and ``key_lo`` are the halves of the 128-bit groupId.
        """
        return local_frame(self.spark, self.group_rows)

    @property
    def group_numbers(self) -> np.ndarray:
        """The numbers of all groups, ascending."""
        return self.group_rows["group"].to_numpy()

    @stage
    def groups_with_source(self) -> pa.Table:
        """The groups with a node that may publish, and the source that the config chooses."""
        return self._with_sources(*self._sources())

    def _sources(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups with a node that may publish, ascending, and the source of each."""
        if self.config.groups.source == "root":
            return self.group_numbers, self.group_rows["root"].to_numpy()
        senders = scribe_groups.senders(self.members, self.config.seed)
        group, source = collected(senders, "group", "source")
        return group, source

    def _with_sources(self, group: np.ndarray, source: np.ndarray) -> pa.Table:
        """Return those of `group_rows` that are in `group`, ascending, with the source of each."""
        at = find_sorted(group, self.group_rows["group"].to_numpy())
        rows, node = self.group_rows.filter(pa.array(at >= 0)), source[at[at >= 0]]
        router = self.overlay.rows_of_nodes(node)["router"]
        return with_columns(rows, source=node, source_router=router)

    @stage
    def source_rows(self) -> pa.Table:
        """The rows of `multicast_groups`, on the driver, by group."""
        if self.schedule is None:
            return self.groups_with_source
        group, first = np.unique(self.schedule.group, return_index=True)
        return self._with_sources(group, self.schedule.source[first])

    @stage
    def multicast_groups(self) -> DataFrame:
        """The groups that have a source, with the source.

        The columns are those of `groups_with_root`, and ``source, source_router``. With several
        publications of a group, the source is that of the first one.
        """
        return local_frame(self.spark, self.source_rows)

    def possible(self, schedule: Schedule) -> Schedule:
        """Return the publications of a schedule that sources can send: without rounds, all."""
        return schedule

    # --- publications and systems

    @stage
    def schedule(self) -> Schedule | None:
        """The publications of a run in which a group may have several; None for other runs."""
        return publishing.schedule_of(self)

    @stage
    def publications(self) -> Schedule:
        """The publications of the run: `schedule`, or one publication of each group at time 0."""
        return publishing.once(self) if self.schedule is None else self.schedule

    @property
    def children(self) -> DataFrame:
        """The edges of Scribe's trees, with routers and delays of both ends.

        The columns are ``group, parent, child, parent_router, child_router`` and others.
        """
        return self.scribe_edges.frame

    @property
    def messages(self) -> DataFrame:
        """The copies that go down Scribe's trees: ``kind, sender, receiver``."""
        sent = F.lit("payload").alias("kind"), F.col("parent").alias("sender")
        return self.children.select(*sent, F.col("child").alias("receiver"))

    @property
    def scribe_edges(self) -> Batches:
        """The rows of :attr:`children` in batches for kernels."""
        return self._grown.read_edges()

    @stage
    def variants(self) -> dict[str, scribe_variants.Variant]:
        """The trees of each variant of the run, by the variant's name."""
        return {
            system.variant: self.memory.own(self._trees_of(system))
            for system in self.asked_for
            if system.variant is not None and system.trees is not None
        }

    def _trees_of(self, system: System) -> scribe_variants.Variant:
        assert system.trees is not None
        with analysed("variants", system.variant or system.name):
            built = system.trees(self._variant_context)
        return built if is_built_in(system) else checked_variant(system.name, built, self.known)

    @stage
    def _variant_context(self) -> scribe_variants.VariantContext:
        """Return Scribe's own trees and the inputs from which variants are built."""
        trees = self.config.trees
        capacities = None
        if trees.capacities is not None:  # two variants read them
            capacities = self.memory.persist(self.given_capacities)
        return scribe_variants.VariantContext(
            *(self.overlay, self.groups_with_root, self.members, self.children, trees),
            *(self.config.seed, self.progress, capacities, self.built_trees),
        )

    @property
    def known(self) -> Known:
        """The nodes, groups and members that the tables of a system may contain."""
        sources = self.multicast_groups.select("group", "source")
        groups = self.groups_with_root.select("group", "root").join(sources, "group", "left")
        publications = None
        if self.schedule is not None:
            roots = self.groups_with_root.select("group", "root")
            rows = local_frame(self.spark, publishing.schedule_rows(self.schedule))
            named = rows.select("publication", "group", F.col("node").alias("source"))
            publications = named.join(roots, "group")
        members = Batches.of(self.memberships).frame
        return Known(self.nodes, groups, members, publications)

    @stage
    def systems(self) -> list[Multicast]:
        """The tables of every multicast system, in the order of the registry.

        Users' systems are built first, so that their errors appear early.
        """
        users_first = sorted(self.asked_for, key=is_built_in)
        made = {system.name: self._played(system) for system in users_first}
        return [made[system.name] for system in self.asked_for]

    def _played(self, system: System) -> Multicast:
        """Return the tables of a system: of its round 0, or along Scribe's or a variant's trees."""
        if system.plays_round_0:
            with analysed("systems", system.name):
                return play_round_0(system, self)
        if system.variant is None:
            made = self.multicast(system.name, self.scribe_edges)
        else:
            variant = self.variants[system.variant]
            made = self.multicast(system.name, variant.edges, variant.trees)
        return publishing.along_trees(self, made)

    def table(self, system: str, name: str) -> DataFrame:
        """Return a table of one system of the run.

        Parameters
        ----------
        system : str
            The name of the system, such as ``scribe``.
        name : str
            ``deliveries``, ``tree_edges`` (of a tree), ``copies`` (of a mesh), ``state`` or
            ``control``; `Multicast` has their columns.

        Raises
        ------
        InputError
            The run does not have the system, or the system does not have the table.
        """
        made = {one.system: one for one in self.systems}
        check_names([system], made, "systems")
        tables = ("tree_edges", "copies", "state", "control")
        named = {one: one for one in tables if getattr(made[system], one) is not None}
        named["deliveries"] = "delivered"
        check_names([name], named, f"table of {system}")
        found = made[system].table(named[name])
        assert found is not None
        return Batches.of(found).frame

    @property
    def trees(self) -> TreeGraph:
        """The trees of all systems as one graph, whose vertices are all nodes."""
        if "tree_edges" in self.saved:
            return TreeGraph.of(self.nodes, self.saved["tree_edges"])
        return TreeGraph.of(self.nodes, tree_edges(self.systems).frame)

    def multicast(
        self, system: str, edges: Table, built: scribe_trees.Trees | None = None
    ) -> Multicast:
        """Return the publications of all groups' sources along trees that work like Scribe's.

        Parameters
        ----------
        system : str
            The name of the system in measures and tables.
        edges : DataFrame or Batches
            The edges of the trees, with the columns of :attr:`children`.
        built : Trees, optional
            The same trees in the buckets of the ring; without them they are built from `edges`.
        """

        def deliver() -> Table:
            if system == scribe_trees.SYSTEM:
                return self._grown.delivered or self.multicast_along(self._grown)
            trees = built
            if trees is None:
                given = self.overlay, self.groups_with_root, self.members
                trees = self.own(scribe_trees.plant_trees(*given, Batches.of(edges).frame))
            return self.multicast_along(trees)

        return Multicast(system, edges, deliver)

    def multicast_along(self, trees: scribe_trees.Trees) -> Batches:
        """Return the deliveries of one message a group: ``group, node, hops, delay_us``."""
        source = self.config.groups.source
        delivered, tables = scribe_trees.multicast(trees, self.source_rows, source)
        self.memory.own(tables)
        return delivered


# --- runs with rounds


class _Grown(NamedTuple):
    """A finished world of a run: its last round is that in which the sources publish."""

    world: World
    #: The groups with a source, ascending, and the source of each.
    sources: tuple[np.ndarray, np.ndarray]
    extra_joins: pd.DataFrame
    overloaded: int | None

    def release(self) -> None:
        """Free the world's memory."""
        self.world.release()


class InRounds(Simulation):
    """A run with rounds and without groups: a world has been played before it is measured."""

    has_rounds = True

    @cached_property
    def _of_world(self) -> WorldConfig:
        return WorldConfig.of_run(self.config)

    @cached_property
    def _where(self) -> tuple[int, str]:
        """The number of buckets, and the engine of the rounds."""
        buckets = self.buckets or buckets_of(self._of_world, self.spark, self.engine)
        return buckets, engine_of(self.engine, self.spark, buckets).name

    @stage
    def _start_of_world(self) -> Simulation:
        """The network and the nodes with which the world starts."""
        return Simulation(self.spark, self._of_world, progress=self.progress, shares=self)

    def _check_rounds(self) -> None:
        _ = self._where, self.events

    # --- rounds

    @property
    def events(self) -> DataFrame:
        return self.saved["events"] if "events" in self.saved else self._events  # noqa: SIM401

    @stage
    def _events(self) -> DataFrame:
        made = world_events(self._start_of_world.nodes, self._of_world, times=False)
        return schemas.conform(made, schemas.WORLD_EVENTS)

    @property
    def world(self) -> World:
        """The world of Scribe's own trees, if there are any, after its last round."""
        return self._grow().world

    @stage
    def _worlds(self) -> dict[str, _Grown]:
        return {}

    def _grow(self, variant: str = PLAIN) -> _Grown:
        """Return the world of a variant after its rounds, which are played once."""
        if variant not in self._worlds:
            self._worlds[variant] = self.own(self._play(variant))
        return self._worlds[variant]

    def _play(self, variant: str) -> _Grown:
        """Play the world of a variant up to its publications."""
        start, network = self._start_of_world, self.underlay
        config = WorldConfig.of_run(self.config, None if variant == PLAIN else variant)
        last = _publication_round(self.events, config)
        # the rounds before the publications lose nothing
        start.underlay = replace(network, kernel=network.kernel.without_losses())
        world = make_world(start, config, self.events, self.application, *self._where)
        joins, sources = list[pd.DataFrame](), (whole_numbers(), whole_numbers())
        # sources that do not route learn the roots' addresses before
        learns = config.groups.has_groups and config.groups.source == "direct"
        try:
            for until in (last - 1, last) if learns else (last,):
                joins += _play_until(world, until)
                if config.groups.has_groups:
                    sources = self._publishers(world)
                    world.scribe.multicast(self._frame(*sources))
            measured = world.step()
            joins.append(world.extra_joins)
        except BaseException:
            world.release()
            raise
        if config.groups.has_groups:
            self.progress.note(
                f"  {variant} trees: publications in round {last}, "
                f"{round(measured['nodes.live']):,} of {config.overlay.nodes:,} nodes are alive"
            )
        overloaded = measured.get(f"{scribe_trees.SYSTEM}.overloaded")
        over = None if overloaded is None else round(overloaded)
        return _Grown(world, sources, pd.concat(joins), over)

    def _publishers(self, world: World) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups with a node that may multicast, ascending, and the source of each."""
        access = self._start.access
        group, node, member, root = collected(world.memberships, *_ENTRY)
        if self._of_world.groups.source == "root":
            return _root_or_other(group[root], node[root], access, _live(world))
        may = member & access.permits(MAY_MULTICAST, group, node)
        among = self._frame(group[may], node[may]).withColumn("router", F.lit(0).cast("bigint"))
        senders = scribe_groups.senders(among, self._of_world.seed)
        group, node = collected(senders, "group", "source")
        return group, node

    @stage
    def _start(self) -> WorldGroups:
        groups = world_groups(self._of_world, extent_of(self._of_world), self.spark)
        assert groups is not None
        return groups

    def _frame(self, group: np.ndarray, node: np.ndarray) -> DataFrame:
        return local_frame(self.spark, pa.table({"group": group, "node": node}))

    # --- nodes

    @property
    def node_count(self) -> int:
        return self.nodes.count()

    @property
    def node_rows(self) -> DataFrame:
        """The live nodes."""
        return self._live_nodes

    @stage
    def _live_nodes(self) -> DataFrame:
        return self.memory.materialise(self.world.nodes)

    def _overlay(self) -> Overlay:
        """Return the overlay of the live nodes, which know live nodes only."""
        return self.world.overlay()


class GroupsInRounds(InRounds):
    """A run with rounds and groups; each variant has its own world."""

    @stage
    def _entries(self) -> list[np.ndarray]:
        """The nodes of each group's tree after the last round: group, node, member, root."""
        return collected(self.world.memberships, *_ENTRY)

    @stage
    def _roots(self) -> tuple[np.ndarray, np.ndarray]:
        """The groups that have not lost all copies of their state, and the root of each."""
        group, node, _, root = self._entries
        order = np.lexsort((node[root], group[root]))
        found, first = np.unique(group[root][order], return_index=True)
        return found, node[root][order][first]

    def _memberships(self) -> Batches:
        """Return the members of the groups that have a root."""
        group, node, member, _ = self._entries
        member = member & np.isin(group, self._roots[0])
        rows = pa.table({"group": group[member], "node": node[member]})
        return Batches.known(self.spark, rows, len(rows), schemas.MEMBERS)

    @property
    def plays_silent(self) -> bool:
        return False  # the world plays Scribe only

    @property
    def joined(self) -> Table:
        return self.memberships

    @stage
    def member_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        groups = self.source_rows["group"].to_numpy()
        ring = self.overlay.ring
        return _ascending(ring.members_of(groups, self.memberships), len(ring))

    @stage
    def _keys(self) -> pa.Table:
        """The key and the creator of each created group: ``group, key_hi, key_lo, creator``."""
        config, start = self._of_world, self._start_of_world
        keys = group_keys(start.rows_of_nodes, self._start, config, extent_of(config))
        return keys.select(["group", "key_hi", "key_lo", "creator"]).sort_by("group")

    @stage
    def create_rows(self) -> pa.Table:
        """The routes of the CREATEs that creators, if alive, would send now."""
        live = pa.array(np.isin(self._keys["creator"].to_numpy(), _live(self.world)))
        created = scribe_trees.build_trees(
            self.overlay, self._keys.filter(live), None, self.progress
        )
        made = created.created().sort_by("group")
        created.release()
        return made

    @stage
    def group_rows(self) -> pa.Table:
        group, root = self._roots
        at = find_sorted(group, self._keys["group"].to_numpy())
        keys = self._keys.filter(pa.array(at >= 0)).drop_columns("creator")
        place, root = at[at >= 0], root[at[at >= 0]]
        members = Batches.of(self.memberships).to_arrow()["group"].to_numpy()
        size = np.bincount(find_sorted(group, members), minlength=len(group))[place]
        router = self.overlay.rows_of_nodes(root)["router"]
        return with_columns(keys, size=size, root=root, root_router=router)

    def _sources(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups with a live node that may multicast, and the source of each."""
        group, source = self._grow().sources
        if self._of_world.groups.source != "root":
            return group, source
        rooted, root = self._roots
        at = find_sorted(group, rooted)
        return rooted[at >= 0], root[at >= 0]

    @property
    def group_numbers(self) -> np.ndarray:
        return self._start.numbers

    def possible(self, schedule: Schedule) -> Schedule:
        """Return publications of live nodes with the right to multicast to groups with a source."""
        (groups,), live = collected(self.groups_with_source, "group"), _live(self.world)
        may = self._start.access.permits(MAY_MULTICAST, schedule.group, schedule.source)
        may &= np.isin(schedule.group, groups) & np.isin(schedule.source, live)
        if not may.any():
            config = self.config.bandwidth
            field = str(config.cause_of_several)
            remedy = "has no publication of a live node with the right to multicast"
            raise InputError(field, getattr(config, field), f"{remedy}; give others")
        return schedule.take(may)

    # --- trees

    @property
    def built_trees(self) -> None:
        """None, because the world has the trees."""

    @property
    def scribe_edges(self) -> Batches:
        """The tree edges on which copies went to live nodes."""
        return Batches.of(self._edges(PLAIN))

    def _edges(self, variant: str) -> DataFrame:
        """Return the tree edges of a variant, or of Scribe itself, with copies to live nodes."""
        edges = self._grow(variant).world.tree_edges.where(F.col("system") == scribe_trees.SYSTEM)
        live = self.nodes.select(F.col("node").alias("child"))
        names = ("group", "parent", "child", "parent_router", "child_router")
        taken = edges.join(live, "child", "left_semi").select(*names)
        return self.underlay.delay(taken, "parent_router", "child_router")

    def _trees_of(self, system: System) -> scribe_variants.Variant:
        if system.name not in _VARIANTS:
            return super()._trees_of(system)
        name = _VARIANTS[system.name]
        grown, joins = self._grow(name), None
        if system.joins_after is not None:
            joins = local_frame(self.spark, pa.Table.from_pandas(grown.extra_joins))
        return scribe_variants.Variant(self._edges(name), joins, grown.overloaded)

    def multicast(
        self, system: str, edges: Table, built: scribe_trees.Trees | None = None
    ) -> Multicast:
        if system not in _VARIANTS:
            return super().multicast(system, edges, built)

        def deliver() -> Table:
            deliveries = self._grow(_VARIANTS[system]).world.deliveries
            delay_us = F.round(F.col("delay_ms") * MICROSECONDS).cast("bigint")
            return deliveries.where(F.col("system") == scribe_trees.SYSTEM).select(
                "group", "node", "hops", delay_us.alias("delay_us")
            )

        return Multicast(system, edges, deliver)


def _live(world: World) -> np.ndarray:
    """Return the numbers of the live nodes, ascending."""
    return collected(world.nodes, "node")[0]


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


def _ascending(pairs: tuple[np.ndarray, np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs in ascending order; the second numbers are below `size`."""
    return divided(np.sort(key_of(pairs, size)), size)
