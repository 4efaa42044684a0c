"""The upcalls of Scribe, and what an application sees of the nodes that call it.

Tables in, tables out: an upcall is made once for all nodes and groups of a superstep.  A *call* is
one of them, a row of `Calls.here`; the other tables name it in their column ``call``.  A
publication is ``round << 32 | number of its source``, for the application only a name.

References
----------
JSAC 2002, Section III.B.2: forwardHandler, joinHandler, faultHandler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

__all__ = [
    "ASK",
    "CAUSES",
    "NOTHING",
    "Application",
    "Calls",
    "Emitted",
    "columns_of",
    "empty",
    "frame",
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


def empty(*columns: str) -> pd.DataFrame:
    """A table of whole numbers without rows."""
    return pd.DataFrame({name: np.empty(0, dtype=np.int64) for name in columns})


def frame(**columns: np.ndarray) -> pd.DataFrame:
    """A table of columns, which are not copied."""
    return pd.DataFrame(columns, copy=False)


def columns_of(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of a table, which are not copied."""
    return {str(name): table[name].to_numpy() for name in table.columns}


@dataclass(frozen=True)
class Calls:
    """Nodes that call the application, each (group, node) once.

    Attributes
    ----------
    round : int
    here : DataFrame
        ``group, node, root, entered`` (the round in which it entered the tree)``, joined`` (the
        round of its join; -1 for one that is no member)``, asked`` (what its own JOIN of this round
        carried, if it was answered; else NOTHING)``, epoch`` (at the root: the round in which the
        group was created; else -1).
    children : DataFrame
        ``call, child``: the children tables.
    values : DataFrame
        ``call, value``: at roots what the application keeps in the group's state, in order.
    """

    round: int
    here: pd.DataFrame
    children: pd.DataFrame
    values: pd.DataFrame


@dataclass(frozen=True)
class Emitted:
    """What an application sends.

    Attributes
    ----------
    payloads : DataFrame
        ``call, child, message``: which child gets what; a row of `messages`, or -1 for the message
        as it came.
    messages : DataFrame
        ``number, start, floor, since``: new messages.  Those that reach a node together are taken
        in the order of ``number``; the rest is the application's own, and ``since`` may be left
        out.
    contents : DataFrame
        ``message, number, publication``: what is in the new messages, in order.
    asks : DataFrame
        ``call, extra``: questions to the own parents, JOINs with an extra; for several of a call
        one is sent, see `common_extra`.  From joinHandler alone.
    values : DataFrame
        ``call, value``: what is kept in the group's state from now on; calls without a row change
        nothing.  From forwardHandler at roots alone.
    """

    payloads: pd.DataFrame = field(default_factory=lambda: empty("call", "child", "message"))
    messages: pd.DataFrame = field(
        default_factory=lambda: empty("number", "start", "floor", "since")
    )
    contents: pd.DataFrame = field(
        default_factory=lambda: empty("message", "number", "publication")
    )
    asks: pd.DataFrame = field(default_factory=lambda: empty("call", "extra"))
    values: pd.DataFrame = field(default_factory=lambda: empty("call", "value"))

    def and_also(self, more: Emitted) -> Emitted:
        """What this and another send; questions and values are those of this one."""
        message = more.payloads["message"].to_numpy()
        message = np.where(message < 0, message, message + len(self.messages))
        inside = more.contents["message"].to_numpy() + len(self.messages)
        return replace(
            self,
            payloads=_together(self.payloads, columns_of(more.payloads) | {"message": message}),
            messages=_together(self.messages, columns_of(more.messages)),
            contents=_together(self.contents, columns_of(more.contents) | {"message": inside}),
        )


def _together(table: pd.DataFrame, more: dict[str, np.ndarray]) -> pd.DataFrame:
    parts = {name: [table[name].to_numpy(), column] for name, column in more.items()}
    return frame(**{name: np.concatenate(both) for name, both in parts.items()})


class Application:
    """Best effort: messages pass unchanged, JOINs carry nothing, members get what arrives.

    Attributes
    ----------
    acknowledged : bool
        Whether sources keep publications until a root has acknowledged them.
    """

    acknowledged = False

    def forward_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> Emitted:
        """Before messages go to the children.

        Parameters
        ----------
        messages : DataFrame
            ``number, start, floor, since``, a row for each call.
        contents : DataFrame
            ``call, number, publication``, in order.
        """
        return Emitted(calls.children.assign(message=-1))

    def join_handler(self, calls: Calls, joins: pd.DataFrame) -> Emitted:
        """After children were added.

        Parameters
        ----------
        joins : DataFrame
            ``call, source, number, cause, extra``.  A new root's JOIN is its own.
        """
        return Emitted()

    def fault_handler(self, calls: Calls, joins: pd.DataFrame) -> np.ndarray:
        """Before JOINs that repair are sent: what they carry, int64, or NOTHING.

        Parameters
        ----------
        joins : DataFrame
            ``number, cause``, a row for each call.
        """
        return np.full(len(joins), NOTHING)

    def common_extra(self, of: np.ndarray, extra: np.ndarray, count: int) -> np.ndarray:
        """What single JOINs carry where several come together: the least.

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

    def message_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> pd.DataFrame:
        """At members, after forwardHandler, with what that got: what their users get now.

        Returns
        -------
        DataFrame
            ``call, publication``, in order.
        """
        return contents[["call", "publication"]]

    def nodes_died(self, nodes: np.ndarray) -> None:
        """The memory of these nodes' processes is gone."""

    def tables(self) -> dict[str, pd.DataFrame]:
        """All that it remembers, to be saved; columns of nodes are ``node`` and ``child``."""
        return {}

    def restore(self, tables: dict[str, pd.DataFrame]) -> None:
        """Take back what :meth:`tables` gave; rows may come in any order."""

    def memory(self) -> dict[str, dict[str, np.ndarray]]:
        """All that it remembers, as it is inside: for the next superstep of the same nodes."""
        return {name: columns_of(table) for name, table in self.tables().items()}

    def remember(self, memory: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Take back what :meth:`memory` gave, but for tables without rows."""
        empty = {name: table.iloc[:0] for name, table in self.tables().items()}
        self.restore(empty | {name: frame(**columns) for name, columns in memory.items()})
