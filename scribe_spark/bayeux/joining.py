"""JOIN to the root, and TREE back: every node on its way records the member.

References
----------
docs/rules.md, B4 to B6.  JSAC 2002, Section V: "Each request to join a group is routed by Tapestry
all the way to the node acting as the root. Then, the root records the identity of the new member
and uses Tapestry to route another message back to the new member. Every Tapestry node along this
route records the identity of the new member."
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.sessions import Sessions
from scribe_spark.core.arrays import distinct, key_of, key_parts
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT

__all__ = [
    "BEGUN",
    "EDGES",
    "JOIN",
    "LISTED",
    "MEMBER",
    "MEMBERS",
    "SENT",
    "TREE",
    "Join",
    "Record",
    "Tree",
]

# kinds of messages
MEMBER, JOIN, TREE = "member", "JOIN", "TREE"
# tables of a bucket
MEMBERS, BEGUN, EDGES, LISTED, SENT = "members", "begun", "edges", "listed", "sent"
_JOINED, _LISTS = "joined", "lists"


@dataclass(frozen=True)
class _Program:
    """What the programs have in common."""

    sessions: Sessions

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.sessions.bounds

    def first(self, bucket: int) -> int:
        """Return the position of a bucket's first node."""
        return int(self.bounds[bucket])


def _sent(tables: Tables, kind: str, superstep: int, moving: Columns, to: np.ndarray) -> None:
    """Count transmissions: by session, sender and receiver."""
    tables[f"{SENT} {kind} {superstep}"] = {
        "session": moving["session"],
        "sender": moving[AT],
        "receiver": to,
    }


@dataclass(frozen=True)
class Join(_Program):
    """All members send JOINs, which go to the roots of their sessions."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Move JOINs a hop; keep those that have come to the root."""
        came = [inbox[JOIN]] if JOIN in inbox else []
        if MEMBER in inbox:
            group, at = inbox[MEMBER]["group"], inbox[MEMBER][AT]
            tables[MEMBERS] = {"group": group, "node": at}
            came.append({AT: at, "session": self.sessions.nearest(group, at), "member": at})
        if not came:
            return {}
        moving, first = concatenate(came), self.first(bucket)
        at, session = moving[AT], moving["session"]
        keys = self.sessions.keys.take(session)
        onward = self.sessions.to_root(first, tables, at, keys.hi, keys.lo)
        ends = (onward == at) & (self.sessions.root_of[session] == at)
        tables[f"{_JOINED} {superstep}"] = take(moving, ends)
        goes = np.flatnonzero((onward >= 0) & (onward != at))
        onward, moving = onward[goes], take(moving, goes)
        _sent(tables, JOIN, superstep, moving, onward)
        return {JOIN: {**moving, AT: onward}}


@dataclass(frozen=True)
class Tree(_Program):
    """The roots send a TREE to each member; nodes on the way record it."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Move TREEs a hop; record their members and where they went."""
        came = [inbox[TREE]] if TREE in inbox else []
        if not superstep:
            came = [tables.pop(name) for name in list(tables) if name.startswith(f"{_JOINED} ")]
        if not came:
            return {}
        moving, ring = concatenate(came), self.sessions.facts.ring
        if not superstep:
            tables[BEGUN] = {"session": distinct(moving["session"])}
        moving = take(moving, moving[AT] != moving["member"])
        at, member = moving[AT], moving["member"]
        onward = self.sessions.to_member(
            self.first(bucket), tables, at, ring.hi[member], ring.lo[member]
        )
        goes = np.flatnonzero((onward >= 0) & (onward != at))
        onward, moving = onward[goes], take(moving, goes)
        tables[f"{_LISTS} {superstep}"] = {**moving, "next": onward}
        _sent(tables, TREE, superstep, moving, onward)
        return {TREE: {**moving, AT: onward}}


@dataclass(frozen=True)
class Record(_Program):
    """What JOIN and TREE have left, brought together at each node."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write what nodes list, to whom they forward, and what they have sent."""
        size = len(self.sessions.facts.ring)
        lists = [tables.pop(name) for name in list(tables) if name.startswith(f"{_LISTS} ")]
        if lists:
            listed = concatenate(lists)
            entry = key_of([listed["session"], listed[AT]], size)
            group = listed["session"] // self.sessions.partitions
            kept, entries = np.unique(key_of([group, listed[AT]], size), return_counts=True)
            tables[LISTED] = {**key_parts(kept, ("group", "node"), size), "entries": entries}
            edges = distinct(key_of([entry, listed["next"]], size))
            tables[EDGES] = key_parts(edges, ("group", "node", "peer"), size)
        for kind in (JOIN, TREE):
            names = [name for name in tables if name.startswith(f"{SENT} {kind} ")]
            if not names:
                continue
            sent = concatenate([tables.pop(name) for name in names])
            ends = ("session", "sender", "receiver")
            key = key_of([sent[name] for name in ends], size)
            kept, messages = np.unique(key, return_counts=True)
            tables[f"{SENT} {kind}"] = {**key_parts(kept, ends, size), "messages": messages}
        return {}
