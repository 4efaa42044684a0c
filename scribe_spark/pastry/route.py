"""Routing of messages hop by hop, to their end or to the edge of a bucket.

References
----------
JSAC 2002, Section II; NGC 2001, Section 2.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT, append, in_bucket
from scribe_spark.pastry.next_hop import Met, hop
from scribe_spark.pastry.states import NodeProgram, States

#: ``hop_of(messages)`` returns the next node of each message (the node itself delivers; NONE: no
#: candidate is left), and the messages with updated columns.
HopOf = Callable[[Columns], tuple[np.ndarray, Columns]]


def unrouted(messages: Columns) -> dict[str, np.ndarray]:
    """Return new messages for :func:`route_to_edge`: with a column ``path`` that is empty."""
    return {**messages, "path": np.empty((count_rows(messages), 0), dtype=np.int64)}


def route_to_edge(
    moving: Columns, hop_of: HopOf, is_own: Callable[[np.ndarray], np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Route messages to their end, or to the edge of a bucket; ``path`` has the visited nodes.

    ``hop_of(messages)`` returns the next hops, and ``is_own(positions)`` is True for nodes of the
    bucket.  The result has the ended messages without paths, with two more columns: ``delivered``,
    and ``circled``, True if a node was visited twice (then the message is not delivered); and the
    messages that have reached nodes of other buckets.
    """
    ended, leaving = list[Columns](), list[Columns]()
    while count_rows(moving):
        circled = (moving["path"] == moving[AT][:, None]).any(axis=1)
        if circled.any():
            ended.append(_ended(take(moving, circled), delivered=False, circled=True))
            moving = take(moving, ~circled)
        at = moving[AT]
        onward, moved = hop_of(moving)
        goes = (onward >= 0) & (onward != at)
        if not goes.all():
            ended.append(_ended(take(moved, ~goes), delivered=onward[~goes] >= 0, circled=False))
        moving = {**moved, AT: onward, "path": np.c_[moved["path"], at]}
        inside = goes & is_own(onward)
        if np.count_nonzero(inside) < np.count_nonzero(goes):
            leaving.append(take(moving, goes & ~inside))
        moving = take(moving, inside)
    return concatenate(ended) if ended else {}, concatenate(leaving) if leaving else {}


def _ended(
    messages: Columns, *, delivered: np.ndarray | bool, circled: bool
) -> dict[str, np.ndarray]:
    count = count_rows(messages)
    return {
        **{name: column for name, column in messages.items() if name != "path"},
        "delivered": np.broadcast_to(delivered, count).copy(),
        "circled": np.full(count, circled),
    }


def count_hop(
    count: Callable[..., None],
    at: np.ndarray,
    onward: np.ndarray,
    met: Met,
    sizes: np.ndarray | None = None,
) -> None:
    """Count the transmissions of a hop, also those to dead nodes, by ``count`` of `Observer`."""
    goes, lost = (onward >= 0) & (onward != at), len(met.dead)

    def between() -> tuple[np.ndarray, np.ndarray]:
        return np.r_[at[goes], at[met.message]], np.r_[onward[goes], met.dead]

    more = {} if sizes is None else {"sizes": lambda: np.r_[sizes[goes], sizes[met.message]]}
    count(np.count_nonzero(goes) + lost, lost, between=between, **more)


_MESSAGE = "message"


@dataclass(frozen=True)
class LiveRoute(NodeProgram):
    """Route messages hop by hop to the live nodes closest to their keys.

    A message that has ended is a row of the table `ends` in the bucket where it ended: the
    message's columns, ``at`` (the last node), ``start``, ``hops`` (transmissions that arrived),
    ``lost`` (transmissions to dead nodes), ``delivered``, and ``circled`` (True if a node was
    visited twice).  A message that circled, or that has no candidate left, is not delivered.
    """

    kind: str  # is counted; if empty, neither messages nor dead nodes are recorded
    ends: str
    #: Messages ``at`` live nodes with ``key_hi, key_lo``, or the name of their table.
    begin: Columns | str

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Move messages to the edge of the bucket."""
        moving = inbox.get(_MESSAGE, {}) if superstep else self._start(bucket, tables)
        states = self.states(bucket, tables)

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            return self._hop(states, tables, messages)

        ended, leaving = route_to_edge(
            moving, hop_of, functools.partial(in_bucket, self.bounds, bucket)
        )
        if count_rows(ended):
            append(tables, self.ends, ended)
        return {_MESSAGE: leaving} if leaving else {}

    def _start(self, bucket: int, tables: Tables) -> Columns:
        """Return the messages of the program that begin at nodes of the bucket."""
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
        """Return the next hops of messages, and the messages with updated hops and losses."""
        at, keys = moving[AT], Keys(moving["key_hi"], moving["key_lo"])
        onward, met = hop(states, self.environment.is_alive, at, keys)
        if self.kind:
            observer = self.environment.observer
            observer.meet(tables, at[met.message], met.dead)
            count_hop(functools.partial(observer.count, tables, self.kind), at, onward, met)
        hops = moving["hops"] + ((onward >= 0) & (onward != at))
        lost = moving["lost"] + np.bincount(met.message, minlength=len(at))
        return onward, {**moving, "hops": hops, "lost": lost}
