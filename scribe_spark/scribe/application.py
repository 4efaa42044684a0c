"""Scribe: an application of the overlay, a round at a time, by the pseudocode of Figures 3 and 4.

A round's messages are a table, so "for each message" is a DataFrame step.  The variable ``groups``
of a node, with ``groups[g].children`` for each group, is the state table `CHILDREN`.

References
----------
JSAC 2002, Section III.A, Figures 3 and 4.  NGC 2001 says topic for group, subscribe for join and
publish for multicast.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark.overlay import Application
from scribe_spark.superstep import Step, Table

__all__ = ["CHILDREN", "Kind", "Scribe", "children_table"]


class Kind(IntEnum):
    """The type of a message: column ``kind``."""

    CREATE = 1
    JOIN = 2
    MULTICAST = 3

    @property
    def column(self) -> Column:
        """The type as a constant column ``kind``."""
        return F.lit(int(self)).alias("kind")


#: The state table with what every node knows of every group.
CHILDREN = "children"

_NODE_AND_GROUP = ["kind", "group", "node"]


def children_table() -> Table:
    """An empty table of the JOIN requests that nodes have accepted.

    A row ``group, node, child, router, child_router``: `child` is in the children table of `node`
    for the group.  A node that has joined by itself has a row with ``child = node``, which is no
    entry of its children table.  A node has a group in its variable ``groups`` if it has any row
    for it.
    """
    # a node's own request and each child's arrive once, as long as routing tables stay as they are
    return Table(["group", "node", "child"], ["router", "child_router"], append_only=True)


class Scribe(Application):
    """The Scribe software of every node.

    Parameters
    ----------
    children : Table
        For CREATE and JOIN a :func:`children_table`; for MULTICAST the children tables with the
        delay to each child: ``group, node, child, delay_us``.
    kinds : Kind
        The types of message that the operation sends.
    """

    def __init__(self, children: Table, *kinds: Kind) -> None:
        super().__init__({CHILDREN: children})
        self.kinds = kinds

    def forward(self, state: Mapping[str, Table], messages: DataFrame) -> Step:
        """Figure 3.  A round's messages to one node for one group differ in their source only."""
        # (2) switch msg.type is
        if Kind.JOIN not in self.kinds:
            return Step(messages)
        is_join = F.col("kind") == Kind.JOIN
        # (3) JOIN: if !(msg.group in groups)
        onward = messages
        groups = state[CHILDREN].rows()
        if groups is not None:  # else nobody has joined yet: these are the nodes' own requests
            onward = _not_in(groups, messages.dropDuplicates(_NODE_AND_GROUP))
        # (4) groups = groups U msg.group       -- a row of the group: see (6)
        # (5) route(msg, msg.group)             -- from here on this node is the source
        routed = onward.withColumns(
            {
                "source": F.when(is_join, F.col("node")).otherwise(F.col("source")),
                "source_router": F.when(is_join, F.col("router")).otherwise(F.col("source_router")),
            }
        )
        # (6) groups[msg.group].children U msg.source
        # (7) nextId = null                     -- what arrived is not among what is sent
        return Step(routed, {CHILDREN: _accepted(messages.where(is_join))})

    def deliver(self, state: Mapping[str, Table], messages: DataFrame) -> Step:
        """Figure 4."""
        # (2) switch msg.type is
        if Kind.MULTICAST in self.kinds:
            # (5) MULTICAST: for each node in groups[msg.group].children
            # (6) send(msg, node)
            # (7) if memberOf(msg.group) (8) invokeMessageHandler    -- see `operations.multicast`
            return Step(_to_children(messages, state[CHILDREN]), outcomes=messages)
        # (3) CREATE: groups U msg.group        -- an outcome: where it is, is the rendez-vous point
        created = messages.where(F.col("kind") == Kind.CREATE)
        # (4) JOIN: groups[msg.group].children U msg.source
        joined = messages.where(F.col("kind") == Kind.JOIN)
        changes = {CHILDREN: _accepted(joined)} if Kind.JOIN in self.kinds else {}
        return Step(changes=changes, outcomes=created if Kind.CREATE in self.kinds else None)


def _not_in(groups: DataFrame, messages: DataFrame) -> DataFrame:
    """`messages` without the JOINs at nodes that have the group already."""
    known = groups.select("group", "node", Kind.JOIN.column, F.lit(True).alias("known"))
    # Left join and IS NULL, not left_anti: then the smaller side, the arriving messages, is hashed.
    met = messages.hint("shuffle_hash").join(known, _NODE_AND_GROUP, "left")
    return met.where(F.col("known").isNull()).select(messages.columns)


def _accepted(joins: DataFrame) -> DataFrame:
    """The rows that JOIN messages add to the children tables of the nodes that they are at."""
    child, router = F.col("source").alias("child"), F.col("source_router").alias("child_router")
    return joins.select("group", "node", child, "router", router)


def _to_children(messages: DataFrame, children: Table) -> DataFrame | None:
    """A copy of each message for every child of the node that it is at."""
    entries = children.rows()
    if entries is None:
        return None
    copies = messages.hint("shuffle_hash").join(entries, ["group", "node"], "inner")
    return copies.select(
        "group",
        F.col("child").alias("node"),
        (F.col("hops") + 1).alias("hops"),
        (messages["delay_us"] + entries["delay_us"]).alias("delay_us"),
    )
