"""Counts of the messages that nodes send, and the dead nodes that these meet: tables of a bucket.

A message is counted in the bucket of the node that sends it, so that counts of all buckets together
do not depend on how many there are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.program import append
from scribe_spark.errors import shown
from scribe_spark.pastry.arrivals.messages import Kind

#: A function that returns the senders and receivers of messages (positions), called only where
#: these are kept.
Between = Callable[[], tuple[np.ndarray, np.ndarray]]

#: The table of counts: ``messages`` and ``lost``, a row for each kind.
MESSAGES = "messages"

#: The tables of senders and receivers (``kind``, ``sender``, ``to``) are called ``traffic 0``, ...:
#: none is written twice.
TRAFFIC = "traffic"

#: The table of dead nodes that nodes of the bucket have met: ``node``, ``dead``, pairs that may be
#: there more than once.
FOUND = "found dead"


@dataclass(frozen=True)
class Observer:
    """Sees the messages of a bucket's nodes.

    Attributes
    ----------
    kinds : tuple of str
        Of messages.
    traffic : bool
        Whether senders and receivers are kept; without it they are not even computed.
    """

    kinds: tuple[str, ...] = tuple(Kind)
    traffic: bool = False

    @functools.cached_property
    def _index(self) -> dict[str, int]:
        return {kind: index for index, kind in enumerate(self.kinds)}

    def count(
        self,
        tables: Tables,
        kind: str,
        messages: int | np.integer,
        lost: int | np.integer = 0,
        *,
        between: Between,
    ) -> None:
        """Count messages that nodes of a bucket send, of which some meet a dead node.

        Parameters
        ----------
        tables : Tables
            Of the bucket.
        between : callable
            Gives the sender and the receiver of each message, in any order.

        Raises
        ------
        ValueError
            An unknown kind; or not as many senders and receivers as messages.
        """
        if kind not in self._index:
            raise ValueError(f"{shown(kind)} is not among the kinds of messages")
        if not messages:
            return
        counts = np.zeros((2, len(self.kinds)), dtype=np.int64)
        if MESSAGES in tables:
            counts += tables[MESSAGES]["messages"], tables[MESSAGES]["lost"]
        counts[:, self._index[kind]] += int(messages), int(lost)
        tables[MESSAGES] = {"messages": counts[0], "lost": counts[1]}
        if self.traffic:
            sender, to = ends_of(kind, messages, between)
            before = sum(name.startswith(f"{TRAFFIC} ") for name in tables)
            tables[f"{TRAFFIC} {before}"] = {
                "kind": np.full(len(sender), self._index[kind], dtype=np.int8),
                "sender": sender.astype(np.int32),
                "to": to.astype(np.int32),
            }

    def send(
        self, tables: Tables, kind: str, arrives: np.ndarray, sender: np.ndarray, to: np.ndarray
    ) -> None:
        """Count a message for each element; False where it is lost."""
        lost = arrives.size - np.count_nonzero(arrives)
        self.count(tables, kind, arrives.size, lost, between=lambda: (sender, to))

    def meet(self, tables: Tables, node: np.ndarray, dead: np.ndarray) -> None:
        """Note that live nodes of a bucket have found others dead: positions."""
        if len(node):
            append(tables, FOUND, {"node": node, "dead": dead})


def ends_of(
    kind: str, messages: int | np.integer, between: Between
) -> tuple[np.ndarray, np.ndarray]:
    """Return the senders and receivers of messages that are counted.

    Raises
    ------
    ValueError
        Not as many as messages.
    """
    sender, to = between()
    if not len(sender) == len(to) == messages:
        raise ValueError(f"{messages} {kind}, from {len(sender)} nodes to {len(to)}")
    return sender, to


def both_ways(asker: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the senders and receivers of questions and their answers."""
    return np.r_[asker, asked], np.r_[asked, asker]


def counted(table: Columns, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return messages and lost ones by kind, of the tables :data:`MESSAGES` of all buckets."""
    sums = [table[name].reshape(-1, kinds).sum(axis=0) for name in ("messages", "lost")]
    return sums[0], sums[1]
