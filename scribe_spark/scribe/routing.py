"""Messages that Pastry routes to groupIds, to their end, while no table changes.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Columns, Inbox
from scribe_spark.engine.program import AT
from scribe_spark.pastry.route import route_to_edge, unrouted
from scribe_spark.scribe.scribe import Scribe


@dataclass(frozen=True)
class Routing:
    """A kind of messages with ``group``, and the table of where they ended.

    They carry ``hops`` and ``delay_us`` (where payloads are timed) of their ways.  Its rows are the
    messages with ``at``, the last node, ``delivered`` and ``circled``, as of `route_to_edge`.
    """

    kind: str
    ends: str


def begin_routes(scribe: Scribe, routing: Routing, at: np.ndarray, **columns: np.ndarray) -> None:
    """Messages begin at nodes of the bucket; ones that were sent there have their ways so far."""
    zero = np.zeros(len(at), dtype=np.int64)
    began = {"hops": zero, "delay_us": zero}
    _route(scribe, routing, unrouted({**began, **columns, AT: at}))


def one_hop_on(scribe: Scribe, messages: Columns, to: np.ndarray) -> dict[str, np.ndarray]:
    """Messages are at other nodes."""
    return {**messages, **_ways(scribe, messages, to), AT: to}


def go_on(scribe: Scribe, routing: Routing, inbox: Inbox) -> None:
    """Messages that have come from other buckets go on."""
    if routing.kind in inbox:
        _route(scribe, routing, inbox[routing.kind])


def _route(scribe: Scribe, routing: Routing, moving: Columns) -> None:
    """To the end, or to the bucket's edge."""

    def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
        onward = scribe.hop(routing.kind, messages[AT], messages["group"])
        goes = (onward >= 0) & (onward != messages[AT])
        return onward, {**messages, **_ways(scribe, messages, onward, goes)}

    ended, leaving = route_to_edge(moving, hop_of, scribe.is_own)
    scribe.note(routing.ends, **ended)
    if leaving:
        scribe.tell(routing.kind, leaving.pop(AT), **leaving)


def _ways(
    scribe: Scribe, messages: Columns, to: np.ndarray, goes: np.ndarray | bool = True
) -> dict[str, np.ndarray]:
    """Return the ways of messages so far, of which some go on to other nodes."""
    delay_us = messages["delay_us"]
    if scribe.timed:
        delay_us = delay_us + np.where(goes, scribe.delay(messages[AT], to), 0)
    return {"hops": messages["hops"] + goes, "delay_us": delay_us}
