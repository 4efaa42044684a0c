"""Scribe's operations on all groups at once: create, join, multicast.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.multicast import Multicast
from scribe_spark.overlay import Application, Overlay
from scribe_spark.overlay.route import no_path, start_path
from scribe_spark.progress import Progress
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.scribe.application import Kind, Scribe, children_table
from scribe_spark.superstep import Finished, Table

__all__ = ["SYSTEM", "Trees", "build_trees", "create", "join", "multicast", "no_creates"]

SYSTEM = "scribe"

_MEMBER = ["group", "node"]


@dataclass(frozen=True)
class Trees:
    """What CREATE and JOIN leave.

    Attributes
    ----------
    created : Finished
        As outcomes each group's CREATE where it was delivered: the root in ``node`` and ``router``,
        the creator in ``source`` and ``source_router``, the ``path`` of the route.
    children : Table
        From :func:`~scribe_spark.scribe.application.children_table`.
    """

    created: Finished
    children: Table

    def edges(self) -> DataFrame | None:
        """``group, parent, child, parent_router, child_router``, partitioned by parent."""
        rows = self.children.rows()
        if rows is None:
            return None
        # a row of a node's own request is no entry of its children table
        return rows.where(F.col("child") != F.col("node")).select(
            "group",
            F.col("node").alias("parent"),
            "child",
            F.col("router").alias("parent_router"),
            "child_router",
        )

    def release(self) -> None:
        """Free the blocks of both."""
        self.created.release()
        self.children.release()


def build_trees(
    overlay: Overlay, groups: DataFrame, members: DataFrame, progress: Progress | None = None
) -> Trees:
    """CREATE every group and JOIN every member, in one loop.

    A JOIN needs the group's key only, so it need not wait for the CREATE.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo, creator, creator_router``.
    members : DataFrame
        ``group, node, router``, best partitioned by node.
    """
    # brought to their nodes first, so that the union is partitioned by node, as the members are
    creates = _creates(groups).repartition("node")
    messages = union_tables([creates, _joins(groups, members)])
    return _route(overlay, messages, "CREATE, JOIN", progress, Kind.CREATE, Kind.JOIN)


def create(overlay: Overlay, groups: DataFrame, progress: Progress | None = None) -> Trees:
    """Route each group's CREATE from its creator: :func:`build_trees` without members."""
    return _route(overlay, _creates(groups), "CREATE", progress, Kind.CREATE)


def join(
    overlay: Overlay,
    groups: DataFrame,
    members: DataFrame,
    progress: Progress | None = None,
    children: Table | None = None,
) -> Trees:
    """Every member joins.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo``.
    members : DataFrame
        ``group, node, router``, best partitioned by node; none of them a member already.
    children : Table, optional
        Children tables of earlier joins, which grow.
    """
    return _route(overlay, _joins(groups, members), "JOIN", progress, Kind.JOIN, children=children)


def _route(
    overlay: Overlay,
    messages: DataFrame,
    name: str,
    progress: Progress | None,
    *kinds: Kind,
    children: Table | None = None,
) -> Trees:
    children = children_table() if children is None else children
    done = overlay.route(Scribe(children, *kinds), messages, name=name, progress=progress)
    return Trees(done, children)


def _creates(groups: DataFrame) -> DataFrame:
    return groups.select(
        F.col("creator").alias("node"),
        "key_hi",
        "key_lo",
        Kind.CREATE.column,
        "group",
        F.col("creator").alias("source"),
        F.col("creator_router").alias("source_router"),
        start_path(),
    )


def no_creates(groups: DataFrame) -> DataFrame:
    """An empty table of CREATEs at their roots, with the hops and delay of their routes."""
    none, creator = F.lit(0).cast("bigint"), F.col("creator")
    return groups.limit(0).select(
        *("group", "key_hi", "key_lo", "size"),
        *(creator.alias("node"), F.col("creator_router").alias("router"), creator.alias("source")),
        *(F.lit(0).alias("hops"), none.alias("delay_us"), none.alias("direct_us")),
    )


def _joins(groups: DataFrame, members: DataFrame) -> DataFrame:
    keys = F.broadcast(groups.select("group", "key_hi", "key_lo"))
    # no alias of `node`: Spark would know the messages as partitioned by `source` from then on
    source = F.col("node").bitwiseXOR(F.lit(0).cast("bigint"))
    return members.join(keys, "group", "inner").select(
        "node",
        "key_hi",
        "key_lo",
        Kind.JOIN.column,
        "group",
        source.alias("source"),
        F.col("router").alias("source_router"),
        no_path(),
    )


def multicast(
    overlay: Overlay,
    groups: DataFrame,
    members: DataFrame,
    edges: DataFrame,
    source: str = "root",
    progress: Progress | None = None,
    system: str = SYSTEM,
) -> tuple[Multicast, list[Finished]]:
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
        ``root``; or the group's source's message first reaches the root, ``routed`` by the overlay
        or ``direct`` (Section III.A.3: sources cache the rendez-vous point's address).
    system : str
        What the measures call these trees.

    Returns
    -------
    Multicast, list of Finished
        The hand-over to the measures, and what is to be released once it has been read.
    """
    at_root, reaching = _reach_root(overlay, groups, source, progress)
    entries = edges.select("group", F.col("parent").alias("node"), "child", "delay_us")
    children = Table(["group", "node", "child"], ["delay_us"], append_only=True, initial=entries)
    scribe = Scribe(children, Kind.MULTICAST)
    done = overlay.send(scribe, at_root, name="MULTICAST", progress=progress)
    received = done.outcomes()
    if received is None:  # no group
        received = at_root
    # Figure 4, (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
    sources = F.broadcast(groups.select("group", F.col("source").alias("node")))
    # (a member is in the table once: a semi join, which means the same, would be planned per round)
    delivered = received.join(members.select(_MEMBER).hint("shuffle_hash"), _MEMBER, "inner")
    others = delivered.join(sources, _MEMBER, "left_anti")
    handed_over = Multicast(system, edges, others.select(*_MEMBER, "hops", "delay_us"))
    return handed_over, [done, *([reaching] if reaching is not None else [])]


def _reach_root(
    overlay: Overlay, groups: DataFrame, source: str, progress: Progress | None
) -> tuple[DataFrame, Finished | None]:
    """MULTICAST messages at the roots: ``group, node, hops, delay_us``; what they are read from."""
    delivered: Finished | None = None
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
        sent = groups.select(
            F.col("source").alias("node"), "key_hi", "key_lo", "group", start_path()
        )
        # no state and no cases: routed as it is
        delivered = overlay.route(Application(), sent, name="MULTICAST", progress=progress)
        routed = delivered.outcomes()
        if routed is None:  # no group
            return _reach_root(overlay, groups, "root", progress)
        reached = overlay.add_path_delay(routed)
    return reached.select("group", "node", "hops", "delay_us"), delivered
