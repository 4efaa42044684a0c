"""The two operations that an application has: `route` towards a key, `send` to a known node.

References
----------
JSAC 2002, Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.overlay.application import Application
from scribe_spark.progress import Progress, Silent
from scribe_spark.superstep import Rounds
from scribe_spark.underlay.matrices import Underlay

__all__ = ["Overlay"]

#: What a hop and a route add to every message, whatever the overlay.
_RESERVED_COLUMNS = frozenset({"router", "next", "trail"})


class Overlay(ABC):
    """Nodes that route messages towards keys, over an underlay.

    A kind of overlay (Pastry, ...) says by :meth:`next_hop` how it routes.

    Attributes
    ----------
    underlay : Underlay
    """

    underlay: Underlay

    #: Names that :meth:`next_hop` needs for itself: no payload column can have them.
    reserved_columns: frozenset[str] = frozenset()

    @abstractmethod
    def next_hop(self, messages: DataFrame) -> DataFrame:
        """Where each message goes next.

        Parameters
        ----------
        messages : DataFrame
            ``node, key_hi, key_lo`` and payload.

        Returns
        -------
        DataFrame
            All columns and rows of `messages`, partitioned by ``node``, with ``router`` of their
            node, and ``next``: NULL where the node is the root of the key.  Where there is no such
            node, the message is undeliverable: ``router`` and ``next`` are NULL.
        """

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
            The messages delivered in each round (``next`` is NULL, ``node`` the root), and those
            that were undeliverable (``router`` is NULL too); all messages if the application
            remembers.

        Raises
        ------
        ValueError
            A payload column has the name of one that a hop needs for itself.
        """
        payload = [c for c in messages.columns if c != "node"]
        reserved = _RESERVED_COLUMNS | self.reserved_columns
        taken = sorted(c for c in payload if c.lower() in reserved)
        if taken:
            raise ValueError(f"columns {', '.join(taken)} are the overlay's own; rename them")
        # expressions are built once: that costs more than a small round's work
        carried = _columns(*payload, *(["trail"] if trail else []))
        nowhere = F.array().cast("array<bigint>").alias("trail")
        visited = F.array_append("trail", F.col("router")).alias("trail")
        start = [*_columns("node", *payload), *([nowhere] if trail else [])]
        stop = [*_columns("node", *payload, "router", "next"), visited]
        onto = F.col("next").alias("node")
        moving = F.col("next").isNotNull()
        arrived = F.col("next").isNull() & F.col("router").isNotNull()

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
            harvest=None if application.remembers else _ended,
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


def _ended(table: DataFrame) -> DataFrame:
    """Messages that go no further: delivered, stopped or undeliverable."""
    return table.where(F.col("next").isNull())


@functools.cache
def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(F.col(name) for name in names)
