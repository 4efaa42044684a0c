"""Counts of the messages that arrivals send, and the dead nodes that these meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from scribe_spark.engine import Tables
from scribe_spark.pastry.arrivals.messages import Kind

__all__ = ["MESSAGES", "Between", "CountsInTables", "Observer"]

#: Senders and receivers of messages (positions), computed only where somebody wants them.
Between = Callable[[], tuple[np.ndarray, np.ndarray]]

#: The table of `CountsInTables`: ``messages``, a row for each `Kind`.
MESSAGES = "arrival messages"


class Observer(Protocol):
    """Sees the messages of a bucket's nodes."""

    def count(
        self, tables: Tables, kind: Kind, messages: int, lost: int = 0, *, between: Between
    ) -> None:
        """Count messages that nodes of a bucket send, of which some meet a dead node.

        Parameters
        ----------
        tables : Tables
            Of the bucket.
        between : callable
            Gives the sender and the receiver of each message, in any order.
        """
        ...

    def meet(self, node: np.ndarray, dead: np.ndarray) -> None:
        """Note that live nodes have found others dead: positions; a pair may come twice."""
        ...


class CountsInTables:
    """Counts messages by kind in a table of each bucket; there nobody is dead."""

    def count(
        self, tables: Tables, kind: Kind, messages: int, lost: int = 0, *, between: Between
    ) -> None:
        """See `Observer.count`."""
        if messages:
            counted = np.zeros(len(Kind), dtype=np.int64)
            if MESSAGES in tables:
                counted += tables[MESSAGES]["messages"]
            counted[kind] += messages
            tables[MESSAGES] = {"messages": counted}

    def meet(self, node: np.ndarray, dead: np.ndarray) -> None:
        """See `Observer.meet`."""
        assert not len(dead), "nobody dies while the overlay grows"
