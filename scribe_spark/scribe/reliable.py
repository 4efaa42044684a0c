"""Reliable, ordered delivery: an application on the three upcalls and nothing else (III.B.2).

The root numbers messages (an epoch's from ``epoch << 32`` on), nodes keep those of the last B
numbers that they know of, a JOIN that repairs carries the last number delivered, and the new parent
sends what is missing: a retransmission has all that follows its ``start``, and says that up to its
``floor`` nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from pandas import DataFrame

from scribe_spark.core.arrays import NONE, SortedTable, index_in_run, whole_numbers
from scribe_spark.scribe.memory import AtNodes, Remembering
from scribe_spark.scribe.upcalls import NOTHING, Calls, Emitted, columns_of, frame

__all__ = ["Reliable"]


@dataclass
class _Records(AtNodes):
    """All up to `last` was had (NONE: it has not begun); up to `floor` nothing is left."""

    last: np.ndarray = field(default_factory=whole_numbers)
    floor: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class _Served(SortedTable):
    """Up to which number children were served."""

    at: np.ndarray = field(default_factory=whole_numbers)


class Reliable(Remembering):
    """The application at all of `nodes` nodes; `size` is B; sources keep what is not taken."""

    acknowledged = True

    def __init__(self, size: int, nodes: int) -> None:
        self.records, self.served = _Records(), _Served()
        super().__init__(nodes, self.records, self.served, size)

    def fault_handler(self, calls: Calls, joins: DataFrame) -> np.ndarray:
        """The last number delivered, or less if a child waits for older messages."""
        rows = self.rows(calls)
        end, first = self._end(calls, rows)
        call, _, edge = self.children(calls)
        extra = np.where(self.records.last[rows] >= 0, self.records.last[rows], NOTHING)
        needs = self._unserved(rows[call], edge, end[call], first[call])
        np.minimum.at(extra, call[needs], self.served.at[edge[needs]])
        return extra

    def join_handler(self, calls: Calls, joins: DataFrame) -> Emitted:
        """Send what is missing; ask the parent, unless the own JOIN asks for it already."""
        rows = self.rows(calls)
        end, first = self._end(calls, rows)
        joins = joins.drop_duplicates(["call", "source"], keep="last")
        call, child, extra = (joins[name].to_numpy() for name in ("call", "source", "extra"))
        edge = self.edges(calls, call, child)
        self.served.at[edge] = np.where(extra == NOTHING, NONE, extra)
        emitted = self._serve(rows, call, child, edge, end, first)
        asks = self._unserved(rows[call], edge, end[call], first[call])
        asks &= extra < calls.here["asked"].to_numpy()[call]
        return replace(emitted, asks=frame(call=call[asks], extra=extra[asks]))

    def forward_handler(self, calls: Calls, messages: DataFrame, contents: DataFrame) -> Emitted:
        """Number at the root, keep, and pass on; of a retransmission what each child lacks."""
        number, start, floor = columns_of(messages).values()
        of, numbers, names = columns_of(contents).values()
        rows, fresh = self.rows(calls), start == NOTHING
        # 1. the root gives the next number
        new = fresh & calls.here["root"].to_numpy()
        number = np.where(new, self._end(calls, rows, new)[0] + 1, number)
        numbers = np.where(new[of], number[of], numbers)
        # 2. keep: who has not begun begins here, what is before a retransmission is given up
        last = self.records.last[rows]
        begin = np.where(fresh, np.where(last < 0, number - 1, NONE), start)
        self.records.last[rows] = np.maximum(last, begin)
        np.maximum.at(self.records.floor, rows, floor)
        self._take(rows, of, numbers, names)
        root = np.flatnonzero(new)
        which, _, name = self.rings.leading_to(rows[root], number[root])
        state = frame(call=root[np.r_[: len(root), which]], value=np.r_[number[root], name])
        # 3. pass a fresh message on, also to who waits for older ones
        call, child, edge = self.children(calls)
        goes, at, made = fresh[call], self.served.at[edge], np.where(new, np.cumsum(new) - 1, -1)
        in_order = goes & ((at < 0) | (at == number[call] - 1))
        self.served.at[edge[in_order]] = number[call[in_order]]
        passed = Emitted(
            frame(call=call[goes], child=child[goes], message=made[call[goes]]),
            frame(number=number[new], start=start[new], floor=floor[new]),
            frame(message=np.arange(len(root)), number=number[new], publication=names[new[of]]),
            values=state,
        )
        # 4. of a retransmission what each child lacks
        end, first = self._end(calls, rows, ~fresh)
        late = call[~goes], child[~goes], edge[~goes]
        return passed.and_also(self._serve(rows, *late, end, first))

    def message_handler(self, calls: Calls, messages: DataFrame, contents: DataFrame) -> DataFrame:
        """A member's user gets what is next in order; nothing that is older than its join."""
        call, publication = self.ready
        young = publication >> 32 >= calls.here["joined"].to_numpy()[call]
        return frame(call=call[young], publication=publication[young])

    def _end(self, calls, rows, some=True) -> tuple[np.ndarray, np.ndarray]:
        """The last number there is, by the group's state at roots; from where on all is here."""
        root, end = calls.here["root"].to_numpy() & some, self.records.last[rows]
        end[root] = calls.here["epoch"].to_numpy()[root] << 32
        call, value = (one[root[calls.values["call"]]] for one in columns_of(calls.values).values())
        place = index_in_run(call)
        end[call[place == 0]] = value[place == 0]
        number = end[call] + 1 + place - np.bincount(call, minlength=len(rows))[call]
        kept = place > 0
        self.rings.write(rows[call[kept]], number[kept], value[kept])
        first = end + 1 - self.rings.run(rows, end, -1, some)
        np.maximum.at(self.records.floor, rows[root], first[root] - 1)
        return end, first

    def _take(self, rows: np.ndarray, of: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Keep messages; gaps that are too old for the buffers are given up; what is ready."""
        self.rings.write(rows[of], number, name)
        call = np.flatnonzero(self.records.last[rows] >= 0)
        rows = rows[call]
        last = np.maximum(self.records.last[rows], self.rings.top(rows) - self.rings.size)
        upto = self.records.last[rows] = last + self.rings.run(rows, last + 1, 1)
        which, _, name = self.rings.between(rows, last + 1, upto)
        self.ready = call[which], name

    def _unserved(self, rows, edge, end, first) -> np.ndarray:
        """Whether children, row by row, need what their parents have not got."""
        at = self.served.at[edge]
        return (at >= 0) & ((end < 0) | (np.maximum(at, self.records.floor[rows]) + 1 < first))

    def _serve(self, rows, call, child, edge, end, first) -> Emitted:
        """Answers to children with what is missing there, if it can be served."""
        at, end, row = self.served.at[edge], end[call], rows[call]
        start = np.where(at < 0, end, np.maximum(at, self.records.floor[row]))
        lacks = (start < end) | ((start == end) & (at != end))
        answered = (end >= 0) & lacks & (start + 1 >= first[call])
        start, end, row = start[answered], end[answered], row[answered]
        self.served.at[edge[answered]] = end
        message, number, name = self.rings.between(row, start + 1, end)
        return Emitted(
            frame(call=call[answered], child=child[answered], message=np.arange(len(start))),
            frame(number=start, start=start, floor=self.records.floor[row]),
            frame(message=message, number=number, publication=name),
        )
