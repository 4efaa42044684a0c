"""The tables of the buckets as the tables that Bayeux hands over: numbers of nodes, ids of routers.

References
----------
docs/rules.md, B6, B9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from scribe_spark import multicast
from scribe_spark.bayeux.joining import BEGUN, JOIN, TREE
from scribe_spark.bayeux.member_lists import LISTS, Lists, take_tables
from scribe_spark.bayeux.multicast import COPIES, DELIVERED
from scribe_spark.bayeux.routes import SENT, SessionProgram
from scribe_spark.bayeux.sessions import Sessions
from scribe_spark.core.arrays import read_table
from scribe_spark.core.keys import key_of, key_parts
from scribe_spark.dissemination import EDGES
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import ends, read_columns
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate
from scribe_spark.runtime.batches import Batches

#: The kind of the state that a node keeps.
MEMBER_LIST = "member list"

#: The table of how many entries nodes have.
ENTRIES = "entries"


@dataclass(frozen=True)
class Sums(SessionProgram):
    """Counts what nodes keep of each group, and what they have sent; the rows are gone then."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the counts; nothing is sent."""
        size = self.sessions.size
        if LISTS in tables:
            session, node = np.divmod(read_table(Lists, tables, LISTS).key // size, size)
            del tables[LISTS]
            place = key_of([session // self.sessions.partitions, node], size)
            kept, entries = np.unique(place, return_counts=True)
            tables[ENTRIES] = {**key_parts(kept, ("group", "node"), size), "entries": entries}
        for kind in (JOIN, TREE):
            if rows := take_tables(tables, f"{SENT} {kind}"):
                ends, sent = ("session", "sender", "receiver"), concatenate(rows)
                kept, messages = np.unique(
                    key_of([sent[name] for name in ends], size), return_counts=True
                )
                tables[f"{SENT} {kind}"] = {**key_parts(kept, ends, size), "messages": messages}
        return {}


@dataclass(frozen=True)
class HandedOver:
    """Makes rows of tables of a bucket; picklable.

    Attributes
    ----------
    sessions : Sessions
    number : ndarray of int64, shape (G,)
        The groups' numbers, ascending.
    """

    sessions: Sessions
    number: np.ndarray

    def begun(self, tables: BucketTables) -> Batches:
        """Return ``session``: those whose root has got a JOIN."""
        return self._read(tables, BEGUN, dict, "session bigint")

    def edges(self, tables: BucketTables) -> Batches:
        """Return `multicast.EDGES`."""
        return self._read(tables, EDGES, self._edges, multicast.EDGES)

    def copies(self, tables: BucketTables) -> Batches:
        """Return `multicast.COPIES`."""
        return self._read(tables, COPIES, self._copies, multicast.COPIES)

    def deliveries(self, tables: BucketTables) -> Batches:
        """Return `multicast.DELIVERIES`."""
        return self._read(tables, DELIVERED, self._deliveries, multicast.DELIVERIES)

    def state(self, tables: BucketTables) -> Batches:
        """Return `multicast.STATE`."""
        return self._read(tables, ENTRIES, self._entries, multicast.STATE)

    def control(self, tables: BucketTables) -> Batches:
        """Return `multicast.CONTROL`."""
        return Batches.union(
            self._read(tables, f"{SENT} {kind}", partial(self._messages, kind), multicast.CONTROL)
            for kind in (JOIN, TREE)
        )

    @staticmethod
    def _read(
        tables: BucketTables, name: str, make: Callable[[Columns], Mapping[str, Any]], schema: str
    ) -> Batches:
        return read_columns(tables.rows(name), lambda bucket, start, some: make(some), schema)

    def _edges(self, some: Columns) -> dict[str, Any]:
        # the column that the flood calls group has sessions
        return {
            "group": self._group_of(some["group"]),
            **self._ends(parent=some["node"], child=some["peer"]),
        }

    def _copies(self, some: Columns) -> dict[str, Any]:
        return {
            "group": self.number[some["group"]],
            **self._ends(sender=some["sender"], receiver=some["node"]),
            "kind": _same(multicast.PAYLOAD, some["node"]),
            "hop": some["hops"],
            "sent_us": some["sent_us"],
            "first": some["first"],
        }

    def _deliveries(self, some: Columns) -> dict[str, Any]:
        return {
            "group": self.number[some["group"]],
            "node": self.sessions.facts.ring.node[some["node"]],
            "hops": some["hops"],
            "delay_us": some["at_us"],
        }

    def _entries(self, some: Columns) -> dict[str, Any]:
        return {
            "group": self.number[some["group"]],
            "node": self.sessions.facts.ring.node[some["node"]],
            "kind": _same(MEMBER_LIST, some["node"]),
            "entries": some["entries"],
        }

    def _messages(self, kind: str, some: Columns) -> dict[str, Any]:
        return {
            "group": self._group_of(some["session"]),
            **self._ends(sender=some["sender"], receiver=some["receiver"]),
            "kind": _same(kind, some["sender"]),
            "messages": some["messages"],
        }

    def _group_of(self, session: np.ndarray) -> np.ndarray:
        return self.number[session // self.sessions.partitions]

    def _ends(self, **positions: np.ndarray) -> dict[str, np.ndarray]:
        return ends(self.sessions.facts.ring, self.sessions.kernel, **positions)


def _same(kind: str, rows: np.ndarray) -> pa.Array:
    return pa.repeat(pa.scalar(kind), len(rows))
