"""LEAVE messages to the root, and PRUNE messages back along the member lists.

References
----------
docs/rules.md, B15.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.member_lists import LISTS, MEMBERS, Lists, Members
from scribe_spark.bayeux.routes import SessionProgram, ToRoot, Transmissions, at_root
from scribe_spark.core.arrays import last_of_runs, read_table
from scribe_spark.core.keys import key_of, order_of
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT

# kinds of messages
QUIT, LEAVE, PRUNE = "quit", "LEAVE", "PRUNE"
#: The table of members that nodes cannot reach any more: ``at``, ``session``, ``member``,
#: ``number``.
UNREACHED = "unreached"


@dataclass(frozen=True)
class Leave(ToRoot):
    """Members that quit (messages :data:`QUIT`) send LEAVE; nodes send it for unreached members."""

    kind = LEAVE

    def begin(self, tables: Tables, inbox: Inbox) -> Columns:
        """See `ToRoot`."""
        if UNREACHED in tables:
            return tables.pop(UNREACHED)
        members = read_table(Members, tables, MEMBERS)
        quits = inbox.get(QUIT, {AT: members.key[:0], "group": members.key[:0]})
        row = members.find(key_of([quits["group"], quits[AT]], self.sessions.size))
        leaves = {"session": quits["group"], "member": quits[AT], "number": members.number[row]}
        tells = ~members.waits[row]
        members.drop(row)
        tables[MEMBERS] = members.to_columns()
        return take({AT: quits[AT], **leaves}, tells)


@dataclass(frozen=True)
class Prune(SessionProgram):
    """Roots that received a LEAVE drop the member and tell the next hop, which does the same."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Drop entries, and tell their next hops."""
        begins = not superstep and at_root(LEAVE) in tables
        if not begins and PRUNE not in inbox:
            return {}
        came = _largest(tables.pop(at_root(LEAVE))) if begins else inbox[PRUNE]
        came = take(came, came[AT] != came["member"])
        lists = read_table(Lists, tables, LISTS)
        row = lists.find(key_of([came["session"], came[AT], came["member"]], self.sessions.size))
        there = row >= 0
        there[there] = lists.number[row[there]] <= came["number"][there]
        row, came = row[there], take(came, there)
        onward = lists.next[row]
        good = self.sessions.is_good(onward, lists.written[row])
        lists.drop(row)
        tables[LISTS] = lists.to_columns()
        sent = Transmissions(PRUNE)
        sent.add(came["session"], came[AT], onward, ~good)
        sent.write(self.sessions, tables, superstep)
        return {PRUNE: take({**came, AT: onward}, good)}


def _largest(came: Columns) -> dict[str, np.ndarray]:
    """Keep the LEAVE with the largest number for each member."""
    order = order_of(came["session"], came["member"], came["number"])
    last = last_of_runs(came["session"][order], came["member"][order])
    return take(came, order[last])
