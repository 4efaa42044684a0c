"""The player that keeps the tables of buckets in the memory of one task for many rounds.

A task holds all buckets, or there is one task per bucket.  In the second case every task runs the
same orchestrator, and an exchange carries the messages between the tasks.  The exchange also makes
all tasks agree on the number of messages, on which tables have rows, and on gathered tables, so
that all tasks take the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.in_process import play
from scribe_spark.engine.in_turn import IfRows, Steps
from scribe_spark.engine.packing import Columns, count_rows, of_frame, to_frame
from scribe_spark.engine.player import Shared, join_tables, tables_called
from scribe_spark.engine.program import Program, Tables


class InTask:
    """A player (see `Player`) whose buckets are in the memory of this process.

    With an exchange to the tasks of the other buckets, `tables` has one bucket, whose number is the
    rank of the task; else this task has all buckets.  `inbox` has messages for superstep 0 of the
    first program.  `first` is the number of this task's first bucket.
    """

    def __init__(
        self,
        tables: Sequence[Tables],
        exchange: Exchange | None = None,
        inbox: Mapping[str, Columns] | None = None,
    ) -> None:
        self._inbox = dict(inbox or {})
        self.exchange = None if exchange is None or exchange.size == 1 else exchange
        self.tables = list(tables)
        self.first = 0 if exchange is None else exchange.rank
        self._own = dict(enumerate(self.tables, self.first))

    def begin_round(self, number: int) -> None:
        pass

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        sent, self._inbox = {**self._inbox, **(first or {})}, {}
        return sum(play(program, self._own, sent, len(self._own), self.exchange))

    def play_some(self, programs: Steps) -> int:
        first = programs[0]
        assert not isinstance(first, IfRows)
        self.play(first)
        return 1

    def keep(self, orchestrate: Callable[[InTask], None], called: str) -> None:
        orchestrate(self)

    def has(self, name: str) -> bool:
        here = any(tables.has_rows(name) for tables in self._own.values())
        if self.exchange is None:
            return here
        return any(note == b"1" for note in self.exchange.swap({}, b"1" if here else b"0")[1])

    def count(self, name: str) -> int:
        """Return the number of rows of a table in all buckets."""
        here = sum(count_rows(mine[name]) for mine in self._own.values() if name in mine)
        if self.exchange is None:
            return here
        return sum(map(int, self.exchange.swap({}, str(here).encode())[1]))

    def bring(self, name: str) -> list[Columns] | None:
        """Move a table of all buckets to the first task; return None in other tasks."""
        here = [mine.pop(name) for mine in self._own.values()]
        if self.exchange is None:
            return here
        if self.exchange.rank:
            self.exchange.swap({0: to_frame([(name, here[0])])}, b"")
            return None
        came, _ = self.exchange.swap({}, b"")
        return here + [columns for rank in sorted(came) for _, columns in of_frame(came[rank])]

    def hand_out(self, tables: Sequence[Mapping[str, Columns]] | None) -> None:
        """Send tables to each bucket from the first task; other tasks pass None."""
        if self.exchange is None:
            assert tables is not None
            own = dict(zip(self._own, tables, strict=True))
        else:
            away = {
                rank: to_frame(list(some.items()))
                for rank, some in enumerate(tables or ())
                if rank != self.exchange.rank
            }
            came, _ = self.exchange.swap(away, b"")
            mine = dict(of_frame(came[0])) if tables is None else tables[0]
            own = {self.exchange.rank: mine}
        for bucket, some in own.items():
            for name, columns in some.items():
                self._own[bucket][name] = columns

    def agree(self, is_so: bool) -> bool:
        """Return the value of `is_so` in the task of rank 0, in all tasks."""
        if self.exchange is None:
            return is_so
        return self.exchange.swap({}, b"1" if is_so else b"0")[1][0] == b"1"

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        taken = self.gather(*names)
        called = tables_called(names)
        for tables in self._own.values():
            for name in [one for one in tables if called.fullmatch(one)]:
                del tables[name]
        return taken

    def forget(self, match: Callable[[str], bool]) -> None:
        """See `Player.forget`."""
        for tables in self._own.values():
            for name in list(filter(match, tables)):
                del tables[name]

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        called = tables_called(names)
        here: list[tuple[str, Columns]] = [
            (name, tables[name])
            for tables in self._own.values()
            for name in tables
            if called.fullmatch(name)
        ]
        if self.exchange is None:
            return join_tables(here)
        framed = to_frame(here)
        others = [rank for rank in range(self.exchange.size) if rank != self.exchange.rank]
        came, _ = self.exchange.swap(dict.fromkeys(others, framed) if here else {}, b"")
        found: dict[int, list[tuple[str, Columns]]] = {
            rank: list(of_frame(data)) for rank, data in came.items()
        }
        found[self.exchange.rank] = here
        return join_tables(one for rank in sorted(found) for one in found[rank])

    def share(self, **arrays: np.ndarray) -> Shared:
        return arrays

    def free(self, shared: Shared) -> None:
        """See `Player.free`."""

    def release(self) -> None:
        for tables in self._own.values():
            tables.clear()
