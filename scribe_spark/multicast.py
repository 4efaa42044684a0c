"""What a multicast system hands over to the measures."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

__all__ = ["Multicast"]


@dataclass(frozen=True)
class Multicast:
    """What every multicast system hands over; the measures know nothing else of it.

    One message goes to each group.  (A publication with a source and a round of its own would be
    two more columns beside ``group`` in both tables.)

    Attributes
    ----------
    system : str
        ``scribe``, ``ip_multicast``, ``naive_unicast``, ...
    tree_edges : DataFrame
        ``group, parent, child, parent_router, child_router`` (BIGINT): one row per copy that a node
        sends to a node.  Other columns do not matter.
    deliveries : DataFrame
        ``group, node, hops, delay_us``: one row per member that is not the source.
    merged : bool
        True where routers duplicate: the routes of one group's edges (all from one source) are
        merged, each link carries one packet a group, and no end node keeps a children table.
    repeats : bool
        True where copies may reach a member more than once: `deliveries` has a row for each copy,
        of which the first counts.  Every copy counts in node and link stress.
    """

    system: str
    tree_edges: DataFrame
    deliveries: DataFrame
    merged: bool = False
    repeats: bool = False
