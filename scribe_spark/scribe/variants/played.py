"""The variants of the papers in a run: what a round of a world plays, played on the run's trees.

The trees that Scribe's JOINs have made are not changed: the programs begin with them, and write
tables of their own.

References
----------
JSAC 2002, Sections IV.E and IV.F.  docs/rules.md, S28 to S30 and S32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns, Inbox, Program, Tables
from scribe_spark.engine.buckets import read_columns
from scribe_spark.multicast import EDGES
from scribe_spark.pastry.arrivals.wave import Given
from scribe_spark.progress import Progress
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.scribe import bottleneck, lazy
from scribe_spark.scribe import collapse as paths
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.outcomes import OVERLOADED
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.rejoin import EXTRA_JOINS, extra_joins
from scribe_spark.scribe.run import Run, RunRound
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import cause
from scribe_spark.scribe.trees import Trees
from scribe_spark.scribe.variants.context import Variant, VariantContext

__all__ = [
    "CountOverloaded",
    "Forget",
    "RunPlayer",
    "SharedLimits",
    "collapse",
    "grow_lazily",
    "remove_bottlenecks",
]


def remove_bottlenecks(context: VariantContext) -> Variant:
    """Overloaded nodes drop children, which join siblings, until none can drop any more."""
    with SharedLimits.shared(context.rules.limit, context.capacities) as limits:
        played = RunPlayer.of(context, "bottleneck remover", limits)
        bottleneck.remove_bottlenecks(played, played.round)
        overloaded = played.count_overloaded()
    if overloaded:
        context.progress.note(
            f"bottleneck remover: the limit cannot be met; {overloaded:,} nodes keep more children "
            "than it, each the only child in its table"
        )
    return Variant(played.trees.edges(), played.extra_joins(), overloaded, trees=played.trees)


def collapse(context: VariantContext) -> Variant:
    """Nodes that are no members and have a single child leave, until none is left."""
    played = RunPlayer.of(context, "collapse")
    paths.collapse(played, played.round)
    return Variant(played.trees.edges(), trees=played.trees)


def grow_lazily(context: VariantContext) -> Variant:
    """Members join in waves; a JOIN makes no forwarders on its way."""
    with SharedLimits.shared(context.rules.limit, context.capacities) as limits:
        played = RunPlayer.of(context, "lazy growth", limits)
        played.play(played.run.program(Forget))
        lazy.grow_lazily(played, played.round)
        overloaded = played.count_overloaded()
    return Variant(played.trees.edges(), overloaded=overloaded, trees=played.trees)


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


@dataclass(frozen=True)
class RunPlayer:
    """Plays programs of a round on the trees of a run; see `PlaysPrograms`.

    Attributes
    ----------
    trees : Trees
        As the programs leave them.
    name : str
        What is told of the supersteps.
    progress : Progress
    """

    trees: Trees
    name: str
    progress: Progress

    @classmethod
    def of(cls, context: VariantContext, name: str, limits: ChildLimits | None = None) -> RunPlayer:
        """Return the player of a variant that begins with Scribe's own trees.

        Parameters
        ----------
        limits : ChildLimits, optional
        """
        trees = context.trees
        assert trees is not None, "in a run that is played in rounds variants grow in worlds"
        listed = context.groups.select("group", "root").toArrow().sort_by("group")
        roots = trees.run.facts.positions(listed.column("root").to_numpy())
        run = trees.run.for_variant(context.rules, limits, context.seed, roots)
        return cls(trees.copy(run), name, context.progress)

    @property
    def run(self) -> Run:
        """What the programs have in common."""
        return self.trees.run

    @property
    def given(self) -> Given:
        """See `PlaysPrograms`."""
        return self.run.given

    @property
    def round(self) -> RunRound:
        """The round of the run."""
        return self.run.round

    def play(self, program: Program) -> int:
        """See `PlaysPrograms`."""
        name = f"{self.name}, {type(program).__name__.strip('_')}"
        return sum(self.trees.tables.play(program, name, self.progress))

    def has(self, name: str) -> bool:
        """See `PlaysPrograms`."""
        return self.trees.tables.has(name)

    def count_overloaded(self) -> int:
        """Return how many nodes have more children than their limit."""
        self.play(self.run.program(CountOverloaded))
        found = self.trees.tables.take(OVERLOADED)
        return sum(len(columns["node"]) for _, _, columns in found)

    def extra_joins(self) -> DataFrame:
        """Return the JOINs that the remover adds: `multicast.EDGES` and ``probes``; lazy."""
        run = self.run

        def rows(bucket: int, start: int, some: Columns) -> dict[str, np.ndarray]:
            return extra_joins(some, run.round.groups, run.facts.ring, run.kernel)

        schema = f"{EDGES}, probes bigint"
        return read_columns(self.trees.tables.rows(EXTRA_JOINS), rows, schema).frame


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
