"""Messages of a living overlay: routed around dead nodes, to the edge of a bucket in a superstep.

A message to a dead node is lost; its sender knows at once, and takes the next candidate of Pastry's
rule.  The tables are only read: what is dead is dropped when all messages of the phase have ended.

References
----------
JSAC 2002, Section II; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.routes import hop
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.pastry.arrivals.wave import NodeProgram

__all__ = ["LiveRoute"]

_MESSAGE = "message"


@dataclass(frozen=True)
class LiveRoute(NodeProgram):
    """Messages go hop by hop to the live nodes closest to their keys.

    Where they end is a row of a table of the bucket in which that is: the columns of the message,
    ``at`` (where it ended), ``start``, ``hops`` (transmissions that arrived), ``lost`` (that met a
    dead node), ``delivered``, and ``circled`` (a node was reached for the second time).  It is not
    delivered then, nor where no candidate is left.

    Attributes
    ----------
    kind : str
        Of message, for counts; with an empty one nothing is counted, nor met.
    ends : str
        The table of the messages that have ended.
    begin : Columns or str
        The messages, ``at`` live nodes, with ``key_hi``, ``key_lo`` (uint64) and what else they
        carry; or the table of each bucket that they are taken from.
    """

    kind: str
    ends: str
    begin: Columns | str

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Move messages to the edge of the bucket."""
        moving = inbox.get(_MESSAGE, {}) if superstep else self._start(bucket, tables)
        first, last = int(self.bounds[bucket]), int(self.bounds[bucket + 1])
        states, sent, ended = self.states(bucket, tables), list[Columns](), list[Columns]()
        while count_rows(moving):
            circled = (moving["path"] == moving[AT][:, None]).any(axis=1)
            if circled.any():
                ended.append(_ended(take(moving, circled), delivered=False, circled=True))
                moving = take(moving, ~circled)
            moving = self._hop(states, tables, moving, ended)
            inside = (moving[AT] >= first) & (moving[AT] < last)
            if not inside.all():
                sent.append(take(moving, ~inside))
                moving = take(moving, inside)
        ended = [some for some in ended if count_rows(some)]
        if ended:
            before = [tables[self.ends]] if self.ends in tables else []
            tables[self.ends] = concatenate([*before, *ended])
        return {_MESSAGE: concatenate(sent)} if sent else {}

    def _start(self, bucket: int, tables: Tables) -> Columns:
        """Return the messages that begin in the bucket."""
        if isinstance(self.begin, str):
            if self.begin not in tables:
                return {}
            mine = tables[self.begin]
            if self.begin != self.ends:
                del tables[self.begin]
        else:
            at = self.begin[AT]
            own = (at >= self.bounds[bucket]) & (at < self.bounds[bucket + 1])
            mine = take(self.begin, np.flatnonzero(own))
        none = np.zeros(count_rows(mine), dtype=np.int64)
        path = np.empty((len(none), 0), dtype=np.int64)
        return {**mine, "start": mine[AT], "hops": none, "lost": none, "path": path}

    def _hop(
        self, states: States, tables: Tables, moving: Columns, ended: list[Columns]
    ) -> dict[str, np.ndarray]:
        """Return the messages that go on, where they are then; those that do not have ended."""
        at, keys = moving[AT], Keys(moving["key_hi"], moving["key_lo"])
        onward, met = hop(states, self.given.is_alive, at, keys)
        goes = (onward >= 0) & (onward != at)
        if self.kind:
            self._count(tables, at, onward, goes, at[met.message], met.dead)
        lost = moving["lost"] + np.bincount(met.message, minlength=len(at))
        here = {**moving, "lost": lost}
        ended.append(_ended(take(here, ~goes), delivered=onward[~goes] >= 0, circled=False))
        moved = {**here, "hops": here["hops"] + 1, "path": np.c_[here["path"], at]}
        return take({**moved, AT: onward}, np.flatnonzero(goes))

    def _count(
        self,
        tables: Tables,
        at: np.ndarray,
        onward: np.ndarray,
        goes: np.ndarray,
        node: np.ndarray,
        dead: np.ndarray,
    ) -> None:
        """Count transmissions, and note the dead nodes that were met."""
        observer, lost = self.given.observer, len(dead)
        observer.meet(tables, node, dead)
        between: Callable = lambda: (np.r_[at[goes], node], np.r_[onward[goes], dead])  # noqa: E731
        observer.count(tables, self.kind, np.count_nonzero(goes) + lost, lost, between=between)


def _ended(
    messages: Columns, *, delivered: np.ndarray | bool, circled: bool
) -> dict[str, np.ndarray]:
    count = count_rows(messages)
    return {
        **{name: column for name, column in messages.items() if name != "path"},
        "delivered": np.broadcast_to(delivered, count).copy(),
        "circled": np.full(count, circled),
    }
