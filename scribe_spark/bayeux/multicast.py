"""Deliveries of a multicast to members, and its copies, over all partitions.

In each session, the copies start at its root (:mod:`scribe_spark.dissemination`).  The way before
that is the same for all nodes of a session: from the source to the root of partition 0, and from
there to the session's root.  So this module adds it afterwards.

Rules: docs/rules.md, B7 to B9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.membership import MEMBERS, Members, SessionProgram, ToRoot
from scribe_spark.bayeux.sessions import Sessions
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    find_sorted,
    read_table,
    run_starts,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, Dissemination
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.multicast import TIME

# kinds of messages
SOURCE, MULTICAST = "source", "MULTICAST"

# tables of a bucket
COPIES, DELIVERED = "copies of all sessions", "delivered"

_COLUMNS = ("session", "group", "node", "sender", "hops", "at_us")


@dataclass(frozen=True)
class Ways:
    """The way of a multicast to the root of each session."""

    source: np.ndarray  # (G,): the position of each group's source
    #: (G k,): the node that sends the message to the session's root; -1 if the source is that root.
    sender: np.ndarray
    #: (G k,): hops and delay up to the session's root; hops are -1 if the message does not arrive.
    hops: np.ndarray
    delay_us: np.ndarray

    @classmethod
    def of(
        cls, sessions: Sessions, source: np.ndarray, hops: np.ndarray, delay_us: np.ndarray
    ) -> Ways:
        """Compute the ways by rule B8 from those to the roots of partition 0 (hops -1: lost)."""
        roots = sessions.roots
        main = np.repeat(roots[:, 0], roots.shape[1])
        session, root = np.arange(roots.size), roots.ravel()
        group = session // roots.shape[1]
        is_main = session % roots.shape[1] == 0
        sender = np.where(is_main, np.where(source == roots[:, 0], NONE, source)[group], main)
        there = (root >= 0) & (hops[group] >= 0)
        more_us = sessions.delays(main, root)
        return cls(
            source,
            sender,
            np.where(there, hops[group] + ~is_main, NONE),
            delay_us[group] + more_us,
        )

    def started(self, begun: np.ndarray, partitions: int) -> np.ndarray:
        """Return the sessions in which copies start: partition 0, and others with members.

        `begun` has the sessions whose root received a JOIN.
        """
        main = np.arange(len(self.source)) * partitions
        sessions = distinct(np.r_[main, begun])
        return sessions[self.hops[sessions] >= 0]


@dataclass(frozen=True)
class Publish(ToRoot):
    """Sources (messages :data:`SOURCE`) send their publications to the roots."""

    kind = MULTICAST

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        came = inbox.get(SOURCE, {AT: whole_numbers(), "group": whole_numbers()})
        source, session = came[AT], came["group"] * self.sessions.partitions
        none = np.zeros(len(source), dtype=np.int64)
        way = {"hops": none, "delay_us": none}
        return {AT: source, "session": session, "member": source, "number": none, **way}


def flood(sessions: Sessions, clock: str = TIME) -> Dissemination:
    """Return the program in which nodes send copies to all next hops: rules B7 and B17."""
    return Dissemination(
        *(sessions.bounds, sessions.facts, sessions.kernel, sessions.lan_us),
        rule=_to_all,
        clock=clock,
    )


def _to_all(first: Columns, edges: Columns) -> np.ndarray:
    return np.ones(len(edges["peer"]), dtype=bool)


@dataclass(frozen=True)
class Deliver(SessionProgram):
    """Combine the copies that each node received in the sessions of a group."""

    ways: Ways

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write deliveries and copies; no message is sent."""
        if ARRIVALS not in tables:
            return {}
        size, ways = len(self.sessions.facts.ring), self.ways
        # 1. each node's first copy in each session, and then of the group
        came = self._from_source(tables[ARRIVALS])
        begins = tables[ARRIVALS]["sender"] < 0
        came["sender"] = np.where(begins, ways.sender[came["session"]], came["sender"])
        between_roots = begins & (came["session"] % self.sessions.partitions > 0)
        came["is_copy"] = ~begins | between_roots
        place = key_of([came["group"], came["node"]], size)
        order = np.lexsort((came["session"], came["sender"], came["hops"], came["at_us"], place))
        place = place[order]
        order = order[run_starts(place)]
        first, place = take(came, order), distinct(place)
        # 2. deliveries to members
        found = find_sorted(place, read_table(Members, tables, MEMBERS).key)
        got = take(first, found[found >= 0])
        got = take(got, got["node"] != ways.source[got["group"]])
        names = ("group", "node", "hops", "at_us")
        tables[DELIVERED] = {name: got[name] for name in names}
        # 3. copies within sessions, and copies between roots
        arrived = [tables[ARRIVED_COPIES]] if ARRIVED_COPIES in tables else []
        arrived = [self._from_source(one) for one in arrived]
        copies = concatenate(
            [*arrived, take({name: came[name] for name in _COLUMNS}, between_roots)]
        )
        which = find_sorted(place, key_of([copies["group"], copies["node"]], size))
        same = (first["session"][which] == copies["session"]) & (
            first["sender"][which] == copies["sender"]
        )
        same &= first["is_copy"][which] & (copies["node"] != ways.source[copies["group"]])
        delay_us = self.sessions.delays(copies["sender"], copies["node"])
        tables[COPIES] = {
            **{name: copies[name] for name in ("group", "node", "sender", "hops")},
            "sent_us": copies["at_us"] - delay_us,
            "first": same,
        }
        return {}

    def _from_source(self, rows: Columns) -> dict[str, np.ndarray]:
        """Return arrivals with hops and delay counted from the source."""
        session = rows["group"]
        return {
            "session": session,
            "group": session // self.sessions.partitions,
            "node": rows["node"],
            "sender": rows["sender"],
            "hops": rows["hops"] + self.ways.hops[session],
            "at_us": rows["at_us"] + self.ways.delay_us[session],
        }
