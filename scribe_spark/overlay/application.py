"""The application on an overlay: its state, and its two upcalls, `forward` and `deliver`.

References
----------
JSAC 2002, Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame

from scribe_spark.superstep import Round, Step, Table

__all__ = ["Application"]


class Application:
    """What runs on every node of an overlay: two upcalls, each for all messages of a round at once.

    A messages table has ``node`` (where the message is), ``key_hi, key_lo`` (where it is routed to;
    not needed by `send`) and the application's own payload columns; the overlay adds ``router`` (of
    `node`) and ``next`` (the node it would go to next).  All messages of an operation have the same
    columns.  An upcall returns a :class:`Step`: messages, changes of the application's state, and
    *outcomes*: rows that :meth:`Overlay.route` hands back.  Outcomes of `route` are messages, of
    the columns that the upcall was given.

    Attributes
    ----------
    state : dict of Table
        The state of all nodes.  An upcall reads it as it was before the round.
    counts : dict of Column
        Conditions on messages, for example one for each type of message: how many of a round's
        satisfy each is in the round's ``counts``, so that an upcall does nothing for a type that
        there is none of.
    """

    def __init__(
        self,
        state: Mapping[str, Table] | None = None,
        counts: Mapping[str, Column] | None = None,
    ) -> None:
        self.state: Mapping[str, Table] = state or {}
        self.counts: Mapping[str, Column] = counts or {}

    def forward(self, state: Mapping[str, Table], messages: DataFrame, round: Round) -> Step:
        """Before messages go on to ``next``.

        The outbox has those that do: it may lack some, and the application may change contents and
        ``next``, and add messages of its own.
        """
        return Step(outbox=messages)

    def deliver(self, state: Mapping[str, Table], messages: DataFrame, round: Round) -> Step:
        """Messages at the root of their key, or at the node that they were sent to.

        The outbox has new messages, with the columns that :meth:`Overlay.route` or
        :meth:`Overlay.send` was given; ``node`` says where they start (`route`) or arrive (`send`).
        """
        return Step(outcomes=messages)
