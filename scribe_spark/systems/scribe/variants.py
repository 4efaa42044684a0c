"""Alternative trees for groups, behind one interface.

A variant takes a :class:`VariantContext` (Scribe's own trees and their inputs) and returns a
:class:`Variant`: other edges for the same groups and members.

JSAC 2002, Section IV.E (bottleneck remover), IV.F (collapse; trees grown less eagerly).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import NONE
from scribe_spark.core.progress import Progress
from scribe_spark.engine import Tables
from scribe_spark.overlay import Overlay
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.systems.scribe import bottleneck, small_groups
from scribe_spark.systems.scribe.end_of_round import OVERLOADED
from scribe_spark.systems.scribe.groups import limits_by_number
from scribe_spark.systems.scribe.scribe import ChildLimits, RoundOfGroups, RoundProgram, Scribe
from scribe_spark.systems.scribe.state import cause
from scribe_spark.systems.scribe.trees import Trees
from scribe_spark.underlay.protocol import Underlay

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import TreesConfig

#: The columns of a tree edge, with the routers of both ends.
EDGE = ["group", "parent", "child", "parent_router", "child_router"]


@dataclass(frozen=True)
class VariantContext:
    """Scribe's own trees and the inputs they were built from.

    Attributes
    ----------
    overlay : Overlay
        A `pastry.PastryOverlay`, unless the config selects another overlay.
    groups : DataFrame
        ``group, key_hi, key_lo, root, root_router``.
    members : DataFrame
        ``group, node, router``, partitioned by node.
    edges : DataFrame
        ``group, parent, child, parent_router, child_router, delay_us``, partitioned by parent.
    rules : TreesConfig
        The limit of children, and the rules that select the children to drop.
    seed : int
        The seed of random draws.
    capacities : DataFrame or None
        ``node, limit``: the limit of each node.
    trees : Trees, optional
        Scribe's own trees in the buckets of the ring, on which programs start; None in a run with
        rounds.
    """

    overlay: Overlay
    groups: DataFrame
    members: DataFrame
    edges: DataFrame
    rules: TreesConfig
    seed: int
    progress: Progress
    capacities: DataFrame | None = None
    trees: Trees | None = None


@dataclass(frozen=True)
class Variant:
    """The trees that a variant of Scribe has built.

    Attributes
    ----------
    edges : DataFrame
        The edges of the trees, with the columns of `VariantContext.edges`.
    joins : DataFrame or None
        The JOINs that the variant caused in addition to Scribe's: ``group, parent, child,
        parent_router, child_router, probes``.
    overloaded : int or None
        The number of nodes with more children than their limit; None if there are no limits.
    owned : list of DataFrame
        Tables in memory that :meth:`release` frees.
    trees : Trees, optional
        The same trees in the buckets of the ring, if the variant has them; :meth:`release` frees
        them.
    """

    edges: DataFrame
    joins: DataFrame | None = None
    overloaded: int | None = None
    owned: list[DataFrame] = field(default_factory=list)
    trees: Trees | None = None

    def release(self) -> None:
        """Free the memory of the trees."""
        for table in self.owned:
            release(table)
        if self.trees is not None:
            self.trees.release()


def timed_edges(frame: DataFrame, underlay: Underlay) -> DataFrame:
    """Return :data:`EDGE` rows with their delay D, materialised and partitioned by parent."""
    timed = underlay.delay(frame.select(EDGE), "parent_router", "child_router")
    table, _ = materialise(timed.repartition("parent"))
    return table


# --- the papers' variants: programs of a world's round, played on a fork of the run's trees


def remove_bottlenecks(context: VariantContext) -> Variant:
    """Let overloaded nodes drop children, which join siblings, until no node can drop any more."""
    trees = _begin(context, "bottleneck remover", _limits(context))
    trees.play(bottleneck.remove_bottlenecks, "drops")
    overloaded = _count_overloaded(trees)
    if overloaded:
        context.progress.note(
            f"bottleneck remover: {overloaded:,} nodes keep more children than their limit; each "
            "child is the only one in its table and cannot be dropped"
        )
    return Variant(trees.edges(), trees.read_extra_joins().frame, overloaded, trees=trees)


def collapse(context: VariantContext) -> Variant:
    """Let forwarders with a single child leave, until none remains."""
    trees = _begin(context, "collapse")
    trees.play(small_groups.collapse, "paths")
    return Variant(trees.edges(), trees=trees)


def grow_lazily(context: VariantContext) -> Variant:
    """Let members join in waves; nodes on the route of a JOIN do not enter the tree."""
    trees = _begin(context, "lazy growth", _limits(context))
    trees.play(grow_anew, "JOINs")
    overloaded = _count_overloaded(trees)  # before the edges: a program frees the rows of a view
    return Variant(trees.edges(), overloaded=overloaded, trees=trees)


def grow_anew(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Replace the trees of a run by trees that are grown lazily."""
    player.play(LeaveRoots(player.environment, round))
    small_groups.grow_lazily(player, round)


class LeaveRoots(RoundProgram):
    """Reset the trees: only the roots stay in them, and all members have to join again."""

    writes = ("entries", "children")

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        entries, children = scribe.state.entries, scribe.state.children
        entries.keep(entries.member | entries.root)
        entries.parent[:], entries.cause[:] = NONE, cause("own")
        children.keep(np.zeros(len(children), dtype=bool))


class CountOverloaded(RoundProgram):
    """Record the nodes with more children than their limit."""

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        scribe.note(OVERLOADED, node=bottleneck.overloaded(scribe))


def _begin(context: VariantContext, name: str, limits: ChildLimits | None = None) -> Trees:
    """Return a copy of Scribe's own trees, on which a variant plays."""
    trees = context.trees
    assert trees is not None, "in a run that is played in rounds variants grow in worlds"
    listed = context.groups.select("group", "root").toArrow().sort_by("group")
    roots = trees.overlay.ring.facts.positions(listed.column("root").to_numpy())
    rules = context.rules.for_tasks()
    round = replace(trees.round, trees=rules, limits=limits, roots=roots)
    return trees.fork(f"{name}, ", round, seed=context.seed)


def _limits(context: VariantContext) -> ChildLimits:
    if context.capacities is None:
        return ChildLimits(context.rules.limit)
    return ChildLimits(context.rules.limit, limits_by_number(context.capacities))


def _count_overloaded(trees: Trees) -> int:
    """Return the number of nodes with more children than their limit."""
    player = trees.player
    player.play(CountOverloaded(player.environment, trees.round))
    return len(player.take(OVERLOADED).get(OVERLOADED, {}).get("node", ()))
