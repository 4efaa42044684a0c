"""The engine in one process: every bucket in turn, superstep by superstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scribe_spark.engine.packing import Columns, count_rows
from scribe_spark.engine.program import Program, Tables, deliver, merge_inbox

__all__ = ["play"]

_MOST = 10_000  # more supersteps mean that the messages never end


def play(
    program: Program,
    tables: Sequence[Tables],
    first: Mapping[str, Columns] | None = None,
) -> list[int]:
    """Play a program until nobody sends; the messages of each superstep.

    Parameters
    ----------
    tables : sequence of Tables
        Of each bucket; changed in place.
    first : mapping of Columns, optional
        Messages that are there in superstep 0, by kind.

    Raises
    ------
    RuntimeError
        Messages never end.
    """
    bounds, counts = program.bounds, []
    waiting: dict[int, list[tuple[int, str, Columns]]] = {}
    for to, kind, columns in deliver(bounds, first or {}):
        waiting.setdefault(to, []).append((-1, kind, columns))
    for superstep in range(_MOST):
        arrived, waiting = waiting, {}
        sent = 0
        for bucket, mine in enumerate(tables):
            if superstep and bucket not in arrived:
                continue
            inbox = merge_inbox(arrived.get(bucket, []))
            for to, kind, columns in deliver(bounds, program.step(bucket, mine, inbox, superstep)):
                waiting.setdefault(to, []).append((bucket, kind, columns))
                sent += count_rows(columns)
        counts.append(sent)
        if not sent:
            return counts
    raise RuntimeError(f"messages still on their way after {_MOST} supersteps")
