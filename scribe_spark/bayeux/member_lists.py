"""Tables of nodes: memberships, and member lists with the next hop to each member.

References
----------
docs/rules.md, B6, B12, B16.  JSAC 2002, Section V: "Every Tapestry node along this route records
the identity of the new member."
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.bayeux.routes import SessionProgram
from scribe_spark.bayeux.sessions import Sessions
from scribe_spark.core.arrays import (
    SortedTable,
    distinct,
    flags,
    last_of_runs,
    read_table,
    whole_numbers,
)
from scribe_spark.core.keys import key_of, key_parts, order_of
from scribe_spark.dissemination import EDGES
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT

#: Tables of a bucket: memberships, and member lists.
MEMBERS, LISTS = "members", "lists"

#: The prefixes of tables that wait for `Record`: entries that nodes will record (``session, at,
#: member, next, number``), and TREEs that reached their members (``session, member, number``).
LISTED, CAME = "listed", "came"


@dataclass
class Members(SortedTable):
    """Memberships, by (group, node)."""

    number: np.ndarray = field(default_factory=whole_numbers)  # the round of the last JOIN
    waits: np.ndarray = field(default_factory=flags)  # bool: True if no TREE has arrived yet


@dataclass
class Lists(SortedTable):
    """Entries of member lists, by (session, node, member)."""

    next: np.ndarray = field(default_factory=whole_numbers)
    #: The round of the member's JOIN, and the round in which the entry was written.
    number: np.ndarray = field(default_factory=whole_numbers)
    written: np.ndarray = field(default_factory=whole_numbers)


def take_tables(tables: Tables, prefix: str) -> list[Columns]:
    """Remove and return the tables ``PREFIX NUMBER``, one for each superstep."""
    return [tables.pop(name) for name in list(tables) if name.startswith(f"{prefix} ")]


@dataclass(frozen=True)
class Forget(SessionProgram):
    """Clear the tables of dead nodes, and restart sessions: rules B12 and B13."""

    dead: np.ndarray  # bool, (K,)
    anew: np.ndarray  # bool, (G,)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        size = self.sessions.size
        members = read_table(Members, tables, MEMBERS)
        members.keep(~self.dead[members.key % size])
        members.waits = members.waits | self.anew[members.key // size]
        lists = read_table(Lists, tables, LISTS)
        group, node = np.divmod(lists.key // size, size)
        lists.keep(~(self.dead[node] | self.anew[group]))
        tables[MEMBERS], tables[LISTS] = members.to_columns(), lists.to_columns()
        return {}


@dataclass(frozen=True)
class Record(SessionProgram):
    """Write the entries of TREEs that arrived; their members stop waiting."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        record(self.sessions, tables)
        return {}


def record(sessions: Sessions, tables: Tables) -> None:
    """Write entries over older ones; members whose last JOIN is answered stop waiting."""
    if listed := take_tables(tables, LISTED):
        tables[LISTS] = _written(sessions, tables, concatenate(listed)).to_columns()
    if came := take_tables(tables, CAME):
        answered = concatenate(came)
        members = read_table(Members, tables, MEMBERS)
        group = answered["session"] // sessions.partitions
        row = members.find(key_of([group, answered["member"]], sessions.size))
        last = (row >= 0) & (members.number[row] == answered["number"])
        members.waits = members.waits.copy()
        members.waits[row[last]] = False
        tables[MEMBERS] = members.to_columns()


def _written(sessions: Sessions, tables: Tables, listed: Columns) -> Lists:
    """Return the lists with new entries; of several for a member, the largest number is kept.

    All TREEs that reach a member through a node have the same next hop at that node.
    """
    key = key_of([listed["session"], listed[AT], listed["member"]], sessions.size)
    order = order_of(key, listed["number"])
    order = order[last_of_runs(key[order])]
    key, onward, number = key[order], listed["next"][order], listed["number"][order]
    lists = read_table(Lists, tables, LISTS)
    row = lists.find(key)
    old = np.flatnonzero(row >= 0)
    newer = np.ones(len(key), dtype=bool)
    newer[old] = lists.number[row[old]] <= number[old]
    lists.drop(row[old[newer[old]]])
    lists.insert(key[newer], next=onward[newer], number=number[newer], written=sessions.number)
    return lists


@dataclass(frozen=True)
class NextHops(SessionProgram):
    """Find the distinct next hops to which each node sends copies: rules B7 and B17."""

    wanted: np.ndarray | None = None  # bool: True for sessions to include; by default all

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the edges of the multicast."""
        size, lists = self.sessions.size, read_table(Lists, tables, LISTS)
        place, onward = lists.key // size, lists.next
        good = self.sessions.is_good(onward, lists.written)
        if self.wanted is not None:
            good &= self.wanted[place // size]
        edges = distinct(key_of([place[good], onward[good]], size))
        if len(edges):
            tables[EDGES] = key_parts(edges, ("group", "node", "peer"), size)
        return {}
