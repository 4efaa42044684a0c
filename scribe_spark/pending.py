"""Publications of a world until they are due: their expected receivers, counted in buckets.

For systems whose publications come in their own round or never.

References
----------
docs/rules.md, B19 and O5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import SortedTable, find_sorted, read_table, whole_numbers
from scribe_spark.engine import Columns, Tables
from scribe_spark.living import LivingRound, Publications

#: Tables of a bucket: `Expected`; and counts of publications that are due.
EXPECTED, DUE = "expected", "due"

#: The table of the orchestrator: `Published`.
PUBLISHED = "published"


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

    def take_due(self, last: int, groups: int, taken: Mapping[str, Columns]) -> Publications:
        """Remove the publications up to a round; return what became of them.

        Parameters
        ----------
        groups : int
            G.
        taken : mapping of Columns
            The table :data:`DUE` of all buckets, where there is one.
        """
        due = self.round <= last
        key, duplicates = (self.round * groups + self.group)[due], self.duplicates[due]
        self.keep(~due)
        self.key = np.arange(len(self))
        expected, in_time = np.zeros((2, len(key)), dtype=np.int64)
        if counts := taken.get(DUE, {}):
            row = np.searchsorted(key, counts["key"])
            np.add.at(expected, row, counts["count"])
            np.add.at(in_time, row, counts["got"])
        number, group = np.divmod(key, max(1, groups))
        late = np.zeros(len(key), dtype=np.int64)
        return Publications(number, group, expected, in_time, late, expected - in_time, duplicates)


def last_due(now: LivingRound) -> int:
    """Return the last round whose publications are due at the end of a round."""
    return now.number if now.is_last else now.number - now.deadline


def note_expected(
    tables: Tables, number: int, groups: int, size: int, members: np.ndarray, **counts: np.ndarray
) -> None:
    """Note members of a bucket that are to get publications of a round.

    Parameters
    ----------
    number : int
        The round.
    groups, size : int
        G and K.
    members : ndarray of int64
        Keys (group, node), each once.
    **counts : ndarray of int64
        The other columns of `Expected`.
    """
    expected = read_table(Expected, tables, EXPECTED)
    expected.insert(number * groups * size + members, **counts)
    tables[EXPECTED] = expected.to_columns()


def count_due(tables: Tables, last: int, groups: int, size: int, members: np.ndarray) -> None:
    """Count the publications up to a round, by round and group: the table :data:`DUE`.

    A node that is a member no more is not expected to get any.

    Parameters
    ----------
    members : ndarray of int64
        Keys (group, node) of the members of the bucket: ascending.
    """
    expected = read_table(Expected, tables, EXPECTED)
    expected.keep(find_sorted(members, expected.key % (groups * size)) >= 0)
    due = expected.key < (last + 1) * groups * size
    key, row = np.unique(expected.key[due] // size, return_inverse=True)
    sums = {name: np.bincount(row, getattr(expected, name)[due]) for name in ("count", "got")}
    tables[DUE] = {"key": key, **{name: column.astype(np.int64) for name, column in sums.items()}}
    expected.keep(~due)
    tables[EXPECTED] = expected.to_columns()
