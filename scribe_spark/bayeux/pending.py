"""Publications of worlds until they are due: counts of their receivers, by bucket.

References
----------
docs/rules.md, B17 to B20.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.member_lists import CAME, LISTS, MEMBERS, Lists, Members, take_tables
from scribe_spark.bayeux.noted import note_copies, note_first_copies
from scribe_spark.bayeux.routes import SessionProgram
from scribe_spark.core.arrays import distinct, find_sorted, read_table, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, EDGES
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.living import notes_copies
from scribe_spark.multicast import PAYLOAD
from scribe_spark.pending import count_due, note_expected

#: The message to a source that the root has accepted its publication.
ACCEPTED = "accepted"

#: The tables of counts for the orchestrator: the copies of this round (a row per group), and the
#: entries of nodes.
HEARD, KEPT = "heard", "kept"


@dataclass(frozen=True)
class CountHeard(SessionProgram):
    """Count the copies that nodes received, and record the expected receivers: B19.

    Messages :data:`ACCEPTED` go to the sources, which have their own publications.
    """

    #: (G,): the number of publications that the root of each group accepted, and that its members
    #: sent.
    accepted: np.ndarray
    published: np.ndarray
    #: The measures of multicasts, for which copies and deliveries are recorded.
    measures: tuple[str, ...] = ()

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`HEARD` and :data:`EXPECTED`; no message is sent."""
        size = self.sessions.size
        arrivals = tables.pop(ARRIVALS, {})
        copied = self._keys(arrivals, "group", "node")
        got = self._count_copies(tables) if ARRIVED_COPIES in tables else self._by_group(copied[:0])
        tables.pop(EDGES, None)
        came = take_tables(tables, CAME)
        if self.measures:
            note_first_copies(tables, arrivals, came, size)
        trees = [self._keys(one, "session", "member") for one in came]
        by_tree = np.concatenate([copied[:0], *trees])
        heard = distinct(np.concatenate([copied, by_tree]))
        own = np.sort(self._keys(inbox.get(ACCEPTED, {}), "group", AT))
        # a source has its own publication before a TREE brings it
        again = (find_sorted(heard, own) >= 0) & (find_sorted(np.sort(copied), own) < 0)
        tables[HEARD] = {
            "got": got + self._by_group(by_tree // size),
            "nodes": self._by_group(heard // size),
            "again": self._by_group(own[again] // size),
        }
        self._note_expected(tables, heard, own)
        return {}

    def _keys(self, rows: Columns, *parts: str) -> np.ndarray:
        if not rows:
            return whole_numbers()
        return key_of([rows[name] for name in parts], self.sessions.size)

    def _by_group(self, group: np.ndarray) -> np.ndarray:
        return np.bincount(group, minlength=len(self.accepted))

    def _count_copies(self, tables: Tables) -> np.ndarray:
        """Count payloads; return the number of copies of each group."""
        copies = tables.pop(ARRIVED_COPIES)
        group, sender, to = (copies[name] for name in ("group", "sender", "node"))
        if notes_copies(self.measures):
            note_copies(tables, group, sender, to)
        often = self.accepted[group]
        self.sessions.observe(
            tables, PAYLOAD, np.repeat(sender, often), np.repeat(to, often), lost=False
        )
        return self._by_group(group)

    def _note_expected(self, tables: Tables, heard: np.ndarray, own: np.ndarray) -> None:
        """Record that all members of groups with publications should receive these.

        The keys (group, node) in `heard` received all accepted publications; those in `own` sent
        one.
        """
        size, members = self.sessions.size, read_table(Members, tables, MEMBERS).key
        members = members[self.published[members // size] > 0]
        group = members // size
        sent = np.searchsorted(own, members, side="right") - np.searchsorted(own, members)
        has = find_sorted(heard, members) >= 0
        note_expected(
            *(tables, self.sessions.number, len(self.accepted), size, members),
            count=self.published[group],
            got=np.where(has, self.accepted[group], sent),
        )


@dataclass(frozen=True)
class CountRound(SessionProgram):
    """Count the outcomes of due publications, and the entries of nodes: rules B19 and B20."""

    last: int  # the last round whose publications are due

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`DUE` and :data:`KEPT`; no message is sent."""
        size, members = self.sessions.size, read_table(Members, tables, MEMBERS)
        count_due(tables, self.last, len(self.sessions.keys), size, members.key)
        lists = read_table(Lists, tables, LISTS)
        _, entries = np.unique(lists.key // size % size, return_counts=True)
        tables[KEPT] = {
            "entries": np.array([len(lists)]),
            "most": np.array([entries.max(initial=0)]),
            "waiting": np.array([np.count_nonzero(members.waits)]),
        }
        return {}
