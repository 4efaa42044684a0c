"""Vertex state: a table whose rows change by rounds, at a cost in proportion to what changes.

A table is stored like a log-structured merge tree.  Each round's changes are one *segment*, a
materialised DataFrame, partitioned by node like the messages.  Older segments that have no
more rows than what is newer are merged into it as it is written, so there are never more segments
than the logarithm of the number of rows, and a row is copied that often at most.  Of a key
that occurs in several segments the newest row counts.

References
----------
P. O'Neil et al.: The log-structured merge-tree, Acta Informatica 33(4), 1996.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark.runtime.blocks import materialise, release, stack_tables, union_tables

__all__ = ["REMOVED", "Change", "Table"]

#: In a change: the row of this key is taken out of the table.
REMOVED = "removed"

_VERSION = "version"

#: An append-only table is as quickly read from this many segments as from one.
_FEW_SEGMENTS = 12

#: So few rows are copied in less time than Spark takes to plan for one more segment.
_FEW_ROWS = 10_000


@dataclass(frozen=True)
class _Segment:
    """Rows of a table; at most one for each key.

    Attributes
    ----------
    frame : DataFrame
    rows : int
    owned : bool
        Whether the table frees it; rows that the table began with are the caller's.
    """

    frame: DataFrame
    rows: int
    owned: bool = True


@dataclass(frozen=True)
class Change:
    """A round's changes of a table, ready to be materialised.

    Attributes
    ----------
    frame : DataFrame
        A segment: the changes, and the rows of `merged` that they leave as they are.
    merged : tuple
        The newest segments of the table, which the new one takes the place of.
    """

    frame: DataFrame
    merged: tuple[_Segment, ...] = ()


class Table:
    """Rows of vertex state, at most one for each key, partitioned by node.

    Parameters
    ----------
    key : sequence of str
        The columns that identify a row.
    values : sequence of str
        The other columns.
    append_only : bool
        No key is ever written twice and nothing is removed.  Then reading is a plain union.
    initial : DataFrame, optional
        Rows to begin with, `key` and `values`, partitioned by node.  They are not copied, so they
        must stay available as long as the table is used.
    """

    def __init__(
        self,
        key: Sequence[str],
        values: Sequence[str] = (),
        *,
        append_only: bool = False,
        initial: DataFrame | None = None,
    ) -> None:
        self.key, self.values = list(key), list(values)
        self.append_only = append_only
        self._version = 0
        self._segments: list[_Segment] = []
        if initial is not None:
            frame = initial.select(*self._stored(initial, version=0))
            self._segments.append(_Segment(frame, 0, owned=False))

    # --- reading

    def rows(self) -> DataFrame | None:
        """The current rows, `key` and `values`; None if nothing was ever written."""
        return self._current(lambda rows: rows)

    def at(self, keys: DataFrame, on: list[str]) -> DataFrame | None:
        """The current rows of some keys only.

        Parameters
        ----------
        keys : DataFrame
            Columns `on`, partitioned by node; the side of the join that is hashed.
        on : list of str
            Columns of the table's key.
        """
        return self._current(lambda rows: rows.join(keys.hint("shuffle_hash"), on, "left_semi"))

    def after(self, changes: DataFrame) -> Table:
        """The table as it will be after `changes` (see :meth:`prepare`), without writing them."""
        view = Table(self.key, self.values, append_only=self.append_only)
        view._segments = [*self._segments, _Segment(self._segment(changes), 0, owned=False)]
        return view

    def _current(self, restrict: Callable[[DataFrame], DataFrame]) -> DataFrame | None:
        if not self._segments:
            return None
        columns = [*self.key, *self.values]
        if self.append_only:
            return restrict(_together(self._segments)).select(columns)
        oldest, recent = self._segments[0], self._segments[1:]
        first = restrict(oldest.frame)
        if not recent:
            return first.where(~F.col(REMOVED)).select(columns)
        newest = restrict(_together(recent))
        if len(recent) > 1:
            newest = self._newest(newest)
        untouched = first.join(newest.select(self.key).hint("shuffle_hash"), self.key, "left_anti")
        return untouched.unionByName(newest).where(~F.col(REMOVED)).select(columns)

    def _newest(self, rows: DataFrame) -> DataFrame:
        """Return the row of the latest round of each key."""
        # a column at a time: Spark sorts to aggregate structs, and hashes to aggregate numbers
        latest = [F.max_by(name, _VERSION).alias(name) for name in (*self.values, REMOVED)]
        version = F.max(_VERSION).alias(_VERSION)
        return rows.groupBy(self.key).agg(*latest, version)

    # --- writing: for the loop

    def prepare(self, changes: DataFrame, most: int) -> Change:
        """A round's changes as the table stores them, lazily.

        Parameters
        ----------
        changes : DataFrame
            `key` and `values`, at most one row for each key, partitioned by node; and, where rows
            can be removed, ``removed`` BOOLEAN.
        most : int
            About how many rows `changes` has at most; what is stored does not depend on it.
        """
        segment = self._segment(changes)
        if self.append_only:
            return Change(segment)
        merged = self._not_larger(max(most, _FEW_ROWS))
        if not merged:
            return Change(segment)
        rows = self._newest(_together([*merged, _Segment(segment, 0, owned=False)]))
        if len(merged) == len(self._segments):  # nothing older is left that a removal could hide
            rows = rows.where(~F.col(REMOVED))
        return Change(rows, tuple(merged))

    def _not_larger(self, rows: int) -> list[_Segment]:
        """The newest segments, each with no more rows than those after it and `rows` together."""
        first = len(self._segments)
        while first and self._segments[first - 1].owned and self._segments[first - 1].rows <= rows:
            first -= 1
            rows += self._segments[first].rows
        return self._segments[first:]

    def write(self, change: Change, segment: DataFrame, rows: int) -> None:
        """Take in `change`, materialised as `segment` of so many rows."""
        self._version += 1
        if change.merged:
            del self._segments[-len(change.merged) :]
        for old in change.merged:
            release(old.frame)
        if rows == 0:
            release(segment)
            return
        self._segments.append(_Segment(segment, rows))
        while self.append_only and self._is_merge_due():
            self._merge()

    def _is_merge_due(self) -> bool:
        own = [segment for segment in self._segments if segment.owned]
        return len(own) > _FEW_SEGMENTS and own[-1].rows >= own[-2].rows

    def _merge(self) -> None:
        """Replace the two newest segments by one."""
        before, after = self._segments[-2:]
        self._segments[-2:] = [_Segment(*materialise(_together([before, after])))]
        for old in (before, after):
            release(old.frame)

    def release(self) -> None:
        """Free the table's blocks; it is empty from then on."""
        for segment in self._segments:
            if segment.owned:
                release(segment.frame)
        self._segments.clear()

    def _segment(self, changes: DataFrame) -> DataFrame:
        return changes.select(*self._stored(changes, self._version + 1))

    def _stored(self, changes: DataFrame, version: int) -> list[Column | str]:
        if self.append_only:
            return [*self.key, *self.values]
        removed = F.col(REMOVED) if REMOVED in changes.columns else F.lit(False)
        # Spark writes whole numbers into the code that it generates, which would be compiled again
        # in every round; a decimal is handed to the code as an object.
        latest = F.lit(Decimal(version)).cast("decimal(18,0)")
        return [*self.key, *self.values, removed.alias(REMOVED), latest.alias(_VERSION)]


def _together(segments: Sequence[_Segment]) -> DataFrame:
    """The rows of all segments; those that are materialised are one leaf of the plan."""
    leaves = [segment.frame for segment in segments if segment.owned]
    others = [segment.frame for segment in segments if not segment.owned]
    stacked = [stack_tables(leaves, leaves[-1])] if len(leaves) > 1 else leaves
    return union_tables([*others, *stacked])
