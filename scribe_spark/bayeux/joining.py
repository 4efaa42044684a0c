"""JOIN messages to the root, and TREE messages to the member; nodes on the way record the member.

References
----------
docs/rules.md, B4 to B6, B16.  JSAC 2002, Section V: "Each request to join a group is routed by
Tapestry all the way to the node acting as the root. Then, the root records the identity of the new
member and uses Tapestry to route another message back to the new member. Every Tapestry node along
this route records the identity of the new member."
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.member_lists import CAME, LISTED, MEMBERS, Members
from scribe_spark.bayeux.routes import SessionProgram, ToRoot, Transmissions, at_root
from scribe_spark.core.arrays import distinct, read_table
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.next_hop import Met
from scribe_spark.pastry.route import unrouted

# kinds of messages
MEMBER, JOIN, TREE = "member", "JOIN", "TREE"
_ARRIVED = "TREE has arrived"

_NAMED, _WAY = ("session", "member", "number"), ("hops", "delay_us")

#: The table of sessions whose TREEs start in the bucket.
BEGUN = "begun"


@dataclass(frozen=True)
class Join(ToRoot):
    """All waiting members send JOINs, also those that join now by messages :data:`MEMBER`."""

    kind = JOIN

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        """See `ToRoot`."""
        size, number = self.sessions.size, self.sessions.number
        members = read_table(Members, tables, MEMBERS)
        if MEMBER in inbox:
            key = key_of([inbox[MEMBER]["group"], inbox[MEMBER][AT]], size)
            members.put(key, number=number, waits=True)
        members.number = np.where(members.waits, number, members.number)
        tables[MEMBERS] = members.to_columns()
        group, member = np.divmod(members.key[members.waits], size)
        session = self.sessions.nearest(group, member)
        return {AT: member, "session": session, "member": member, "number": 0 * group + number}


@dataclass(frozen=True)
class Tree(SessionProgram):
    """Route TREEs to members.

    In a run, nodes record the member when they forward a TREE.  In a world, they do so when the
    TREE has reached the member, which they learn by an acknowledgement that is not counted.
    """

    #: The table of JOINs to answer or of members to find: ``at`` (where the TREE starts),
    #: ``session``, ``member``, ``number``; if TREEs carry publications, also ``hops, delay_us`` of
    #: these.
    begin: str = at_root(JOIN)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Route TREEs to the edge of the bucket; store the entries that nodes should record."""
        moving, sent, came = inbox.get(TREE, {}), Transmissions(TREE), list[Columns]()
        listed = [inbox[_ARRIVED]] if _ARRIVED in inbox else []
        way = () if self.sessions.round is None else ("path",)
        if not superstep and self.begin in tables:
            moving = unrouted(tables.pop(self.begin))
            tables[BEGUN] = {"session": distinct(moving["session"])}

        def next_hop(first: int, messages: Columns) -> tuple[np.ndarray, Met]:
            onward, met = self._next_hop(first, tables, messages)
            arrived = np.flatnonzero(messages[AT] == messages["member"])
            ways = [name for name in _WAY if name in messages]
            came.append({name: messages[name][arrived] for name in (*_NAMED, *way, *ways)})
            if not way:
                goes = np.flatnonzero((onward >= 0) & (onward != messages[AT]))
                passed = {name: messages[name][goes] for name in (AT, *_NAMED)}
                listed.append({**passed, "next": onward[goes]})
            return onward, met

        _, leaving = self.route(bucket, moving, sent, next_hop)
        sent.write(self.sessions, tables, superstep)
        if listed:
            tables[f"{LISTED} {superstep}"] = concatenate(listed)
        outbox: dict[str, Columns] = {TREE: leaving} if leaving else {}
        if came:
            arrived = concatenate(came)
            kept = [name for name in (*_NAMED, *_WAY) if name in arrived]
            tables[f"{CAME} {superstep}"] = {name: arrived[name] for name in kept}
            if way:
                outbox[_ARRIVED] = _acknowledged(arrived)
        return outbox

    def _next_hop(self, first: int, tables: Tables, messages: Columns) -> tuple[np.ndarray, Met]:
        """Return the next hops of TREEs; a TREE ends at its member."""
        onward, ring = messages[AT].copy(), self.sessions.facts.ring
        row = np.flatnonzero(onward != messages["member"])
        keys = Keys.of_nodes(ring, messages["member"][row])
        onward[row], met = self.sessions.to_member(first, tables, messages[AT][row], keys)
        return onward, Met(row[met.message], met.dead)


def _acknowledged(arrived: Columns) -> dict[str, np.ndarray]:
    """Return messages to the nodes on the ways of TREEs that reached their members.

    They have the columns ``next``, and ``first``: True if the TREE started at that node.
    """
    path = arrived["path"]
    row, column = np.nonzero(path >= 0)
    node = path[row, column]
    is_first, is_last = (np.ones(len(row), dtype=bool) for _ in range(2))
    is_first[1:] = row[1:] != row[:-1]
    is_last[:-1] = is_first[1:]
    onward = np.where(is_last, arrived["member"][row], np.roll(node, -1))
    named = {name: arrived[name][row] for name in _NAMED}
    return {AT: node, **named, "next": onward, "first": is_first}
