"""Roots: replicas of their state, CREATE, failover, and the hand-over to a nearer node.

A CREATE is routed to the groupId; the node that it reaches becomes the root, which keeps copies of
the group's state at its nearest leaves.  JSAC 2002, Sections III.A.1 and III.B.1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, index_sorted, turns
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.pastry.next_hop import RingDistances, distances
from scribe_spark.systems.scribe.figures import ADDED, deliver_create
from scribe_spark.systems.scribe.scribe import (
    CHANGED,
    RoundProgram,
    Scribe,
    call_fault_handler,
    joins_of,
    send_leave,
)
from scribe_spark.systems.scribe.state import Copies, cause

#: Messages: a root's state; the acknowledgement of a replica; a replica that drops its copy.
REPLICA, TAKEN, REPLICA_GOODBYE = "replica", "replica taken", "replica goodbye"

#: The columns of `Copies` that are the group's state; the others are about the root.
_STATE = ("epoch", "version", "creator", "length", "values")


def tell_states(
    scribe: Scribe,
    kind: str,
    copies: Copies,
    rows: np.ndarray,
    to: np.ndarray,
    **others: np.ndarray,
) -> None:
    """Send the group states in rows of `copies` to the nodes `to`; `others` replace columns."""
    group, sender = scribe.split(copies.key[rows])
    states = copies.rows(rows) | others
    states["values"] = states["values"][:, : states["length"].max(initial=0)]
    scribe.tell(kind, to, group=group, sender=sender, **states)


def _one_by_one(
    scribe: Scribe, states: Columns
) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]]:
    """Yield received states of different nodes and groups at a time, in order.

    With them come their keys and the rows of the copies that the nodes have.
    """
    for turn in turns(scribe.key(states["group"], states[AT])):
        one = take(states, turn)
        pair = scribe.key(one["group"], one[AT])
        yield one, pair, scribe.state.copies.find(pair)


def _keep_states(scribe: Scribe, pair: np.ndarray, states: Columns, which: np.ndarray) -> None:
    copies = scribe.state.copies
    copies.put(pair[which], **{name: states[name][which] for name in copies.columns()})


def receive_states(scribe: Scribe, came: Columns) -> None:
    """Store group states newer than the receiver's copy; of equal ones, the nearest sender's.

    A root that receives a newer state stays the root, takes over the state, and repairs its tree.
    """
    copies = scribe.state.copies
    states = take(came, nearness_order(scribe, came["group"], came["sender"]))
    for one, pair, row in _one_by_one(scribe, states):
        there = row >= 0
        newer = ~there
        newer[there] = _age(take(one, there)) > _age(copies.rows(row[there]))
        root = newer & there & scribe.is_root(one["group"], one[AT])
        mine = take({**one, "values": copies.widened(one["values"])}, root)
        for name in _STATE:
            getattr(copies, name)[row[root]] = mine[name]
        join_themselves(scribe, one["group"][root], one[AT][root])
        _keep_states(scribe, pair, one, newer & ~root)


def _age(states: Columns) -> np.ndarray:
    """Return numbers by which states, or rows of `Replicas`, are compared: the newer is greater."""
    return (states["epoch"] << _VERSION_BITS) + states["version"]


_VERSION_BITS = 32


def join_themselves(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> None:
    """Deliver the repair JOINs of roots (group, node) at the roots themselves."""
    if not len(group):
        return
    why = scribe.state.entries.cause[scribe.entry(group, node)]
    joins = call_fault_handler(scribe, joins_of(group, node, scribe.number, why))
    scribe.note(ADDED, at=node, **joins)


def replicate(scribe: Scribe, pair: np.ndarray) -> None:
    """Send the states of roots (sorted keys `pair`) to the k - 1 nearest leaves that lack them."""
    own, leaf = _nearest_leaves(scribe, pair)
    needs = ~_has_taken(scribe, own, leaf)
    own, leaf = own[needs], leaf[needs]
    copies = scribe.state.copies
    arrives = scribe.send("replica", copies.key[own] % scribe.state.size, leaf)
    tell_states(scribe, REPLICA, copies, own[arrives], leaf[arrives])


def _nearest_leaves(scribe: Scribe, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs: a root of `pair` (its row of `Copies`), and one of its k - 1 nearest leaves."""
    leaves = leaves_by_nearness(scribe, *scribe.split(pair))[:, : scribe.rules.replicas - 1]
    at, column = np.nonzero(leaves >= 0)
    return scribe.state.copies.find(pair)[at], leaves[at, column]


def _has_taken(scribe: Scribe, own: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """Return True for live leaves that acknowledged the current state of a root."""
    copies, replicas = scribe.state.copies, scribe.state.replicas
    row = replicas.find(scribe.key(copies.key[own], leaf))
    taken = (row >= 0) & scribe.is_alive(leaf)
    row, own, leaf = row[taken], own[taken], leaf[taken]
    same = replicas.incarnation[row] == scribe.state.incarnation[leaf]
    same &= replicas.epoch[row] == copies.epoch[own]
    taken[taken] = same & (replicas.version[row] == copies.version[own])
    return taken


def has_replica(scribe: Scribe, group: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return True for roots without leaves, or with a nearest leaf that has their state."""
    pair, which = np.unique(scribe.key(group, root), return_inverse=True)
    own, leaf = _nearest_leaves(scribe, pair)
    of = index_sorted(pair, scribe.state.copies.key[own])
    found = np.bincount(of, minlength=len(pair)) == 0
    found[of[_has_taken(scribe, own, leaf)]] = True
    return found[which]


def receive_replicas(scribe: Scribe, came: Columns) -> None:
    """Store states of roots at leaves without a newer one, and answer the roots."""
    copies = scribe.state.copies
    # on a broken ring a group may have several roots: their states come one after the other
    states = take(came, np.lexsort((came["sender"], came[AT], came["group"])))
    for one, pair, row in _one_by_one(scribe, states):
        there, takes = row >= 0, ~scribe.is_root(one["group"], one[AT])
        takes[there] &= _age(take(one, there)) >= _age(copies.rows(row[there]))
        _keep_states(scribe, pair, one, takes)
        one = take(one, takes)
        state = {name: one[name] for name in ("group", "epoch", "version")}
        scribe.tell(TAKEN, one["sender"], leaf=one[AT], **state)


def receive_taken(scribe: Scribe, came: Columns) -> None:
    """Record at roots which leaves have acknowledged their states."""
    edge = scribe.edge(came["group"], came[AT], came["leaf"])
    state = {name: came[name] for name in ("epoch", "version")}
    incarnation = scribe.state.incarnation[came["leaf"]]
    scribe.state.replicas.put(edge, **state, incarnation=incarnation)


#: The handlers of programs in which roots update replicas.
REPLICATING = ((REPLICA, receive_replicas), (TAKEN, receive_taken))


def replicate_changed(scribe: Scribe, tables: Tables) -> None:
    """Roots that are new, or whose state has changed, update their replicas."""
    parts = scribe.notes.pop(CHANGED, [])
    if CHANGED in tables:
        parts = [tables.pop(CHANGED), *parts]
    if parts:
        pair = distinct(np.concatenate([part["pair"] for part in parts]))
        replicate(scribe, pair[scribe.is_root(*scribe.split(pair))])


def root_is_gone(scribe: Scribe) -> np.ndarray:
    """Return True for rows of `Copies` whose root left the leaf set, or came back without state."""
    copies, states = scribe.state.copies, scribe.known
    leaves = states.leaves[copies.key % scribe.state.size - states.first]
    there = (leaves == copies.root[:, None]).any(axis=1)
    return ~there | (scribe.state.incarnation[copies.root] != copies.incarnation)


def drop_far_copies(scribe: Scribe, passed_on: np.ndarray) -> None:
    """Nodes that know k nodes nearer to the groupId drop their copy, once that is safe.

    The node tells the root of its copy.  If nobody answers, the root has died, perhaps without
    handing its state over, and the node keeps the copy.  If the root is not in the node's leaf set
    any more, the node keeps the copy until it has passed it on to a live node (`passed_on`).
    """
    copies = scribe.state.copies
    group, node = scribe.split(copies.key)
    far = np.flatnonzero(
        (rank(scribe, group, node) >= scribe.rules.replicas) & ~scribe.is_root(group, node)
    )
    safe = np.isin(copies.key[far], passed_on)
    asks = ~root_is_gone(scribe)[far]
    asking = far[asks]
    columns = {"group": group[asking], "leaf": node[asking]}
    asked = node[asking], copies.root[asking]
    safe[asks] = scribe.post(REPLICA_GOODBYE, "replica goodbye", *asked, **columns)
    copies.drop(far[safe])


def receive_goodbyes(scribe: Scribe, came: Columns) -> None:
    """Roots remove the leaves that have dropped their copies."""
    scribe.state.replicas.discard(scribe.edge(came["group"], came[AT], came["leaf"]))


# --- the nodes nearest to groupIds, as nodes know them from their leaf sets


def rank(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Count the leaves of each node that are nearer to the groupId than the node: int64."""
    leaves, distance = _leaves(scribe, group, node)
    own = _distances(scribe, group, node[:, None])
    return np.count_nonzero((leaves >= 0) & distance.closer_than(own), axis=1)


def leaves_by_nearness(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return leaf sets sorted by distance to the groupId, :data:`NONE` last: int64, (n, l)."""
    leaves, distance = _leaves(scribe, group, node)
    order = np.lexsort((distance.position, distance.lo, distance.hi, leaves < 0), axis=1)
    return np.take_along_axis(leaves, order, axis=1)


def nearness_order(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return the indices that sort (group, node) by group, then by distance to the groupId."""
    distance = _distances(scribe, group, node[:, None])
    return np.lexsort((node, distance.lo[:, 0], distance.hi[:, 0], group))


def _leaves(
    scribe: Scribe, group: np.ndarray, node: np.ndarray
) -> tuple[np.ndarray, RingDistances]:
    states = scribe.known
    leaves = states.distinct_leaves(node - states.first).astype(np.int64)
    leaves[leaves < 0] = NONE
    return leaves, _distances(scribe, group, leaves)


def _distances(scribe: Scribe, group: np.ndarray, candidates: np.ndarray) -> RingDistances:
    return distances(scribe.ring, scribe.groups.keys.take(group), candidates)


# --- CREATE, failover and hand-over


#: The message with a group's state from a node that is not the nearest to the nearest; ``hands`` is
#: True if the sender is a root that steps down.
STATE = "state"

#: The table of copies that were passed on to live nodes in this round: ``pair``, the key of (group,
#: node).
PASSED_ON = "scribe passed on"


def _hear_states(scribe: Scribe, came: Columns) -> None:
    receive_states(scribe, came)
    become_root(scribe, distinct(scribe.key(came["group"], came[AT])[came["hands"]]))


class HandOver(RoundProgram):
    """Let nodes with a group's state compare themselves with their leaf set (upcall newLeafs).

    A root, or a replica whose root is gone, gives the state to its nearest leaf if that is nearer
    to the groupId.
    """

    writes = ("entries", "children", "copies", "replicas")

    handlers = ((STATE, _hear_states),)

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        copies = scribe.state.copies
        group, node = scribe.split(copies.key)
        root = scribe.is_root(group, node)
        sends = (rank(scribe, group, node) > 0) & (root | root_is_gone(scribe))
        sends = np.flatnonzero(sends)
        leaf = leaves_by_nearness(scribe, group[sends], node[sends])[:, 0]
        arrives = scribe.send("replica", node[sends], leaf)
        sends, leaf = sends[arrives], leaf[arrives]
        hands = root[sends]
        tell_states(scribe, STATE, copies, sends, leaf, hands=hands)
        scribe.note(PASSED_ON, pair=copies.key[sends[~hands]])
        _step_down(scribe, sends[hands], leaf[hands])


def _step_down(scribe: Scribe, rows: np.ndarray, successor: np.ndarray) -> None:
    """Let former roots (rows of `Copies`) join under the new roots later, with their subtrees."""
    if not len(rows):
        return
    entries, copies, replicas = scribe.state.entries, scribe.state.copies, scribe.state.replicas
    row = entries.find(copies.key[rows])
    entries.root[row], entries.tried[row] = False, True
    entries.cause[row] = cause("hand-over")
    copies.root[rows] = successor
    copies.incarnation[rows] = scribe.state.incarnation[successor]
    replicas.keep(~np.isin(replicas.key // scribe.state.size, copies.key[rows]))


class Failover(RoundProgram):
    """Let the nearest nodes with a copy of a group's state become roots, and update replicas."""

    writes = ("entries", "children", "copies", "replicas")

    handlers = REPLICATING

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        copies, entries = scribe.state.copies, scribe.state.entries
        nearest = rank(scribe, *scribe.split(copies.key)) == 0
        become_root(scribe, copies.key[nearest])
        scribe.notes.pop(CHANGED, None)
        tables.pop(CHANGED, None)
        replicate(scribe, entries.key[entries.root])


def become_root(scribe: Scribe, pair: np.ndarray) -> None:
    """Make nodes with a group's state (keys, each once) its roots; skip those that are roots.

    A node in the tree sends its parent a LEAVE. A node that has sent a JOIN gets a repair JOIN
    of its own: no child is added, but joinHandler is called.
    """
    entries, copies = scribe.state.entries, scribe.state.copies
    pair = pair[~scribe.is_root(*scribe.split(pair))]
    if not len(pair):
        return
    entries.enter(pair[~entries.has(pair)], scribe.number, "own")
    group, node = scribe.split(pair)
    row = entries.find(pair)
    tried = entries.tried[row]
    join_themselves(scribe, group[tried], node[tried])
    parent = entries.parent[row]
    entries.parent[row], entries.root[row] = NONE, True
    entries.path[row], entries.moved[row] = NONE, True
    copy = copies.find(pair)
    copies.root[copy], copies.incarnation[copy] = node, scribe.state.incarnation[node]
    if not scribe.settled:
        scribe.note(CHANGED, pair=pair)
    had = parent >= 0
    send_leave(scribe, group[had], node[had], parent[had], entries.number[row[had]])


# --- CREATE

#: The table of CREATEs at the nodes where they were delivered.
CREATED = "scribe CREATEs"

#: The table of groups that were created in this round: ``group, creator``, the root (``at``), and
#: the ``hops, delay_us`` of the CREATE's route.
MADE = "scribe made"


def receive_creates(scribe: Scribe, tables: Tables) -> None:
    """Handle the round's CREATEs where they arrived; the smallest creator of a group counts."""
    came = tables.pop(CREATED, None)
    if came is None:
        return
    scribe.refuse("CREATE lost", (~came["delivered"]).sum())
    came = take(came, came["delivered"])
    came = take(came, np.lexsort((came["creator"], came["group"])))
    pair = scribe.key(came["group"], came[AT])
    # check credentials; a CREATE for an existing group changes nothing
    allowed = scribe.groups.allows("create", came["group"], came["creator"])
    allowed &= ~scribe.state.copies.has(pair)
    made = np.flatnonzero(allowed)[np.unique(pair[allowed], return_index=True)[1]]
    scribe.refuse("CREATE", len(pair) - len(made))
    of = {name: came[name][made] for name in ("group", "creator", AT, "hops", "delay_us")}
    deliver_create(scribe, of["group"], of[AT], of["creator"])
    become_root(scribe, pair[made])
    scribe.state.created[of["group"]] = True
    scribe.note(MADE, **of)
