"""Routing of Bayeux's messages, to the roots of their sessions or to members.

A message has the columns ``session``, ``member`` (the member that it concerns or comes from) and
``number``.

References
----------
docs/rules.md, B3 and B14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scribe_spark.bayeux.sessions import Round, Sessions
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT, append
from scribe_spark.pastry.next_hop import Met
from scribe_spark.pastry.route import route_to_edge, unrouted

#: The prefix of a run's tables of transmissions, by kind and superstep: ``session, sender,
#: receiver, lost``.
SENT = "sent"


def at_root(kind: str) -> str:
    """Return the name of the table with messages of a kind that reached a root."""
    return f"{kind} at the root"


@dataclass
class Transmissions:
    """The transmissions of a kind by a bucket's nodes in a superstep."""

    kind: str
    rows: list[Columns] = field(default_factory=list)

    def add(
        self, session: np.ndarray, sender: np.ndarray, receiver: np.ndarray, lost: np.ndarray
    ) -> None:
        """Add transmissions."""
        self.rows.append({"session": session, "sender": sender, "receiver": receiver, "lost": lost})

    def add_hop(self, session: np.ndarray, at: np.ndarray, onward: np.ndarray, met: Met) -> None:
        """Add the transmissions of a hop, including those to dead nodes."""
        goes = np.flatnonzero((onward >= 0) & (onward != at))
        row = np.r_[goes, met.message]
        lost = np.arange(len(row)) >= len(goes)
        self.add(session[row], at[row], np.r_[onward[goes], met.dead], lost)

    def write(self, sessions: Sessions, tables: Tables, superstep: int) -> None:
        """Count transmissions in a world; in a run, write them into a table."""
        if not self.rows:
            return
        rows = concatenate(self.rows)
        if sessions.observer is None:
            tables[f"{SENT} {self.kind} {superstep}"] = rows
        else:
            sessions.observe(tables, self.kind, rows["sender"], rows["receiver"], rows["lost"])


@dataclass(frozen=True)
class SessionProgram:
    """The base class of Bayeux's programs."""

    sessions: Sessions

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.sessions.bounds

    def route(
        self,
        bucket: int,
        moving: Columns,
        sent: Transmissions,
        next_hop: Callable[[int, Columns], tuple[np.ndarray, Met]],
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Route messages to their end or the edge of the bucket, see `route_to_edge`.

        ``next_hop(first, messages)`` gets the position of the bucket's first node.
        """
        first, last = self.bounds[bucket : bucket + 2].tolist()

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            onward, met = next_hop(first, messages)
            sent.add_hop(messages["session"], messages[AT], onward, met)
            goes = np.where(onward >= 0, onward, messages[AT])
            return onward, self._farther(messages, goes)

        return route_to_edge(moving, hop_of, lambda at: (at >= first) & (at < last))

    def _farther(self, messages: Columns, to: np.ndarray) -> Columns:
        """Return messages after a hop; messages with ``hops, delay_us`` add the hop."""
        if _WAY[0] not in messages:
            return messages
        hop = (to != messages[AT]).astype(np.int64), self.sessions.delays(messages[AT], to)
        way = {name: messages[name] + more for name, more in zip(_WAY, hop, strict=True)}
        return {**messages, **way}


_ON = "on to the root"
_CARRIED = (AT, "session", "member", "number")
#: The columns of messages whose hops and delay are measured.
_WAY = "hops", "delay_us"


@dataclass(frozen=True)
class ToRoot(SessionProgram):
    """Messages are routed to the roots of their sessions, and stored in a table there.

    In a world, a root sends no message to itself.  If another node is closer to the key, that node
    knows the root and forwards messages to it.  Lost sessions accept no messages.
    """

    kind: ClassVar[str]

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        """Return the messages that nodes of the bucket send, with ``at``: the sending nodes."""
        raise NotImplementedError

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Route messages to the edge of the bucket; store those that reached the root."""
        now, roots, sent = self.sessions.round, self.sessions.root_of, Transmissions(self.kind)
        there, moving = [inbox[_ON]] if _ON in inbox else [], inbox.get(self.kind, {})
        if not superstep:
            moving = self.begin(tables, inbox)
            here = (moving[AT] == roots[moving["session"]]) & (now is not None)
            there.append(take(moving, here))
            moving = unrouted(take(moving, ~here))

        def next_hop(first: int, messages: Columns) -> tuple[np.ndarray, Met]:
            keys = self.sessions.keys.take(messages["session"])
            return self.sessions.to_root(first, tables, messages[AT], keys)

        ended, leaving = self.route(bucket, moving, sent, next_hop)
        outbox: dict[str, Columns] = {self.kind: leaving} if leaving else {}
        if count_rows(ended):
            carried = [name for name in (*_CARRIED, *_WAY) if name in ended]
            came = take({name: ended[name] for name in carried}, ended["delivered"])
            is_root = came[AT] == roots[came["session"]]
            there.append(take(came, is_root))
            if now is not None:
                outbox[_ON] = self._send_on(take(came, ~is_root), now, sent)
        self._keep(tables, there)
        sent.write(self.sessions, tables, superstep)
        return outbox

    def _send_on(self, messages: Columns, now: Round, sent: Transmissions) -> Columns:
        """Send messages directly to the roots; return those that arrive."""
        root = self.sessions.root_of[messages["session"]]
        arrives = now.is_alive(root)
        sent.add(messages["session"], messages[AT], root, ~arrives)
        return take({**self._farther(messages, root), AT: root}, arrives)

    def _keep(self, tables: Tables, there: list[Columns]) -> None:
        """Store the messages at roots of sessions that are not lost."""
        if there:
            came, now = concatenate(there), self.sessions.round
            if now is not None:
                came = take(came, ~now.lost[came["session"]])
            append(tables, at_root(self.kind), came)
