"""Messages that Pastry routes to groupIds, to their end, while no table changes.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Columns, Inbox
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.scribe.scribe import Scribe

__all__ = ["Routing", "begin_routes", "go_on", "one_hop_on"]


@dataclass(frozen=True)
class Routing:
    """A kind of messages with ``group``, and the table of where they ended.

    They carry ``hops`` and ``delay_us`` (where payloads are timed) of their ways.  Its rows are the
    messages with ``at``, the last node, and ``delivered``: False where no candidate was left, or
    where a node was reached for the second time.
    """

    kind: str
    ends: str


def begin_routes(scribe: Scribe, routing: Routing, at: np.ndarray, **columns: np.ndarray) -> None:
    """Messages begin at nodes of the bucket; ones that were sent there have their ways so far."""
    zero = np.zeros(len(at), dtype=np.int64)
    began = {"hops": zero, "delay_us": zero}
    _route(scribe, routing, {**began, **columns, AT: at, "path": at[:, None]})


def one_hop_on(scribe: Scribe, messages: Columns, to: np.ndarray) -> dict[str, np.ndarray]:
    """Messages are at other nodes."""
    delay_us = messages["delay_us"]
    if scribe.timed:
        delay_us = delay_us + scribe.delay(messages[AT], to)
    return {**messages, AT: to, "hops": messages["hops"] + 1, "delay_us": delay_us}


def go_on(scribe: Scribe, routing: Routing, inbox: Inbox) -> None:
    """Messages that have come from other buckets go on."""
    if routing.kind in inbox:
        _route(scribe, routing, inbox[routing.kind])


def _route(scribe: Scribe, routing: Routing, moving: Columns) -> None:
    """To the end, or to the bucket's edge."""
    while len(moving[AT]):
        onward = scribe.hop(routing.kind, moving[AT], moving["group"])
        delivered = onward == moving[AT]
        circled = (moving["path"] == onward[:, None]).any(axis=1) & ~delivered & (onward >= 0)
        ended = np.flatnonzero(delivered | (onward < 0))
        _end(scribe, routing, take(moving, ended), delivered[ended])
        goes = np.flatnonzero(~delivered & (onward >= 0))
        onward, circled = onward[goes], circled[goes]
        moving = one_hop_on(scribe, take(moving, goes), onward)
        _end(scribe, routing, take(moving, np.flatnonzero(circled)), circled[circled] & False)
        onward, moving = onward[~circled], take(moving, np.flatnonzero(~circled))
        moving["path"] = np.column_stack([moving["path"], onward])
        away = ~scribe.is_own(onward)
        leaving = take(moving, np.flatnonzero(away))
        scribe.tell(routing.kind, leaving.pop(AT), **leaving)
        moving = take(moving, np.flatnonzero(~away))


def _end(scribe: Scribe, routing: Routing, ended: Columns, delivered: np.ndarray) -> None:
    columns = {name: column for name, column in ended.items() if name != "path"}
    scribe.note(routing.ends, **columns, delivered=delivered)
