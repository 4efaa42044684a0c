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
from scribe_spark.core.arrays import find_sorted, whole_numbers
from scribe_spark.core.errors import InputError
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.experiments.round_in_run import playing_silent
from scribe_spark.experiments.saved_knowledge import saved_overlay
from scribe_spark.experiments.stages import Stages, collected, stage
from scribe_spark.experiments.world_setup import buckets_of, engine_of, make_world
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

#: The columns of `World.memberships` that are read, and those of drawn sources.
_ENTRY = ("group", "node", "member", "root")
_SOURCES = ("group", "source")

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
        """Return the route of each group's CREATE, with ``key_hi, key_lo, size``, by group."""
        keys = self._groups.select(["group", "key_hi", "key_lo", "size"])
        routes = self._built.created().join(keys, "group", join_type="inner")
        return routes.sort_by("group").combine_chunks()

    def groups_with_root(self) -> pa.Table:
        """Return the groups with a root, by group."""
        found = self._run.create_rows
        chosen = found.select(["group", "key_hi", "key_lo", "size", "node", "router"])
        return chosen.rename_columns({"node": "root", "router": "root_router"})

    def sources(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups with a node that may publish, ascending, and the source of each."""
        run = self._run
        if run.config.groups.source == "root":
            group, root = collected(run.group_rows, "group", "root")
            return group, root
        group, source = collected(scribe_groups.senders(run.members, run.config.seed), *_SOURCES)
        return group, source

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
    #: The groups with a source, ascending, and the source of each.
    sources: tuple[np.ndarray, np.ndarray]
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
        """The world of Scribe's own trees, if there are any, after its last round."""
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
        run, network = self._run, self._run.underlay
        config = WorldConfig.of_run(run.config, None if variant == PLAIN else variant)
        last = _publication_round(self.events, config)
        # the rounds before the publications lose nothing
        self._network.underlay = replace(network, kernel=network.kernel.without_losses())
        where = self._buckets, self._engine.name
        world = make_world(self._network, config, self.events, run.application, *where)
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
            run.progress.note(
                f"  {variant} trees: publications in round {last}, "
                f"{round(measured['nodes.live']):,} of {config.overlay.nodes:,} nodes are alive"
            )
        overloaded = measured.get(f"{scribe_trees.SYSTEM}.overloaded")
        over = None if overloaded is None else round(overloaded)
        return _GrownInRounds(world, sources, pd.concat(joins), over)

    def _publishers(self, world: World) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups with a node that may multicast, ascending, and the source of each."""
        access = self._start.access
        group, node, member, root = collected(world.memberships, *_ENTRY)
        if self._config.groups.source == "root":
            return _root_or_other(group[root], node[root], access, _live(world))
        may = member & access.permits(MAY_MULTICAST, group, node)
        among = self._frame(group[may], node[may]).withColumn("router", F.lit(0).cast("bigint"))
        group, node = collected(scribe_groups.senders(among, self._config.seed), *_SOURCES)
        return group, node

    @stage
    def _start(self) -> WorldGroups:
        groups = world_groups(self._config, extent_of(self._config), self._run.spark)
        assert groups is not None
        return groups

    def _frame(self, group: np.ndarray, node: np.ndarray) -> DataFrame:
        return local_frame(self._run.spark, pa.table({"group": group, "node": node}))

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

    # --- groups

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

    @property
    def memberships(self) -> Batches:
        """The members of the groups that have a root."""
        group, node, member, _ = self._entries
        member = member & np.isin(group, self._roots[0])
        rows = pa.table({"group": group[member], "node": node[member]})
        return Batches.known(self._run.spark, rows, len(rows), schemas.MEMBERS)

    @property
    def plays_silent(self) -> bool:
        return False  # the world plays Scribe only

    @property
    def joined(self) -> Batches:
        return self.memberships

    def member_pairs(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._run.overlay.ring.members_of(groups, self._run.memberships)

    @stage
    def _keys(self) -> pa.Table:
        """The key and the creator of each created group: ``group, key_hi, key_lo, creator``."""
        config = self._config
        keys = group_keys(self._network.rows_of_nodes, self._start, config, extent_of(config))
        return keys.select(["group", "key_hi", "key_lo", "creator"]).sort_by("group")

    def create_routes(self) -> pa.Table:
        """Return the routes of the CREATEs that creators, if alive, would send now."""
        run = self._run
        live = np.isin(self._keys["creator"].to_numpy(), _live(self.world))
        created = scribe_trees.build_trees(
            run.overlay, self._keys.filter(pa.array(live)), None, run.progress
        )
        made = created.created().sort_by("group")
        created.release()
        return made

    def groups_with_root(self) -> pa.Table:
        group, root = self._roots
        at = find_sorted(group, self._keys["group"].to_numpy())
        keys = self._keys.filter(pa.array(at >= 0)).drop_columns("creator")
        place, root = at[at >= 0], root[at[at >= 0]]
        members = self.memberships.to_arrow()["group"].to_numpy()
        size = np.bincount(find_sorted(group, members), minlength=len(group))[place]
        router = self._run.overlay.rows_of_nodes(root)["router"]
        for name, column in (("size", size), ("root", root), ("root_router", router)):
            keys = keys.append_column(name, pa.array(column))
        return keys

    def sources(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups with a live node that may multicast, and the source of each."""
        group, source = self._grow().sources
        if self._config.groups.source != "root":
            return group, source
        rooted, root = self._roots
        at = find_sorted(group, rooted)
        return rooted[at >= 0], root[at >= 0]

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
