"""Messages with upcalls: dissemination, and what applications send when children were added.

References
----------
JSAC 2002, Sections III.A.3 and III.B.2, Figure 4 (lines 5 to 8).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from scribe_spark.scribe.duplicates import note_got
from scribe_spark.scribe.handlers import calls_of, keep_values
from scribe_spark.scribe.multicast import Payloads, accepted, drop_children
from scribe_spark.scribe.replicas import turns
from scribe_spark.scribe.scribe import Joins, Scribe
from scribe_spark.scribe.state import cause
from scribe_spark.scribe.upcalls import Application, Emitted

__all__ = ["disseminate_with_upcalls", "settle"]


def disseminate_with_upcalls(
    scribe: Scribe,
    application: Application,
    group: np.ndarray,
    publication: np.ndarray,
    root: np.ndarray,
) -> None:
    """Publications, those of a group in their order, go from the roots down the trees."""
    message = scribe.messages.add_publications(group, publication)
    payloads = Payloads.of(message, group, root, root)
    while len(payloads):
        payloads = _deliver(scribe, application, payloads, "payload")


def settle(scribe: Scribe) -> None:
    """joinHandler for all children added; what it sends, until nothing is under way.

    The trees are as the round's JOINs have left them.
    """
    added, scribe.added = scribe.added, []
    application = scribe.application
    if application is None or not added:
        return
    at = np.concatenate([one for one, _ in added])
    joins = Joins.join(*[one for _, one in added])
    own = (joins.source == at) & scribe.is_root(joins.group, at)  # a new root's JOIN to itself
    still = own | _are_children(scribe, joins.group, at, joins.source)
    still &= _is_last(scribe, joins, at)
    payloads, at, joins = _call_join_handler(scribe, application, at[still], joins.take(still))
    while len(payloads) or len(joins):
        on = _deliver(scribe, application, payloads, "retransmission")
        still = scribe.send("JOIN", joins.source, at)
        still &= _are_children(scribe, joins.group, at, joins.source)
        payloads, at, joins = _call_join_handler(scribe, application, at[still], joins.take(still))
        payloads = Payloads.join(payloads, on)


def _is_last(scribe: Scribe, joins: Joins, at: np.ndarray) -> np.ndarray:
    """Return the last JOINs of their sources to a node: one may have been dropped between."""
    edge = scribe.key(scribe.key(joins.group, at), joins.source)
    _, last = np.unique(edge[::-1], return_index=True)
    found = np.zeros(len(edge), dtype=bool)
    found[len(edge) - 1 - last] = True
    return found


def _are_children(
    scribe: Scribe, group: np.ndarray, node: np.ndarray, child: np.ndarray
) -> np.ndarray:
    return scribe.state.children.has(scribe.key(scribe.key(group, node), child))


def _call_join_handler(
    scribe: Scribe, application: Application, at: np.ndarray, joins: Joins
) -> tuple[Payloads, np.ndarray, Joins]:
    """The messages to children, and the questions to parents: at which nodes, and JOINs."""
    place, call = np.unique(scribe.key(joins.group, at), return_inverse=True)
    order = np.lexsort((joins.source, call))
    names = ("source", "number", "cause", "extra")
    table = {"call": call[order], **{name: getattr(joins, name)[order] for name in names}}
    emitted = application.join_handler(calls_of(scribe, place), pd.DataFrame(table))
    payloads = _payloads(scribe, place, emitted)
    # for several questions of a node one is sent
    call, extra = (emitted.asks[name].to_numpy(dtype=np.int64) for name in ("call", "extra"))
    asking, of = np.unique(call, return_inverse=True)
    extra = application.common_extra(of, extra, len(asking))
    group, node = scribe.split(place[asking])
    row = scribe.entry(group, node)
    parent = scribe.state.entries.parent[row]
    up = parent >= 0
    why = np.full(len(row), cause("ask"), dtype=np.int8)
    asks = Joins(group, node, scribe.state.entries.number[row], why, extra).take(up)
    scribe.joins.append(asks)
    return payloads, parent[up], asks


def _payloads(
    scribe: Scribe, place: np.ndarray, emitted: Emitted, came: Payloads | None = None
) -> Payloads:
    """What nodes send to children, as `Emitted` names it.

    Parameters
    ----------
    came : Payloads, optional
        The message that has come to each node of `place`.
    """
    new = scribe.messages.add(emitted.messages, emitted.contents)
    call, child, which = (
        emitted.payloads[name].to_numpy(dtype=np.int64) for name in ("call", "child", "message")
    )
    message, ends = np.r_[new, -1][which], scribe.split(place[call])
    if came is None:
        return Payloads.of(message, *ends, child)
    message = np.where(which < 0, came.message[call], message)
    delay_us = came.delay_us[call] + (scribe.delay(ends[1], child) if scribe.timed else 0)
    return Payloads(message, *ends, child, came.hops[call] + 1, delay_us)


def _deliver(scribe: Scribe, application: Application, payloads: Payloads, kind: str) -> Payloads:
    """All messages of a hop arrive; what their receivers send on."""
    # 1. transmissions: one for each publication, at least one
    times = np.maximum(scribe.messages.lengths[payloads.message], 1)
    away, alive = payloads.sender != payloads.node, scribe.overlay.alive[payloads.node]
    scribe.tally.add(
        kind,
        times[away].sum(),
        times[away & ~alive].sum(),
        between=lambda: (
            np.repeat(payloads.sender[away], times[away]),
            np.repeat(payloads.node[away], times[away]),
        ),
    )
    if kind == "payload":
        place = scribe.key(payloads.group, payloads.sender)
        scribe.paid.append(scribe.key(place, payloads.node)[away])
        if scribe.timed:
            _note_payloads(scribe, payloads.take(np.flatnonzero(away)))
    payloads = _in_order(scribe, payloads.take(alive))
    # 2. who takes them
    takes, _ = accepted(scribe, payloads)
    refused, payloads = payloads.take(~takes), payloads.take(takes)
    # 3. messages of one node one after the other
    place = scribe.key(payloads.group, payloads.node)
    sent = [_handle(scribe, application, payloads.take(turn)) for turn in turns(place)]
    drop_children(scribe, refused)
    return Payloads.join(payloads.take(np.arange(0)), *sent)


def _in_order(scribe: Scribe, payloads: Payloads) -> Payloads:
    """By group and node; those of one node begin with the one with the least number."""
    number, lengths = (getattr(scribe.messages, name) for name in ("number", "lengths"))
    place, of = scribe.key(payloads.group, payloads.node), payloads.message
    return payloads.take(np.lexsort((lengths[of], number[of], place)))


def _note_payloads(scribe: Scribe, payloads: Payloads) -> None:
    """Remember who has sent which publications to whom."""
    inside = scribe.messages.contents(payloads.message)
    of, publication = (inside[name].to_numpy() for name in ("call", "publication"))
    ends = payloads.sender[of], payloads.node[of]
    scribe.payloads.append((payloads.group[of], publication, *ends))


def _handle(scribe: Scribe, application: Application, came: Payloads) -> Payloads:
    """Figure 4, lines 5 to 8, at nodes that got one message each."""
    place, message = scribe.key(came.group, came.node), came.message
    calls = calls_of(scribe, place)
    messages, contents = scribe.messages.table(message), scribe.messages.contents(message)
    group, node = scribe.split(place)
    of = contents["call"].to_numpy()
    note_got(scribe, group[of], node[of], contents["publication"].to_numpy())
    # (5, 6) for all children: send(msg, node), as forwardHandler wants it
    emitted = application.forward_handler(calls, messages, contents)
    keep_values(scribe, place, emitted.values)
    payloads = _payloads(scribe, place, emitted, came)
    # (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
    users = application.message_handler(calls, messages, contents)
    call, publication = (users[name].to_numpy(dtype=np.int64) for name in ("call", "publication"))
    member = scribe.state.entries.member[scribe.state.entries.find(place)][call]
    call, publication = call[member], publication[member]
    ways = came.hops[call], came.delay_us[call]
    scribe.deliveries.add(group[call], publication, node[call], *ways)
    still = _are_children(scribe, payloads.group, payloads.sender, payloads.node)
    return payloads.take(still)
