"""Publications of a world until they are counted, at their deadline or the world's end: B19, O5.

Systems use this module if their publications arrive in their own round or never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Program, Tables
from scribe_spark.engine.packing import take
from scribe_spark.rounds import system

#: Names of tables of a bucket: `Expected`, and the counts of publications that are counted now.
EXPECTED, DUE = "expected", "due"

#: The table of a bucket with the ``first`` and repeated (``again``) copies that arrived in a round,
#: one row per group.
CAME = "copies that came"

#: The name of the table `Published` of the orchestrator.
PUBLISHED = "published"


@dataclass
class Expected(arrays.SortedTable):
    """The expected receivers of publications that are not counted yet, by (round, group, node).

    `count` is the number of publications of the round and group; the member received `got` of them.
    """

    count: np.ndarray = field(default_factory=arrays.whole_numbers)
    got: np.ndarray = field(default_factory=arrays.whole_numbers)


@dataclass
class Published(arrays.SortedTable):
    """The publications that are not counted yet, by round and group, and their copies."""

    round: np.ndarray = field(default_factory=arrays.whole_numbers)
    group: np.ndarray = field(default_factory=arrays.whole_numbers)
    first_copies: np.ndarray = field(default_factory=arrays.whole_numbers)
    duplicates: np.ndarray = field(default_factory=arrays.whole_numbers)

    def add(self, number: int, published: np.ndarray, first: np.ndarray, again: np.ndarray) -> None:
        """Append the publications of round `number`; those of a group become one row.

        `published`, `first` and `again` (G,) are the numbers of publications, of first copies and
        of repeated copies of each group.
        """
        group = np.flatnonzero(published)
        index = len(self) + np.arange(len(group))
        copies = {"first_copies": first[group], "duplicates": again[group]}
        self.insert(index, round=number, group=group, **copies)

    def add_came(self, now: system.LivingRound, came: Columns) -> None:
        """Append the publications of a round, with the copies in all buckets' :data:`CAME`."""
        groups = len(now.group)
        first, again = (came[name].reshape(-1, groups).sum(axis=0) for name in ("first", "again"))
        self.add(now.number, np.bincount(now.publish.group, minlength=groups), first, again)

    def take_counted(
        self, last: int, groups: int, taken: Mapping[str, Columns]
    ) -> system.Publications:
        """Remove the publications up to round `last`; return their accounts, by :data:`DUE`."""
        counted = self.round <= last
        key = (self.round * groups + self.group)[counted]
        copies = self.first_copies[counted], self.duplicates[counted]
        self.keep(~counted)
        self.key = np.arange(len(self))
        expected, in_time = np.zeros((2, len(key)), dtype=np.int64)
        if counts := taken.get(DUE, {}):
            row = arrays.index_sorted(key, counts["key"])
            np.add.at(expected, row, counts["count"])
            np.add.at(in_time, row, counts["got"])
        number, group = np.divmod(key, max(1, groups))
        late = np.zeros(len(key), dtype=np.int64)
        return system.Publications(number, group, expected, in_time, late, *copies)


def last_counted(now: system.LivingRound) -> int:
    """Return the last round whose publications are counted at the end of the round `now`."""
    return now.number if now.is_last else now.number - now.deadline


def note_received(
    tables: Tables,
    number: int,
    groups: int,
    size: int,
    members: np.ndarray,
    published: np.ndarray,
    heard: np.ndarray,
) -> None:
    """Note in a bucket's table how many publications of round `number` each member has received.

    `members` are ascending keys, `published` are the groups of the publications, and `heard` has
    the key (group, node) of each publication that reached a node.
    """
    count = np.bincount(published, minlength=groups)
    members = members[count[members // size] > 0]
    row = arrays.find_sorted(members, heard)
    got = np.bincount(row[row >= 0], minlength=len(members)).astype(np.int64)
    expected = arrays.read_table(Expected, tables, EXPECTED)
    place = number * groups * size + members
    expected.insert(place, count=count[members // size], got=got)
    tables[EXPECTED] = expected.to_columns()


def count_copies(
    tables: Tables,
    now: system.LivingRound,
    size: int,
    members: np.ndarray,
    came: Columns,
    arrived: np.ndarray,
) -> None:
    """Write :data:`CAME`, and note the receivers of a round's publications (:func:`note_received`).

    `came` has the first copies at live nodes (``publication, node, hops, delay_us``), sources
    included, and `arrived` the publication of each copy that has arrived.
    """
    of, groups = now.publish.group, len(now.group)
    first = np.bincount(of[came["publication"][came["hops"] > 0]], minlength=groups)
    again = np.bincount(of[arrived], minlength=groups) - first
    tables[CAME] = {"first": first, "again": again}
    had = now.parts.complete({n: came[n] for n in ("publication", "node", "delay_us")}, size)
    heard, once = key_of([of[had["publication"]], had["node"]], size), of[:: now.parts.sent]
    note_received(tables, now.number, groups, size, members, once, heard)


def measured_rows(now: system.LivingRound, rows: Columns) -> dict[str, np.ndarray]:
    """Return the rows of publications that are measured, with their ``group``."""
    measured = np.sort(system.Multicasts.of_round(now).publication)
    mine = take(rows, arrays.find_sorted(measured, rows["publication"]) >= 0)
    return {**mine, "group": now.publish.group[mine["publication"]]}


def count_due(tables: Tables, last: int, groups: int, size: int, members: np.ndarray) -> None:
    """Write :data:`DUE`: the receivers of publications up to round `last`, by round and group.

    A node that is no member any more is not expected to receive any publication.
    """
    expected = arrays.read_table(Expected, tables, EXPECTED)
    expected.keep(arrays.find_sorted(members, expected.key % (groups * size)) >= 0)
    due = expected.key < (last + 1) * groups * size
    key, row = np.unique(expected.key[due] // size, return_inverse=True)
    counts = {name: getattr(expected, name)[due] for name in ("count", "got")}
    sums = {name: arrays.sums_at(row, column, len(key)) for name, column in counts.items()}
    tables[DUE] = {"key": key, **sums}
    expected.keep(~due)
    tables[EXPECTED] = expected.to_columns()


def play_account(
    player: system.SystemPlayer,
    kept: Tables,
    now: system.LivingRound,
    end: Callable[[int], Program],
    *tables: str,
) -> tuple[system.Publications, Mapping[str, Columns]]:
    """Play the end of a round: count the publications that are due, and messages by kind.

    ``end(last)`` is the program that writes :data:`DUE` for publications up to round `last`, and
    perhaps other `tables`, which are returned, too.
    """
    published = arrays.read_table(Published, kept, PUBLISHED)
    if len(now.publish):
        published.add_came(now, player.take(CAME)[CAME])
    last = last_counted(now)
    player.play(end(last))
    taken = player.take(DUE, *tables)
    due = published.take_counted(last, len(now.group), taken)
    kept[PUBLISHED] = published.to_columns()
    system.count_messages(player, now)
    return due, taken
