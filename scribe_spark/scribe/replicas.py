"""The groups' states on their way between nodes, and the replicas that roots keep up to date.

References
----------
JSAC 2002, Section III.B.1: the root's state is replicated at the k nodes closest to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scribe_spark.scribe.handlers import call_fault_handler
from scribe_spark.scribe.nearness import leaves_by_nearness, rank
from scribe_spark.scribe.scribe import Joins, Scribe
from scribe_spark.scribe.state import Copies

__all__ = [
    "SentStates",
    "drop_far_copies",
    "has_replica",
    "join_themselves",
    "sent_states",
    "receive_states",
    "replicate",
    "replicate_changed",
    "root_is_gone",
    "turns",
]

#: The columns of `Copies` that are the state itself.
_STATE = ("epoch", "version", "creator", "value")


@dataclass(frozen=True)
class SentStates:
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

    def take(self, index: np.ndarray) -> SentStates:
        """Some of them."""
        return SentStates(*[getattr(self, one.name)[index] for one in fields(self)])


def sent_states(scribe: Scribe, rows: np.ndarray, to: np.ndarray) -> SentStates:
    """What nodes, by rows of `Copies`, send to others."""
    copies = scribe.state.copies
    group, sender = scribe.split(copies.key[rows])
    return SentStates(
        group, sender, to, *[getattr(copies, name)[rows] for name in copies.columns()]
    )


def turns(keys: np.ndarray) -> list[np.ndarray]:
    """Indices of all firsts of equal keys, of all seconds, and so on; in the order given."""
    order = np.argsort(keys, kind="stable")
    first = np.r_[True, keys[order][1:] != keys[order][:-1]] if len(keys) else np.empty(0, bool)
    starts = np.maximum.accumulate(np.where(first, np.arange(len(keys)), 0))
    turn = np.empty(len(keys), dtype=np.int64)
    turn[order] = np.arange(len(keys)) - starts
    return [np.flatnonzero(turn == at) for at in range(int(turn.max(initial=-1)) + 1)]


def receive_states(scribe: Scribe, states: SentStates) -> None:
    """Nodes keep the newest state that they hear of; of two that are equally new the first.

    A root stays the root, with the newer state, and repairs its own tree.
    """
    copies = scribe.state.copies
    for turn in turns(scribe.key(states.group, states.to)):
        one = states.take(turn)
        place = scribe.key(one.group, one.to)
        row = copies.find(place)
        there = row >= 0
        newer = ~there
        newer[there] = is_newer(one, there, copies, row[there])
        root = newer & there & scribe.is_root(one.group, one.to)
        for name in _STATE:
            getattr(copies, name)[row[root]] = getattr(one, name)[root]
        join_themselves(scribe, one.group[root], one.to[root])
        other = newer & ~root
        values = {name: getattr(one, name)[other] for name in copies.columns()}
        copies.put(place[other], **values)


def is_newer(
    one: Copies | SentStates, rows: np.ndarray | slice, than: Copies, other: np.ndarray
) -> np.ndarray:
    """Whether states are newer than others, row by row."""
    epoch, version = than.epoch[other], than.version[other]
    return (one.epoch[rows] > epoch) | ((one.epoch[rows] == epoch) & (one.version[rows] > version))


def join_themselves(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> None:
    """Roots' repairing JOINs are delivered at themselves."""
    if not len(group):
        return
    why = scribe.state.entries.cause[scribe.entry(group, node)]
    joins = Joins.of(group, node, scribe.number, why)
    scribe.added.append((node, call_fault_handler(scribe, joins)))


def replicate(scribe: Scribe, place: np.ndarray) -> None:
    """Roots send their states to the k - 1 nearest of their leaf sets, where they are not already.

    What a replica has, and whom it takes for the root, the root knows.

    Parameters
    ----------
    place : ndarray of int64
        (group, root), ascending.
    """
    copies = scribe.state.copies
    # several roots of a group, on a broken ring, one after the other
    for turn in turns(place // scribe.state.size):
        own = copies.find(place[turn])
        group, root = scribe.split(place[turn])
        leaves = leaves_by_nearness(scribe, group, root)[:, : scribe.rules.k - 1]
        at, column = np.nonzero(leaves >= 0)
        group, own, to = group[at], own[at], leaves[at, column]
        # 1. who needs it
        row = copies.find(scribe.key(group, to))
        passed = scribe.is_root(group, to) | _same(copies, own, row)
        passed |= (row >= 0) & is_newer(copies, row, copies, own)
        group, own, to = group[~passed], own[~passed], to[~passed]
        # 2. who gets it
        arrives = scribe.send("replica", copies.key[own] % scribe.state.size, to)
        states = sent_states(scribe, own[arrives], to[arrives])
        values = {name: getattr(states, name) for name in copies.columns()}
        copies.put(scribe.key(states.group, states.to), **values)


def _same(copies: Copies, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether copies are the same, by rows of `Copies`; NONE is the same as none."""
    columns = [getattr(copies, name) for name in copies.columns()]
    return (other >= 0) & np.all([column[one] == column[other] for column in columns], axis=0)


def has_replica(scribe: Scribe, group: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Whether one of the k - 1 nearest leaves has a root's state; none is needed if it is alone."""
    leaves = leaves_by_nearness(scribe, group, root)[:, : scribe.rules.k - 1]
    at, column = np.nonzero(leaves >= 0)
    copies = scribe.state.copies
    own = copies.find(scribe.key(group, root))[at]
    same = _same(copies, own, copies.find(scribe.key(group[at], leaves[at, column])))
    found = np.count_nonzero(leaves >= 0, axis=1) == 0
    found[at[same]] = True
    return found


def replicate_changed(scribe: Scribe) -> None:
    """Roots that are new, or whose state has changed, bring their replicas up to date."""
    if not scribe.changed:
        return
    place = np.unique(np.concatenate(scribe.changed))
    scribe.changed = []
    replicate(scribe, place[scribe.is_root(*scribe.split(place))])


def root_is_gone(scribe: Scribe) -> np.ndarray:
    """Whether the root that a copy names has left the leaf set, or is back without its state."""
    copies = scribe.state.copies
    leaves = scribe.overlay.states.leaves[copies.key % scribe.state.size]
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
        (rank(scribe, group, node) >= scribe.rules.k) & ~scribe.is_root(group, node)
    )
    safe = np.isin(copies.key[far], passed_on)
    asks = ~root_is_gone(scribe)[far]
    safe[asks] = scribe.send("replica goodbye", node[far[asks]], copies.root[far[asks]])
    copies.drop(far[safe])
