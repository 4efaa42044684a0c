"""The network, nodes, members and groups of a run, as stages that its systems are built from."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark.bandwidth.runs import links_of
from scribe_spark.config import ExperimentConfig, RunConfig
from scribe_spark.core.inputs import is_local
from scribe_spark.core.progress import Progress, Silent
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.saved_knowledge import saved_overlay
from scribe_spark.measures.parts import NodeParts, node_parts
from scribe_spark.measures.within import Asked, ReplySetting, Weights
from scribe_spark.overlay import Overlay
from scribe_spark.overlays import build_overlay
from scribe_spark.pastry import overlay as pastry_overlay
from scribe_spark.runtime.batches import EVERY, Among, Batches, Table, rows_of
from scribe_spark.runtime.blocks import materialise, persist, release
from scribe_spark.runtime.distribute import distribute_arrays
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

#: A function that returns the user's Scribe application for a number of nodes.
MakeApplication = Callable[[int], ScribeApplication]


# --- resources, stages and saved tables

T = TypeVar("T")


class Releasable(Protocol):
    """The type of objects with a method ``release``, which frees memory or files."""

    def release(self) -> None: ...


R = TypeVar("R", bound=Releasable)


def collected(table: DataFrame | pa.Table, *columns: str) -> list[np.ndarray]:
    """Return columns of a table on the driver, as arrays sorted by the first column."""
    rows = rows_of(table, columns).sort_by(columns[0])
    return [rows.column(name).to_numpy() for name in columns]


def with_columns(table: pa.Table, **columns: np.ndarray) -> pa.Table:
    """Return a table with further columns."""
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return table


class Scope(ExitStack):
    """A list of resources; ``close`` releases all of them, the newest first.

    If one release fails, the others still happen.  A scope may be closed any number of times, and
    used again after that.
    """

    def own(self, resource: R) -> R:
        """Register an object with a method ``release``, which is called at the end; return it."""
        self.callback(resource.release)
        return resource

    def persist(self, frame: DataFrame) -> DataFrame:
        """Persist a DataFrame until the scope is closed."""
        persisted, free = persist(frame)
        self.callback(free)
        return persisted

    def materialise(self, frame: DataFrame) -> DataFrame:
        """Compute a DataFrame and keep it until the scope is closed."""
        table, _ = materialise(frame)
        return self.own_table(table)

    def computed(self, table: Batches) -> Batches:
        """Compute a table now, and keep its rows until the scope is closed."""
        return table if table.is_small else Batches.of(self.materialise(table.frame))

    def own_table(self, table: DataFrame) -> DataFrame:
        """Register a table from :func:`blocks.materialise`, and return it."""
        self.callback(release, table)
        return table


class stage(cached_property[T]):
    """A property that is computed at its first use, and dropped by :meth:`Stages.release`."""


class SavedTables(UserDict[str, Any]):
    """The written tables of a run, by name.

    A value may be None, for a table that is in the folder, or the future of the write: a reader
    waits for it, and gets the exception of a failed write.  Spark opens a table when it is asked
    for, since most readers read the files themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The folder of the written tables; the run that has the folder sets it.
        self.folder: Folder | None = None

    def __getitem__(self, name: str) -> DataFrame:
        self._wait(name)
        table = self.data[name]
        if table is None or isinstance(table, Future):
            assert self.folder is not None
            table = self.data[name] = self.folder.read_table(name)
        return table

    def _wait(self, name: str) -> None:
        table = self.data[name]
        if isinstance(table, Future):
            table.result()

    def has(self, name: str) -> bool:
        """Return True if a table can be read without waiting."""
        table = self.data.get(name, False)
        return table is not False and (not isinstance(table, Future) or table.done())

    def batches(self, name: str, columns: Sequence[str], among: Among = EVERY) -> Batches:
        """Return columns of a table for kernels."""
        self._wait(name)
        if self.folder is None:
            return Batches.of(self[name], columns, among)
        return self.folder.batches(name, columns, among)

    def collect(self, name: str, columns: Sequence[str], among: Among = EVERY) -> pa.Table:
        """Return columns of a small table, or of a few rows, on the driver."""
        self._wait(name)
        if self.folder is None:
            return rows_of(self[name], columns, among)
        return self.folder.collect(name, columns, among)


class Stages:
    """The stages of a run below its trees; the subclass `Simulation` adds trees and systems."""

    # what `Simulation` defines, most of it as stages
    group_rows: Any
    group_numbers: Any
    groups_with_root: Any
    groups_with_source: Any
    member_pairs: Any
    memberships: Any
    multicast_along: Any
    plays_silent: Any
    possible: Any
    publications: Any
    schedule: Any
    silent_player: Any
    source_rows: Any

    def __init__(
        self,
        spark: SparkSession,
        config: ExperimentConfig,
        progress: Progress | None = None,
        shares: Stages | None = None,
        engine: str = "auto",
        application: MakeApplication | None = None,
        buckets: int | None = None,
    ) -> None:
        if application is not None:
            config.refuse_jitter()
        self.spark = spark
        self.config = cast("RunConfig", config)  # which has the same fields
        self.engine, self.application, self.buckets = engine, application, buckets
        self.saved = SavedTables()
        self.progress = progress or Silent()
        same = shares is not None and shares.config.network_key == config.network_key
        self._shares = shares if same else None
        #: True if a run without rounds is played in tasks, not as jobs.
        self.in_tasks = engine == "tasks"
        #: True if the trees will be asked for after the overlay.
        self.trees_follow = False
        #: Where publications with sizes or times were simulated, and the reason: ``name, why``.
        self.clock_player: dict[str, str] | None = None
        #: What the phase of measures has collected, until its metrics are computed.
        self.measured: Any = None
        self._files, self.memory = Scope(), Scope()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def release(self) -> None:
        """Free the executors' memory; stages there are computed again at their next use."""
        for kind in type(self).__mro__:
            for name in (name for name, one in vars(kind).items() if isinstance(one, stage)):
                vars(self).pop(name, None)
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
    def limits(self) -> np.ndarray | None:
        """The user's limits on children by the numbers of nodes; None without a table."""
        given = self.config.trees.capacities is not None
        return scribe_groups.limits_by_number(self.given_capacities) if given else None

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
        check_routes(graph, config.topology.tie, config.seed, MOST_ROUTERS)
        routers = graph.vertices["id"].to_numpy()
        lan_us = round(config.topology.lan_delay_ms * MICROSECONDS)
        if len(routers) > MOST_ROUTERS:
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
            network = self.underlay
            links = links_of(self) if config.bandwidth.has_sizes else None
            size, router_of = config.coverage.reply_bytes, self._router_of
            replies = ReplySetting(network.kernel, network.lan_us, size, links, router_of)
        return Asked(config.coverage.for_tasks(), config.bandwidth.several, weights, replies)

    @property
    def _router_of(self) -> Callable[[np.ndarray], np.ndarray]:
        """The function that returns the indices of the routers of nodes, by number."""
        hosts, routers = self.graph.hosts, len(self.underlay.routers)
        placed: dict[str, Any] = {"shares": hosts.shares, "places": hosts.places}
        return partial(pastry_overlay.router_index, self.config.seed, routers=routers, **placed)

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
        return self.saved["nodes"] if saved else Batches.of(self.node_rows).frame

    @property
    def node_rows(self) -> Table:
        """The rows of :attr:`nodes` for kernels: not stored, but computed again at each use."""
        return pastry_overlay.draw_nodes(self.spark, *self._drawn_from)

    @property
    def rows_of_nodes(self) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        """The function from numbers of nodes to their columns of :attr:`nodes`, on the driver."""
        return pastry_overlay.node_rows(*self._drawn_from)

    @property
    def _drawn_from(self) -> tuple[Any, ...]:
        hosts = self.graph.hosts
        return self.config, self.underlay.routers, hosts.shares, hosts.places

    @stage
    def overlay(self) -> Overlay:
        """The overlay of the config; in a run with rounds, of the nodes that live after them."""
        return self.own(self._overlay())

    def _overlay(self) -> Overlay:
        config = self.config
        if config.knowledge is not None:
            return saved_overlay(self.spark, config, self.underlay)
        drawn = config.overlay, config.seed, self.progress, self.in_tasks
        return build_overlay(self.node_rows, self.underlay, *drawn)
