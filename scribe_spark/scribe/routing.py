"""Messages that Pastry routes to groupIds until they end, while no table changes.

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
    """A kind of routed messages with a column ``group``, and the table with their ends.

    Messages carry the ``hops`` and ``delay_us`` of their route; the table adds the last node
    (``at``), ``delivered`` and ``circled``, see `route_to_edge`.
    """

    kind: str
    ends: str


def begin_routes(scribe: Scribe, routing: Routing, at: np.ndarray, **columns: np.ndarray) -> None:
    """Start routing messages at nodes of the bucket, with the hops and delays so far, if any."""
    zero = np.zeros(len(at), dtype=np.int64)
    began = {"hops": zero, "delay_us": zero}
    _route(scribe, routing, unrouted({**began, **columns, AT: at}))


def one_hop_on(scribe: Scribe, messages: Columns, to: np.ndarray) -> dict[str, np.ndarray]:
    """Return the messages after one more hop, at the nodes `to`."""
    return {**messages, **_ways(scribe, messages, to), AT: to}


def go_on(scribe: Scribe, routing: Routing, inbox: Inbox) -> None:
    """Continue routing messages that arrived from other buckets."""
    if routing.kind in inbox:
        _route(scribe, routing, inbox[routing.kind])


def _route(scribe: Scribe, routing: Routing, moving: Columns) -> None:
    """Route messages to their end, or to the edge of the bucket."""

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
    """Return the hops and delays of messages after some of them moved to other nodes."""
    delay_us = messages["delay_us"]
    if scribe.timed:
        delay_us = delay_us + np.where(goes, scribe.delay(messages[AT], to), 0)
    return {"hops": messages["hops"] + goes, "delay_us": delay_us}
