"""The upcalls of Scribe, and what an application sees of the nodes that call it.

Columns in, columns out: an upcall is made once for all nodes and groups of a superstep.  A *call*
is one of them, a row of `Calls.here`; the other tables name it in their column ``call``.  A
publication is ``round << 32 | number of its source``, for the application only a name.

References
----------
JSAC 2002, Section III.B.2: forwardHandler, joinHandler, faultHandler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from scribe_spark.engine.packing import Columns, concatenate, count_rows

__all__ = [
    "ASK",
    "CAUSES",
    "NOTHING",
    "Application",
    "Calls",
    "Emitted",
    "empty",
]

#: Why a node sends a JOIN of its own.
CAUSES = (
    "own",
    "forwarder",
    "parent failed",
    "root failed",
    "parent left",
    "refused",
    "hand-over",
    "cycle",
    "ask",
    "shed",
    "collapse",
)

#: The number of the cause of questions.
ASK = CAUSES.index("ask")

#: No extra in a JOIN, no number, no start: more than any other.
NOTHING = np.iinfo(np.int64).max


def empty(*columns: str) -> Columns:
    """A table of whole numbers without rows."""
    return {name: np.empty(0, dtype=np.int64) for name in columns}


@dataclass(frozen=True)
class Calls:
    """Nodes that call the application, each (group, node) once.

    Attributes
    ----------
    round : int
    here : Columns
        ``group, node, root, entered`` (the round in which it entered the tree)``, joined`` (the
        round of its join; -1 for one that is no member)``, asked`` (what its own JOIN of this round
        carried, if it was answered; else NOTHING)``, epoch`` (at the root: the round in which the
        group was created; else -1).
    children : Columns
        ``call, child``: the children tables.
    values : Columns
        ``call, value``: at roots what the application keeps in the group's state, in order.
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
        ``call, child, message``: which child gets what; a row of `messages`, or -1 for the message
        as it came.
    messages : Columns
        ``number, start, floor, since``: new messages.  Those that reach a node together are taken
        in the order of ``number``; the rest is the application's own, and ``since`` may be left
        out.
    contents : Columns
        ``message, number, publication``: what is in the new messages, in order.
    asks : Columns
        ``call, extra``: questions to the own parents, JOINs with an extra; for several of a call
        one is sent, see `common_extra`.  From joinHandler alone.
    values : Columns
        ``call, value``: what is kept in the group's state from now on; calls without a row change
        nothing.  From forwardHandler at roots alone.
    """

    payloads: Columns = field(default_factory=lambda: empty("call", "child", "message"))
    messages: Columns = field(default_factory=lambda: empty("number", "start", "floor", "since"))
    contents: Columns = field(default_factory=lambda: empty("message", "number", "publication"))
    asks: Columns = field(default_factory=lambda: empty("call", "extra"))
    values: Columns = field(default_factory=lambda: empty("call", "value"))

    def and_also(self, more: Emitted) -> Emitted:
        """Return what this and another send; questions and values are those of this one."""
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


class Application:
    """Best effort: messages pass unchanged, JOINs carry nothing, members get what arrives.

    Attributes
    ----------
    acknowledged : bool
        Whether sources keep publications until a root has acknowledged them.
    """

    acknowledged = False

    def forward_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Emitted:
        """Before messages go to the children.

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
        """After children were added.

        Parameters
        ----------
        joins : Columns
            ``call, source, number, cause, extra``, by call and source; those of a source in the
            order in which they came.  A new root's JOIN is its own.
        """
        return Emitted()

    def fault_handler(self, calls: Calls, joins: Columns) -> np.ndarray:
        """Before JOINs that repair are sent: what they carry, int64, or NOTHING.

        Parameters
        ----------
        joins : Columns
            ``number, cause``, a row for each call.
        """
        return np.full(count_rows(joins), NOTHING)

    def common_extra(self, of: np.ndarray, extra: np.ndarray, count: int) -> np.ndarray:
        """Return what a single JOIN carries where several come together: the least.

        That is so for the JOIN of a node which JOINs make a forwarder, and for questions.

        Parameters
        ----------
        of : ndarray of int64, shape (m,)
            For which of the `count` single JOINs each of several is.
        extra : ndarray of int64, shape (m,)
            What these carry; NOTHING is possible.

        Returns
        -------
        ndarray of int64, shape (count,)
        """
        least = np.full(count, NOTHING)
        np.minimum.at(least, of, extra)
        return least

    def message_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Columns:
        """At members, after forwardHandler, with what that got: what their users get now.

        Returns
        -------
        Columns
            ``call, publication``, in order.
        """
        return {name: contents[name] for name in ("call", "publication")}

    def nodes_died(self, nodes: np.ndarray) -> None:
        """The memory of these nodes' processes is gone."""

    def tables(self) -> dict[str, Columns]:
        """All that it remembers: for the next superstep of the same nodes."""
        return {}

    def restore(self, tables: Mapping[str, Columns]) -> None:
        """Take back what :meth:`tables` gave; this remembers nothing yet."""
