"""The variants of the papers in a run: what a round of a world plays, played on the run's trees.

The trees that Scribe's JOINs have made are not changed: the programs play on a fork of them.

References
----------
JSAC 2002, Sections IV.E and IV.F.  docs/rules.md, S28 to S30 and S32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Inbox, Tables
from scribe_spark.pastry.player import Player
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.scribe import bottleneck, lazy
from scribe_spark.scribe import collapse as paths
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.outcomes import OVERLOADED
from scribe_spark.scribe.program import GroupRound, RoundProgram
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import cause
from scribe_spark.scribe.trees import Trees
from scribe_spark.scribe.variants.context import Variant, VariantContext


def remove_bottlenecks(context: VariantContext) -> Variant:
    """Overloaded nodes drop children, which join siblings, until none can drop any more."""
    with SharedLimits.shared(context.rules.limit, context.capacities) as limits:
        trees = _begin(context, "bottleneck remover", limits)
        trees.play(bottleneck.remove_bottlenecks, "drops")
        overloaded = _count_overloaded(trees)
    if overloaded:
        context.progress.note(
            f"bottleneck remover: the limit cannot be met; {overloaded:,} nodes keep more children "
            "than it, each the only child in its table"
        )
    return Variant(trees.edges(), trees.read_extra_joins().frame, overloaded, trees=trees)


def collapse(context: VariantContext) -> Variant:
    """Nodes that are no members and have a single child leave, until none is left."""
    trees = _begin(context, "collapse")
    trees.play(paths.collapse, "paths")
    return Variant(trees.edges(), trees=trees)


def grow_lazily(context: VariantContext) -> Variant:
    """Members join in waves; a JOIN makes no forwarders on its way."""
    with SharedLimits.shared(context.rules.limit, context.capacities) as limits:
        trees = _begin(context, "lazy growth", limits)
        trees.play(_grow_anew, "JOINs")
        overloaded = _count_overloaded(trees)
    return Variant(trees.edges(), overloaded=overloaded, trees=trees)


def _grow_anew(player: Player, round: GroupRound) -> None:
    """Grow trees lazily in place of the old trees."""
    player.play(Forget(player.given, round))
    lazy.grow_lazily(player, round)


class Forget(RoundProgram):
    """Nodes forget the trees: only the roots are in them, and members wait."""

    writes = ("entries", "children")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        entries, children = scribe.state.entries, scribe.state.children
        entries.keep(entries.member | entries.root)
        entries.parent[:], entries.cause[:] = NONE, cause("own")
        children.keep(np.zeros(len(children), dtype=bool))


class CountOverloaded(RoundProgram):
    """Notes the nodes above their limits."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        scribe.note(OVERLOADED, node=bottleneck.overloaded(scribe))


def _begin(context: VariantContext, name: str, limits: ChildLimits | None = None) -> Trees:
    """Return the trees of a variant, which begin as Scribe's own.

    Parameters
    ----------
    limits : ChildLimits, optional
    """
    trees = context.trees
    assert trees is not None, "in a run that is played in rounds variants grow in worlds"
    listed = context.groups.select("group", "root").toArrow().sort_by("group")
    roots = trees.overlay.ring.facts.positions(listed.column("root").to_numpy())
    rules = context.rules.for_tasks()
    round = replace(trees.round, trees=rules, limits=limits, roots=roots)
    return trees.fork(f"{name}, ", round, seed=context.seed)


def _count_overloaded(trees: Trees) -> int:
    """Return how many nodes have more children than their limit."""
    player = trees.player
    player.play(CountOverloaded(player.given, trees.round))
    return len(player.take(OVERLOADED).get(OVERLOADED, {}).get("node", ()))


@dataclass(frozen=True)
class SharedLimits(ChildLimits):
    """The limits of nodes that may have limits of their own, which tasks map into memory.

    Attributes
    ----------
    names : tuple of str
        Of the distributed arrays: the nodes' numbers, ascending, and their limits.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def shared(cls, limit: int, capacities: DataFrame | None) -> SharedLimits:
        """Return those of a run; to be used as a context, which frees the arrays.

        Parameters
        ----------
        capacities : DataFrame or None
            ``node, limit``: every node's own limit.
        """
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
        """See `ChildLimits`."""
        if not self.names:
            return super().of(number)
        known, limit = map(open_array, self.names)
        return limit[np.searchsorted(known, number)]
