"""A run as a chain of stages; each stage is computed from earlier ones at its first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.bandwidth.schedule import Schedule
from scribe_spark.core.errors import check_names
from scribe_spark.experiments import scheduled
from scribe_spark.experiments.grown_trees import GrownTrees, Rounds, RoundsOfRun
from scribe_spark.experiments.round_in_run import play_round_0
from scribe_spark.experiments.saved_knowledge import verify_saved_knowledge
from scribe_spark.experiments.scope import stage
from scribe_spark.experiments.stages import Stages, on_driver
from scribe_spark.experiments.system_rows import Known, checked_variant
from scribe_spark.measures.parts import with_parts
from scribe_spark.multicast import Multicast
from scribe_spark.pastry.overlay import as_pastry, node_vertices
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.users_code import analysed
from scribe_spark.schemas import TREE_GRAPH_EDGES, conform
from scribe_spark.systems.registry import System, is_built_in
from scribe_spark.systems.scribe import trees as scribe_trees
from scribe_spark.systems.scribe import variants as scribe_variants
from scribe_spark.topology.links import Topology
from scribe_spark.worlds.round_of_run import tree_edges


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
    saved : mapping of str to DataFrame, optional
        Tables of the run that are already saved, by name; these are read, not computed.
    progress : Progress, optional
        The object to which progress is reported; by default no object.
    most_routers : int
        The largest network for which routes between all pairs of routers are kept as matrices; in
        larger networks, routes are computed on demand.
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

    # --- the user's tables

    def read_inputs(self) -> None:
        """Read and check the user's tables and the engine before any other work."""
        if self.config.knowledge is not None:
            verify_saved_knowledge(self.spark, self.config)
        if self.config.groups.members is not None:
            _ = self.given_members
        if self.config.trees.capacities is not None:
            _ = self.given_capacities
        self.grown.check()

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

    @stage
    def grown(self) -> GrownTrees:
        """The nodes, groups and trees at the time when the sources publish."""
        if not self.has_rounds:
            return GrownTrees(self)
        return RoundsOfRun(self) if self.config.groups.has_groups else Rounds(self)

    @property
    def events(self) -> DataFrame | None:
        """The events of a run with rounds: ``round, node, event, group``; None for other runs."""
        return self.grown.events

    @property
    def node_count(self) -> int:
        """The number of :attr:`nodes`, N."""
        return self.grown.node_count

    @property
    def written_nodes(self) -> Table:
        """The table :attr:`nodes`, with each node's ``class`` and ``region`` if there are any."""
        return with_parts(self.grown.nodes, self.node_parts)

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

    # --- trees

    @stage
    def source_rows(self) -> pa.Table:
        """The rows of `multicast_groups`, on the driver."""
        if self.schedule is not None:
            return on_driver(scheduled.groups_with_publications(self, self.schedule))
        return self.groups_with_source

    @stage
    def schedule(self) -> Schedule | None:
        """The publications of a run in which a group may have several; None for other runs."""
        return scheduled.schedule_of(self)

    @stage
    def publications(self) -> Schedule:
        """The publications of the run: `schedule`, or one publication of each group at time 0."""
        return scheduled.once(self) if self.schedule is None else self.schedule

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
        return self.grown.edges

    @stage
    def variants(self) -> dict[str, scribe_variants.Variant]:
        """The trees of each variant of the run, by the variant's name."""
        return {
            system.variant: self.memory.own(self._trees_of(system))
            for system in self.asked_for
            if system.variant is not None and system.trees is not None
        }

    def _trees_of(self, system: System) -> scribe_variants.Variant:
        grown = self.grown.variant(system)
        if grown is not None:
            return grown
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
            *(self.config.seed, self.progress, capacities, self.grown.trees),
        )

    @property
    def known(self) -> Known:
        """The nodes, groups and members that the tables of a system may contain."""
        sources = self.multicast_groups.select("group", "source")
        groups = self.groups_with_root.select("group", "root").join(sources, "group", "left")
        publications = None
        if self.schedule is not None:
            roots = self.groups_with_root.select("group", "root")
            rows = local_frame(self.spark, scheduled.schedule_rows(self.schedule))
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
        return scheduled.along_trees(self, made)

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
            grown = self.grown.deliveries(system)
            if grown is not None:
                return grown
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
