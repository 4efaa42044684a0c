"""Certificates, by which a node knows the tree below it: rules E2, E12.

A certificate says of one node that it has a parent since a round, or is dead.  A table of all
certificates has the keys (group, node that knows, node that is known).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import expand, find_sorted
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate, take

#: The columns of a certificate: the round of the adoption, and the parent's position.
_COLUMNS = ("key", "number", "parent", "alive")


def certificate(key: np.ndarray, number: np.ndarray, parent: np.ndarray, alive: bool) -> Columns:
    """Return certificates as they reach those whose keys are given."""
    columns = key, number, parent, np.full(len(key), alive)
    return dict(zip(_COLUMNS, columns, strict=True))


@dataclass
class Certificates:
    """The certificates that all nodes of a builder have.

    `size` is the number of nodes, K; the columns of `rows`, by ascending ``key``, are ``key,
    number, parent, alive`` and ``fresh``: the node has not told its parent yet.
    """

    size: int
    rows: dict[str, np.ndarray]

    def of(self, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that owners (keys group, node) have: the index of the owner, the row."""
        ends = (np.searchsorted(self.rows["key"], (owner + more) * self.size) for more in (0, 1))
        return expand(*ends)

    def fresh_of(self, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the fresh rows that ascending owners have: the index of the owner, the row."""
        row = np.flatnonzero(self.rows["fresh"])
        index = find_sorted(owner, self.rows["key"][row] // self.size)
        return index[index >= 0], row[index >= 0]

    def told(self, row: np.ndarray, to: np.ndarray) -> Columns:
        """Return certificates of rows as they reach others (keys group, node); not their own."""
        sent = take({name: self.rows[name] for name in _COLUMNS}, row)
        of = sent["key"] % self.size
        return take({**sent, "key": to * self.size + of}, of != to % self.size)

    def forget(self, owner: np.ndarray) -> None:
        """Remove all rows of owners."""
        kept = np.ones(len(self.rows["key"]), dtype=bool)
        kept[self.of(owner)[1]] = False
        self.rows = take(self.rows, kept)

    def mark_told(self, row: np.ndarray) -> None:
        """Note that rows are no longer fresh."""
        fresh = self.rows["fresh"].copy()
        fresh[row] = False
        self.rows = {**self.rows, "fresh": fresh}

    def merge(self, *told: Columns) -> None:
        """Take certificates that are news: a higher number, or the death at an equal one."""
        new = concatenate(told)
        order = np.lexsort((_rank(new), new["key"]))
        key = new["key"][order]
        best = order[np.append(key[1:] != key[:-1], True)[: len(order)]]
        new = {**take(new, best), "fresh": np.ones(len(best), dtype=bool)}
        at = find_sorted(self.rows["key"], new["key"])
        had = np.flatnonzero(at >= 0)
        had = had[_rank(take(new, had)) > _rank(take(self.rows, at[had]))]
        absent = np.flatnonzero(at < 0)
        place = np.searchsorted(self.rows["key"], new["key"][absent])
        merged = {}
        for name, column in self.rows.items():
            column = column.copy()
            column[at[had]] = new[name][had]
            merged[name] = np.insert(column, place, new[name][absent])
        self.rows = merged


def _rank(rows: Columns) -> np.ndarray:
    """Return the order of certificates of one node: the number, then death."""
    return rows["number"] * 2 + ~rows["alive"]


def no_certificates() -> dict[str, np.ndarray]:
    """Return a table without rows."""
    numbers = {name: np.empty(0, dtype=np.int64) for name in _COLUMNS[:-1]}
    return {**numbers, "alive": np.empty(0, dtype=bool), "fresh": np.empty(0, dtype=bool)}
