"""A run's trees and deliveries: CREATE, JOIN and MULTICAST of all groups, played by the engine.

A run is a world of one round in which nobody comes or goes: groups are created, members join, and
each group's source multicasts one message.  The steps are those of a world's rounds.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.buckets import ends, read_columns
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, append, bucket_of
from scribe_spark.multicast import DELIVERIES, EDGES
from scribe_spark.overlay import Application, Overlay, Routed, Step
from scribe_spark.progress import Progress
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.scribe.create import receive_creates
from scribe_spark.scribe.join import JoinProgram, first_joins, send_on
from scribe_spark.scribe.multicast import Payloads, receive_payloads
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.run import GIVEN, HELD, Run
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import table_of

__all__ = [
    "Create",
    "Join",
    "Multicast",
    "SYSTEM",
    "Trees",
    "build_trees",
    "group_index",
    "multicast",
    "plant_trees",
]

SYSTEM = "scribe"

# tables of a bucket
ENTRIES, CHILDREN = table_of("entries"), table_of("children")
CREATED, DELIVERED = "created", "delivered"
# kinds of messages
MEMBER, PAYLOAD = "member", "payload"
_ROOT, _PARENT, _CHILD = "root", "parent", "child"


@dataclass(frozen=True)
class Create(Application):
    """CREATEs are routed to the groupIds; where they are delivered is the rendez-vous point."""

    run: Run

    def deliver(self, tables: Tables, messages: Columns) -> Step:
        """Receive the CREATEs; their payload is ``group``, its index."""
        given, round = self.run.given, self.run.round
        creator, at = (self.run.facts.positions(messages[name]) for name in ("start", "node"))
        way = {name: messages[name] for name in ("hops", "delay_us")}
        delivered = {"group": messages["group"], "creator": creator, AT: at, **way}
        order = np.lexsort((delivered["creator"], delivered["group"]))
        came = {name: column[order] for name, column in delivered.items()}
        bucket = int(bucket_of(given.bounds, at[:1])[0])
        state = round.state(tables, ("entries", "copies", "created"))
        scribe = round.scribe(given, bucket, tables, state)
        receive_creates(scribe, came["group"], came["creator"], came[AT])
        state.put_back()
        append(tables, CREATED, came)
        return Step()


class Join(JoinProgram):
    """All members send JOINs, which go up hop by hop."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Figures 3 and 4 for the JOINs that have come, and for those that begin here."""
        super().play(scribe, tables, inbox, superstep)
        if MEMBER in inbox:
            _enter(scribe, scribe.key(inbox[MEMBER]["group"], inbox[MEMBER][AT]))
            send_on(scribe, first_joins(scribe))


def _enter(scribe: Scribe, pair: np.ndarray) -> None:
    """Nodes are members from now on; those that are not in the tree yet enter it."""
    entries = scribe.state.entries
    entries.enter(pair[~entries.has(pair)], scribe.number, "own")
    entries.member[entries.find(pair)] = True


class Multicast(RoundProgram):
    """Messages at the roots go down the trees.

    The trees stay as they are, and are not copied: a few payloads cost no more than the rows that
    they ask for.
    """

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Figure 4, lines 5 to 8."""
        if PAYLOAD not in inbox:
            return
        came = inbox[PAYLOAD]
        names = ("group", "sender", AT, "hops", "delay_us")
        payloads = Payloads(came["group"], *(came[name] for name in names))
        got, sent, _ = receive_payloads(scribe, payloads)
        if len(got):
            # a table for each superstep: nothing is written twice
            tables[f"{DELIVERED} {superstep}"] = {
                "group": got.group,
                "node": got.node,
                "hops": got.hops,
                "delay_us": got.delay_us,
            }
        way = {"hops": sent.hops, "delay_us": sent.delay_us}
        scribe.tell(PAYLOAD, sent.node, group=sent.group, sender=sent.sender, **way)


@dataclass
class Trees:
    """What CREATE and JOIN leave, and MULTICAST goes on with.

    Attributes
    ----------
    overlay : Overlay
    tables : BucketTables
        Entries, children tables, and groups' states at their roots.
    run : Run
    given : DataFrame, optional
        `ROWS`: the tables that these have begun with, another's; see `run.GIVEN`.
    """

    overlay: Overlay
    tables: BucketTables
    run: Run
    given: DataFrame | None = None

    def copy(self, run: Run) -> Trees:
        """Return the same trees for programs that change them; these stay as they are."""
        held = self.tables.constant(*map(table_of, HELD))
        given = held.withColumn("name", F.concat(F.lit(GIVEN), "name"))
        ring, none = self.overlay.ring, self.tables.rows("")
        tables = BucketTables(ring.layout, none, [*self.overlay.known, given])
        return Trees(self.overlay, tables, run, given)

    def constant(self) -> list[DataFrame]:
        """Return the tables for programs that do not change them: `ROWS`."""
        own = self.tables.constant()
        return [own] if self.given is None else [own, self.given]

    def created(self) -> DataFrame:
        """Return each group's CREATE where it was delivered.

        ``group, source, source_router, node, router, hops, delay_us, direct_us``: `source` is the
        creator, `node` the root; `direct_us` is D between the two.
        """
        run = self.run

        def rows(bucket: int, start: int, some: Columns) -> dict[str, np.ndarray]:
            ring, creator, root = run.facts.ring, some["creator"], some[AT]
            direct = run.kernel.delays(ring.router[creator], ring.router[root]) + 2 * run.lan_us
            return {
                "group": run.number[some["group"]],
                **ends(ring, run.kernel, source=creator),
                "node": ring.node[root],
                "router": run.kernel.ids(ring.router[root]),
                "hops": some["hops"],
                "delay_us": some["delay_us"],
                "direct_us": np.where(creator == root, 0, direct),
            }

        return read_columns(self.tables.rows(CREATED), rows, _CREATED_ROWS).frame

    def edges(self) -> DataFrame:
        """Return ``group, parent, child, parent_router, child_router, delay_us``; lazy."""
        return self.read_edges().frame

    def read_members(self) -> Batches:
        """Return ``group, node, router``, for kernels; lazy."""
        run = self.run

        def rows(bucket: int, start: int, some: Columns) -> dict[str, np.ndarray]:
            ring = run.facts.ring
            group, node = np.divmod(some["key"][some["member"]], len(ring))
            router = run.kernel.ids(ring.router[node])
            return {"group": run.number[group], "node": ring.node[node], "router": router}

        return read_columns(self.tables.rows(ENTRIES), rows, _MEMBERS)

    def read_edges(self) -> Batches:
        """Return the rows of :meth:`edges`, for kernels."""
        run = self.run

        def rows(bucket: int, start: int, some: Columns) -> dict[str, np.ndarray]:
            ring = run.facts.ring
            pair, child = np.divmod(some["key"], len(ring))
            group, parent = np.divmod(pair, len(ring))
            delay_us = run.kernel.delays(ring.router[parent], ring.router[child]) + 2 * run.lan_us
            both = ends(ring, run.kernel, parent=parent, child=child)
            return {"group": run.number[group], **both, "delay_us": delay_us}

        return read_columns(self.tables.rows(CHILDREN), rows, _EDGES)

    def release(self) -> None:
        """Free the tables."""
        self.tables.release()


_MEMBERS = "group bigint, node bigint, router bigint"
_CREATED_ROWS = (
    "group bigint, source bigint, source_router bigint, node bigint, router bigint, hops int, "
    "delay_us bigint, direct_us bigint"
)
_EDGES = f"{EDGES}, delay_us bigint"


def build_trees(
    overlay: Overlay, groups: DataFrame, members: Table, progress: Progress | None = None
) -> Trees:
    """CREATE every group, then JOIN every member.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo, creator``.
    members : DataFrame
        ``group, node``.
    """
    listed = groups.select("group", "key_hi", "key_lo", "creator").toArrow().sort_by("group")
    ring, run = overlay.ring, Run.of(overlay, listed)
    columns = {"node": listed.column("creator"), "group": pa.array(np.arange(len(listed)))}
    asked = pa.table(columns | {name: listed.column(name) for name in ("key_hi", "key_lo")})
    creates = overlay.starting(local_frame(groups.sparkSession, asked), ["group"])
    tables = BucketTables(ring.layout, creates, overlay.known)
    tables.play(overlay.routing(Create(run), ["group"]), "CREATE", progress)
    tables.add(ring.messages(members, MEMBER, "node", partial(group_index, run.number)))
    tables.play(run.program(Join), "JOIN", progress)
    return Trees(overlay, tables, run)


def plant_trees(overlay: Overlay, groups: DataFrame, members: DataFrame, edges: DataFrame) -> Trees:
    """Return trees that were built in another way, for MULTICAST.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo, root``.
    members : DataFrame
        ``group, node``.
    edges : DataFrame
        ``group, parent, child``.
    """
    listed = groups.select("group", "key_hi", "key_lo").toArrow().sort_by("group")
    ring, run = overlay.ring, Run.of(overlay, listed)
    group = partial(group_index, run.number)

    def end(other: str, facts: Facts, batch: pa.RecordBatch) -> Columns:
        position = facts.positions(batch.column(other).to_numpy())
        return {other: position, **group(facts, batch)}

    first = [
        ring.messages(groups.select("group", "root"), _ROOT, "root", group),
        ring.messages(members.select("group", "node"), MEMBER, "node", group),
        ring.messages(
            edges.select("group", "parent", "child"), _PARENT, "parent", partial(end, "child")
        ),
        ring.messages(
            edges.select("group", "parent", "child"), _CHILD, "child", partial(end, "parent")
        ),
    ]
    tables = BucketTables(ring.layout, union_tables(first))
    tables.play(run.program(Plant), "trees")
    return Trees(overlay, tables, run)


class Plant(RoundProgram):
    """Nodes are told their parents and children."""

    writes = ("entries", "children")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Write the tables; nothing is sent."""
        entries = scribe.state.entries
        if _CHILD in inbox:
            below = inbox[_CHILD]
            pair = scribe.key(below["group"], below[AT])
            entries.enter(np.unique(pair), scribe.number, "own")
            entries.parent[entries.find(pair)] = below["parent"]
        if _ROOT in inbox:
            pair = scribe.key(inbox[_ROOT]["group"], inbox[_ROOT][AT])
            entries.enter(pair[~entries.has(pair)], scribe.number, "own")
            entries.root[entries.find(pair)] = True
        if MEMBER in inbox:
            _enter(scribe, scribe.key(inbox[MEMBER]["group"], inbox[MEMBER][AT]))
        if _PARENT in inbox:
            above = inbox[_PARENT]
            edge = scribe.key(scribe.key(above["group"], above[AT]), above["child"])
            scribe.state.children.insert(np.unique(edge), number=0, refreshed=0, got_payload=False)


def group_index(number: np.ndarray, facts: Facts, batch: pa.RecordBatch) -> Columns:
    """Return ``group``: the index of each row's group, given by its number."""
    return {"group": np.searchsorted(number, batch.column("group").to_numpy())}


def multicast(
    trees: Trees,
    groups: DataFrame,
    source: str = "root",
    progress: Progress | None = None,
) -> tuple[Batches, BucketTables]:
    """Each group's source multicasts one message.

    Parameters
    ----------
    groups : DataFrame
        ``group, key_hi, key_lo, root, root_router, source, source_router``.
    source : str
        ``root``; or the group's source's message first reaches the root, ``routed`` by the overlay
        or ``direct`` (Section III.A.3: sources cache the rendez-vous point's address).

    Returns
    -------
    Batches
        ``group, node, hops, delay_us``: a row for each member but the source; lazy.
    BucketTables
        What it is read from, to be released.
    """
    overlay, run = trees.overlay, trees.run
    at_root, routed = _reach_root(overlay, groups, source, progress)

    def payloads(facts: Facts, batch: pa.RecordBatch) -> Columns:
        at = facts.positions(batch.column("node").to_numpy())
        carried = {name: batch.column(name).to_numpy() for name in ("hops", "delay_us")}
        return {"sender": at, **group_index(run.number, facts, batch), **carried}

    sent = overlay.ring.messages(at_root, PAYLOAD, "node", payloads)
    tables = BucketTables(overlay.ring.layout, sent, trees.constant())
    counts = tables.play(run.program(Multicast), "MULTICAST", progress)
    if routed is not None:
        routed.release()

    listed = groups.select("group", "source").toArrow()
    source_of = np.full(len(run.number), NONE, dtype=np.int64)
    index = np.searchsorted(run.number, listed.column("group").to_numpy())
    source_of[index] = listed.column("source").to_numpy()

    def rows(bucket: int, start: int, some: Columns) -> dict[str, np.ndarray]:
        node = run.facts.ring.node
        some = take(some, node[some["node"]] != source_of[some["group"]])
        numbers = {"group": run.number[some["group"]], "node": node[some["node"]]}
        return {**numbers, "hops": some["hops"], "delay_us": some["delay_us"]}

    names = [f"{DELIVERED} {superstep}" for superstep in range(len(counts))]
    return read_columns(tables.rows(*names), rows, DELIVERIES), tables


def _reach_root(
    overlay: Overlay, groups: DataFrame, source: str, progress: Progress | None
) -> tuple[DataFrame, Routed | None]:
    """MULTICAST messages at the roots: ``group, node, hops, delay_us``; and what they are read
    from.
    """
    none, routed = F.lit(0).cast("bigint"), None
    if source == "root":
        reached = groups.withColumns({"hops": none, "delay_us": none, "node": F.col("root")})
    elif source == "direct":
        away = F.col("source") != F.col("root")
        timed = overlay.underlay.delay(groups, "source_router", "root_router")
        reached = timed.withColumns(
            {
                "node": F.col("root"),
                "hops": F.when(away, 1).otherwise(0).cast("bigint"),
                "delay_us": F.when(away, F.col("delay_us")).otherwise(0),
            }
        )
    else:
        sent = groups.select(F.col("source").alias("node"), "key_hi", "key_lo", "group")
        routed = overlay.route(Application(), sent, name="MULTICAST", progress=progress)
        reached = routed.outcomes().withColumn("hops", F.col("hops").cast("bigint"))
    return reached.select("group", "node", "hops", "delay_us"), routed
