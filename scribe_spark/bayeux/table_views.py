"""The results of Bayeux as tables for measures, converted from the tables of buckets.

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
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.views import Names, read_view
from scribe_spark.runtime.batches import Batches

#: The kind of state that a node keeps.
MEMBER_LIST = "member list"

#: The table with the number of entries of each node.
ENTRIES = "entries"


@dataclass(frozen=True)
class Sums(SessionProgram):
    """Count the entries that nodes keep and the messages that they sent; the rows are deleted."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the counts; no message is sent."""
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
class TableViews:
    """Converts the tables of buckets to rows for measures; picklable."""

    sessions: Sessions
    number: np.ndarray  # (G,): the numbers of the groups, ascending

    def begun(self, tables: BucketTables) -> Batches:
        """Return ``session``: the sessions whose root received a JOIN."""
        return self._view(tables, BEGUN, "session bigint")

    def edges(self, tables: BucketTables) -> Batches:
        """Return `multicast.EDGES`."""
        return self._view(tables, EDGES, multicast.EDGES, self._edges)

    def copies(self, tables: BucketTables) -> Batches:
        """Return `multicast.COPIES`."""
        return self._view(tables, COPIES, multicast.COPIES, _copies)

    def deliveries(self, tables: BucketTables) -> Batches:
        """Return `multicast.DELIVERIES`."""
        return self._view(tables, DELIVERED, multicast.DELIVERIES, _deliveries)

    def state(self, tables: BucketTables) -> Batches:
        """Return `multicast.STATE`."""
        return self._view(tables, ENTRIES, multicast.STATE, _entries)

    def control(self, tables: BucketTables) -> Batches:
        """Return `multicast.CONTROL`."""
        return Batches.union(
            self._view(tables, f"{SENT} {kind}", multicast.CONTROL, partial(self._messages, kind))
            for kind in (JOIN, TREE)
        )

    def _view(
        self,
        tables: BucketTables,
        name: str,
        schema: str,
        make: Callable[[Columns], Mapping[str, Any]] = dict,
    ) -> Batches:
        names = Names(self.sessions.facts, self.sessions.kernel, self.number)
        return read_view(tables.rows(name), names, schema, make)

    def _edges(self, some: Columns) -> dict[str, Any]:
        # in the tables of the flood, the column `group` contains sessions
        group = some["group"] // self.sessions.partitions
        return {"group": group, "parent": some["node"], "child": some["peer"]}

    def _messages(self, kind: str, some: Columns) -> dict[str, Any]:
        return {**some, "group": some["session"] // self.sessions.partitions, "kind": kind}


def _copies(some: Columns) -> dict[str, Any]:
    renamed = {"receiver": some["node"], "hop": some["hops"]}
    return {**some, **renamed, "kind": multicast.PAYLOAD}


def _deliveries(some: Columns) -> dict[str, Any]:
    return {**some, "delay_us": some["at_us"]}


def _entries(some: Columns) -> dict[str, Any]:
    return {**some, "kind": MEMBER_LIST}
