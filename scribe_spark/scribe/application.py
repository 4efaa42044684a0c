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
from scribe_spark.overlay.route import no_path
from scribe_spark.superstep import Round, Step, Table

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

_NODE_AND_GROUP = ["group", "node"]

#: What is the same in all of a round's JOINs to one node for one group.
_ROUTED = [*_NODE_AND_GROUP, "key_hi", "key_lo", "kind", "router", "next"]


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
        several = {kind.name: F.col("kind") == kind for kind in kinds} if len(kinds) > 1 else {}
        super().__init__({CHILDREN: children}, several)
        self.kinds = kinds

    def forward(self, state: Mapping[str, Table], messages: DataFrame, round: Round) -> Step:
        """Figure 3.  A round's messages to one node for one group differ in their source only."""
        # (2) switch msg.type is
        joins, others = self._of_kind(Kind.JOIN, messages, round)
        if joins is None:
            return Step(others)
        # (3) JOIN: if !(msg.group in groups)
        onward = joins.select(_ROUTED).dropDuplicates(_NODE_AND_GROUP)
        groups = state[CHILDREN].rows()
        if groups is not None:  # else nobody has joined yet: these are the nodes' own requests
            onward = _not_in(groups, onward)
        # (4) groups = groups U msg.group       -- a row of the group: see (6)
        # (5) route(msg, msg.group)             -- from here on this node is the source
        routed = onward.select(
            *_ROUTED,
            F.col("node").alias("source"),
            F.col("router").alias("source_router"),
            no_path(),
        )
        # (6) groups[msg.group].children U msg.source
        # (7) nextId = null                     -- what arrived is not among what is sent
        sent = routed if others is None else routed.unionByName(others)
        return Step(sent, {CHILDREN: _accepted(joins)})

    def deliver(self, state: Mapping[str, Table], messages: DataFrame, round: Round) -> Step:
        """Figure 4."""
        # (2) switch msg.type is
        if Kind.MULTICAST in self.kinds:
            # (5) MULTICAST: for each node in groups[msg.group].children
            # (6) send(msg, node)
            # (7) if memberOf(msg.group) (8) invokeMessageHandler    -- see `operations.multicast`
            return Step(_to_children(messages, state[CHILDREN]), outcomes=messages)
        joins, others = self._of_kind(Kind.JOIN, messages, round)
        # (3) CREATE: groups U msg.group        -- an outcome: where it is, is the rendez-vous point
        # (4) JOIN: groups[msg.group].children U msg.source
        changes = {} if joins is None else {CHILDREN: _accepted(joins)}
        return Step(changes=changes, outcomes=others)

    def _of_kind(
        self, kind: Kind, messages: DataFrame, round: Round
    ) -> tuple[DataFrame | None, DataFrame | None]:
        """The messages of a type, and the others; None where the round has none of them."""
        if kind not in self.kinds:
            return None, messages
        mine = round.counts.get(kind.name, round.messages)
        if mine == round.messages:
            return messages, None
        of_kind = F.col("kind") == kind
        return messages.where(of_kind) if mine else None, messages.where(~of_kind)


def _not_in(groups: DataFrame, messages: DataFrame) -> DataFrame:
    """`messages` without the JOINs at nodes that have the group already."""
    known = groups.select(*_NODE_AND_GROUP, F.lit(True).alias("known"))
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
