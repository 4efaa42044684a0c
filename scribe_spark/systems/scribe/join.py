"""The JOINs of a round: all nodes that wait send one, and all JOINs travel hop by hop.

A *repair JOIN* has the cause that the parent or the root failed.  If a repair JOIN makes a node
enter the tree, that node's own JOIN is a repair JOIN as well.

JSAC 2002, Section III.A.2, Figure 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import Rows, distinct, index_sorted
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.systems.scribe import figures, program, root, state
from scribe_spark.systems.scribe.scribe import Joins, Scribe

#: The kind of a JOIN message.
JOIN = "JOIN"

#: Tables: the JOINs that were sent, and the nodes that repair JOINs visited.
JOINS, REPAIRING = "scribe joins", "scribe repairing"


@dataclass(frozen=True)
class JoinRequests(Rows):
    """JOINs that are being routed, at the nodes `at`.

    `path` has the nodes that each JOIN visited, padded with NONE; no columns in a settled round.
    `repairs` marks repair JOINs.
    """

    joins: Joins
    at: np.ndarray
    path: np.ndarray
    repairs: np.ndarray

    @classmethod
    def of(cls, scribe: Scribe, joins: Joins, repairs: np.ndarray) -> JoinRequests:
        """Return JOINs as requests that start at their sources."""
        path = joins.source[:, None][:, : 0 if scribe.settled else 1]
        return cls(joins, joins.source, path, repairs)

    @classmethod
    def sent_to(cls, joins: Joins, at: np.ndarray) -> JoinRequests:
        """Return JOINs as requests that are sent to the nodes `at` without routing."""
        path = np.column_stack([joins.source, at])
        return cls(joins, at, path, np.zeros(len(at), dtype=bool))

    @classmethod
    def from_columns(cls, columns: Columns) -> JoinRequests:
        joins = Joins.from_columns(columns)
        return cls(joins, columns[AT], columns["path"], columns["repairs"])


def first_joins(scribe: Scribe) -> JoinRequests:
    """Let every waiting node send a JOIN; return the JOINs that travel on."""
    joins = note_joins(scribe, scribe.state.entries.waiting())
    # all JOINs take a hop; Pastry delivers some of them at their source
    repairs = np.isin(joins.cause, state.FAILED)
    scribe.note(REPAIRING, node=joins.source[repairs])
    moving, delivered = onward(scribe, JoinRequests.of(scribe, joins, repairs))
    pair = scribe.key(joins.group[delivered], joins.source[delivered])
    knows = scribe.state.copies.has(pair)
    scribe.refuse("no group", (~knows).sum())
    root.become_root(scribe, pair[knows])
    return moving


def send_on(scribe: Scribe, moving: JoinRequests) -> None:
    """Send JOINs on to the nodes `at` at which they arrive in the next superstep."""
    columns = moving.to_columns()
    scribe.tell(JOIN, columns.pop(AT), **columns)


def send_directly(scribe: Scribe, joins: Joins, to: np.ndarray) -> None:
    """Send JOINs to known nodes, without routing."""
    send_on(scribe, JoinRequests.sent_to(joins, to))


def note_joins(scribe: Scribe, rows: np.ndarray) -> Joins:
    """Make and record JOINs of waiting nodes (rows of `Entries`); faultHandler adds data."""
    entries = scribe.state.entries
    joins = Joins.of(*scribe.split(entries.key[rows]), scribe.number, entries.cause[rows])
    tried = np.flatnonzero(entries.tried[rows])
    extra = joins.extra.copy()
    extra[tried] = program.call_fault_handler(scribe, joins.take(tried)).extra
    joins = joins.with_extra(extra)
    remember(scribe, joins)
    return joins


def own_joins(scribe: Scribe, pair: np.ndarray, which: np.ndarray, joins: Joins) -> Joins:
    """Return the JOINs of nodes ``pair[which]`` that enter the tree since `joins` visit them."""
    own = Joins.of(*scribe.split(pair), scribe.number, state.cause("forwarder"))
    if scribe.best_effort:
        return own
    return own.with_extra(scribe.application.common_extra(which, joins.extra, len(pair)))


def remember(scribe: Scribe, joins: Joins) -> None:
    """Record JOINs at the nodes that send them."""
    entries = scribe.state.entries
    row = scribe.entry(joins.group, joins.source)
    entries.number[row], entries.tried[row], entries.extra[row] = joins.number, True, joins.extra
    if not scribe.settled:
        scribe.note(JOINS, **joins.to_columns())


def onward(scribe: Scribe, moving: JoinRequests) -> tuple[JoinRequests, np.ndarray]:
    """Route JOINs one hop; return those that go on, and which Pastry delivers where they are."""
    to = scribe.hop("JOIN", moving.at, moving.joins.group)
    delivered = to == moving.at
    goes = (to >= 0) & ~delivered
    if scribe.settled:
        went = moving.take(np.flatnonzero(goes))
        return JoinRequests(went.joins, to[goes], went.path, went.repairs), delivered
    circled = (moving.path == to[:, None]).any(axis=1)
    index = np.flatnonzero(goes & ~circled)
    path = np.concatenate([moving.path[index], to[index, None]], axis=1)
    went = moving.take(index)
    return JoinRequests(went.joins, to[index], path, went.repairs), delivered


def receive_joins(scribe: Scribe, moving: JoinRequests) -> JoinRequests:
    """Handle JOINs at the nodes that they visit; return the JOINs that travel on."""
    joins, at = moving.joins, moving.at
    scribe.note(REPAIRING, node=at[moving.repairs])
    pair = scribe.key(joins.group, at)
    row = scribe.state.entries.find(pair)
    # 1. a JOIN travels on if its source is on the receiver's own path from the root
    circular = np.flatnonzero(figures.on_path(scribe, row, joins.source))
    parts = [onward(scribe, moving.take(circular))[0]]
    # 2. nodes outside of the tree enter it and send JOINs of their own, unless Pastry delivers
    #    the JOIN there
    outside = np.flatnonzero(row < 0)
    new, which = np.unique(pair[outside], return_inverse=True)
    own = own_joins(scribe, new, which, joins.take(outside))
    repairs = np.zeros(len(new), dtype=bool)
    repairs[which[moving.repairs[outside]]] = True
    own_moving, delivered = onward(scribe, JoinRequests.of(scribe, own, repairs))
    ends = np.zeros(len(at), dtype=bool)
    ends[outside] = delivered[which]

    def route(entered: np.ndarray) -> None:
        remember(scribe, own.take(index_sorted(new, entered)))
        parts.append(own_moving)

    answered = ~ends
    answered[circular] = False
    figures.forward(scribe, at[answered], joins.take(answered), route)
    # 3. delivered JOINs: the node becomes the root if it has the group's state
    knows = ends & scribe.state.copies.has(pair)
    scribe.refuse("no group", (ends & ~knows).sum())
    root.become_root(scribe, distinct(pair[knows]))
    figures.deliver_join(scribe, at[knows], joins.take(knows))
    return JoinRequests.join(*parts)


class JoinProgram(program.RoundProgram):
    """The base of programs that route JOINs and handle answers."""

    writes = ("entries", "children", "copies", "paths", "created")
    settled_writes = ("entries", "children", "copies", "created")

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if figures.ANSWER in inbox:
            figures.take_answers(scribe, inbox[figures.ANSWER])
        if JOIN in inbox:
            send_on(scribe, receive_joins(scribe, JoinRequests.from_columns(inbox[JOIN])))


class SendJoins(JoinProgram):
    """Handle the round's CREATEs; then every waiting node sends a JOIN."""

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        super().handle(scribe, tables, inbox, superstep)
        if not superstep:
            root.receive_routed_creates(scribe, tables)
            self.send(scribe)

    def send(self, scribe: Scribe) -> None:
        """Let every waiting node (one without a parent) send a JOIN."""
        send_on(scribe, first_joins(scribe))


# --- jOINs without the required credentials; the first node with the access list refuses them

_JOIN, _REFUSED = "JOIN (unknown member)", "JOIN refused"


class RefuseUnknownMembers(program.RoundProgram):
    """Route the JOINs of unknown members to the first tree node, which refuses them."""

    writes = ("unknown_members",)

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if _REFUSED in inbox:
            pair = scribe.key(inbox[_REFUSED]["group"], inbox[_REFUSED][AT])
            scribe.state.unknown_members.discard(pair)
        if _JOIN in inbox:
            self._arrive(scribe, inbox[_JOIN])
        if not superstep:
            group, source = scribe.split(scribe.state.unknown_members.key)
            self._arrive(
                scribe, {"group": group, "source": source, AT: source, "path": source[:, None]}
            )

    def _arrive(self, scribe: Scribe, joins: Columns) -> None:
        """Refuse JOINs at nodes that have the group's tree or state, and forward the others."""
        # tree nodes, and nodes with a copy of the group's state, can check credentials
        pair = scribe.key(joins["group"], joins[AT])
        knows = scribe.state.entries.has(pair) | scribe.state.copies.has(pair)
        refused = take(joins, np.flatnonzero(knows))
        scribe.refuse("JOIN", len(refused[AT]))
        scribe.tell(_REFUSED, refused["source"], group=refused["group"])
        joins = take(joins, np.flatnonzero(~knows))
        onward = scribe.hop("JOIN", joins[AT], joins["group"])
        circled = (joins["path"] == onward[:, None]).any(axis=1)  # or delivered here
        goes = np.flatnonzero((onward >= 0) & ~circled)
        onward, joins = onward[goes], take(joins, goes)
        path = np.column_stack([joins["path"], onward])
        scribe.tell(_JOIN, onward, group=joins["group"], source=joins["source"], path=path)
