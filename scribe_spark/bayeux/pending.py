"""Publications until they are due: who is to get them, and who has.

References
----------
docs/rules.md, B19.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import find_sorted, key_of, numbered, whole_numbers
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import Tables
from scribe_spark.living import LivingRound, Publications

__all__ = ["Pending"]

_EXPECTED, _PUBLISHED = "expected", "published"


@dataclass
class Pending:
    """Publications that are not due yet.

    Attributes
    ----------
    expected : Columns
        ``round, group, node, count, got``: members since then, and of how many publications of the
        round each has got how many.
    published : Columns
        ``round, group, duplicates``.
    """

    expected: Columns
    published: Columns

    @classmethod
    def of(cls, tables: Tables) -> Pending:
        """Return those of the rounds before."""
        none = {name: whole_numbers() for name in ("round", "group", "node", "count", "got")}
        published = {name: whole_numbers() for name in ("round", "group", "duplicates")}
        return cls(tables.get(_EXPECTED, none), tables.get(_PUBLISHED, published))

    def write(self, tables: Tables) -> None:
        """Keep them."""
        tables[_EXPECTED], tables[_PUBLISHED] = self.expected, self.published

    def add(self, expected: Columns, published: Columns) -> None:
        """Add those of a round."""
        self.expected = concatenate([self.expected, expected])
        self.published = concatenate([self.published, published])

    def take_due(self, now: LivingRound, members: np.ndarray) -> Publications:
        """Forget who is no member any more; take out what is due.

        Parameters
        ----------
        members : ndarray of int64
            Keys (group, node) at the end of the round, ascending.
        """
        place = key_of([self.expected["group"], self.expected["node"]], len(now.ring))
        self.expected = take(self.expected, find_sorted(members, place) >= 0)
        due, rows = (
            one["round"] <= (now.number if now.is_last else now.number - now.deadline)
            for one in (self.published, self.expected)
        )
        told, counted = take(self.published, due), take(self.expected, rows)
        self.published, self.expected = take(self.published, ~due), take(self.expected, ~rows)
        which = numbered(*(np.r_[told[name], counted[name]] for name in ("round", "group")))
        # a row a round and group
        of, row = which[: len(told["round"])], which[len(told["round"]) :]
        sums = [
            np.bincount(row, counted[name], len(of)).astype(np.int64)[of]
            for name in ("count", "got")
        ]
        count, got = sums
        zero = np.zeros(len(of), dtype=np.int64)
        return Publications(
            told["round"], told["group"], count, got, zero, count - got, told["duplicates"]
        )
