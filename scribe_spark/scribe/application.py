"""Scribe: an application of Pastry, a round at a time, by the pseudocode of Figures 3 and 4.

A round's messages are a table, so "for each message" is a DataFrame step.  A node's variable
``groups[g].children`` is what JOIN messages made of it: the table :meth:`Scribe.children` reads
them off the rounds.

References
----------
JSAC 2002, Section III.A, Figures 3 and 4.  NGC 2001 says topic for group, subscribe for join and
publish for multicast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.overlay import Application, Overlay
from scribe_spark.progress import Progress
from scribe_spark.runtime.blocks import stack_tables, union_tables
from scribe_spark.schemas import Multicast
from scribe_spark.superstep import Rounds

__all__ = ["Scribe", "create", "join", "multicast"]

SYSTEM = "scribe"
CREATE, JOIN, MULTICAST = "CREATE", "JOIN", "MULTICAST"

_GROUP = ["group", "node"]


@dataclass(frozen=True)
class Scribe(Application):
    """The Scribe software of every node, handling one kind of message.

    Attributes
    ----------
    kind : str
        Message type of this operation: CREATE, JOIN or MULTICAST.
    children_tables : DataFrame or None
        ``group, parent, child, delay_us``, partitioned by parent: needed by MULTICAST.
    """

    kind: str
    children_tables: DataFrame | None = None
    remembers = True

    def forward(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        """Figure 3. All that arrives at a node for a group agrees on everything but the source."""
        own_request = len(past) == 1  # the first round is at the joining nodes themselves
        # (2) switch msg.type is
        if self.kind != JOIN or own_request:
            return messages
        # (3) JOIN: if !(msg.group in groups)
        first = messages.dropDuplicates(_GROUP)
        # (in the first round too Spark may know `node` by another name: it is like the last)
        known = stack_tables(past[:-1], past[-1]).select(*_GROUP, F.lit(True).alias("known"))
        # (an anti join by a hash table of what arrives, which is less than what is known)
        met = first.hint("shuffle_hash").join(known, _GROUP, "left_outer")
        new = met.where(F.col("known").isNull()).drop("known")
        # (4) groups = groups U msg.group       -- the next round's `past` says so
        # (5) route(msg, msg.group)             -- from here on this node is the source
        routed = new.withColumns({"source": F.col("node"), "source_router": F.col("router")})
        # (6) groups[msg.group].children U msg.source   -- see `children`
        # (7) nextId = null                     -- what arrived is not among what is returned
        return routed

    def deliver(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame | None:
        """Figure 4."""
        # (2) switch msg.type is
        # (3) CREATE: groups U msg.group;  (4) JOIN: children U msg.source  -- both: see `past`
        if self.kind != MULTICAST or self.children_tables is None:
            return None
        # (5) MULTICAST: for each node in groups[msg.group].children
        children = self.children_tables.withColumnRenamed("parent", "node")
        to_children = messages.hint("shuffle_hash").join(children, _GROUP, "inner")
        # (6) send(msg, node)                   -- (7), (8): see `multicast`
        return to_children.select(
            "group",
            F.col("child").alias("node"),
            (F.col("hops") + 1).alias("hops"),
            (messages["delay_us"] + children["delay_us"]).alias("delay_us"),
        )

    @staticmethod
    def children(past: Sequence[DataFrame]) -> DataFrame:
        """Line (6) of Figure 3 and (4) of Figure 4, over all rounds of JOIN.

        Returns
        -------
        DataFrame
            ``group, parent, child, parent_router, child_router``.
        """
        accepted = union_tables(past).where(F.col("source") != F.col("node"))  # not its own request
        return accepted.select(
            "group",
            F.col("node").alias("parent"),
            F.col("source").alias("child"),
            F.col("router").alias("parent_router"),
            F.col("source_router").alias("child_router"),
        )


def create(overlay: Overlay, groups: DataFrame, progress: Progress | None = None) -> Rounds:
    """Route each group's CREATE from its creator; where it is delivered is the rendez-vous point.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo, creator, creator_router``.

    Returns
    -------
    Rounds
        Messages; those delivered (``next`` NULL) have the root in ``node`` and ``router``, the
        creator in ``source`` and ``source_router``, and the ``trail`` of the route.
    """
    return _route(overlay, CREATE, groups, "creator", progress, trail=True)


def join(
    overlay: Overlay, groups: DataFrame, members: DataFrame, progress: Progress | None = None
) -> Rounds:
    """Every member joins: rounds of JOIN messages, from which :meth:`Scribe.children` reads.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo``.
    members : DataFrame
        ``group, node, router``, best partitioned by node.
    """
    keys = groups.select("group", "key_hi", "key_lo")
    joining = members.join(F.broadcast(keys), "group", "inner").withColumnsRenamed(
        {"node": "member", "router": "member_router"}
    )
    return _route(overlay, JOIN, joining, "member", progress)


def _route(
    overlay: Overlay,
    kind: str,
    messages: DataFrame,
    sender: str,
    progress: Progress | None,
    trail: bool = False,
) -> Rounds:
    """Route messages of a kind; `sender` and `sender`_router name where they start."""
    sent = messages.select(
        F.col(sender).alias("node"),
        "key_hi",
        "key_lo",
        "group",
        F.col(sender).alias("source"),
        F.col(f"{sender}_router").alias("source_router"),
    )
    return overlay.route(Scribe(kind), sent, trail=trail, name=kind, progress=progress)


def multicast(
    overlay: Overlay,
    groups: DataFrame,
    members: DataFrame,
    edges: DataFrame,
    source: str = "root",
    progress: Progress | None = None,
    system: str = SYSTEM,
) -> tuple[Multicast, Rounds]:
    """Each group's source multicasts one message.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo, root, root_router, source, source_router``.
    members : DataFrame
        ``group, node``.
    edges : DataFrame
        ``group, parent, child, parent_router, child_router, delay_us``, partitioned by parent.
    source : str
        ``root``; or the group's source's message first reaches the root, ``routed`` by Pastry or
        ``direct`` (Section III.A.3: sources cache the rendez-vous point's address).
    system : str
        What the measures call these trees.

    Returns
    -------
    Multicast, Rounds
        The hand-over to the measures, and the rounds to release once it has been read.
    """
    at_root = _reach_root(overlay, groups, source, progress)
    scribe = Scribe(MULTICAST, edges.select("group", "parent", "child", "delay_us"))
    rounds = overlay.send(scribe, at_root, name=MULTICAST, progress=progress)
    empty = not rounds.tables
    received = at_root if empty else rounds.union()
    # Figure 4, (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
    sources = F.broadcast(groups.select("group", F.col("source").alias("node")))
    # (each member once: a semi join, which says no more, would be done round by round)
    delivered = received.join(members.select(_GROUP).hint("shuffle_hash"), _GROUP, "inner")
    others = delivered.join(sources, _GROUP, "left_anti")
    return Multicast(system, edges, others.select(*_GROUP, "hops", "delay_us")), rounds


def _reach_root(
    overlay: Overlay, groups: DataFrame, source: str, progress: Progress | None
) -> DataFrame:
    """MULTICAST messages at the roots: ``group, node, hops, delay_us``."""
    if source == "root":
        hops, delay_us = F.lit(0), F.lit(0).cast("bigint")
        reached = groups.withColumns({"hops": hops, "delay_us": delay_us, "node": F.col("root")})
    elif source == "direct":
        away = F.col("source") != F.col("root")
        timed = overlay.underlay.delay(groups, "source_router", "root_router")
        reached = timed.withColumns(
            {
                "node": F.col("root"),
                "hops": F.when(away, 1).otherwise(0),
                "delay_us": F.when(away, F.col("delay_us")).otherwise(0),
            }
        )
    else:
        rounds = _route(overlay, MULTICAST, groups, "source", progress, trail=True)
        reached = overlay.travelled(rounds.union().where(F.col("next").isNull()))
    return reached.select("group", "node", "hops", "delay_us")
