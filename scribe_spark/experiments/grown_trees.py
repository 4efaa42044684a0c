"""The trees of a run when its sources multicast: a few tables, however the trees have grown.

A run without rounds is a settled round 0 of a world (`scribe.settled`): :class:`SettledTrees`.  A
run with rounds is a world whose last round publishes: `rounds_of_run.RoundsOfRun`.  Both give the
stages of a `Simulation` the same tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import pastry, scribe
from scribe_spark.experiments.engines import engine_of
from scribe_spark.experiments.saved_knowledge import saved_overlay
from scribe_spark.experiments.scope import stage
from scribe_spark.overlay import Overlay
from scribe_spark.overlays import build_overlay
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.systems import System

if TYPE_CHECKING:
    from scribe_spark.experiments.simulation import Simulation


class GrownTrees(Protocol):
    """The nodes, groups and trees of a run when its sources multicast.

    The stages of a run keep the tables; each is made once.
    """

    @property
    def events(self) -> DataFrame | None:
        """`schemas.WORLD_EVENTS` of the rounds; None where there are no rounds."""
        ...

    @property
    def node_count(self) -> int:
        """The number of nodes that are alive."""
        ...

    @property
    def nodes(self) -> Table:
        """`schemas.NODES` of the nodes that are alive."""
        ...

    @property
    def memberships(self) -> Table:
        """`schemas.MEMBERS`."""
        ...

    @property
    def members(self) -> Table:
        """``group, node, router``, for kernels."""
        ...

    @property
    def trees(self) -> scribe.Trees | None:
        """Scribe's own trees, if they are in buckets of a ring of the live nodes."""
        ...

    @property
    def edges(self) -> Batches:
        """Scribe's tree edges: ``group, parent, child``, the routers of both ends, ``delay_us``."""
        ...

    def check(self) -> None:
        """Refuse an engine or events that cannot be, before any work.

        Raises
        ------
        InputError
        """
        ...

    def overlay(self) -> Overlay:
        """Return the overlay of the live nodes."""
        ...

    def create_routes(self) -> DataFrame:
        """Return each group's CREATE where it was delivered; `Trees.created` has the columns."""
        ...

    def groups_with_root(self) -> DataFrame:
        """Return ``group, key_hi, key_lo, size, root, root_router``."""
        ...

    def multicast_groups(self) -> DataFrame:
        """Return the groups that have a source, with ``source, source_router``."""
        ...

    def variant(self, system: System) -> scribe.Variant | None:
        """Return the trees of a variant if they have grown already."""
        ...

    def deliveries(self, system: str) -> Table | None:
        """Return `multicast.DELIVERIES` of a system's trees if Scribe itself has multicast."""
        ...


class SettledTrees:
    """The trees of a run without rounds: no node fails, comes or goes.

    Parameters
    ----------
    run : Simulation
    """

    events = None

    def __init__(self, run: Simulation) -> None:
        self._run = run
        self.stages: dict[str, Any] = {}

    def check(self) -> None:
        """See `GrownTrees`."""
        if self._run.in_tasks:
            spark, nodes = self._run.spark, self._run.config.overlay.nodes
            engine_of("tasks", spark, bucket_count(spark, nodes))

    @property
    def node_count(self) -> int:
        """See `GrownTrees`."""
        return self._run.config.overlay.nodes

    @property
    def nodes(self) -> Table:
        """See `GrownTrees`; they are drawn anew each time."""
        run = self._run
        return pastry.draw_nodes(
            run.spark, run.config, run.underlay.routers, run.graph.hosts.shares
        )

    def overlay(self) -> Overlay:
        """See `GrownTrees`."""
        run, config = self._run, self._run.config
        if config.knowledge is not None:
            return saved_overlay(run.spark, config, run.underlay)
        return build_overlay(run.nodes, run.underlay, config.overlay, config.seed, run.progress)

    @property
    def memberships(self) -> Table:
        """See `GrownTrees`; given or drawn."""
        run = self._run
        if run.config.groups.members is not None:
            return run.given_members
        return scribe.draw_members(run.spark, run.config)

    @property
    def members(self) -> Table:
        """See `GrownTrees`."""
        return self.trees.read_members()

    @stage
    def _groups(self) -> DataFrame:
        run = self._run
        return run.memory.persist(scribe.make_groups(run.members, run.nodes, run.config))

    @stage
    def trees(self) -> scribe.Trees:
        """See `GrownTrees`; every group is created, and every member has joined."""
        run = self._run
        built_from = run.overlay, self._groups, run.memberships, run.progress
        return run.own(scribe.build_trees(*built_from, in_tasks=run.in_tasks))

    @property
    def edges(self) -> Batches:
        """See `GrownTrees`."""
        return self.trees.read_edges()

    def create_routes(self) -> DataFrame:
        """See `GrownTrees`; with ``key_hi, key_lo, size``, too."""
        keys = self._groups.select("group", "key_hi", "key_lo", "size")
        routes = self.trees.created().join(F.broadcast(keys), "group", "inner")
        return self._run.memory.materialise(routes)

    def groups_with_root(self) -> DataFrame:
        """See `GrownTrees`."""
        root = F.col("node").alias("root"), F.col("router").alias("root_router")
        return self._run.create_routes.select("group", "key_hi", "key_lo", "size", *root)

    def multicast_groups(self) -> DataFrame:
        """See `GrownTrees`."""
        run, groups = self._run, self._run.groups_with_root
        if run.config.groups.source == "root":
            root = {"source": F.col("root"), "source_router": F.col("root_router")}
            return groups.withColumns(root)
        senders = F.broadcast(scribe.senders(run.members, run.config.seed))
        return run.memory.persist(groups.join(senders, "group", "inner"))

    def variant(self, system: System) -> None:
        """See `GrownTrees`; variants begin with Scribe's own trees."""

    def deliveries(self, system: str) -> Batches | None:
        """See `GrownTrees`."""
        return self._run.multicast_along(self.trees) if system == scribe.SYSTEM else None
