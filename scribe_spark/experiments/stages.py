"""The network, nodes, members and groups of a run, as stages that its systems are built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.config import ExperimentConfig, RunConfig
from scribe_spark.core.arrays import divided
from scribe_spark.core.inputs import is_local
from scribe_spark.core.keys import key_of
from scribe_spark.core.progress import Progress, Silent
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.experiments.scope import R, SavedTables, Scope, collected, stage
from scribe_spark.measures.parts import NodeParts, node_parts
from scribe_spark.measures.within import Asked, ReplySetting, Weights
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.overlay import router_index
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.distribute import distribute_arrays
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.systems.registry import System, systems_of_run
from scribe_spark.systems.scribe import groups as scribe_groups
from scribe_spark.systems.scribe.upcalls import ScribeApplication
from scribe_spark.topology.checks import MOST_ROUTERS, link_rates, refuse_network
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.kinds import jitter_of
from scribe_spark.topology.registry import load
from scribe_spark.underlay.hops import HopUnderlay, route_losses
from scribe_spark.underlay.matrices import MatrixUnderlay, compute_routes, with_own_delays
from scribe_spark.underlay.pairs import pair_underlay
from scribe_spark.underlay.protocol import Underlay, Withheld, withheld_nodes
from scribe_spark.underlay.routable import check_routes
from scribe_spark.worlds.save import check_start

#: A function that returns the user's Scribe application for a number of nodes.
MakeApplication = Callable[[int], ScribeApplication]


def on_driver(table: DataFrame | pa.Table) -> pa.Table:
    """Return the rows of a table of groups, on the driver."""
    return table if isinstance(table, pa.Table) else table.toArrow().sort_by("group")


class Stages:
    """The stages of a run below its trees; the subclass `Simulation` adds trees and systems."""

    # what `Simulation` defines, some as stages
    grown: Any
    schedule: Any
    publications: Any
    source_rows: Any
    multicast_along: Any

    def __init__(
        self,
        spark: SparkSession,
        config: ExperimentConfig,
        saved: Mapping[str, DataFrame] | None = None,
        progress: Progress | None = None,
        most_routers: int = MOST_ROUTERS,
        shares: Stages | None = None,
        engine: str = "auto",
        application: MakeApplication | None = None,
        buckets: int | None = None,
    ) -> None:
        of_run = isinstance(config, RunConfig) and config.has_rounds
        self.has_rounds = of_run or application is not None
        if self.has_rounds:
            check_start(config.overlay.kind)
        if application is not None:
            config.refuse_jitter()
        self.spark, self.most_routers = spark, most_routers
        self.config = cast("RunConfig", config)  # which has the same fields
        self.engine, self.application, self.buckets = engine, application, buckets
        self.saved = SavedTables()
        self.saved.update(saved or {})
        self.progress = progress or Silent()
        same = shares is not None and shares.config.network_key == config.network_key
        self._shares = shares if same else None
        #: True if a run without rounds is played in tasks, not as jobs.
        self.in_tasks = engine == "tasks"
        #: True if the trees will be asked for after the overlay.
        self.trees_follow = False
        #: Where publications with sizes or times were simulated, and the reason: ``name, why``.
        self.clock_player: dict[str, str] | None = None
        self.stages: dict[str, Any] = {}
        self._files, self.memory = Scope(), Scope()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def release(self) -> None:
        """Free the executors' memory; stages there are computed again at their next use."""
        self.stages.clear()
        self.memory.close()

    def note_clock(self, player: dict[str, str]) -> None:
        """Record and report, once, how the clock with bandwidth plays publications.

        `player` has ``name``, tasks or jobs, and the reason, ``why``.
        """
        if self.clock_player is None:
            self.clock_player = player
            self.progress.note("clock with bandwidth: in {name} ({why})".format(**player))

    def close(self) -> None:
        """Free memory and files; routes that another simulation shares stay.

        A second call does nothing.
        """
        self.release()
        self._files.close()

    def own(self, resource: R) -> R:
        """Register a resource that :meth:`release` frees, and return it."""
        return self.memory.own(resource)

    @property
    def asked_for(self) -> tuple[System, ...]:
        """The systems that the run has, by its config."""
        return systems_of_run(self.config.trees.variants, self.config.trees.systems)

    # --- the user's tables

    @cached_property
    def given_members(self) -> DataFrame:
        """The user's table of members: ``group, node``."""
        config, path = self.config, str(self.config.groups.members)
        members = scribe_groups.read_members(self.spark, path, config.overlay.nodes)
        if not is_local(path):  # `checks.check` has counted local ones
            counts = F.count_distinct("group"), F.count(F.lit(1))
            groups, memberships = members.agg(*counts).collect()[0]
            config.refuse_groups(groups, memberships, path)
        return members

    @cached_property
    def given_capacities(self) -> DataFrame:
        """The user's table of limits on children: ``node, limit``."""
        return scribe_groups.read_capacities(
            self.spark, str(self.config.trees.capacities), self.config.overlay.nodes
        )

    @property
    def memberships(self) -> Table:
        """The members of all groups, as batches: ``group, node``."""
        if "members" in self.saved:
            return self.saved.batches("members", schemas.MEMBERS.names)
        return self.grown.memberships

    # --- network, overlay and groups

    @cached_property
    def graph(self) -> Graph:
        """The graph of routers and links, on the driver."""
        if self._shares is not None:
            return self._shares.graph
        graph = load(self.config, self.spark)
        refuse_network(self.config, graph)  # `checks.check` cannot load all graphs
        return graph

    @cached_property
    def underlay(self) -> Underlay:
        """The network with its routes, which also says which nodes withhold copies."""
        withheld, network = self._withheld, self.network
        if withheld is None:
            return network
        return replace(network, kernel=network.kernel.withholding(withheld))

    @cached_property
    def _withheld(self) -> Withheld | None:
        found = withheld_nodes(self.config)
        if found is None or not isinstance(found, np.ndarray):
            return found
        (name,) = distribute_arrays(self.spark, withheld=found)
        announcements = self.config.forwarding.announcements
        of_list = Withheld(self.config.seed, nodes=name, announcements=announcements)
        return self._files.own(of_list)

    @cached_property
    def network(self) -> Underlay:
        """The routes between routers, with delays, available on every executor."""
        if self._shares is not None:
            return self._shares.network
        graph, config = self.graph, self.config
        if graph.pairs is not None:
            jitter = jitter_of(config.topology)
            return pair_underlay(config.overlay.nodes, graph.pairs, config.seed, jitter)
        check_routes(graph, config.topology.tie, config.seed, self.most_routers)
        routers = graph.vertices["id"].to_numpy()
        lan_us = round(config.topology.lan_delay_ms * MICROSECONDS)
        if len(routers) > self.most_routers:
            return self._files.own(HopUnderlay.of(self.spark, routers, graph.edges, lan_us))
        routes = compute_routes(self.spark, routers, graph.edges, config.topology.tie, config.seed)
        routes = with_own_delays(routes, graph.hosts.own_us)
        lost = graph.losses
        loss = None if lost is None else route_losses(routes.pred, routes.routers, lost)
        bits = link_rates(graph, config.topology)
        rates = None if bits is None else graph.edges.assign(rate=bits)
        made = MatrixUnderlay.of(self.spark, routes, len(graph.edges), lan_us, loss, rates)
        return self._files.own(made)

    @cached_property
    def asked(self) -> Asked | None:
        """The questions about coverage, with weights and links of nodes; None without any."""
        config = self.config
        if not config.coverage.on:
            return None
        weights = replies = None
        if config.coverage.weights is not None:
            of = config.overlay.nodes, config.topology.nodes_file
            weights = self._files.own(Weights.read(self.spark, config.coverage.weights, *of))
        if config.coverage.replies:
            network, sized = self.underlay, config.bandwidth.has_sizes
            links = None
            if sized:
                links = RoundLinks.of(config, self.graph.hosts, network.lan_us, network.kernel)
            size, router_of = config.coverage.reply_bytes, self._router_of
            replies = ReplySetting(network.kernel, network.lan_us, size, links, router_of)
        return Asked(config.coverage.for_tasks(), config.bandwidth.several, weights, replies)

    @property
    def _router_of(self) -> Callable[[np.ndarray], np.ndarray]:
        """The function that returns the indices of the routers of nodes, by number."""
        hosts, routers = self.graph.hosts, len(self.underlay.routers)
        placed: dict[str, Any] = {"shares": hosts.shares, "places": hosts.places}
        return partial(router_index, self.config.seed, routers=routers, **placed)

    @property
    def node_parts(self) -> tuple[NodeParts, ...]:
        """The division of the nodes into classes and into regions; empty without either."""
        return node_parts(self.config, self.graph.hosts)

    @property
    def nodes(self) -> DataFrame:
        """The nodes of the overlay: ``node, id_hi, id_lo, router``.

        ``id_hi`` and ``id_lo`` are the halves of the 128-bit nodeId.
        """
        # the draw takes less time than the wait for the written table
        saved = self.saved.has("nodes")
        return self.saved["nodes"] if saved else Batches.of(self.grown.nodes).frame

    @property
    def node_rows(self) -> Table:
        """The rows of :attr:`nodes` for kernels: not stored, but computed again at each use."""
        return self.grown.nodes

    @property
    def rows_of_nodes(self) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        """The function from numbers of nodes to their columns of :attr:`nodes`, on the driver."""
        return self.grown.rows_of_nodes

    @stage
    def overlay(self) -> Overlay:
        """The overlay of the config; in a run with rounds, of the nodes that live after them."""
        return self.memory.own(self.grown.overlay())

    @stage
    def members(self) -> DataFrame:
        """The members of all groups with their routers: ``group, node, router``."""
        members = Batches.of(self.memberships).frame
        return self.memory.persist(self.overlay.with_router(members.select("group", "node")))

    @stage
    def silent_player(self) -> OnSpark:
        """The player of all systems whose programs send no messages; one job plays them."""
        if self.grown.plays_silent:
            return self.grown.trees.engine
        ring = self.overlay.ring
        tables = BucketTables(ring.layout, ring.starts())
        return self.own(OnSpark(tables, "silent systems, ", self.progress))

    @stage
    def member_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The members of the groups in :attr:`source_rows`: indices of groups, and positions.

        The pairs are ascending.
        """
        (number,) = collected(self.source_rows, "group")
        size = len(self.overlay.ring)
        return divided(np.sort(key_of(self.grown.member_pairs(number), size)), size)

    @stage
    def create_rows(self) -> pa.Table:
        """The rows of `create_routes`, on the driver."""
        return on_driver(self.grown.create_routes())

    @stage
    def create_routes(self) -> DataFrame:
        """The route of each group's CREATE message: creator, root, hops and delay."""
        return local_frame(self.spark, self.create_rows)

    @stage
    def group_rows(self) -> pa.Table:
        """The rows of `groups_with_root`, on the driver."""
        return on_driver(self.grown.groups_with_root())

    @stage
    def groups_with_root(self) -> DataFrame:
        """The groups that have a root: ``group, key_hi, key_lo, size, root, root_router``.

        ``key_hi`` and ``key_lo`` are the halves of the 128-bit groupId.
        """
        return local_frame(self.spark, self.group_rows)

    @stage
    def groups_with_source(self) -> pa.Table:
        """The groups with a node that may publish, and the source that the config chooses."""
        return on_driver(self.grown.multicast_groups())

    @stage
    def multicast_groups(self) -> DataFrame:
        """The groups that have a source, with the source.

        The columns are those of `groups_with_root`, and ``source, source_router``. With several
        publications of a group, the source is that of the first one.
        """
        return local_frame(self.spark, self.source_rows)
