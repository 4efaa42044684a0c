"""Counts of the state that nodes keep, and of the messages that built it.

References
----------
docs/rules.md, G14.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import read_table
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import Inbox, Outbox, Tables
from scribe_spark.gossipsub.links import WAS_DIALLED, BackOff, Links
from scribe_spark.gossipsub.mesh import (
    BACK_OFF,
    CONNECTIONS,
    GRAPH,
    MESH,
    TOLD,
    TopicsProgram,
)

#: Tables of a bucket.  JOINING: messages while joining, ``key, kind, messages`` (the link at the
#: receiving node, and an index of `JOINING_KINDS`).  KEPT: state of nodes, ``place, kind,
#: entries``.
JOINING, KEPT = "joining", "kept"
JOINING_KINDS = ("dial", "GRAFT", "PRUNE")
KEPT_KINDS = ("connections", "mesh", "back-off")


@dataclass(frozen=True)
class Account(TopicsProgram):
    """Count the messages and the state of a bucket's nodes; no message is sent."""

    heartbeat: int  # the number of the next heartbeat; back-off that ends before it is not counted

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`JOINING` and :data:`KEPT`."""
        tables[JOINING] = concatenate(list(self._joining(tables)))
        tables[KEPT] = concatenate(list(self._kept(tables)))
        return {}

    def _joining(self, tables: Tables) -> Iterator[dict[str, np.ndarray]]:
        dials = read_table(Links, tables, GRAPH if GRAPH in tables else CONNECTIONS)
        taken = dials.key[(dials.way & WAS_DIALLED) > 0]
        yield _counted(0, taken, np.ones(len(taken), dtype=np.int64), "key", "messages")
        for kind, name in enumerate(JOINING_KINDS[1:], start=1):
            told = [tables[one]["key"] for one in tables if one.startswith(f"{TOLD} {name} ")]
            key, messages = np.unique(
                np.concatenate([np.empty(0, dtype=np.int64), *told]), return_counts=True
            )
            yield _counted(kind, key, messages, "key", "messages")

    def _kept(self, tables: Tables) -> Iterator[dict[str, np.ndarray]]:
        size = self.topics.space.size
        back_off = read_table(BackOff, tables, BACK_OFF)
        back_off.keep(back_off.until > self.heartbeat)
        connections, mesh = (read_table(Links, tables, name) for name in (CONNECTIONS, MESH))
        for kind, table in enumerate((connections, mesh, back_off)):
            place, entries = np.unique(table.key // size, return_counts=True)
            yield _counted(kind, place, entries, "place", "entries")


def _counted(
    kind: int, key: np.ndarray, count: np.ndarray, of: str, what: str
) -> dict[str, np.ndarray]:
    return {of: key, "kind": np.full(len(key), kind, dtype=np.int8), what: count.astype(np.int64)}
