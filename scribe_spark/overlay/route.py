"""The two operations that an application has: `route` towards a key, `send` to a known node.

References
----------
JSAC 2002, Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark import schemas, superstep
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.overlay.application import Application
from scribe_spark.overlay.next_hop import NextHop, next_hops
from scribe_spark.progress import Progress
from scribe_spark.runtime.blocks import release, union_tables
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.superstep import Finished, Round, Step, Table
from scribe_spark.underlay.protocol import Underlay

__all__ = ["PATH", "Overlay", "start_path"]

#: A payload column of this name (ARRAY<BIGINT>) collects the routers of the nodes that a message
#: has been at; where it is NULL it stays NULL.  :meth:`Overlay.add_path_delay` reads it.
PATH = "path"

#: What a hop adds to every message, whatever the overlay.
_RESERVED_COLUMNS = frozenset({"router", "next", "bucket", "position"})


def start_path() -> Column:
    """The `PATH` of a message that has not been anywhere yet."""
    return F.array().cast("array<bigint>").alias(PATH)


class Overlay(ABC):
    """Nodes that route messages towards keys, over an underlay.

    A kind of overlay (Pastry, ...) says by :attr:`rule` how it routes, and by
    :meth:`routing_table` which nodes know which.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : Underlay
    bits : int
        Nodes that share so many first bits are in one bucket.

    Attributes
    ----------
    nodes : DataFrame
    underlay : Underlay
    ring : BucketRing
        Where the nodes are.
    known : sequence of DataFrame
        What the nodes of each bucket know, as tables of the engine (`engine.on_spark.ROWS`); the
        rule of routing reads them.
    """

    def __init__(self, nodes: DataFrame, underlay: Underlay, bits: int = 0) -> None:
        self.nodes, self.underlay = nodes, underlay
        partitions = bucket_count(nodes.sparkSession, nodes.count())
        self.ring = BucketRing.of(nodes, underlay, partitions, bits)
        self.known: Sequence[DataFrame] = ()

    @property
    @abstractmethod
    def rule(self) -> NextHop:
        """The rule of routing."""

    @abstractmethod
    def routing_table(self) -> DataFrame:
        """`schemas.ROUTING_TABLE`: one row per entry of every node's routing table."""

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """Return where each message goes next.

        Parameters
        ----------
        messages : DataFrame
            ``node, key_hi, key_lo`` and payload.

        Returns
        -------
        DataFrame
            All columns of `messages`, with ``router`` of their node, and ``next``: NULL where the
            node is the root of the key.  Messages to nodes that do not exist are left out.
        """
        return next_hops(self.ring, self.known, messages, self.rule, self.underlay.kernel)

    def with_router(self, frame: DataFrame) -> DataFrame:
        """Return `frame` and the ``router`` of the node in its column ``node``.

        Looked up in the facts: a join would shuffle both.
        """
        facts, kernel = self.ring.facts, self.underlay.kernel

        def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                at = facts.positions(batch.column("node").to_numpy())
                router = pa.array(kernel.ids(facts.ring.router[at]))
                yield batch.append_column("router", router)

        fields = [*frame.schema.fields, StructField("router", LongType())]
        return frame.mapInArrow(add, StructType(fields))

    def table_entries(self) -> DataFrame:
        """`schemas.TABLE_ENTRIES`: nodes, and the entries in all their routing tables; one row."""
        entries = self.routing_table().agg(F.count("*").alias("entries"))
        nodes = self.nodes.agg(F.count("*").alias("nodes"))
        return schemas.conform(nodes.crossJoin(entries), schemas.TABLE_ENTRIES)

    def arrival_messages(self) -> DataFrame | None:
        """`schemas.ARRIVAL_MESSAGES`; None where the nodes did not arrive by a protocol."""
        return None

    def release(self) -> None:
        """Free what the nodes know."""
        for table in self.known:
            release(table)
        self.ring.release()

    def route(
        self,
        application: Application,
        messages: DataFrame,
        *,
        name: str = "route",
        progress: Progress | None = None,
    ) -> Finished:
        """Route messages to the roots of their keys, one hop a superstep.

        Parameters
        ----------
        application : Application
        messages : DataFrame
            ``node, key_hi, key_lo`` and payload; perhaps a :data:`PATH`.

        Returns
        -------
        Finished
            The application's outcomes: unless it says otherwise, every message that was delivered
            (``node`` is the root, ``next`` is NULL).  Messages to nodes that do not exist are lost.

        Raises
        ------
        ValueError
            A payload column has the name of one that a hop needs for itself.
        """
        payload = [c for c in messages.columns if c != "node"]
        taken = sorted(c for c in payload if c.lower() in _RESERVED_COLUMNS)
        if taken:
            raise ValueError(f"columns {', '.join(taken)} are the overlay's own; rename them")
        # expressions are built once: that costs more than a small round's work
        visited = F.array_append(PATH, F.col("router")).alias(PATH)
        payload_here = [visited if c == PATH else c for c in payload]
        at_next = [F.col("next").alias("node"), *_columns(*payload)]
        moving, arrived = F.col("next").isNotNull(), F.col("next").isNull()

        def at_nodes(frame: DataFrame) -> DataFrame:
            hop = self.next_hop(frame)
            return hop.select("node", *payload_here, "router", "next") if PATH in payload else hop

        def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
            steps = []
            outbox = []
            if round.counts["moving"]:
                passing = inbox.where(moving)
                onward = application.forward(state, passing, round)
                steps.append((passing, onward))
                if onward.outbox is not None:
                    outbox.append(onward.outbox.where(moving).select(at_next))
            if round.counts["arrived"]:
                arriving = inbox.where(arrived)
                delivered = application.deliver(state, arriving, round)
                steps.append((arriving, delivered))
                if delivered.outbox is not None:
                    outbox.append(delivered.outbox.select(*_columns("node", *payload)))
            return _combined(inbox, steps, union_tables(outbox) if outbox else None)

        return superstep.run(
            name,
            messages.select("node", *payload),
            step,
            state=application.state,
            arrival=at_nodes,
            counts={**application.counts, "moving": moving, "arrived": arrived},
            progress=progress,
        )

    def send(
        self,
        application: Application,
        messages: DataFrame,
        *,
        name: str = "send",
        progress: Progress | None = None,
    ) -> Finished:
        """Deliver messages to the nodes they are addressed to; what `deliver` returns is sent on.

        Parameters
        ----------
        application : Application
        messages : DataFrame
            ``node`` and payload.

        Returns
        -------
        Finished
            The outcomes of `deliver`; unless the application says otherwise, all messages.
        """

        def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
            done = application.deliver(state, inbox, round)
            outbox = None if done.outbox is None else done.outbox.repartition("node")
            return Step(outbox, done.changes, done.outcomes)

        first = messages.repartition("node")
        return superstep.run(
            name,
            first,
            step,
            state=application.state,
            counts=application.counts,
            progress=progress,
        )

    def add_path_delay(self, messages: DataFrame) -> DataFrame:
        """`messages` without their :data:`PATH`, with ``hops`` and ``delay_us`` along it instead.

        Also ``direct_us``: D between the ends of the path, the underlay's own delay.
        """
        return self.underlay.path_delay(messages, PATH)


def _combined(
    inbox: DataFrame, steps: list[tuple[DataFrame, Step]], outbox: DataFrame | None
) -> Step:
    """The changes and outcomes of several steps, each with the part of the inbox that it was given.

    Where all messages are outcomes these are the inbox itself, which is materialised already.
    """
    changes: dict[str, list[DataFrame]] = {}
    for _, step in steps:
        for table, rows in step.changes.items():
            changes.setdefault(table, []).append(rows)
    outcomes = [step.outcomes for _, step in steps if step.outcomes is not None]
    if all(step.outcomes is given for given, step in steps):
        outcomes = [inbox]
    return Step(
        outbox,
        {table: union_tables(rows) for table, rows in changes.items()},
        union_tables(outcomes) if outcomes else None,
    )


@functools.cache
def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(F.col(name) for name in names)
