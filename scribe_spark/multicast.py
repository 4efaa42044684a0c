"""The tables that a multicast system hands over to the measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame

from scribe_spark.runtime.batches import Batches, Table

__all__ = ["Multicast"]


@dataclass(frozen=True)
class Multicast:
    """The tables of a multicast system; the measures know nothing else of it.

    One message goes to each group.  (A publication with a source and a round of its own would be
    two more columns beside ``group`` in both tables.)

    Attributes
    ----------
    system : str
        ``scribe``, ``ip_multicast``, ``naive_unicast``, ...
    tree_edges : DataFrame or Batches
        ``group, parent, child, parent_router, child_router`` (BIGINT): one row per copy that a node
        sends to a node.  Other columns do not matter.
    delivered : DataFrame, Batches or callable
        ``group, node, hops, delay_us``: one row per member that is not the source.  Where it takes
        supersteps to know them, a function that makes the table: a run calls it while the tree
        edges are being written.
    merged : bool
        True where routers duplicate: the routes of one group's edges (all from one source) are
        merged, each link carries one packet a group, and no end node keeps a children table.
    repeats : bool
        True where copies may reach a member more than once: `delivered` has a row for each copy,
        of which the first counts.  Every copy counts in node and link stress.
    """

    system: str
    tree_edges: Table
    delivered: Table | Callable[[], Table]
    merged: bool = False
    repeats: bool = False

    @cached_property
    def deliveries(self) -> Table:
        """The table of `delivered`; made when it is asked for first."""
        if isinstance(self.delivered, DataFrame | Batches):
            return self.delivered
        return self.delivered()
