"""Scribe's upcalls: the interface between the Scribe nodes and an application.

An upcall takes and returns columns: it is called once for all nodes and groups of a superstep.  A
*call* is one (group, node), a row of `Calls.here`; the other tables refer to it in their column
``call``.  A publication is given by its id (`rounds.group_events.publication_ids`), which has no
meaning for the application.

JSAC 2002, Section III.B.2: forwardHandler, joinHandler, faultHandler.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scribe_spark.engine.packing import Columns, concatenate, count_rows
from scribe_spark.rounds.applications import WorldApplication

#: The causes of JOINs.
CAUSES = (
    *("own", "forwarder", "parent failed", "root failed", "parent left", "refused"),
    *("hand-over", "cycle", "ask", "shed", "collapse"),
)

#: The index of the cause "ask": the JOIN is a question of a child.
ASK = CAUSES.index("ask")

#: Marks a missing value (of extra, number or start); greater than every valid value.
NOTHING = np.iinfo(np.int64).max


def empty(*columns: str) -> Columns:
    """Return a table of int64 columns without rows."""
    return {name: np.empty(0, dtype=np.int64) for name in columns}


@dataclass(frozen=True)
class Calls:
    """The nodes for which an upcall is made; each (group, node) occurs once.

    Attributes
    ----------
    round : int
    here : Columns
        ``group, node, root``; ``entered``, the round in which the node entered the tree;
        ``joined``, the round of its join, -1 for a non-member; ``asked``, the data in its JOIN of
        this round if it was answered, else NOTHING; ``epoch``, at the root the round in which the
        group was created, else -1.
    children : Columns
        ``call, child``: the children of each node.
    values : Columns
        ``call, value``: at roots, the values that the application stores in the group's state, in
        order.
    """

    round: int
    here: Columns
    children: Columns
    values: Columns


@dataclass(frozen=True)
class Emitted:
    """The messages that an application sends.

    Attributes
    ----------
    payloads : Columns
        ``call, child, message``: a message to each child; `message` is a row of `messages`, or -1
        for the received message itself.
    messages : Columns
        ``number, start, floor, since``: new messages.  Messages that reach a node together are
        handled in the order of ``number``.  The meaning of the other columns is the application's
        own; ``since`` may be omitted.
    contents : Columns
        ``message, number, publication``: the contents of the new messages, in order.
    asks : Columns
        ``call, extra``: questions to the node's parent, that is, JOINs with added data.  Several
        questions of a call are combined by `common_extra`.  Only joinHandler may ask.
    values : Columns
        ``call, value``: the new values in the group's state; a call without a row keeps its values.
        Only forwardHandler at roots may set values.
    """

    payloads: Columns = field(default_factory=lambda: empty("call", "child", "message"))
    messages: Columns = field(default_factory=lambda: empty("number", "start", "floor", "since"))
    contents: Columns = field(default_factory=lambda: empty("message", "number", "publication"))
    asks: Columns = field(default_factory=lambda: empty("call", "extra"))
    values: Columns = field(default_factory=lambda: empty("call", "value"))

    def and_also(self, more: Emitted) -> Emitted:
        """Return the messages of both objects; questions and values are those of this object."""
        before = count_rows(self.messages)
        message = more.payloads["message"]
        message = np.where(message < 0, message, message + before)
        inside = more.contents["message"] + before
        return replace(
            self,
            payloads=concatenate([self.payloads, {**more.payloads, "message": message}]),
            messages=concatenate([self.messages, more.messages]),
            contents=concatenate([self.contents, {**more.contents, "message": inside}]),
        )


class ScribeApplication(WorldApplication):
    """The interface of applications of Scribe; this base class delivers with best effort.

    It forwards messages unchanged, adds nothing to JOINs, and delivers every message to members.

    Attributes
    ----------
    acknowledged : bool
        True if sources keep publications until a root has acknowledged them.
    """

    acknowledged = False

    def forward_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Emitted:
        """Called before a message is sent to the children; return the messages to send.

        Parameters
        ----------
        messages : Columns
            ``number, start, floor, since``, a row for each call.
        contents : Columns
            ``call, number, publication``, in order.
        """
        unchanged = np.full(count_rows(calls.children), -1)
        return Emitted({**calls.children, "message": unchanged})

    def join_handler(self, calls: Calls, joins: Columns) -> Emitted:
        """Called after children were added; return messages to them and to the parent.

        Parameters
        ----------
        joins : Columns
            ``call, source, number, cause, extra``, sorted by call and source; JOINs of one source
            are in order of arrival.  A new root appears as the source of its own JOIN.
        """
        return Emitted()

    def fault_handler(self, calls: Calls, joins: Columns) -> np.ndarray:
        """Called before repair JOINs are sent; return the data to add: int64, or NOTHING.

        Parameters
        ----------
        joins : Columns
            ``number, cause``: one row per call.
        """
        return np.full(count_rows(joins), NOTHING)

    def last_numbers(self, calls: Calls) -> np.ndarray:
        """Called when nodes send or get heartbeats, if copies may be lost; return whole numbers.

        A child whose number is less than that of its parent sends a question to the parent, with
        the data of `fault_handler`.  By default, there are no questions.
        """
        return np.full(count_rows(calls.here), -1)

    def common_extra(self, of: np.ndarray, extra: np.ndarray, count: int) -> np.ndarray:
        """Combine the data of several JOINs into the data of one JOIN; by default the minimum.

        This is used when several JOINs make one node a forwarder, and for several questions of a
        node.

        Parameters
        ----------
        of : ndarray of int64, shape (m,)
            For each of the m JOINs, the index of the combined JOIN.
        extra : ndarray of int64, shape (m,)
            The data of each JOIN; NOTHING is possible.

        Returns
        -------
        ndarray of int64, shape (count,)
        """
        least = np.full(count, NOTHING)
        np.minimum.at(least, of, extra)
        return least

    def message_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Columns:
        """Called at members after forwardHandler; return the publications to deliver now.

        Returns
        -------
        Columns
            ``call, publication``, in order.
        """
        return {name: contents[name] for name in ("call", "publication")}

    def accept(self, calls: Calls, asked: Columns) -> np.ndarray:
        """Called at members that an anycast has reached; return True where they accept it.

        The memory does not change.  By default, all accept.

        Parameters
        ----------
        asked : Columns
            ``call`` and ``number``, the user's number of the anycast; by their own numbers, the
            ``group``, the ``node`` that is asked, and the ``origin``.

        Returns
        -------
        ndarray of bool
            A value for each row of `asked`.
        """
        return np.ones(count_rows(asked), dtype=bool)

    def nodes_died(self, nodes: np.ndarray) -> None:
        """Called when nodes die, to delete their memory."""
