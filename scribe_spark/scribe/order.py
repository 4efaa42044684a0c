"""Deliveries out of order: after the same member has got a newer publication of the group.

A publication is newer if the root has numbered it later: in a round roots take publications in the
order of the rounds in which they were published, those of a round by the nodeIds of their sources.
What a node got before its last join does not count.  (Only on a broken ring two roots may number
the publications of a group at the same time; theirs are compared by this order, too.)

Best effort has no numbers, and there a publication is newer if it was sent in a later round.  As it
delivers nothing after the round in which it was sent, nothing can be out of order in it.

From round to round only members are remembered that lack the newest publication of their group;
all others that were members when it was sent have got it.  Publications are taken in the round in
which they were published, but for those that are remembered as sent again.

References
----------
JSAC 2002, Section III.B.2: ordered delivery.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, find_sorted, last_of_runs
from scribe_spark.scribe.duplicates import (
    SOURCE,
    SOURCE_BITS,
    publication_keys,
    publications_of,
)
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.sources import Sent
from scribe_spark.scribe.state import Resent


def out_of_order(
    scribe: Scribe, sent: Sent, got: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return the deliveries of a round that came out of order; writes what later rounds need.

    Parameters
    ----------
    sent : Sent
        Of which it is known who has missed them.
    got : (ndarray, ndarray, ndarray)
        Group, publication and node of the round's deliveries, in the order in which they came.

    Returns
    -------
    ndarray of bool
        One a delivery.
    """
    group, name, node = got
    if scribe.best_effort:
        return np.zeros(len(name), dtype=bool)
    state, size = scribe.state, scribe.state.size
    _forget_former_members(scribe)
    # 1. members that got something, or missed the newest of this round, and the newest they had
    taken = sent.taken()
    newest = _newest(scribe, taken)
    _remember_resent(scribe, taken)
    lacks = _may_lack(scribe, newest)
    pairs = np.concatenate([lacks, scribe.key(group, node)])
    pair, which = np.unique(pairs, return_inverse=True)
    # 2. member by member what it had, then what it got: whether anything before was newer
    names = np.concatenate([_had(scribe, pair), name])
    ranks = _ranks(scribe, np.concatenate([pair // size, group]), names)
    span = int(ranks.max(initial=0)) + 1
    of = np.concatenate([np.arange(len(pair)), which[len(lacks) :]])
    order = np.argsort(of, kind="stable")
    rank = (of * span + ranks)[order]
    highest = np.maximum.accumulate(rank)
    wrong = np.zeros(len(of), dtype=bool)
    wrong[order[1:]] = rank[1:] < highest[:-1]
    # 3. who lacks the newest now
    last = np.searchsorted(of[order], np.arange(len(pair)), side="right") - 1
    by_rank = np.full(span, NONE)
    by_rank[ranks] = names
    has = by_rank[highest[last] - np.arange(len(pair)) * span]
    state.newest = newest
    behind = has != newest[pair // size]
    row = state.lacking.find(pair[~behind])
    state.lacking.drop(row[row >= 0])
    state.lacking.put(pair[behind], newest=has[behind])
    _forget_resent(scribe)
    return wrong[len(pair) :]


def _newest(scribe: Scribe, taken: Sent) -> np.ndarray:
    """The newest publication of each group after this round: int64, shape (G,)."""
    newest, last = scribe.state.newest.copy(), last_of_runs(taken.group)  # in the order of roots
    newest[taken.group[last]] = taken.publication[last]
    return newest


def _may_lack(scribe: Scribe, newest: np.ndarray) -> np.ndarray:
    """Members, by (group, node), of which some lack the newest publication of this round."""
    state, size = scribe.state, scribe.state.size
    # 1. of those that were published in it, it is known who has missed them
    missed = state.missing.publication == newest[state.missing.group]
    missed &= state.missing.publication >> SOURCE_BITS == scribe.number
    lacks = scribe.key(state.missing.group[missed], state.missing.node[missed])
    if not len(state.resent.group):
        return distinct(lacks)
    # 2. of others all members, also those that have joined since
    resent = (state.resent.taken == scribe.number) & (
        state.resent.publication == newest[state.resent.group]
    )
    members = state.entries.key[state.entries.member]
    others = members[np.isin(members // size, state.resent.group[resent])]
    return distinct(np.concatenate([lacks, others]))


def _remember_resent(scribe: Scribe, taken: Sent) -> None:
    """Publications of earlier rounds that roots have taken in this one."""
    old, again = scribe.state.resent, taken.publication >> SOURCE_BITS < scribe.number
    scribe.state.resent = Resent(
        np.r_[old.group, taken.group[again]],
        np.r_[old.publication, taken.publication[again]],
        np.r_[old.taken, np.full(again.sum(), scribe.number)],
    )


def _forget_resent(scribe: Scribe) -> None:
    """Only the newest is compared with any more where all members have got it."""
    state, old = scribe.state, scribe.state.resent
    kept = old.publication == state.newest[old.group]
    kept |= np.isin(old.group, state.lacking.key // state.size)
    state.resent = Resent(old.group[kept], old.publication[kept], old.taken[kept])


def _forget_former_members(scribe: Scribe) -> None:
    """Begin anew for members that have quit or died, and for those that joined in this round."""
    lacking, entries = scribe.state.lacking, scribe.state.entries
    row = entries.find(lacking.key)
    stays = row >= 0
    there = row[stays]
    stays[stays] = entries.member[there] & (entries.joined[there] < scribe.number)
    lacking.keep(stays)


def _had(scribe: Scribe, pair: np.ndarray) -> np.ndarray:
    """The newest publication that members, by (group, node), got before this round, or NONE."""
    state = scribe.state
    newest = state.newest[pair // state.size]
    joined = state.entries.joined[state.entries.find(pair)]
    had = np.where(_taken(scribe, pair // state.size, newest) >= joined, newest, NONE)
    row = state.lacking.find(pair)
    had[row >= 0] = state.lacking.newest[row[row >= 0]]
    return had


def _ranks(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Places of publications in the order of roots, from 1 on; 0 for NONE."""
    keys = publication_keys(scribe, group, publication, 0)
    each = distinct(np.append(keys, NONE))  # the first is NONE
    group, publication = publications_of(scribe, each[1:])
    position = scribe.ring.positions(publication & SOURCE)
    taken, published = _taken(scribe, group, publication), publication >> SOURCE_BITS
    rank = np.zeros(len(each), dtype=np.int64)
    rank[1 + np.lexsort((position, published, taken))] = np.arange(1, len(each))
    return rank[np.searchsorted(each, keys)]


def _taken(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """The rounds in which roots have taken publications, NONE for NONE."""
    resent, taken = scribe.state.resent, publication >> SOURCE_BITS
    if not len(resent.group):
        return taken
    key = publication_keys(scribe, resent.group, resent.publication, 0)
    order = np.argsort(key)
    row = find_sorted(key[order], publication_keys(scribe, group, publication, 0))
    taken[row >= 0] = resent.taken[order[row[row >= 0]]]
    return taken
