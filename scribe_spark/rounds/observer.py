"""Counts of messages by kind and of measured values, and the dead nodes that messages met.

A message is counted in the bucket of its sender.  For each measured value, a bucket counts the
things (nodes, groups, deliveries) that have it, and returns no row for each node.  So the sums over
buckets are integers that do not depend on the number of buckets.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import shown
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import append

#: Returns the senders and receivers (positions) of messages; called only if they are recorded.
Between = Callable[[], tuple[np.ndarray, np.ndarray]]

#: Returns the groups (indices) of messages, NONE for those of no group; called only if they are
#: recorded.
Groups = Callable[[], np.ndarray]

#: Returns the sizes of messages in bytes, NONE for the usual size of their kind; called only if
#: senders and receivers are recorded.
Sizes = Callable[[], np.ndarray]

#: The table of counts, with a row for each kind: ``messages`` and ``lost``.
MESSAGES = "messages"

#: The prefix of the tables of senders and receivers (``kind``, ``sender``, ``to``; in a run also
#: ``group``, ``messages``; of messages with sizes of their own also ``bytes``).  They are called
#: ``traffic 0``, ``traffic 1`` and so on: no table is rewritten.
TRAFFIC = "traffic"

#: The table of dead nodes that nodes of the bucket met: pairs ``node``, ``dead``, perhaps repeated.
FOUND = "found dead"


@dataclass(frozen=True)
class Observer:
    """Counts the messages of a bucket's nodes by kind; may record senders, receivers and groups.

    `kinds` are all kinds of messages.  `recorded` are the kinds whose senders and receivers are
    recorded and, with `groups`, also the groups.
    """

    kinds: tuple[str, ...]
    recorded: tuple[str, ...] = ()
    groups: bool = False

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
        groups: Groups | None = None,
        times: np.ndarray | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        """Count `messages` of a kind that a bucket's nodes send; `lost` of them meet a dead node.

        The function `between` returns the sender and the receiver of each message, in any order;
        `groups` returns the groups of these messages, by default NONE.  If only groups are
        recorded, rows may stand for several messages: `times` has their numbers.  `sizes` returns
        the sizes of these messages in bytes, if they have sizes of their own.
        """
        if kind not in self._index:
            raise ValueError(f"{shown(kind)} is not among the kinds of messages")
        if not (messages or lost):
            return
        counts = np.zeros((2, len(self.kinds)), dtype=np.int64)
        if MESSAGES in tables:
            counts += tables[MESSAGES]["messages"], tables[MESSAGES]["lost"]
        counts[:, self._index[kind]] += int(messages), int(lost)
        tables[MESSAGES] = {"messages": counts[0], "lost": counts[1]}
        if messages and kind in self.recorded:
            sender, to = ends_of(kind, messages if times is None else len(times), between)
            more: dict[str, np.ndarray] = {}
            if self.groups:
                group = np.full(len(sender), NONE) if groups is None else groups()
                more["group"] = group.astype(np.int32)
                more["messages"] = np.ones(len(sender), dtype=np.int32) if times is None else times
            if sizes is not None:
                more["bytes"] = sizes()
            self.record(tables, kind, sender, to, **more)

    def record(
        self, tables: Tables, kind: str, sender: np.ndarray, to: np.ndarray, **more: np.ndarray
    ) -> None:
        """Record senders and receivers (positions) of messages of a kind in a new `TRAFFIC` table.

        `more` are further columns of that table.
        """
        before = sum(name.startswith(f"{TRAFFIC} ") for name in tables)
        tables[f"{TRAFFIC} {before}"] = {
            "kind": np.full(len(sender), self._index[kind], dtype=np.int8),
            "sender": sender.astype(np.int32),
            "to": to.astype(np.int32),
            **more,
        }

    def send(
        self,
        tables: Tables,
        kind: str,
        arrives: np.ndarray,
        sender: np.ndarray,
        to: np.ndarray,
        group: np.ndarray | None = None,
        times: np.ndarray | None = None,
        size: np.ndarray | None = None,
    ) -> None:
        """Count a message of a kind for each element of `arrives`; False marks a lost message.

        `sender` and `to` are positions.  `group` are the groups of the messages, by default none;
        `times` has the number of messages that each row stands for, if no message is lost; `size`
        are the sizes of the messages in bytes, by default those of kinds.
        """
        lost = arrives.size - np.count_nonzero(arrives)
        messages = arrives.size if times is None else int(times.sum())
        groups = None if group is None else lambda: group
        sizes = None if size is None else lambda: size
        between = sender, to
        self.count(
            *(tables, kind, messages, lost),
            between=lambda: between,
            groups=groups,
            times=times,
            sizes=sizes,
        )

    def meet(self, tables: Tables, node: np.ndarray, dead: np.ndarray) -> None:
        """Record that live nodes of a bucket met dead nodes; both are positions."""
        if len(node):
            append(tables, FOUND, {"node": node, "dead": dead})


def ends_of(
    kind: str, messages: int | np.integer, between: Between
) -> tuple[np.ndarray, np.ndarray]:
    """Return the senders and the receivers of messages, which the function `between` computes.

    A ValueError is raised if these are not as many as the counted `messages` of a `kind`.
    """
    sender, to = between()
    if not len(sender) == len(to) == messages:
        raise ValueError(f"{messages} {kind}, from {len(sender)} nodes to {len(to)}")
    return sender, to


def both_ways(asker: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the senders and receivers of questions, followed by those of their answers."""
    return np.r_[asker, asked], np.r_[asked, asker]


def counted(table: Columns, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of messages and of lost messages by kind, summed over all buckets.

    `table` has the tables :data:`MESSAGES` of the buckets, one after the other.
    """
    sums = [table[name].reshape(-1, kinds).sum(axis=0) for name in ("messages", "lost")]
    return sums[0], sums[1]


class Tally:
    """The number of messages of each kind in a round; ``lost KIND`` are those that met a dead node.

    `kinds` are the kinds that are counted; buckets record the senders and receivers of those in
    `recorded` and, with `groups`, also the groups of messages.
    """

    def __init__(
        self, kinds: tuple[str, ...], recorded: tuple[str, ...] = (), groups: bool = False
    ) -> None:
        self.kinds, self._recorded, self._groups = kinds, recorded, groups
        self._counts: Counter[str] = Counter()

    @property
    def observer(self) -> Observer:
        """The observer that counts these kinds in buckets; :meth:`take` adds its counts here."""
        return Observer(self.kinds, self._recorded, self._groups)

    def take(self, taken: Mapping[str, Columns]) -> None:
        """Add the counts of all buckets, from their tables `MESSAGES` in `taken`."""
        if MESSAGES in taken:
            sums = counted(taken[MESSAGES], len(self.kinds))
            for kind, messages, lost in zip(self.kinds, *sums, strict=True):
                self._counts[kind] += int(messages)
                self._counts[f"lost {kind}"] += int(lost)

    def by_kind(self) -> dict[str, int]:
        """Return the number of messages by kind, without kinds that did not occur."""
        return {kind: count for kind, count in sorted(self._counts.items()) if count}


class Counts:
    """Histograms of a bucket by name: how many things (nodes, groups, ...) have each value."""

    def __init__(self) -> None:
        self._parts: list[Columns] = []

    def add(self, name: str, values: np.ndarray) -> None:
        """Add the number of times that each whole number occurs in `values` to a histogram."""
        self.add_counts(name, *np.unique(values, return_counts=True))

    def add_counts(self, name: str, values: np.ndarray, counts: np.ndarray) -> None:
        """Add ``counts[i]`` things with the whole number ``values[i]`` to a histogram."""
        if len(values):
            value, count = values.astype(np.int64), counts.astype(np.int64)
            names = np.full(len(values), name)
            self._parts.append({"name": names, "value": value, "count": count})

    def add_total(self, name: str, count: int | np.integer) -> None:
        """Add `count` things with the value 0 to a histogram in which only their number matters."""
        self.add_counts(name, np.zeros(min(int(count), 1), np.int64), np.array([count]))

    def columns(self) -> dict[str, np.ndarray]:
        """Return all histograms as rows ``name, value, count``; no columns if there are no rows."""
        return concatenate(self._parts) if self._parts else {}


class Counted:
    """The histograms of all buckets, summed, from the rows of :meth:`Counts.columns`."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def total(self, name: str) -> int:
        """Return the number of things in a histogram, whatever their value."""
        return int(self.histogram(name).counts.sum())

    def by_value(self, name: str) -> dict[int, int]:
        """Return a histogram as a dict: value -> number of things, sorted by value."""
        found = self.histogram(name)
        return dict(zip(found.values.astype(int).tolist(), found.counts.tolist(), strict=True))

    def histogram(self, name: str) -> Histogram:
        """Return the histogram with a name, summed over buckets."""
        if not self._columns:
            return Histogram()
        named = self._columns["name"] == name
        return add_counts(self._columns["value"][named], self._columns["count"][named])
