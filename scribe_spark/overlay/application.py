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
    """The results of an upcall: dicts of arrays by name, with one value for each message.

    Attributes
    ----------
    onward : mapping of str to ndarray, optional
        From `forward`: the messages that go on, with all their columns.
    sent : mapping of str to ndarray, optional
        New messages: ``node``, where they start (`Overlay.route`) or arrive (`Overlay.send`),
        ``key_hi, key_lo`` and the payload columns; other columns are ignored.
    outcomes : mapping of str to ndarray, optional
        Messages that `Overlay.route` or `Overlay.send` returns as results, with all columns.
    """

    onward: Columns | None = None
    sent: Columns | None = None
    outcomes: Columns | None = None


class Application:
    """The program on every node of an overlay; each of its two upcalls gets many messages at once.

    Messages are a dict of arrays by name: ``node`` (the node that has the message), ``key_hi,
    key_lo`` (the halves of its 128-bit key), ``next`` (its next hop, or -1), ``start, hops,
    delay_us`` (its first node, and the hops and delay so far) and your payload columns.  Messages
    of `Overlay.send` have ``node`` and the payload only.  An upcall gets the messages of a *bucket*
    of nodes, in any order, and the state of these nodes in `tables`; its result for one node must
    not depend on other nodes.

    An application is copied to the executors, so it must keep no state in its attributes.

    Attributes
    ----------
    state : mapping of str to str
        The tables of state by name, with their columns: ``"node bigint, ..."``.  An upcall reads
        ``tables[name]``, a dict of arrays, and may replace it.
    independent : bool
        True if `forward` treats each message independently.  Then, or without `forward`, a message
        makes all hops inside its bucket in one step of the simulation; otherwise one hop.
    """

    state: Mapping[str, str] = MappingProxyType({})
    independent: bool = False

    def begin(self, tables: Tables) -> Columns | None:
        """Return the messages that nodes send when routing begins, in the form of `Step.sent`.

        Parameters
        ----------
        tables : dict
            The tables of state by name.
        """
        return None

    def forward(self, tables: Tables, messages: Columns) -> Step:
        """Process messages before they go on to the node ``next``.

        The application may drop, merge or change messages, and change ``next``.

        Parameters
        ----------
        tables : dict
            The tables of state by name.
        messages : dict of str to ndarray
            The messages on their way, one value for each message.

        Returns
        -------
        Step
            Its `onward` contains the messages that go on.
        """
        return Step(onward=messages)

    def deliver(self, tables: Tables, messages: Columns) -> Step:
        """Process messages at the root of their key, or at their receiver with `Overlay.send`.

        Parameters
        ----------
        tables : dict
            The tables of state by name.
        messages : dict of str to ndarray
            The delivered messages, one value for each message.
        """
        return Step(outcomes=messages)
