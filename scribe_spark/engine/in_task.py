"""The engine in one process, and the player that keeps the tables of buckets there for many rounds.

Supersteps play the buckets one after the other or in threads.  A task holds all buckets, or there
is one task per bucket.  In the second case every task runs the same orchestrator, and an exchange
carries the messages between the tasks.  The exchange also makes all tasks agree on the number of
messages, on which tables have rows, and on gathered tables, so that all tasks take the same
decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.packing import Columns, count_rows, of_frame, to_frame
from scribe_spark.engine.player import Shared, counted, join_tables, most_supersteps, tables_called
from scribe_spark.engine.program import (
    Outbox,
    Program,
    Tables,
    deliver,
    merge_inbox,
    step_of,
)
from scribe_spark.runtime.memory import return_freed_memory

_LEAST_NODES = 8192  # the smallest bucket that is worth a thread


#: The undelivered messages of each bucket: sender, kind, columns.
_Waiting = dict[int, list[tuple[int, str, Columns]]]


def play(
    program: Program,
    tables: Sequence[Tables] | Mapping[int, Tables],
    first: Mapping[str, Columns] | None = None,
    threads: int = 1,
    exchange: Exchange | None = None,
) -> list[int]:
    """Play a program until no node sends; return the number of messages in each superstep.

    The tables of each bucket (or of some, by number) change in place.  `first` has messages for
    superstep 0.  With an `exchange` between tasks, counts are sums of all tasks.
    """
    own = tables if isinstance(tables, Mapping) else dict(enumerate(tables))
    bounds, counts = program.bounds, list[int]()
    waiting: _Waiting = {}
    for to, kind, columns in deliver(bounds, first or {}):
        if to in own:
            waiting.setdefault(to, []).append((-1, kind, columns))
    is_worth_it = threads > 1 and bounds[-1] >= threads * _LEAST_NODES
    with ThreadPoolExecutor(threads) if is_worth_it else nullcontext() as pool:
        each = map if pool is None else pool.map
        for superstep in counted(step_of(program), most_supersteps(int(bounds[-1]))):
            arrived, waiting, sent = waiting, {}, 0

            def step(bucket: int, arrived: dict = arrived, superstep: int = superstep) -> Outbox:
                # parts that are merged are freed before the step
                inbox = merge_inbox(arrived.pop(bucket, ()))
                return program.step(bucket, own[bucket], inbox, superstep)

            played = [one for one in own if one in arrived or not superstep]
            for bucket, outbox in zip(played, each(step, played), strict=True):
                for to, kind, columns in deliver(bounds, outbox):
                    waiting.setdefault(to, []).append((bucket, kind, columns))
                    sent += count_rows(columns)
                del outbox  # the last one would stay in memory during the next superstep
            if exchange is not None and exchange.size > 1:
                waiting, sent = _exchanged(exchange, waiting, sent)
            counts.append(sent)
            if not sent:
                break
    return counts


def _exchanged(exchange: Exchange, waiting: _Waiting, sent: int) -> tuple[_Waiting, int]:
    """Exchange messages with the other tasks: send those `waiting` to the buckets' tasks."""
    own = exchange.rank
    received = waiting.pop(own, [])
    away = {
        to: to_frame([(kind, columns) for _, kind, columns in waiting.pop(to)])
        for to in list(waiting)
    }
    came, notes = exchange.swap(away, str(sent).encode())
    received += [(one, *named) for one, data in came.items() for named in of_frame(data)]
    return ({own: received} if received else {}), sum(map(int, notes))


# --- the player


class InTask:
    """A player (see `Player`) whose buckets are in the memory of this process.

    With an `exchange` to other tasks, `tables` has the bucket of this task, else all buckets.
    `inbox` has messages for superstep 0 of the first program; ``put_away(bucket, tables, name)``
    moves a table into a file.
    """

    def __init__(
        self,
        tables: Sequence[Tables],
        exchange: Exchange | None = None,
        inbox: Mapping[str, Columns] | None = None,
        put_away: Callable[[int, Tables, str], None] | None = None,
    ) -> None:
        self._put_away = put_away
        self._inbox = dict(inbox or {})
        self.exchange = exchange or Exchange()
        self.tables = list(tables)
        self.first = self.exchange.rank
        self._own = dict(enumerate(self.tables, self.first))

    def without_inbox(self) -> InTask:
        """Return a player on the same tables, which leaves the messages in `inbox` to this one."""
        return InTask(self.tables, self.exchange)

    def put_away(self) -> None:
        """Move changed tables into files, from which programs read them, if tasks may do so."""
        if self._put_away is not None:
            for bucket, tables in self._own.items():
                for name in list(tables.changed):
                    self._put_away(bucket, tables, name)
            return_freed_memory()

    def begin_round(self, number: int) -> None:
        pass

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        sent, self._inbox = {**self._inbox, **(first or {})}, {}
        return sum(play(program, self._own, sent, len(self._own), self.exchange))

    def keep(self, orchestrate: Callable[[InTask], None], called: str) -> None:
        orchestrate(self)

    def has(self, name: str) -> bool:
        here = any(tables.has_rows(name) for tables in self._own.values())
        return any(note == b"1" for note in self.exchange.swap({}, b"1" if here else b"0")[1])

    def count(self, name: str) -> int:
        """Return how many rows a table (by name) has in all buckets together."""
        here = sum(count_rows(mine[name]) for mine in self._own.values() if name in mine)
        return sum(map(int, self.exchange.swap({}, str(here).encode())[1]))

    def bring(self, name: str) -> list[Columns] | None:
        """Take a table out of all buckets; return it in the first task, and None in other tasks."""
        here = [mine.pop(name) for mine in self._own.values()]
        if self.exchange.rank:
            self.exchange.swap({0: to_frame([(name, here[0])])}, b"")
            return None
        came, _ = self.exchange.swap({}, b"")
        return here + [columns for rank in sorted(came) for _, columns in of_frame(came[rank])]

    def hand_out(self, tables: Sequence[Mapping[str, Columns]] | None) -> None:
        """Give each bucket its tables, which the first task passes; other tasks pass None."""
        away = {
            rank: to_frame(list(some.items()))
            for rank, some in enumerate(tables or ())
            if rank not in self._own
        }
        came, _ = self.exchange.swap(away, b"")
        for bucket, mine in self._own.items():
            mine.update(dict(of_frame(came[0])) if tables is None else tables[bucket])

    def agree(self, is_so: bool) -> bool:
        """Return the first task's value of `is_so` (bool) in all tasks."""
        return self.exchange.swap({}, b"1" if is_so else b"0")[1][0] == b"1"

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        taken = self.gather(*names)
        called = tables_called(names)
        for tables in self._own.values():
            for name in [one for one in tables if called.fullmatch(one)]:
                del tables[name]
        return taken

    def forget(self, match: Callable[[str], bool]) -> None:
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
        peers = self.exchange.peers if here else []
        came, _ = self.exchange.swap(dict.fromkeys(peers, to_frame(here) if peers else []), b"")
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
