"""One experiment as a chain of stages, each made from those before it when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import baselines, schemas, scribe
from scribe_spark.bandwidth.schedule import Schedule
from scribe_spark.config import RunConfig
from scribe_spark.experiments import scheduled
from scribe_spark.experiments.grown_trees import GrownTrees, SettledTrees
from scribe_spark.experiments.handed_over import checked_variant, tree_edges
from scribe_spark.experiments.rounds_of_run import RoundsOfRun
from scribe_spark.experiments.saved import SavedTables
from scribe_spark.experiments.saved_knowledge import verify_saved_knowledge
from scribe_spark.experiments.scope import R, Scope, stage
from scribe_spark.experiments.system_rows import Known
from scribe_spark.experiments.tree_graph import TreeGraph
from scribe_spark.inputs import is_local
from scribe_spark.measures.node_parts import with_parts
from scribe_spark.measures.parts import NodeParts, node_parts
from scribe_spark.multicast import Multicast
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.overlay import as_pastry
from scribe_spark.progress import Progress, Silent
from scribe_spark.reference_tree.multicast import copies
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.users_code import analysed
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.scribe.upcalls import Application
from scribe_spark.systems import System, is_built_in, systems_of_run
from scribe_spark.topology import Graph, Topology, load
from scribe_spark.topology.checks import MOST_ROUTERS
from scribe_spark.underlay.all_pairs import compute_routes, with_own_delays
from scribe_spark.underlay.hops import HopUnderlay
from scribe_spark.underlay.losses import route_losses
from scribe_spark.underlay.matrices import MatrixUnderlay
from scribe_spark.underlay.protocol import Underlay
from scribe_spark.underlay.routable import check_routes
from scribe_spark.worlds import check_start

#: Makes an application of the user's on Scribe's upcalls, given the number of nodes.
MakeApplication = Callable[[int], Application]


class Simulation:
    """The stages of a run as properties; each stage is computed once, when it is first read.

    A stage on the driver or in files (`graph`, `underlay`) is kept until :meth:`close`, a stage in
    the executors' memory until :meth:`release`.  A table may be read from a saved file (`nodes`).

    Parameters
    ----------
    spark : SparkSession
    config : RunConfig
    saved : mapping of DataFrame, optional
        Tables that were written before, by their names in `schemas`; they are read, not computed.
    progress : Progress, optional
    most_routers : int
        With more routers than this, routes are searched on demand, not kept as matrices.
    shares : Simulation, optional
        A simulation of the same session, whose graph and routes are used if the network is equal.
    engine : str
        ``auto``, ``tasks`` or ``jobs``: the way to play rounds, see `engine_of`.  Trees of a run
        without rounds are played in tasks with ``tasks``, otherwise as jobs.
    application : callable, optional
        See `make_world`; a run with an application has rounds.
    buckets : int, optional
        The number of buckets in rounds; by default chosen by the number of nodes.

    Raises
    ------
    InputError
        The run has rounds, and its overlay cannot start a world.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: RunConfig,
        saved: Mapping[str, DataFrame] | None = None,
        progress: Progress | None = None,
        most_routers: int = MOST_ROUTERS,
        shares: Simulation | None = None,
        engine: str = "auto",
        application: MakeApplication | None = None,
        buckets: int | None = None,
    ) -> None:
        self.has_rounds = config.has_rounds or application is not None
        if self.has_rounds:
            check_start(config.overlay.kind)
        self.spark, self.config, self.most_routers = spark, config, most_routers
        self.engine, self.application, self.buckets = engine, application, buckets
        self.saved = SavedTables()
        self.saved.update(saved or {})
        self.progress = progress or Silent()
        same = shares is not None and shares.config.network_key == config.network_key
        self._shares = shares if same else None
        #: Whether a run without rounds is played in tasks, not as jobs.
        self.in_tasks = engine == "tasks"
        #: Where the clock with bandwidth has been played, and why: ``name, why``.
        self.clock_player: dict[str, str] | None = None
        self.stages: dict[str, Any] = {}
        self._files, self.memory = Scope(), Scope()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def release(self) -> None:
        """Free the executors' memory; the stages there are computed again at their next use."""
        self.stages.clear()
        self.memory.close()

    def note_clock(self, player: dict[str, str]) -> None:
        """Note where the clock with bandwidth is played."""
        if self.clock_player is None:
            self.clock_player = player
            self.progress.note("clock with bandwidth: in {name} ({why})".format(**player))

    def close(self) -> None:
        """Free memory and files; routes that another simulation shares stay.

        A second call has no effect.
        """
        self.release()
        self._files.close()

    # --- the user's tables

    def read_inputs(self) -> None:
        """Read and check the user's tables and the engine before any other work.

        Raises
        ------
        InputError
            A table cannot be read or has impossible rows, or the engine cannot keep its tasks.
        """
        if self.config.knowledge is not None:
            verify_saved_knowledge(self.spark, self.config)
        if self.config.groups.members is not None:
            _ = self.given_members
        if self.config.trees.capacities is not None:
            _ = self.given_capacities
        self.grown.check()

    @cached_property
    def given_members(self) -> DataFrame:
        """The user's table of members: `schemas.MEMBERS`."""
        config, path = self.config, str(self.config.groups.members)
        members = scribe.read_members(self.spark, path, config.overlay.nodes)
        if not is_local(path):  # `checks.check` has counted those of this machine
            counts = F.count_distinct("group"), F.count(F.lit(1))
            groups, memberships = members.agg(*counts).collect()[0]
            config.refuse_groups(groups, memberships, path)
        return members

    @cached_property
    def given_capacities(self) -> DataFrame:
        """The user's table of limits: ``node, limit``."""
        return scribe.read_capacities(
            self.spark, str(self.config.trees.capacities), self.config.overlay.nodes
        )

    @property
    def memberships(self) -> Table:
        """`schemas.MEMBERS`, as a DataFrame and in batches for kernels."""
        if "members" in self.saved:
            return self.saved.batches("members", schemas.MEMBERS.names)
        return self.grown.memberships

    # --- topology and underlay

    @cached_property
    def graph(self) -> Graph:
        """The graph of routers and links, on the driver."""
        if self._shares is not None:
            return self._shares.graph
        return load(self.config, self.spark)

    @cached_property
    def topology(self) -> Topology:
        """The graph of routers and links in GraphFrames' form."""
        return Topology.from_graph(self.spark, self.graph)

    @cached_property
    def underlay(self) -> Underlay:
        """Routes between routers, available on every executor."""
        if self._shares is not None:
            return self._shares.underlay
        graph, config = self.graph, self.config
        check_routes(graph, config.topology.tie, config.seed, self.most_routers)
        routers = graph.vertices["id"].to_numpy()
        lan_us = round(config.topology.lan_delay_ms * MICROSECONDS)
        if len(routers) > self.most_routers:
            return self._files.own(HopUnderlay.of(self.spark, routers, graph.edges, lan_us))
        routes = compute_routes(self.spark, routers, graph.edges, config.topology.tie, config.seed)
        routes = with_own_delays(routes, graph.hosts.own_us)
        lost = graph.losses
        loss = None if lost is None else route_losses(routes.pred, routes.routers, lost)
        made = MatrixUnderlay.of(self.spark, routes, len(graph.edges), lan_us, loss)
        return self._files.own(made)

    # --- overlay

    @stage
    def grown(self) -> GrownTrees:
        """The nodes, groups and trees when the sources multicast."""
        return RoundsOfRun(self) if self.has_rounds else SettledTrees(self)

    @property
    def events(self) -> DataFrame | None:
        """`schemas.WORLD_EVENTS` of a run with rounds; None for other runs."""
        return self.grown.events

    @property
    def node_count(self) -> int:
        """Return the number of :attr:`nodes`, N."""
        return self.grown.node_count

    @property
    def made_nodes(self) -> Table:
        """`schemas.NODES`, computed even if the table was saved."""
        return self.grown.nodes

    @property
    def node_parts(self) -> tuple[NodeParts, ...]:
        """The classes and the regions of the nodes, if the config has any."""
        return node_parts(self.config, self.graph.hosts)

    @property
    def written_nodes(self) -> Table:
        """The table `nodes` for the folder, with a column for classes and one for regions."""
        return with_parts(self.made_nodes, self.node_parts)

    @property
    def nodes(self) -> DataFrame:
        """The nodes: `schemas.NODES`."""
        # to draw them takes less time than to wait until they have been written
        return self.saved["nodes"] if self.saved.has("nodes") else Batches.of(self.made_nodes).frame

    @stage
    def overlay(self) -> Overlay:
        """The overlay that the config names; after rounds, of the live nodes."""
        return self.memory.own(self.grown.overlay())

    @property
    def leaf_sets(self) -> DataFrame:
        """`schemas.LEAF_SETS` of all nodes.

        Raises
        ------
        TypeError
            The overlay is not Pastry.
        """
        return as_pastry(self.overlay).leaf_sets

    @property
    def routing_table(self) -> DataFrame:
        """`schemas.ROUTING_TABLE`: the filled cells of all nodes' tables."""
        return self.overlay.routing_table()

    # --- systems

    @property
    def takes_part(self) -> dict[str, list[str]]:
        """The names of the systems and of the application."""
        names = [getattr(self.application, "__qualname__", repr(self.application))]
        return {
            "systems": [system.name for system in self.asked_for],
            "application": names if self.application else [],
        }

    @property
    def asked_for(self) -> tuple[System, ...]:
        """The multicast systems of the run."""
        return systems_of_run(self.config.trees.variants, self.config.trees.systems)

    def own(self, resource: R) -> R:
        """Register a resource that :meth:`release` frees."""
        return self.memory.own(resource)

    # --- trees

    @stage
    def members(self) -> DataFrame:
        """`schemas.MEMBERS`, and the router of each."""
        members = Batches.of(self.memberships).frame
        return self.memory.persist(self.overlay.with_router(members.select("group", "node")))

    @stage
    def create_routes(self) -> DataFrame:
        """Each group's CREATE where it was delivered, with the hops and delay of its path."""
        return self.grown.create_routes()

    @stage
    def groups_with_root(self) -> DataFrame:
        """``group, key_hi, key_lo, size, root, root_router``: groups that have a root."""
        return self.grown.groups_with_root()

    @stage
    def multicast_groups(self) -> DataFrame:
        """Groups that have a source: as `groups_with_root`, and ``source, source_router``.

        With a schedule the source is that of a group's first publication.
        """
        if self.schedule is not None:
            found = scheduled.groups_with_publications(self, self.schedule)
            return self.memory.persist(found)
        return self.grown.multicast_groups()

    @stage
    def schedule(self) -> Schedule | None:
        """The publications where a group may have several; None of other runs.

        Raises
        ------
        InputError
            A publication to a group that is not there.
        """
        return scheduled.schedule_of(self)

    @stage
    def publications(self) -> Schedule:
        """The publications of the run: `schedule`, or one of each group at time 0."""
        return scheduled.once(self) if self.schedule is None else self.schedule

    @property
    def children(self) -> DataFrame:
        """Scribe's tree edges: `schemas.CHILDREN` with routers and delays of both ends."""
        return self.scribe_edges.frame

    @property
    def messages(self) -> DataFrame:
        """The payloads that go down Scribe's trees: `schemas.MESSAGES`."""
        sent = F.lit("payload").alias("kind"), F.col("parent").alias("sender")
        return self.children.select(*sent, F.col("child").alias("receiver"))

    @property
    def scribe_edges(self) -> Batches:
        """The rows of `children` in batches for kernels."""
        return self.grown.edges

    @property
    def _members(self) -> Table:
        """The rows of `members`, for kernels."""
        return self.grown.members

    @stage
    def variants(self) -> dict[str, scribe.Variant]:
        """The trees of each other way to build them, by its name in `RunConfig.variants`.

        Raises
        ------
        InputError
            There is no such variant.
        """
        return {
            system.variant: self.memory.own(self._trees_of(system))
            for system in self.asked_for
            if system.variant is not None and system.trees is not None
        }

    def _trees_of(self, system: System) -> scribe.Variant:
        """Return the trees of a variant."""
        grown = self.grown.variant(system)
        if grown is not None:
            return grown
        assert system.trees is not None
        with analysed("variants", system.variant or system.name):
            built = system.trees(self._variant_context)
        return built if is_built_in(system) else checked_variant(system.name, built, self.known)

    @stage
    def _variant_context(self) -> scribe.VariantContext:
        """Scribe's own trees, and what they were built from."""
        trees = self.config.trees
        capacities = None
        if trees.capacities is not None:  # two variants read them
            capacities = self.memory.persist(self.given_capacities)
        return scribe.VariantContext(
            *(self.overlay, self.groups_with_root, self.members, self.children, trees),
            *(self.config.seed, self.progress, capacities, self.grown.trees),
        )

    @stage
    def unicasts(self) -> Batches:
        """The unicast routes from each group's source to its members, with delays."""
        return baselines.unicasts(self.multicast_groups, self._members, self.underlay)

    @stage
    def reference_tree_copies(self) -> DataFrame:
        """Every copy of each group's message over the one tree of all nodes."""
        trees = self.config.trees
        made = copies(
            *(self.nodes, self.multicast_groups, self.members, self.underlay),
            *(trees.reference_children, trees.reference_assignment, self.progress),
        )
        return self.memory.own_table(made)

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

        Those of users are built first, so that a fault is found before the others work.

        Raises
        ------
        InputError
            A system hands over what cannot be measured, or in the name of another one.
        """
        users_first = sorted(self.asked_for, key=is_built_in)
        made = {system.name: scheduled.timed(self, system) for system in users_first}
        return [made[system.name] for system in self.asked_for]

    @property
    def trees(self) -> TreeGraph:
        """The trees of all systems and all nodes as one graph, from saved tables if any exist."""
        edges = self._saved_or("tree_edges", lambda: tree_edges(self.systems).frame)
        return TreeGraph.of(self.nodes, edges)

    def multicast(self, system: str, edges: Table, built: scribe.Trees | None = None) -> Multicast:
        """Return the multicasts of all groups' sources along trees like Scribe's.

        Parameters
        ----------
        system : str
            The name of the trees in measures.
        edges : DataFrame or Batches
            A table with the columns of :attr:`children`.
        built : Trees, optional
            The same trees in the buckets of the ring, if they exist.
        """

        def deliver() -> Table:
            grown = self.grown.deliveries(system)
            if grown is not None:
                return grown
            return self.multicast_along(built or self._planted(Batches.of(edges).frame))

        return Multicast(system, edges, deliver)

    def multicast_along(self, trees: scribe.Trees) -> Batches:
        """Return `multicast.DELIVERIES` of one message from each group's source."""
        source = self.config.groups.source
        delivered, tables = scribe.multicast(trees, self.multicast_groups, source, self.progress)
        self.memory.own(tables)
        return delivered

    def _planted(self, edges: DataFrame) -> scribe.Trees:
        """Return the trees of edges that no program of Scribe has made."""
        planted = scribe.plant_trees(self.overlay, self.groups_with_root, self.members, edges)
        return self.memory.own(planted)

    def _saved_or(self, table: str, make: Callable[[], DataFrame]) -> DataFrame:
        return self.saved[table] if table in self.saved else make()
