"""One hop of Pastry as one join, and the two operations an application has: `route` and `send`.

References
----------
JSAC 2002, Section II (routing), Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark import ids, superstep
from scribe_spark.config import RunConfig
from scribe_spark.pastry.tables import build_state
from scribe_spark.progress import Progress, Silent
from scribe_spark.superstep import Rounds
from scribe_spark.topology.underlay import MatrixUnderlay

__all__ = ["Application", "Overlay"]


class Application:
    """What sits on Pastry: its two upcalls, each for a whole round's messages at once.

    A messages table has ``node`` (where the message is), ``key_hi, key_lo`` and the application's
    own payload columns; Pastry adds ``router`` (of `node`) and ``next`` (the node it would go to
    next).  A measured route also carries ``hops``, ``delay_us`` (so far).  Payload columns must be
    the same in every message that an application makes.

    Attributes
    ----------
    remembers : bool
        The upcalls read earlier rounds: all messages are kept until the operation ends and handed
        over as `past` (this round's last).  A node's state is what its messages made of it.
    """

    remembers = False

    def forward(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        """Before messages go on to ``next``; rows whose ``next`` is set to NULL stop here.

        The application may change contents and ``next``, and add messages of its own.
        """
        return messages

    def deliver(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame | None:
        """Messages at the root of their key, or sent to their node; may return new messages.

        New messages have the columns that :meth:`Overlay.route` or :meth:`Overlay.send` was
        given; ``node`` says where they start (`route`) or arrive (`send`).
        """
        return None


@dataclass(frozen=True)
class Overlay:
    """A Pastry network: what each node knows, over an underlay.

    Attributes
    ----------
    state : DataFrame
        `tables.STATE`, partitioned by node.
    underlay : MatrixUnderlay
    b : int
        Digits are base 2**b.
    """

    state: DataFrame
    underlay: MatrixUnderlay
    b: int

    @classmethod
    def build(cls, nodes: DataFrame, underlay: MatrixUnderlay, config: RunConfig) -> Overlay:
        """Perfect tables for `nodes`, kept in memory until :meth:`release`."""
        state = build_state(nodes, underlay, config.b, config.leaf_set)
        return cls(state.repartition("node").persist(), underlay, config.b)

    def release(self) -> None:
        """Free the state's memory."""
        self.state.unpersist()

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """`messages` with ``router`` of their node, and ``next``: NULL where they have arrived."""
        return _next_hop(messages, self.state, self.b)

    def route(
        self,
        application: Application,
        messages: DataFrame,
        *,
        measure: bool = False,
        name: str = "route",
        progress: Progress | None = None,
    ) -> Rounds:
        """Route messages to the roots of their keys, one hop a superstep.

        Parameters
        ----------
        application : Application
        messages : DataFrame
            ``node, key_hi, key_lo`` and payload.
        measure : bool
            Add ``hops`` and ``delay_us`` along the route.

        Returns
        -------
        Rounds
            The messages delivered in each round; all messages if the application remembers.
        """
        payload = [c for c in messages.columns if c != "node"]

        def at_nodes(frame: DataFrame) -> DataFrame:
            hop = self.next_hop(frame)
            if not measure:
                return hop
            timed = self.underlay.delay(hop, "from_router", "router", "hop_us")
            return timed.withColumn("delay_us", F.col("delay_us") + F.col("hop_us")).drop(
                "hop_us", "from_router"
            )

        def departing(frame: DataFrame) -> DataFrame:
            if not measure:
                return frame.select("node", *payload)
            return frame.select(
                "node",
                *payload,
                F.lit(0).alias("hops"),
                F.lit(0).cast("bigint").alias("delay_us"),
                F.lit(None).cast("bigint").alias("from_router"),
            )

        def onward(frame: DataFrame) -> DataFrame:
            carried = [F.col("next").alias("node"), *payload]
            if measure:
                carried += [(F.col("hops") + 1).alias("hops"), F.col("delay_us")]
                carried += [F.col("router").alias("from_router")]
            return frame.where(F.col("next").isNotNull()).select(*carried)

        def step(table: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
            moving = table.where(F.col("next").isNotNull())
            sent = onward(application.forward(moving, past))
            new = application.deliver(table.where(F.col("next").isNull()), past)
            return at_nodes(sent if new is None else sent.unionByName(departing(new)))

        return superstep.run(
            name,
            at_nodes(departing(messages)),
            step,
            harvest=None if application.remembers else _arrived,
            progress=progress or Silent(),
        )

    def send(
        self,
        application: Application,
        messages: DataFrame,
        *,
        name: str = "send",
        progress: Progress | None = None,
    ) -> Rounds:
        """Deliver messages to the nodes they are addressed to; what `deliver` returns is sent on.

        Returns
        -------
        Rounds
            All messages, a table per round.
        """

        def step(table: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
            new = application.deliver(table, past)
            return table.limit(0) if new is None else new.repartition("node")

        return superstep.run(name, messages.repartition("node"), step, progress=progress)


def _arrived(table: DataFrame) -> DataFrame:
    return table.where(F.col("next").isNull())


def _next_hop(messages: DataFrame, state: DataFrame, b: int) -> DataFrame:
    """The rule of one hop, in the order of the paper."""
    rule = _rule(b)
    here = messages.hint("shuffle_hash").join(state, "node", "inner")
    looked_up = here.select(*messages.columns, *_OWN, rule.shared, rule.in_span)
    pooled = looked_up.select(
        *messages.columns, "id_hi", "router", "shared", "in_span", rule.entry, rule.pool
    )
    return pooled.select(*messages.columns, "router", rule.next)


@dataclass(frozen=True)
class _Rule:
    """The expressions of a hop; built once, for building one costs more than a small round."""

    shared: Column
    in_span: Column
    entry: Column
    pool: Column
    next: Column


@functools.cache
def _rule(b: int) -> _Rule:
    key, own = (F.col("key_hi"), F.col("key_lo")), (F.col("id_hi"), F.col("id_lo"))
    row = F.least(F.col("shared"), F.lit(ids.BITS // b - 1))
    entry = F.get("table", row * 2**b + ids.digit(*key, row, b)).cast("bigint")
    entry = F.when(~F.col("in_span"), entry)
    # who may be the numerically closest: the leaf set within its span; else, with no entry for
    # the next digit, whoever shares a prefix at least as long.  The node itself is among them.
    pool = F.when(F.col("in_span"), F.col("leaf")).when(entry.isNull(), F.concat("leaf", "gaps"))
    # `pool` is named twice on purpose: its arrays are then cut to the few rows that need them
    # before the (interpreted) search, not copied for every message
    closest = F.when(F.col("pool").isNotNull(), _closest("pool", key, b))
    chosen = F.coalesce(F.col("entry"), closest)
    return _Rule(
        ids.prefix_digits(*key, *own, b).alias("shared"),
        _in_span(*key).alias("in_span"),
        entry.alias("entry"),
        pool.alias("pool"),
        F.nullif(chosen, F.col("node")).alias("next"),
    )


_OWN = ["id_hi", "id_lo", "router", "leaf", "table", "gaps"]


def _in_span(key_hi: Column, key_lo: Column) -> Column:
    """The key lies on the arc from the farthest smaller to the farthest larger leaf."""
    low, high = F.get("leaf", F.lit(0)), F.get("leaf", F.size("leaf") - 1)
    after_low = ids.le(low["id_hi"], low["id_lo"], key_hi, key_lo)
    before_high = ids.le(key_hi, key_lo, high["id_hi"], high["id_lo"])
    wraps = ids.lt(high["id_hi"], high["id_lo"], low["id_hi"], low["id_lo"])
    inside = F.when(wraps, after_low | before_high).otherwise(after_low & before_high)
    return F.col("whole") | inside


def _closest(pool: str, key: tuple[Column, Column], b: int) -> Column:
    """Of a pool of nodes: those that share at least ``shared`` digits, the closest to the key."""

    def rank(one: Column) -> Column:
        hi, lo = one["id_hi"], one["id_lo"]
        return F.struct(
            ids.distance(hi, lo, *key).alias("distance"),
            ids.unsigned(hi).alias("hi"),
            ids.unsigned(lo).alias("lo"),
            one["node"].alias("node"),
        )

    def fits(one: Column) -> Column:
        prefix = ids.prefix_digits(one["id_hi"], one["id_lo"], *key, b)
        return F.col("in_span") | (prefix >= F.col("shared"))

    return F.array_min(F.transform(F.filter(pool, fits), rank))["node"]
