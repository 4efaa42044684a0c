"""Publications of worlds until they are due: their receivers, counted in buckets.

References
----------
docs/rules.md, B17 to B20.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.bayeux.member_lists import CAME, LISTS, MEMBERS, Lists, Members, take_tables
from scribe_spark.bayeux.noted import note_copies, note_first_copies
from scribe_spark.bayeux.routes import SessionProgram
from scribe_spark.core.arrays import (
    SortedTable,
    distinct,
    find_sorted,
    read_table,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, EDGES
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.living import notes_copies
from scribe_spark.multicast import PAYLOAD

#: Messages to sources: the root has accepted their publications.
ACCEPTED = "accepted"

#: Tables of a bucket: `Expected`; and counts that the orchestrator takes: of the copies of this
#: round (a row a group), of publications that are due, of what nodes keep.
EXPECTED, HEARD, DUE, KEPT = "expected", "heard", "due", "kept"


@dataclass
class Expected(SortedTable):
    """Members that are to get publications, by (round, group, node).

    Attributes
    ----------
    count, got : ndarray of int64
        The publications of the round and group, and those of them that the member has got.
    """

    count: np.ndarray = field(default_factory=whole_numbers)
    got: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Published(SortedTable):
    """Publications of the orchestrator that are not due, by index.

    Attributes
    ----------
    round, group, duplicates : ndarray of int64
    """

    round: np.ndarray = field(default_factory=whole_numbers)
    group: np.ndarray = field(default_factory=whole_numbers)
    duplicates: np.ndarray = field(default_factory=whole_numbers)

    def add(self, number: int, published: np.ndarray, duplicates: np.ndarray) -> None:
        """Append the publications of a round, those of a group as one row.

        Parameters
        ----------
        published, duplicates : ndarray of int64, shape (G,)
        """
        group = np.flatnonzero(published)
        index = len(self) + np.arange(len(group))
        self.insert(index, round=number, group=group, duplicates=duplicates[group])

    def take_until(self, last: int, groups: int) -> tuple[np.ndarray, np.ndarray]:
        """Remove the publications up to a round; return their (round, group), and duplicates."""
        due = self.round <= last
        key, duplicates = (self.round * groups + self.group)[due], self.duplicates[due]
        self.keep(~due)
        self.key = np.arange(len(self))
        return key, duplicates


@dataclass(frozen=True)
class CountHeard(SessionProgram):
    """Buckets count the copies that their nodes have got, and note the expected receivers: B19.

    Messages :data:`ACCEPTED` go to the sources, which have their own publications.

    Attributes
    ----------
    accepted, published : ndarray of int64, shape (G,)
        How many publications of each group its root has accepted, and members have sent.
    measures : tuple of str
        The measures of multicasts for which their copies and deliveries are noted.
    """

    accepted: np.ndarray
    published: np.ndarray
    measures: tuple[str, ...] = ()

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`HEARD` and :data:`EXPECTED`; nothing is sent."""
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
        # a source has its own before a TREE brings it
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
        """Count payload; return how many copies of each group came."""
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
        """Note the members of groups with publications: all are to get them.

        Parameters
        ----------
        heard : ndarray of int64
            The (group, node) that have got all that their root has accepted: ascending.
        own : ndarray of int64
            The (group, source) of each accepted publication: ascending.
        """
        size, members = self.sessions.size, read_table(Members, tables, MEMBERS).key
        members = members[self.published[members // size] > 0]
        group = members // size
        mine = np.searchsorted(own, members, side="right") - np.searchsorted(own, members)
        has = find_sorted(heard, members) >= 0
        expected = read_table(Expected, tables, EXPECTED)
        expected.insert(
            self.sessions.number * len(self.accepted) * size + members,
            count=self.published[group],
            got=np.where(has, self.accepted[group], mine),
        )
        tables[EXPECTED] = expected.to_columns()


@dataclass(frozen=True)
class CountRound(SessionProgram):
    """Buckets count publications that are due, and what their nodes keep: rules B19 and B20.

    Attributes
    ----------
    last : int
        The last round whose publications are due.
    """

    last: int

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write :data:`DUE` and :data:`KEPT`; nothing is sent."""
        size, members = self.sessions.size, read_table(Members, tables, MEMBERS)
        expected = read_table(Expected, tables, EXPECTED)
        groups = len(self.sessions.keys)
        # a node that is a member no more is not expected to get any
        expected.keep(find_sorted(members.key, expected.key % (groups * size)) >= 0)
        due = expected.key < (self.last + 1) * groups * size
        key, row = np.unique(expected.key[due] // size, return_inverse=True)
        tables[DUE] = {
            "key": key,
            **{name: _sums(row, getattr(expected, name)[due]) for name in ("count", "got")},
        }
        expected.keep(~due)
        tables[EXPECTED] = expected.to_columns()
        lists = read_table(Lists, tables, LISTS)
        _, entries = np.unique(lists.key // size % size, return_counts=True)
        tables[KEPT] = {
            "entries": np.array([len(lists)]),
            "most": np.array([entries.max(initial=0)]),
            "waiting": np.array([np.count_nonzero(members.waits)]),
        }
        return {}


def _sums(row: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.bincount(row, values).astype(np.int64)
