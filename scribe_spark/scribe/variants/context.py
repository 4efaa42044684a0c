"""The input and the output of a variant of the trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from scribe_spark.overlay import Overlay
from scribe_spark.progress import Progress
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.scribe.trees import Trees
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
