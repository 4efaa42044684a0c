"""The tables of a builder: members, their children, and the certificates of nodes (E2, E12)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    SortedTable,
    expand,
    find_sorted,
    flags,
    last_of_runs,
    whole_numbers,
)
from scribe_spark.rounds.grown_overlays import GroupNodes

#: The names of the tables in the state.
MEMBERS, CHILDREN, CERTIFICATES = "members", "children", "certificates"


@dataclass
class Members(GroupNodes):
    """The members and pointers, by key (group, node): positions and rounds; NONE: unset.

    A member that is not alive is a *pointer*: it is still among the ancestors of others.
    """

    alive: np.ndarray = field(default_factory=flags)
    rank: np.ndarray = field(default_factory=whole_numbers)
    parent: np.ndarray = field(default_factory=whole_numbers)
    current: np.ndarray = field(default_factory=whole_numbers)  # where the member searches
    number: np.ndarray = field(default_factory=whole_numbers)  # the round of the adoption
    next_evaluation: np.ndarray = field(default_factory=whole_numbers)
    next_check_in: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class NodeEntries(SortedTable):
    """The knowledge of nodes about others, by key (group, node that knows, known node)."""

    def below(self, owner: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of owners (keys of group and node): index in `owner`, and row."""
        return expand(*(np.searchsorted(self.key, (owner + more) * size) for more in (0, 1)))

    def groups(self, size: int) -> np.ndarray:
        """Return the group of each row, found without a division of all keys."""
        last = int(self.key[-1]) // size**2 if len(self) else NONE
        group = np.arange(last + 2)
        return np.repeat(group[:-1], np.diff(np.searchsorted(self.key, group * size**2)))


@dataclass
class Children(NodeEntries):
    """The rounds of children's last check-in and adoption, by key (group, parent, child)."""

    last: np.ndarray = field(default_factory=whole_numbers)
    number: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class Certificates(NodeEntries):
    """The certificates that nodes have, with the round (``number``) of adoption and the ``parent``.

    Parents have not been told of ``fresh`` ones yet.
    """

    number: np.ndarray = field(default_factory=whole_numbers)
    parent: np.ndarray = field(default_factory=whole_numbers)
    alive: np.ndarray = field(default_factory=flags)
    fresh: np.ndarray = field(default_factory=flags)

    @classmethod
    def of(
        cls, key: np.ndarray, number: np.ndarray, parent: np.ndarray, alive: bool
    ) -> Certificates:
        """Return fresh certificates by `key` (group, node that knows, known node), in any order."""
        return cls(key, number, parent, np.full(len(key), alive), np.full(len(key), True))

    @property
    def rank(self) -> np.ndarray:
        """The order of certificates of one node, a higher one is newer: number, then death."""
        return self.number * 2 + ~self.alive

    def fresh_of(self, owner: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the fresh certificates of owners (keys, ascending): index in `owner`, row."""
        row = np.flatnonzero(self.fresh)
        index = find_sorted(owner, self.key[row] // size)
        return index[index >= 0], row[index >= 0]

    def told(self, row: np.ndarray, to: np.ndarray, size: int) -> Certificates:
        """Return copies of the certificates `row`, each fresh and owned by the node `to` (a key).

        A node gets no certificate of itself.
        """
        sent, of = self.take(row), self.key[row] % size
        sent.key, sent.fresh = to * size + of, np.full(len(row), True)
        return sent.take(of != to % size)

    def mark_told(self, row: np.ndarray) -> None:
        """Record that nodes have told their parents the certificates `row`."""
        if not self.fresh.flags.writeable:  # it belongs to a saved table
            self.fresh = self.fresh.copy()
        self.fresh[row] = False

    def merge(self, told: Certificates) -> np.ndarray:
        """Take the certificates `told` that are news (higher number, death); return their keys."""
        told = told.take(np.lexsort((told.rank, told.key)))
        told = told.take(last_of_runs(told.key))
        row = self.find(told.key)
        is_news, had = row < 0, np.flatnonzero(row >= 0)
        is_news[had] = told.take(had).rank > self.take(row[had]).rank
        news = told.take(is_news)
        self.put(news.key, **{name: getattr(news, name) for name in news.columns()})
        return news.key
