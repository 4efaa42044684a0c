"""The JOINs of a round: all nodes that wait send one, and all JOINs travel hop by hop.

A *repair JOIN* has the cause that the parent or the root failed.  If a repair JOIN makes a node
enter the tree, that node's own JOIN is a repair JOIN as well.

JSAC 2002, Section III.A.2, Figure 3.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, index_sorted
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.pastry.next_hop import HopOf, route_to_edge, unrouted
from scribe_spark.systems.scribe import figures, root, state
from scribe_spark.systems.scribe.scribe import (
    Handlers,
    RoundProgram,
    Scribe,
    call_fault_handler,
    joins_in,
    joins_of,
)

#: The kind of a JOIN message.
JOIN = "JOIN"

#: Tables: the JOINs that were sent, and the nodes that repair JOINs visited.
JOINS, REPAIRING = "scribe joins", "scribe repairing"


# JOINs on their way have further columns: the node (``at``); ``path``, the nodes that each JOIN
# visited, padded with NONE (no columns in a settled round); and ``repairs`` for repair JOINs.


def _from_sources(scribe: Scribe, joins: Columns, repairs: np.ndarray) -> dict[str, np.ndarray]:
    """Return JOINs on their way, at their sources."""
    path = joins["source"][:, None][:, : 0 if scribe.settled else 1]
    return {**joins, AT: joins["source"], "path": path, "repairs": repairs}


def sent_to(joins: Columns, at: np.ndarray) -> dict[str, np.ndarray]:
    """Return JOINs that are sent to the nodes `at` without routing."""
    path, repairs = np.column_stack([joins["source"], at]), np.zeros(len(at), dtype=bool)
    return {**joins, AT: at, "path": path, "repairs": repairs}


def first_joins(scribe: Scribe) -> dict[str, np.ndarray]:
    """Let every waiting node send a JOIN; return the JOINs that travel on."""
    joins = note_joins(scribe, scribe.state.entries.waiting())
    # all JOINs take a hop; Pastry delivers some of them at their source
    repairs = np.isin(joins["cause"], state.FAILED)
    scribe.note(REPAIRING, node=joins["source"][repairs])
    moving, delivered = onward(scribe, _from_sources(scribe, joins, repairs))
    pair = scribe.key(joins["group"], joins["source"])[delivered]
    knows = scribe.state.copies.has(pair)
    scribe.refuse("no group", (~knows).sum())
    root.become_root(scribe, pair[knows])
    return moving


def route_joins(scribe: Scribe, kind: str, moving: Columns, hop_of: HopOf) -> dict[str, np.ndarray]:
    """Route JOINs of a kind to their end, or to the edge of the bucket; return delivered ones."""
    moving = moving if "path" in moving else unrouted(moving)
    ended, leaving = route_to_edge(moving, hop_of, scribe.is_own)
    if leaving:
        scribe.tell(kind, leaving.pop(AT), **leaving)
    return take(ended, ended["delivered"]) if ended else {}


def send_on(scribe: Scribe, moving: dict[str, np.ndarray]) -> None:
    """Send JOINs on to the nodes `at` at which they arrive in the next superstep."""
    scribe.tell(JOIN, moving.pop(AT), **moving)


def note_joins(scribe: Scribe, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Make and record JOINs of waiting nodes (rows of `Entries`); faultHandler adds data."""
    entries = scribe.state.entries
    joins = joins_of(*scribe.split(entries.key[rows]), scribe.number, entries.cause[rows])
    tried = np.flatnonzero(entries.tried[rows])
    extra = joins["extra"].copy()
    extra[tried] = call_fault_handler(scribe, take(joins, tried))["extra"]
    joins["extra"] = extra
    remember(scribe, joins)
    return joins


def own_joins(
    scribe: Scribe, pair: np.ndarray, which: np.ndarray, extra: np.ndarray
) -> dict[str, np.ndarray]:
    """Return JOINs of nodes that enter the tree since JOINs with `extra` visit ``pair[which]``."""
    own = joins_of(*scribe.split(pair), scribe.number, state.cause("forwarder"))
    if not scribe.best_effort:
        own["extra"] = scribe.application.common_extra(which, extra, len(pair))
    return own


def remember(scribe: Scribe, joins: Columns) -> None:
    """Record JOINs at the nodes that send them."""
    entries = scribe.state.entries
    row = scribe.entry(joins["group"], joins["source"])
    entries.number[row], entries.tried[row] = joins["number"], True
    entries.extra[row] = joins["extra"]
    if not scribe.settled:
        scribe.note(JOINS, **joins)


def onward(scribe: Scribe, moving: Columns) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Route JOINs one hop; return those that go on, and which Pastry delivers where they are."""
    to = scribe.hop("JOIN", moving[AT], moving["group"])
    delivered = to == moving[AT]
    goes = (to >= 0) & ~delivered
    if not scribe.settled:
        goes &= ~(moving["path"] == to[:, None]).any(axis=1)
    went = {**take(moving, np.flatnonzero(goes)), AT: to[goes]}
    if not scribe.settled:
        went["path"] = np.column_stack([went["path"], went[AT]])
    return went, delivered


def receive_joins(scribe: Scribe, moving: Columns) -> None:
    """Handle JOINs at the nodes that they visit, and send on those that travel on."""
    joins, at, repairing = joins_in(moving), moving[AT], moving["repairs"]
    scribe.note(REPAIRING, node=at[repairing])
    pair = scribe.key(joins["group"], at)
    row = scribe.state.entries.find(pair)
    # 1. a JOIN travels on if its source is on the receiver's own path from the root
    circular = np.flatnonzero(figures.on_path(scribe, row, joins["source"]))
    parts = [onward(scribe, take(moving, circular))[0]]
    # 2. nodes outside of the tree enter it and send JOINs of their own, unless Pastry delivers
    #    the JOIN there
    outside = np.flatnonzero(row < 0)
    new, which = np.unique(pair[outside], return_inverse=True)
    own = own_joins(scribe, new, which, joins["extra"][outside])
    repairs = np.zeros(len(new), dtype=bool)
    repairs[which[repairing[outside]]] = True
    own_moving, delivered = onward(scribe, _from_sources(scribe, own, repairs))
    ends = np.zeros(len(at), dtype=bool)
    ends[outside] = delivered[which]

    def route(entered: np.ndarray) -> None:
        remember(scribe, take(own, index_sorted(new, entered)))
        parts.append(own_moving)

    answered = ~ends
    answered[circular] = False
    figures.forward(scribe, at[answered], take(joins, answered), route)
    # 3. delivered JOINs: the node becomes the root if it has the group's state
    knows = ends & scribe.state.copies.has(pair)
    scribe.refuse("no group", (ends & ~knows).sum())
    root.become_root(scribe, distinct(pair[knows]))
    figures.deliver_join(scribe, at[knows], take(joins, knows))
    send_on(scribe, concatenate(parts))


class JoinProgram(RoundProgram):
    """The base of programs that route JOINs and handle answers."""

    writes = ("entries", "children", "copies", "paths", "created")
    settled_writes = ("entries", "children", "copies", "created")

    handlers: ClassVar[Handlers] = ((figures.ANSWER, figures.take_answers), (JOIN, receive_joins))


class SendJoins(JoinProgram):
    """Handle the round's CREATEs; then every waiting node sends a JOIN."""

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        root.receive_creates(scribe, tables)
        self.send(scribe)

    def send(self, scribe: Scribe) -> None:
        """Let every waiting node (one without a parent) send a JOIN."""
        send_on(scribe, first_joins(scribe))


# --- JOINs without the required credentials; the first node with the access list refuses them

_JOIN, _REFUSED = "JOIN (unknown member)", "JOIN refused"


def _hear_refusals(scribe: Scribe, came: Columns) -> None:
    scribe.state.unknown_members.discard(scribe.key(came["group"], came[AT]))


def _route_unknown(scribe: Scribe, joins: Columns) -> None:
    """Route JOINs to the edge of the bucket, or to nodes that can check credentials."""

    def hop_of(here: Columns) -> tuple[np.ndarray, Columns]:
        # tree nodes, and nodes with a copy of the group's state, can check credentials
        at, group, pair = here[AT], here["group"], scribe.key(here["group"], here[AT])
        knows = scribe.state.entries.has(pair) | scribe.state.copies.has(pair)
        to = at.copy()
        to[~knows] = scribe.hop("JOIN", at[~knows], group[~knows])
        to[~knows & (to == at)] = NONE
        return to, here

    if refused := route_joins(scribe, _JOIN, joins, hop_of):
        scribe.refuse("JOIN", len(refused[AT]))
        scribe.tell(_REFUSED, refused["source"], group=refused["group"])


class RefuseUnknownMembers(RoundProgram):
    """Route the JOINs of unknown members to the first tree node, which refuses them."""

    writes = ("unknown_members",)
    handlers = ((_REFUSED, _hear_refusals), (_JOIN, _route_unknown))

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        group, source = scribe.split(scribe.state.unknown_members.key)
        _route_unknown(scribe, {"group": group, "source": source, AT: source})
