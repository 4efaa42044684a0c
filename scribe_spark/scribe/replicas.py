"""The groups' states on their way between nodes, and the replicas that roots keep up to date.

References
----------
JSAC 2002, Section III.B.1: the root's state is replicated at the k nodes closest to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import Rows, distinct, offsets_of, turns
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.program import AT
from scribe_spark.scribe.figures import ADDED
from scribe_spark.scribe.handlers import CHANGED, call_fault_handler
from scribe_spark.scribe.nearness import leaves_by_nearness, nearness_order, rank
from scribe_spark.scribe.scribe import Joins, Scribe
from scribe_spark.scribe.state import Copies

#: The state, from a root to a replica; what this has taken; and that it is one no more.
REPLICA, TAKEN, REPLICA_GOODBYE = "replica", "replica taken", "replica goodbye"

#: The columns of `Copies` that are the state itself.
_STATE = ("epoch", "version", "creator", "value")


@dataclass(frozen=True)
class SentStates(Rows):
    """Groups' states on their way: arrays of shape (m,).

    Attributes
    ----------
    group, sender, to : ndarray of int64
    epoch, version, creator, value, root, incarnation : ndarray of int64
        As of `Copies`.
    """

    group: np.ndarray
    sender: np.ndarray
    to: np.ndarray
    epoch: np.ndarray
    version: np.ndarray
    creator: np.ndarray
    value: np.ndarray
    root: np.ndarray
    incarnation: np.ndarray

    def of_copies(self) -> dict[str, np.ndarray]:
        """The columns of `Copies`."""
        way = ("group", "sender", "to")
        return {name: one for name, one in self.to_columns().items() if name not in way}

    @classmethod
    def of(cls, scribe: Scribe, copies: Copies, rows: np.ndarray, to: np.ndarray) -> SentStates:
        """Return the states that nodes send to others, by rows of copies."""
        group, sender = scribe.split(copies.key[rows])
        return cls(group, sender, to, *[getattr(copies, name)[rows] for name in copies.columns()])

    @classmethod
    def received(cls, scribe: Scribe, came: Columns) -> SentStates:
        """Return the states of :func:`tell_states`; the application keeps its part of them."""
        columns = dict(came)
        numbers, lengths = columns.pop("numbers"), columns.pop("length")
        value = np.full(len(lengths), -1)
        there = np.flatnonzero(lengths >= 0)
        # a sender has one state of a group
        key = scribe.key(columns["group"], columns["sender"])[there]
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        first = there[first]
        inside = np.arange(numbers.shape[1]) < lengths[first][:, None]
        value[there] = scribe.state.values.add(lengths[first], numbers[first][inside])[which]
        return cls(to=columns.pop(AT), value=value, **columns)


def tell_states(scribe: Scribe, kind: str, states: SentStates, **more: np.ndarray) -> None:
    """States go to nodes, with what an application keeps there."""
    columns = states.to_columns()
    to, value = columns.pop("to"), columns.pop("value")
    which, number = scribe.state.values.of(value)
    lengths = np.bincount(which, minlength=len(to))
    numbers = np.zeros((len(to), int(lengths.max(initial=0))), dtype=np.int64)
    numbers[which, np.arange(len(which)) - offsets_of(lengths)[which]] = number
    lengths[value < 0] = -1
    scribe.tell(kind, to, **columns, length=lengths, numbers=numbers, **more)


def receive_states(scribe: Scribe, states: SentStates) -> None:
    """Nodes keep the newest state that they hear of; of two that are equally new the first.

    That is the one of the sender nearest to the groupId.  A root stays the root, with the newer
    state, and repairs its own tree.
    """
    copies = scribe.state.copies
    states = states.take(nearness_order(scribe, states.group, states.sender))
    for turn in turns(scribe.key(states.group, states.to)):
        one = states.take(turn)
        pair = scribe.key(one.group, one.to)
        row = copies.find(pair)
        there = row >= 0
        newer = ~there
        newer[there] = _is_newer(_age(one, there), _age(copies, row[there]))
        root = newer & there & scribe.is_root(one.group, one.to)
        for name in _STATE:
            getattr(copies, name)[row[root]] = getattr(one, name)[root]
        join_themselves(scribe, one.group[root], one.to[root])
        other = newer & ~root
        copies.put(pair[other], **one.take(other).of_copies())


def _is_newer(one: dict[str, np.ndarray], than: dict[str, np.ndarray]) -> np.ndarray:
    """Test for states that are newer than others, row by row."""
    same_epoch = one["epoch"] == than["epoch"]
    return (one["epoch"] > than["epoch"]) | (same_epoch & (one["version"] > than["version"]))


def _age(states: Copies | SentStates, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the epochs and versions of states, which order them by age."""
    return {name: getattr(states, name)[rows] for name in ("epoch", "version")}


def join_themselves(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> None:
    """Roots' repairing JOINs are delivered at themselves."""
    if not len(group):
        return
    why = scribe.state.entries.cause[scribe.entry(group, node)]
    joins = call_fault_handler(scribe, Joins.of(group, node, scribe.number, why))
    scribe.note(ADDED, at=node, **joins.to_columns())


def replicate(scribe: Scribe, pair: np.ndarray) -> None:
    """Roots send their states to the k - 1 nearest of their leaf sets that have not taken them.

    What these have taken the root knows, not what else they have.

    Parameters
    ----------
    pair : ndarray of int64
        (group, root), ascending.
    """
    own, leaf = _nearest_leaves(scribe, pair)
    needs = ~_has_taken(scribe, own, leaf)
    own, leaf = own[needs], leaf[needs]
    copies = scribe.state.copies
    arrives = scribe.send("replica", copies.key[own] % scribe.state.size, leaf)
    tell_states(scribe, REPLICA, SentStates.of(scribe, copies, own[arrives], leaf[arrives]))


def _nearest_leaves(scribe: Scribe, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots, by rows of `Copies`, and their k - 1 nearest leaves, a pair for each leaf."""
    leaves = leaves_by_nearness(scribe, *scribe.split(pair))[:, : scribe.rules.replicas - 1]
    at, column = np.nonzero(leaves >= 0)
    return scribe.state.copies.find(pair)[at], leaves[at, column]


def _has_taken(scribe: Scribe, own: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """Test for leaves that answer and have a copy of the root's state, by rows of `Copies`."""
    copies, replicas = scribe.state.copies, scribe.state.replicas
    row = replicas.find(scribe.key(copies.key[own], leaf))
    taken = (row >= 0) & scribe.is_alive(leaf)
    row, own, leaf = row[taken], own[taken], leaf[taken]
    same = replicas.incarnation[row] == scribe.state.incarnation[leaf]
    for name in ("epoch", "version"):
        same &= getattr(replicas, name)[row] == getattr(copies, name)[own]
    taken[taken] = same
    return taken


def has_replica(scribe: Scribe, group: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Test for roots that are alone, or whose state one of the k - 1 nearest leaves has."""
    pair, which = np.unique(scribe.key(group, root), return_inverse=True)
    own, leaf = _nearest_leaves(scribe, pair)
    of = np.searchsorted(pair, scribe.state.copies.key[own])
    found = np.bincount(of, minlength=len(pair)) == 0
    found[of[_has_taken(scribe, own, leaf)]] = True
    return found[which]


def receive_replicas(scribe: Scribe, inbox: Inbox) -> None:
    """Leaves take the states of roots, unless they are roots or have a newer one; roots note it.

    Several roots of a group, on a broken ring, come one after the other.
    """
    copies = scribe.state.copies
    if REPLICA in inbox:
        states = SentStates.received(scribe, inbox[REPLICA])
        states = states.take(np.lexsort((states.sender, states.to, states.group)))
        for turn in turns(scribe.key(states.group, states.to)):
            one = states.take(turn)
            pair = scribe.key(one.group, one.to)
            row = copies.find(pair)
            there = row >= 0
            takes = ~scribe.is_root(one.group, one.to)
            takes[there] &= ~_is_newer(_age(copies, row[there]), _age(one, there))
            one = one.take(takes)
            copies.put(pair[takes], **one.of_copies())
            state = {name: getattr(one, name) for name in ("epoch", "version")}
            scribe.tell(TAKEN, one.sender, group=one.group, leaf=one.to, **state)
    if TAKEN in inbox:
        came = inbox[TAKEN]
        edge = scribe.key(scribe.key(came["group"], came[AT]), came["leaf"])
        state = {name: came[name] for name in ("epoch", "version")}
        incarnation = scribe.state.incarnation[came["leaf"]]
        scribe.state.replicas.put(edge, **state, incarnation=incarnation)


def replicate_changed(scribe: Scribe, tables: Tables) -> None:
    """Roots that are new, or whose state has changed, bring their replicas up to date."""
    parts = scribe.notes.pop(CHANGED, [])
    if CHANGED in tables:
        parts = [tables[CHANGED], *parts]
        del tables[CHANGED]
    if parts:
        pair = distinct(np.concatenate([part["pair"] for part in parts]))
        replicate(scribe, pair[scribe.is_root(*scribe.split(pair))])


def root_is_gone(scribe: Scribe) -> np.ndarray:
    """Test for copies whose root has left the leaf set, or is back without its state."""
    copies, states = scribe.state.copies, scribe.states
    leaves = states.leaves[copies.key % scribe.state.size - states.first]
    there = (leaves == copies.root[:, None]).any(axis=1)
    return ~there | (scribe.state.incarnation[copies.root] != copies.incarnation)


def drop_far_copies(scribe: Scribe, passed_on: np.ndarray) -> None:
    """Drop the copies of nodes that know k nodes nearer to the groupId, once that is safe.

    It says so to the root that it names, and keeps the copy if nobody answers: that root has died,
    and may have handed over to none of them.  If that root is gone from its leaf set, it keeps the
    copy until it has passed it on.

    Parameters
    ----------
    passed_on : ndarray of int64
        (group, node) whose copies have come to live nodes in this round.
    """
    copies = scribe.state.copies
    group, node = scribe.split(copies.key)
    far = np.flatnonzero(
        (rank(scribe, group, node) >= scribe.rules.replicas) & ~scribe.is_root(group, node)
    )
    safe = np.isin(copies.key[far], passed_on)
    asks = ~root_is_gone(scribe)[far]
    asking = far[asks]
    safe[asks] = arrives = scribe.send("replica goodbye", node[asking], copies.root[asking])
    asking = asking[arrives]
    scribe.tell(REPLICA_GOODBYE, copies.root[asking], group=group[asking], leaf=node[asking])
    copies.drop(far[safe])


def receive_goodbyes(scribe: Scribe, came: Columns) -> None:
    """Roots forget leaves that have dropped their copies."""
    edge = scribe.key(scribe.key(came["group"], came[AT]), came["leaf"])
    row = scribe.state.replicas.find(edge)
    scribe.state.replicas.drop(row[row >= 0])
