"""The papers' variants of trees in a run: programs of a world's round, played on the run's trees.

The run's own trees are not changed, because the programs play on a copy (fork) of them.

References
----------
JSAC 2002, Sections IV.E and IV.F.  docs/rules.md, S28 to S30 and S32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import NONE, index_sorted
from scribe_spark.engine import Inbox, Tables
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.scribe import bottleneck, lazy
from scribe_spark.scribe import collapse as paths
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.outcomes import OVERLOADED
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.scribe import RoundOfGroups, Scribe
from scribe_spark.scribe.state import cause
from scribe_spark.scribe.trees import Trees
from scribe_spark.scribe.variants.context import Variant, VariantContext


def remove_bottlenecks(context: VariantContext) -> Variant:
    """Let overloaded nodes drop children, which join siblings, until no node can drop any more."""
    with SharedLimits.shared(context.rules.limit, context.capacities) as limits:
        trees = _begin(context, "bottleneck remover", limits)
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
    trees.play(paths.collapse, "paths")
    return Variant(trees.edges(), trees=trees)


def grow_lazily(context: VariantContext) -> Variant:
    """Let members join in waves; JOINs make no forwarders."""
    with SharedLimits.shared(context.rules.limit, context.capacities) as limits:
        trees = _begin(context, "lazy growth", limits)
        trees.play(grow_anew, "JOINs")
        overloaded = _count_overloaded(trees)
    return Variant(trees.edges(), overloaded=overloaded, trees=trees)


def grow_anew(player: RoundPlayer, round: RoundOfGroups) -> None:
    """Replace the trees by lazily grown ones."""
    player.play(LeaveRoots(player.given, round))
    lazy.grow_lazily(player, round)


class LeaveRoots(RoundProgram):
    """Reset the trees: only the roots stay in them, and all members have to join again."""

    writes = ("entries", "children")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        entries, children = scribe.state.entries, scribe.state.children
        entries.keep(entries.member | entries.root)
        entries.parent[:], entries.cause[:] = NONE, cause("own")
        children.keep(np.zeros(len(children), dtype=bool))


class CountOverloaded(RoundProgram):
    """Record the nodes with more children than their limit."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
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


def _count_overloaded(trees: Trees) -> int:
    """Return the number of nodes with more children than their limit."""
    player = trees.player
    player.play(CountOverloaded(player.given, trees.round))
    return len(player.take(OVERLOADED).get(OVERLOADED, {}).get("node", ()))


@dataclass(frozen=True)
class SharedLimits(ChildLimits):
    """Limits in arrays that tasks map into memory: node numbers, ascending, and their limits."""

    names: tuple[str, ...] = ()

    @classmethod
    def shared(cls, limit: int, capacities: DataFrame | None) -> SharedLimits:
        """Return the limits of a run, as a context manager that deletes the arrays."""
        names = tuple[str, ...]()
        if capacities is not None:
            own = capacities.select("node", "limit").toArrow().sort_by("node")
            arrays = {name: own.column(name).to_numpy() for name in own.column_names}
            names = tuple(distribute_arrays(capacities.sparkSession, **arrays))
        return cls(limit, names=names)

    def __enter__(self) -> SharedLimits:
        return self

    def __exit__(self, *_: object) -> None:
        discard_arrays(*self.names)

    def of(self, number: np.ndarray) -> np.ndarray:
        if not self.names:
            return super().of(number)
        known, limit = map(open_array, self.names)
        return limit[index_sorted(known, number)]
