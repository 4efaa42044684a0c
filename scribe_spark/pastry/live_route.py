"""Routing in a living overlay, around dead nodes, to the edge of a bucket in each superstep.

A message to a dead node is lost; the sender notices it at once and tries the next candidate of
Pastry's rule.  Routing does not change tables: dead entries are dropped after all messages of the
phase have ended.

References
----------
JSAC 2002, Section II; NGC 2001, Section 2.2.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import count_rows, take
from scribe_spark.engine.program import AT, append
from scribe_spark.pastry.arrivals.wave import NodeProgram
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.route import count_hop, route_to_edge, unrouted
from scribe_spark.pastry.states import States

_MESSAGE = "message"


@dataclass(frozen=True)
class LiveRoute(NodeProgram):
    """Route messages hop by hop to the live nodes closest to their keys.

    A message that has ended is a row of a table in the bucket where it ended: the message's
    columns, ``at`` (the last node), ``start``, ``hops`` (transmissions that arrived), ``lost``
    (transmissions to dead nodes), ``delivered``, and ``circled`` (True if a node was visited
    twice).  A message that circled, or that has no candidate left, is not delivered.

    Attributes
    ----------
    kind : str
        The kind of message that is counted; if empty, neither messages nor dead nodes are recorded.
    ends : str
        The name of the table of messages that have ended.
    begin : Columns or str
        The messages: ``at`` live nodes, with ``key_hi``, ``key_lo`` (uint64) and any other columns;
        or the name of the bucket's table that contains them.
    """

    kind: str
    ends: str
    begin: Columns | str

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Move messages to the edge of the bucket."""
        moving = inbox.get(_MESSAGE, {}) if superstep else self._start(bucket, tables)
        first, last = int(self.bounds[bucket]), int(self.bounds[bucket + 1])
        states = self.states(bucket, tables)

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            return self._hop(states, tables, messages)

        ended, leaving = route_to_edge(moving, hop_of, lambda at: (at >= first) & (at < last))
        if count_rows(ended):
            append(tables, self.ends, ended)
        return {_MESSAGE: leaving} if leaving else {}

    def _start(self, bucket: int, tables: Tables) -> Columns:
        """Return the messages that begin in the bucket."""
        if isinstance(self.begin, str):
            if self.begin not in tables:
                return {}
            own = tables[self.begin]
            if self.begin != self.ends:
                del tables[self.begin]
        else:
            at = self.begin[AT]
            inside = (at >= self.bounds[bucket]) & (at < self.bounds[bucket + 1])
            own = take(self.begin, np.flatnonzero(inside))
        none = np.zeros(count_rows(own), dtype=np.int64)
        return unrouted({**own, "start": own[AT], "hops": none, "lost": none})

    def _hop(
        self, states: States, tables: Tables, moving: Columns
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the next hops of messages, and the messages with their counts of hops."""
        at, keys = moving[AT], Keys(moving["key_hi"], moving["key_lo"])
        onward, met = hop(states, self.given.is_alive, at, keys)
        if self.kind:
            observer = self.given.observer
            observer.meet(tables, at[met.message], met.dead)
            count_hop(functools.partial(observer.count, tables, self.kind), at, onward, met)
        hops = moving["hops"] + ((onward >= 0) & (onward != at))
        lost = moving["lost"] + np.bincount(met.message, minlength=len(at))
        return onward, {**moving, "hops": hops, "lost": lost}
