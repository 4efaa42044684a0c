"""Lazy growth: a JOIN makes no forwarders on its way; the first node of the tree takes the joining
node in.

For a round of a world (:func:`send_lazily`); for the trees of a run see `scribe.variants.lazy`.

References
----------
JSAC 2002, Section IV.F: "an alternative algorithm that grows trees less eagerly".  docs/rules.md,
S32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import NONE
from scribe_spark.scribe.figures import deliver_join, forward
from scribe_spark.scribe.join import (
    REPAIRING,
    Requests,
    answer_here,
    note_joins,
    onward,
    own_joins,
    remember,
)
from scribe_spark.scribe.joining import SendJoins
from scribe_spark.scribe.paths_to_root import on_chain
from scribe_spark.scribe.root import become_root
from scribe_spark.scribe.scribe import Joins, Scribe
from scribe_spark.scribe.state import FAILED

__all__ = ["SendLazily", "place_in_line", "send_lazily"]


class SendLazily(SendJoins):
    """CREATEs are at their ends; then waiting nodes send JOINs in waves.

    A wave sees the trees that those before it have left: so all nodes are played in one bucket.
    """

    one_bucket = True

    def send(self, scribe: Scribe) -> None:
        """See `SendJoins`."""
        scribe.sees_all = True
        send_lazily(scribe)


def send_lazily(scribe: Scribe) -> None:
    """Waiting nodes send JOINs in waves; who has a parent when its wave comes sends none."""
    for wave in _waves(scribe):
        row = scribe.state.entries.find(wave)
        joins = note_joins(scribe, row[_waits(scribe, row)])
        # 1. JOINs go on to the tree, as the waves before have left it
        asking = _search(scribe, joins)
        load = np.bincount(
            scribe.split(scribe.state.children.key)[0] % scribe.state.size,
            minlength=scribe.state.size,
        )
        # 2. nodes with the group's state that the JOINs are delivered at are roots from now on
        place = scribe.key(asking.joins.group, asking.at)
        new = ~_in_tree(scribe, scribe.state.entries.find(place))
        become_root(scribe, np.unique(place[new]))
        answer_here(scribe)
        # 3. all are answered
        _answer(scribe, asking.take(asking.at != asking.joins.source), load)


def place_in_line(at: np.ndarray, *order: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of equal `at`, from 0, by the order of others.

    Parameters
    ----------
    at, *order : ndarray, shape (m,)
        The first of `order` counts most.
    """
    rows = np.lexsort((*order[::-1], at))
    start = np.flatnonzero(np.r_[True, at[rows][1:] != at[rows][:-1]][: len(at)])
    place = np.empty(len(at), dtype=np.int64)
    place[rows] = np.arange(len(at)) - np.repeat(start, np.diff(np.r_[start, len(at)]))
    return place


def _waits(scribe: Scribe, row: np.ndarray) -> np.ndarray:
    entries = scribe.state.entries
    return (entries.parent[row] < 0) & ~entries.root[row]


def _in_tree(scribe: Scribe, row: np.ndarray) -> np.ndarray:
    """Whether nodes are in trees (rows of `Entries`, or NONE), and do not wait."""
    return (row >= 0) & ~_waits(scribe, row)


def _waves(scribe: Scribe) -> list[np.ndarray]:
    """Return (group, node) of each wave: of a group one, then two, then four, as they are drawn.

    New members that wait for nobody have their places in the order, too, as in a run.
    """
    entries = scribe.state.entries
    new = entries.member & (entries.joined == scribe.number)
    key = entries.key[new | _waits(scribe, np.arange(len(entries.key)))]
    group, node = scribe.split(key)
    number = scribe.ring.node[node]
    draw = draws.bits_np(scribe.seed, "arrival", scribe.groups.number[group], number)
    place = place_in_line(group, draw.view(np.int64), number)
    wave = np.frexp(place + 1.0)[1]  # place 0; 1, 2; 3 to 6; ...
    return [key[wave == one] for one in np.unique(wave)]


@dataclass(frozen=True)
class _Asking:
    """JOINs at the nodes that are to answer them.

    Attributes
    ----------
    joins : Joins
    at, before : ndarray of int64, shape (m,)
        The first node of the tree on the way, or where Pastry delivers; and the node before it,
        which may take the source in: the source itself if nobody else may.
    repairs : ndarray of bool, shape (m,)
    """

    joins: Joins
    at: np.ndarray
    before: np.ndarray
    repairs: np.ndarray

    @classmethod
    def of(cls, scribe: Scribe, came: list[Requests], passed: np.ndarray) -> _Asking:
        """JOINs that have come; `passed` are the keys of those that tree nodes did not answer."""
        joins = Joins.join(Joins(), *[one.joins for one in came])
        at = np.concatenate([passed[:0], *[one.at for one in came]])
        before = [one.path[:, -2] if one.path.shape[1] > 1 else one.at for one in came]
        repairs = np.concatenate([np.zeros(0, dtype=bool), *[one.repairs for one in came]])
        last = np.concatenate([passed[:0], *before])
        alone = np.isin(scribe.key(joins.group, joins.source), passed)
        return cls(joins, at, np.where(alone, joins.source, last), repairs)

    def take(self, index: np.ndarray) -> _Asking:
        """Some of them."""
        return _Asking(
            self.joins.take(index), self.at[index], self.before[index], self.repairs[index]
        )


def _search(scribe: Scribe, joins: Joins) -> _Asking:
    """JOINs go on to the first node of the tree that has not the source on its path to the root."""
    repairs = np.isin(joins.cause, FAILED)
    scribe.note(REPAIRING, node=joins.source[repairs])
    came, passed = [], np.empty(0, dtype=np.int64)
    here = Requests.of(scribe, joins, repairs)
    while len(here.at):
        moving, delivered = onward(scribe, here)
        ends = here.take(delivered)
        place = scribe.key(ends.joins.group, ends.at)
        # (one that a node of the tree does not answer, though Pastry delivers there, is lost)
        lost = _in_tree(scribe, scribe.state.entries.find(place))
        knows = scribe.state.copies.has(place)
        scribe.refuse("no group", (~lost & ~knows).sum())
        came.append(ends.take(~lost & knows))
        scribe.note(REPAIRING, node=moving.at[moving.repairs])
        row = scribe.state.entries.find(scribe.key(moving.joins.group, moving.at))
        inside = _in_tree(scribe, row)
        circular = on_chain(scribe, np.where(inside, row, NONE), moving.joins.source)
        on_way = moving.take(circular).joins
        passed = np.r_[passed, scribe.key(on_way.group, on_way.source)]
        inside[circular] = False
        came.append(moving.take(inside))
        here = moving.take(~inside)
    return _Asking.of(scribe, came, passed)


def _answer(scribe: Scribe, asking: _Asking, load: np.ndarray) -> None:
    """Nodes of trees take in as many as there is room for, and those before them the others.

    Parameters
    ----------
    load : ndarray of int64
        How many children each node has, over all groups.
    """
    number, limits = scribe.ring.node, scribe.rules.lazy
    assert limits is not None
    joins, at, before = asking.joins, asking.at, asking.before
    room = limits.limits(number[at]) - load[at]
    taken = place_in_line(at, joins.group, number[joins.source]) < room
    taken |= before == joins.source
    taken[on_chain(scribe, scribe.entry(joins.group, at), before)] = True
    forward(scribe, at[taken], joins.take(taken), lambda _: None)
    answer_here(scribe)
    # the others become children of the nodes before, which send JOINs of their own
    rest = asking.take(~taken)
    place = scribe.key(rest.joins.group, rest.before)
    order = np.lexsort((number[rest.at], place))
    rest, place = rest.take(order), place[order]
    all_places, first, which = np.unique(place, return_index=True, return_inverse=True)
    entering = ~scribe.state.entries.has(all_places)
    own = own_joins(scribe, all_places, which, rest.joins).take(entering)
    forward(scribe, rest.before, rest.joins, lambda _: remember(scribe, own))
    answer_here(scribe)
    sent = np.isin(all_places, scribe.key(joins.group, joins.source))
    row = scribe.state.entries.find(all_places)
    again = ~entering & ~sent & _waits(scribe, row)
    asks = np.flatnonzero(entering | again)
    sends = Joins.join(own, note_joins(scribe, row[again]))
    order = np.argsort(np.r_[np.flatnonzero(entering), np.flatnonzero(again)])
    to, sender = rest.at[first[asks]], rest.before[first[asks]]
    scribe.send("JOIN", sender, to)
    repairs = np.isin(asks, which[rest.repairs])
    scribe.note(REPAIRING, node=np.r_[sender[repairs], to[repairs]])
    deliver_join(scribe, to, sends.take(order))
    answer_here(scribe)
