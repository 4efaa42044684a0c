"""The application on an overlay: its two upcalls, `forward` and `deliver`, and the state of nodes.

References
----------
JSAC 2002, Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from scribe_spark.engine import Columns, Tables


@dataclass(frozen=True)
class Step:
    """The results of an upcall: arrays by name, or None.

    Attributes
    ----------
    onward : mapping of ndarray, optional
        Of `forward`: the messages that go on, with all columns that it was given.
    sent : mapping of ndarray, optional
        New messages; ``node`` says where they start (`Overlay.route`) or arrive (`Overlay.send`).
        They have ``key_hi, key_lo`` and the payload columns; others are left out.
    outcomes : mapping of ndarray, optional
        Messages that `Overlay.route` or `Overlay.send` hands back, with all columns.
    """

    onward: Columns | None = None
    sent: Columns | None = None
    outcomes: Columns | None = None


class Application:
    """The application on every node of an overlay: two upcalls, each for many messages at once.

    Messages are arrays by name: ``node`` (the number of the node where each is), ``key_hi, key_lo``
    (where it is routed to), ``next`` (the number of the node that it would go to next; -1 where
    there is none), ``start, hops, delay_us`` (where it began, and its way so far) and the payload
    columns.  Those of `Overlay.send` have ``node`` and the payload alone.  An upcall gets those of
    a *bucket* of nodes, in any order, and has the state of these nodes in `tables`: what it does
    for a node must not depend on the others.

    An application is sent to the executors, and keeps nothing in itself.

    Attributes
    ----------
    state : mapping of str
        The columns of each table of the nodes' state, as ``"node bigint, ..."``.  An upcall reads
        ``tables[name]``, arrays by name, and writes another in its place.
    independent : bool
        Whether `forward` treats each message by itself, whatever other messages do.  Then, and
        where there is no `forward`, messages make as many hops in a superstep as they can inside
        their bucket, else one.
    """

    state: Mapping[str, str] = MappingProxyType({})
    independent: bool = False

    def begin(self, tables: Tables) -> Columns | None:
        """Return messages that nodes send by themselves when routing begins: as `Step.sent`."""
        return None

    def forward(self, tables: Tables, messages: Columns) -> Step:
        """Messages before they go on to ``next``.

        `Step.onward` has those that do: it may lack some, and the application may merge them,
        change contents and ``next``.
        """
        return Step(onward=messages)

    def deliver(self, tables: Tables, messages: Columns) -> Step:
        """Messages at the root of their key, or at the node that they were sent to."""
        return Step(outcomes=messages)
