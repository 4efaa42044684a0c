"""Repair by senders: a node whose copies were lost looks for other ways to the members.

References
----------
docs/rules.md, B18.  NGC 2001, Section 4: "select alternative paths".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.leaving import UNREACHED
from scribe_spark.bayeux.member_lists import LISTED, LISTS, Lists, record
from scribe_spark.bayeux.noted import note_copies
from scribe_spark.bayeux.routes import SessionProgram, Transmissions
from scribe_spark.core.arrays import distinct, expand, find_sorted, read_table
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import ARRIVALS
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.multicast import PAYLOAD

#: Tables of a bucket: entries on which copies were lost, and those of them for whose members a TREE
#: is sent; both have ``at``, ``session``, ``member``, ``number``, the latter also ``hops,
#: delay_us`` of the node's own first copy.
_BROKEN, TRIED = "broken", "tried"


@dataclass(frozen=True)
class Repair(SessionProgram):
    """Find lost copies of nodes that received publications, and the members to look for."""

    #: (G,): the number of publications that each root accepted, which is also the number of lost
    #: copies.
    accepted: np.ndarray
    noted: bool = False  # True if lost copies of multicasts are recorded: `living.CARRIED`

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Read the arrivals; no message is sent."""
        if ARRIVALS not in tables:
            return {}
        size, heard = self.sessions.size, tables[ARRIVALS]
        lists = read_table(Lists, tables, LISTS)
        place = key_of([heard["group"], heard["node"]], size)
        of, row = expand(*(np.searchsorted(lists.key, (place + i) * size) for i in (0, 1)))
        bad = ~self.sessions.is_good(lists.next[row], lists.written[row])
        of, row = of[bad], row[bad]
        place, member = np.divmod(lists.key[row], size)
        session, node = np.divmod(place, size)
        tables[_BROKEN] = broken = {
            **{AT: node, "session": session},
            **{"member": member, "number": lists.number[row]},
        }
        way = {"hops": heard["hops"][of], "delay_us": heard["at_us"][of]}
        tables[TRIED] = take({**broken, **way}, lists.next[row] != member)
        lost, to = np.divmod(distinct(key_of([place, lists.next[row]], size)), size)
        sent = Transmissions(PAYLOAD)
        session, node = np.divmod(lost, size)
        if self.noted:
            note_copies(tables, session, node, to)
        often = self.accepted[session]
        session, node, to = (np.repeat(one, often) for one in (session, node, to))
        sent.add(session, node, to, np.ones(len(to), dtype=bool))
        sent.write(self.sessions, tables, superstep)
        return {}


@dataclass(frozen=True)
class GiveUp(SessionProgram):
    """Apply TREEs; drop members that the node's TREE did not reach."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write member lists, and the members for which LEAVE will be sent; no message is sent."""
        failed = tables.pop(_BROKEN, {})
        if not failed:
            record(self.sessions, tables)
            return {}
        failed = take(failed, ~self._reached(tables, failed))
        record(self.sessions, tables)
        lists = read_table(Lists, tables, LISTS)
        row = lists.find(self._entry(failed))
        lists.drop(row[lists.written[row] < self.sessions.number])
        tables[LISTS] = lists.to_columns()
        away = failed[AT] != self.sessions.root_of[failed["session"]]
        tables[UNREACHED] = take(failed, away)
        return {}

    def _entry(self, rows: Columns) -> np.ndarray:
        return key_of([rows["session"], rows[AT], rows["member"]], self.sessions.size)

    def _reached(self, tables: Tables, broken: Columns) -> np.ndarray:
        """Return True for members that the node's own TREE reached."""
        names = [name for name in tables if name.startswith(f"{LISTED} ")]
        own = [self._entry(take(tables[name], tables[name]["first"])) for name in names]
        reached = np.sort(np.concatenate([*own, broken[AT][:0]]))
        return find_sorted(reached, self._entry(broken)) >= 0
