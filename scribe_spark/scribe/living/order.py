"""Deliveries out of order: after the same member has got a newer publication of the group.

A publication is newer if the root has numbered it later: roots take publications in the order of
rounds, those of a round by the nodeIds of their sources.  What a node got before its last join does
not count.  (Only on a broken ring two roots may number the publications of a group at the same
time; theirs are compared by this order, too.)

Best effort has no numbers, and there a publication is newer if it was sent in a later round.  As it
delivers nothing after the round in which it was sent, nothing can be out of order in it.

From round to round only members are remembered that lack the newest publication of their group;
all others that were members when it was sent have got it.

References
----------
JSAC 2002, Section III.B.2: ordered delivery.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.scribe.living.duplicates import SOURCE, SOURCE_BITS, publication_ids
from scribe_spark.scribe.living.scribe import Scribe
from scribe_spark.scribe.living.sources import FATES, Sent

__all__ = ["out_of_order"]


def out_of_order(
    scribe: Scribe,
    sent: Sent,
    publication: np.ndarray,
    got: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> np.ndarray:
    """Which deliveries of a round came too late to be in order; writes what later rounds need.

    Parameters
    ----------
    publication : ndarray of int64
        The names of those in `sent`, of which it is known who has missed them.
    got : (ndarray, ndarray, ndarray)
        Group, publication and node of the round's deliveries, in the order in which they came.

    Returns
    -------
    ndarray of bool
        One a delivery.
    """
    group, name, node = got
    if scribe.application is None:
        return np.zeros(len(name), dtype=bool)
    state, size = scribe.state, scribe.state.size
    _forget_former_members(scribe)
    # 1. members that got something, or missed the newest of this round, and the newest they had
    newest = _newest(scribe, sent, publication)
    missed = state.missing.publication == newest[state.missing.group]
    missed &= state.missing.publication >> SOURCE_BITS == scribe.number
    lacks = scribe.key(state.missing.group[missed], state.missing.node[missed])
    places = np.concatenate([lacks, scribe.key(group, node)])
    place, which = np.unique(places, return_inverse=True)
    # 2. member by member what it had, then what it got: whether anything before was newer
    ranks = _ranks(scribe, np.concatenate([_had(scribe, place), name]))
    span = int(ranks.max(initial=0)) + 1
    of = np.concatenate([np.arange(len(place)), which[len(lacks) :]])
    order = np.argsort(of, kind="stable")
    rank = (of * span + ranks)[order]
    highest = np.maximum.accumulate(rank)
    wrong = np.zeros(len(of), dtype=bool)
    wrong[order[1:]] = rank[1:] < highest[:-1]
    # 3. who lacks the newest now
    last = np.searchsorted(of[order], np.arange(len(place)), side="right") - 1
    has = _names(scribe, highest[last] - np.arange(len(place)) * span)
    state.newest = newest
    behind = has != newest[place // size]
    row = state.lacking.find(place[~behind])
    state.lacking.drop(row[row >= 0])
    state.lacking.put(place[behind], newest=has[behind])
    return wrong[len(place) :]


def _newest(scribe: Scribe, sent: Sent, publication: np.ndarray) -> np.ndarray:
    """The newest publication of each group after this round: int64, shape (G,)."""
    newest = scribe.state.newest.copy()
    taken = np.flatnonzero(sent.fate == FATES.index("sent"))
    group = sent.group[taken]
    is_last = np.append(group[1:] != group[:-1], True)[: len(group)]  # by group and nodeId
    newest[group[is_last]] = publication[taken[is_last]]
    return newest


def _forget_former_members(scribe: Scribe) -> None:
    """Who has quit or died, and who has joined in this round, begins anew."""
    lacking, entries = scribe.state.lacking, scribe.state.entries
    row = entries.find(lacking.key)
    stays = row >= 0
    there = row[stays]
    stays[stays] = entries.member[there] & (entries.joined[there] < scribe.number)
    lacking.keep(stays)


def _had(scribe: Scribe, place: np.ndarray) -> np.ndarray:
    """The newest publication that members, by (group, node), got before this round, or NONE."""
    state = scribe.state
    newest = state.newest[place // state.size]
    joined = state.entries.joined[state.entries.find(place)]
    had = np.where(newest >> SOURCE_BITS >= joined, newest, NONE)
    row = state.lacking.find(place)
    had[row >= 0] = state.lacking.newest[row[row >= 0]]
    return had


def _ranks(scribe: Scribe, publication: np.ndarray) -> np.ndarray:
    """Publications as ascending numbers in the order of roots; 0 for NONE."""
    position = scribe.overlay.states.known.positions(np.maximum(publication, 0) & SOURCE)
    rank = (publication >> SOURCE_BITS) * scribe.state.size + position + 1
    return np.where(publication >= 0, rank, 0)


def _names(scribe: Scribe, rank: np.ndarray) -> np.ndarray:
    """The publications of :func:`_ranks`."""
    number, position = np.divmod(rank - 1, scribe.state.size)
    node = scribe.overlay.states.known.node[position]
    return np.where(rank > 0, publication_ids(0, node) | (number << SOURCE_BITS), NONE)
