"""Routing of messages hop by hop, to their end or to the edge of a bucket.

References
----------
JSAC 2002, Section II; NGC 2001, Section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scribe_spark.engine.packing import Columns, concatenate, count_rows, take
from scribe_spark.engine.program import AT
from scribe_spark.pastry.next_hop import Met

#: ``hop_of(messages)`` returns the next node of each message (the node itself delivers; NONE: no
#: candidate is left), and the messages with updated columns.
HopOf = Callable[[Columns], tuple[np.ndarray, Columns]]


def unrouted(messages: Columns) -> dict[str, np.ndarray]:
    """Return new messages for :func:`route_to_edge`, with empty paths."""
    return {**messages, "path": np.empty((count_rows(messages), 0), dtype=np.int64)}


def route_to_edge(
    moving: Columns, hop_of: HopOf, is_own: Callable[[np.ndarray], np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Route messages to their end, or to the edge of a bucket; ``path`` has the visited nodes.

    Return the ended messages without paths, with two more columns: ``delivered``, and ``circled``,
    True if a node was visited twice (then the message is not delivered); and the messages that have
    reached nodes of other buckets.
    """
    ended, leaving = list[Columns](), list[Columns]()
    while count_rows(moving):
        circled = (moving["path"] == moving[AT][:, None]).any(axis=1)
        if circled.any():
            ended.append(_ended(take(moving, circled), delivered=False, circled=True))
            moving = take(moving, ~circled)
        at = moving[AT]
        onward, moved = hop_of(moving)
        goes = (onward >= 0) & (onward != at)
        if not goes.all():
            ended.append(_ended(take(moved, ~goes), delivered=onward[~goes] >= 0, circled=False))
        moving = {**moved, AT: onward, "path": np.c_[moved["path"], at]}
        inside = goes & is_own(onward)
        if np.count_nonzero(inside) < np.count_nonzero(goes):
            leaving.append(take(moving, goes & ~inside))
        moving = take(moving, inside)
    return concatenate(ended) if ended else {}, concatenate(leaving) if leaving else {}


def _ended(
    messages: Columns, *, delivered: np.ndarray | bool, circled: bool
) -> dict[str, np.ndarray]:
    count = count_rows(messages)
    return {
        **{name: column for name, column in messages.items() if name != "path"},
        "delivered": np.broadcast_to(delivered, count).copy(),
        "circled": np.full(count, circled),
    }


def count_hop(count: Callable[..., None], at: np.ndarray, onward: np.ndarray, met: Met) -> None:
    """Count the transmissions of a hop, including those to dead nodes.

    The function is called as ``count(messages, lost, between=...)``.
    """
    goes, lost = (onward >= 0) & (onward != at), len(met.dead)

    def between() -> tuple[np.ndarray, np.ndarray]:
        return np.r_[at[goes], at[met.message]], np.r_[onward[goes], met.dead]

    count(np.count_nonzero(goes) + lost, lost, between=between)
