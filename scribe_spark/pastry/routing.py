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
from scribe_spark.underlay.matrices import Underlay

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
    packed : DataFrame
        `tables.STATE` with all but ``node`` in one column, ``knows``, partitioned by node.  A hop's
        join copies every node's row, and a few columns are copied faster than many.
    underlay : Underlay
    b : int
        Digits are base 2**b.
    """

    packed: DataFrame
    underlay: Underlay
    b: int

    @classmethod
    def build(cls, nodes: DataFrame, underlay: Underlay, config: RunConfig) -> Overlay:
        """Perfect tables for `nodes`."""
        return cls.of(build_state(nodes, underlay, config.b, config.leaf_set), underlay, config.b)

    @classmethod
    def of(cls, state: DataFrame, underlay: Underlay, b: int) -> Overlay:
        """A network of `tables.STATE`, kept in memory until :meth:`release`."""
        known = F.struct(*[name for name in state.columns if name != "node"])
        packed = state.repartition("node").select("node", known.alias("knows"))
        return cls(packed.persist(), underlay, b)

    @property
    def state(self) -> DataFrame:
        """`tables.STATE`: what each node knows."""
        return self.packed.select("node", "knows.*")

    def release(self) -> None:
        """Free the state's memory."""
        self.packed.unpersist()

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """`messages` with ``router`` of their node, and ``next``: NULL where they have arrived."""
        return next_hop(messages, self.packed, self.b)

    def route(
        self,
        application: Application,
        messages: DataFrame,
        *,
        trail: bool = False,
        name: str = "route",
        progress: Progress | None = None,
    ) -> Rounds:
        """Route messages to the roots of their keys, one hop a superstep.

        Parameters
        ----------
        application : Application
        messages : DataFrame
            ``node, key_hi, key_lo`` and payload.
        trail : bool
            Messages carry ``trail``, the routers they have been at; :meth:`travelled` tells hops
            and delay from it.

        Returns
        -------
        Rounds
            The messages delivered in each round (``next`` is NULL, ``node`` the root); all
            messages if the application remembers.

        Raises
        ------
        ValueError
            A payload column has the name of one that a hop needs for itself.
        """
        payload = [c for c in messages.columns if c != "node"]
        taken = sorted(c for c in payload if c.lower() in _OURS)
        if taken:
            raise ValueError(f"columns {', '.join(taken)} are the overlay's own; rename them")
        # expressions are built once: that costs more than a small round's work
        carried = _columns(*payload, *(["trail"] if trail else []))
        nowhere = F.array().cast("array<bigint>").alias("trail")
        visited = F.array_append("trail", F.col("router")).alias("trail")
        start = [*_columns("node", *payload), *([nowhere] if trail else [])]
        stop = [*_columns("node", *payload, "router", "next"), visited]
        onto = F.col("next").alias("node")
        arrived, moving = F.col("next").isNull(), F.col("next").isNotNull()

        def at_nodes(frame: DataFrame) -> DataFrame:
            hop = self.next_hop(frame)
            return hop.select(*stop) if trail else hop

        def departing(frame: DataFrame) -> DataFrame:
            return frame.select(*start)

        def step(table: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
            onward = application.forward(table.where(moving), past).where(moving)
            sent = onward.select(onto, *carried)
            new = application.deliver(table.where(arrived), past)
            return at_nodes(sent if new is None else sent.unionByName(departing(new)))

        return superstep.run(
            name,
            at_nodes(departing(messages)),
            step,
            harvest=None if application.remembers else _arrived,
            progress=progress or Silent(),
        )

    def travelled(self, messages: DataFrame) -> DataFrame:
        """`messages` with a ``trail``, with ``hops`` and ``delay_us`` along it instead.

        Also ``direct_us``: D between the ends of the trail, the underlay's own delay.
        """
        return self.underlay.along(messages, "trail")

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


def next_hop(messages: DataFrame, packed: DataFrame, b: int, *more: Column) -> DataFrame:
    """The rule of one hop, in the order of the paper: :meth:`Overlay.next_hop`.

    Parameters
    ----------
    packed : DataFrame
        :attr:`Overlay.packed`.
    more : Column
        What else is to be told of the node, out of ``knows``.
    """
    rule = _rule(b)
    here = messages.hint("shuffle_hash").join(packed, "node", "inner")
    told = [*_columns(*messages.columns, "knows.router"), *more]
    known = _columns("knows.leaf", "knows.table", "knows.gaps")
    looked_up = here.select(*told, *known, *rule.place, rule.in_span, rule.shared)
    kept = _columns(*looked_up.columns[: len(told)])
    placed = looked_up.select(*kept, *_columns("u_hi", "u_lo", "gaps"), rule.leaf, rule.entry)
    chosen = placed.select(*kept, "leaf", rule.owner, rule.onward)
    return chosen.select(*kept, rule.next)


@functools.cache
def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(F.col(name) for name in names)


#: What a hop adds to messages on its way to the next: no payload can have these names.
_OURS = {"knows", "router", "leaf", "table", "gaps", "u_hi", "u_lo", "in_span", "shared"} | {
    *("entry", "owner", "onward", "next", "trail")
}


@dataclass(frozen=True)
class _Rule:
    """The expressions of a hop; built once, for building them costs more than a small round."""

    place: tuple[Column, Column]
    in_span: Column
    shared: Column
    leaf: Column
    entry: Column
    owner: Column
    onward: Column
    next: Column


@functools.cache
def _rule(b: int) -> _Rule:
    key, mine = ids.halves("key"), ids.halves("knows.id")
    place = ids.unsigned(key[0]).alias("u_hi"), ids.unsigned(key[1]).alias("u_lo")
    # 1. within the leaf set's span: the numerically closest of leaf set and node itself
    # (without a struct for each leaf: `filter` is interpreted, and that takes six times as long)
    owner = F.size(F.filter("leaf", _before_key))
    closest = F.get("leaf", F.when(F.col("owner") < F.size("leaf"), F.col("owner")).otherwise(0))
    # 2. else the routing table's entry for (shared prefix, next digit)
    cell = F.col("shared") * 2**b + ids.digit(*key, F.col("shared"), b)
    # 3. else whoever shares a prefix at least as long and is closer: one side of the gap
    gap = F.get("gaps", -1 - F.col("entry"))
    either = F.when(_before_key(gap), gap["above"]).otherwise(gap["below"])
    onward = F.when(F.col("entry") < 0, either).otherwise(F.col("entry").cast("bigint"))
    return _Rule(
        place=place,
        in_span=_in_span(*key).alias("in_span"),
        shared=ids.prefix_digits(*key, *mine, b).alias("shared"),
        # arrays are cut to the rows that need them before the (interpreted) filter; `leaf` is
        # named twice after this, which keeps the optimizer from merging the steps again
        leaf=F.when(F.col("in_span"), F.col("leaf")).alias("leaf"),
        entry=F.when(~F.col("in_span"), F.get("table", cell)).alias("entry"),
        owner=F.when(F.col("leaf").isNotNull(), owner).alias("owner"),
        onward=onward.alias("onward"),
        next=F.nullif(
            F.when(F.col("owner").isNotNull(), closest["node"]).otherwise(F.col("onward")),
            F.col("node"),
        ).alias("next"),
    )


def _before_key(place: Column) -> Column:
    """`place` (``u_hi, u_lo``: see `_Rule.place`) comes before the key's."""
    below, same = place["u_hi"] < F.col("u_hi"), place["u_hi"] == F.col("u_hi")
    return below | (same & (place["u_lo"] < F.col("u_lo")))


def _in_span(key_hi: Column, key_lo: Column) -> Column:
    """The key lies on the arc from the farthest smaller to the farthest larger leaf."""
    low, high = ids.halves("knows.low"), ids.halves("knows.high")
    after_low, before_high = ids.le(*low, key_hi, key_lo), ids.le(key_hi, key_lo, *high)
    inside = F.when(ids.lt(*high, *low), after_low | before_high).otherwise(after_low & before_high)
    return F.col("knows.whole") | inside
