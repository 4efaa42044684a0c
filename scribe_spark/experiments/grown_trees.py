"""The nodes, groups and trees of a run when its sources publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.bandwidth.schedule import Schedule
from scribe_spark.core.arrays import find_sorted
from scribe_spark.experiments.engines import engine_of
from scribe_spark.experiments.round_in_run import playing_silent
from scribe_spark.experiments.saved_knowledge import saved_overlay
from scribe_spark.experiments.scope import collected, stage
from scribe_spark.experiments.stages import Stages
from scribe_spark.overlay import Overlay
from scribe_spark.overlays import build_overlay
from scribe_spark.pastry import overlay as pastry_overlay
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.systems.registry import System
from scribe_spark.systems.scribe import groups as scribe_groups
from scribe_spark.systems.scribe import trees as scribe_trees
from scribe_spark.systems.scribe import variants as scribe_variants


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
