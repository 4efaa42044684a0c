"""Detection of deliveries out of order.

A delivery is out of order if the member has received a newer publication of the group before.  A
publication is newer if the root numbered it later.  In a round, roots accept publications sorted by
the round of publication, those of one round by the nodeId of the source.  Deliveries before a
member's last join do not count.  (On a broken ring, a group may have two roots that number
publications at the same time; these are compared in the same order.)

Best-effort delivery has no numbers; there, a publication is newer if it was sent in a later round.
Because nothing is delivered after the round of its publication, nothing can be out of order.

Between rounds, the module keeps only the members that lack the newest publication of their group;
all other members are known to have it.  It also keeps the publications that roots accepted in a
later round than that of publication.

References
----------
JSAC 2002, Section III.B.2: ordered delivery.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, find_sorted, index_sorted, last_of_runs
from scribe_spark.scribe.duplicates import (
    SOURCE,
    SOURCE_BITS,
    publication_keys,
    publications_of,
)
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.sources import Sent
from scribe_spark.scribe.state import AcceptedLate


def out_of_order(
    scribe: Scribe, sent: Sent, got: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return which deliveries of a round are out of order; update the state for later rounds.

    `got` has group, publication and node of the round's deliveries, in order of arrival.  The
    members that missed publications have been recorded.
    """
    group, name, node = got
    if scribe.best_effort:
        return np.zeros(len(name), dtype=bool)
    state, size = scribe.state, scribe.state.size
    _forget_former_members(scribe)
    # 1. members with a delivery, or without the newest publication, and the newest they had
    taken = sent.taken()
    newest = _newest(scribe, taken)
    _remember_resent(scribe, taken)
    lacks = _may_lack(scribe, newest)
    pairs = np.concatenate([lacks, scribe.key(group, node)])
    pair, which = np.unique(pairs, return_inverse=True)
    # 2. for each member, compare each delivery with the newest one before it
    names = np.concatenate([_had(scribe, pair), name])
    ranks = _ranks(scribe, np.concatenate([pair // size, group]), names)
    span = int(ranks.max(initial=0)) + 1
    of = np.concatenate([np.arange(len(pair)), which[len(lacks) :]])
    order = np.argsort(of, kind="stable")
    rank = (of * span + ranks)[order]
    highest = np.maximum.accumulate(rank)
    wrong = np.zeros(len(of), dtype=bool)
    wrong[order[1:]] = rank[1:] < highest[:-1]
    # 3. members that lack the newest publication now
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
    """Return the newest publication of each group after this round: int64, shape (G,)."""
    newest, last = scribe.state.newest.copy(), last_of_runs(taken.group)  # in the order of roots
    newest[taken.group[last]] = taken.publication[last]
    return newest


def _may_lack(scribe: Scribe, newest: np.ndarray) -> np.ndarray:
    """Return a superset of the members, as (group, node), that lack the newest publication."""
    state, size = scribe.state, scribe.state.size
    # 1. the members that missed a publication of this round are known
    missed = state.missing.publication == newest[state.missing.group]
    missed &= state.missing.publication >> SOURCE_BITS == scribe.number
    lacks = scribe.key(state.missing.group[missed], state.missing.node[missed])
    if not len(state.resent.group):
        return distinct(lacks)
    # 2. of a publication that was sent again, all members may lack it
    resent = (state.resent.taken == scribe.number) & (
        state.resent.publication == newest[state.resent.group]
    )
    members = state.entries.key[state.entries.member]
    others = members[np.isin(members // size, state.resent.group[resent])]
    return distinct(np.concatenate([lacks, others]))


def _remember_resent(scribe: Scribe, taken: Sent) -> None:
    """Record the publications of earlier rounds that roots accepted in this round."""
    late = taken.take(taken.publication >> SOURCE_BITS < scribe.number)
    new = AcceptedLate(late.group, late.publication, np.full(len(late), scribe.number))
    scribe.state.resent = AcceptedLate.join(scribe.state.resent, new)


def _forget_resent(scribe: Scribe) -> None:
    """Once all members of a group have the newest publication, keep only that one."""
    state, old = scribe.state, scribe.state.resent
    kept = old.publication == state.newest[old.group]
    kept |= np.isin(old.group, state.lacking.key // state.size)
    state.resent = old.take(kept)


def _forget_former_members(scribe: Scribe) -> None:
    """Remove members that quit or died, and members that joined in this round."""
    lacking, entries = scribe.state.lacking, scribe.state.entries
    row = entries.find(lacking.key)
    stays = row >= 0
    there = row[stays]
    stays[stays] = entries.member[there] & (entries.joined[there] < scribe.number)
    lacking.keep(stays)


def _had(scribe: Scribe, pair: np.ndarray) -> np.ndarray:
    """Return the newest publication that members, as (group, node), had before, or NONE."""
    state = scribe.state
    newest = state.newest[pair // state.size]
    joined = state.entries.joined[state.entries.find(pair)]
    had = np.where(_taken(scribe, pair // state.size, newest) >= joined, newest, NONE)
    row = state.lacking.find(pair)
    had[row >= 0] = state.lacking.newest[row[row >= 0]]
    return had


def _ranks(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Return the rank of publications in the order of acceptance, from 1; NONE has rank 0."""
    keys = publication_keys(scribe, group, publication, 0)
    each = distinct(np.append(keys, NONE))  # the first one is NONE
    group, publication = publications_of(scribe, each[1:])
    position = scribe.ring.positions(publication & SOURCE)
    taken, published = _taken(scribe, group, publication), publication >> SOURCE_BITS
    rank = np.zeros(len(each), dtype=np.int64)
    rank[1 + np.lexsort((position, published, taken))] = np.arange(1, len(each))
    return rank[index_sorted(each, keys)]


def _taken(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Return the rounds in which roots accepted publications; NONE for NONE."""
    resent, taken = scribe.state.resent, publication >> SOURCE_BITS
    if not len(resent.group):
        return taken
    key = publication_keys(scribe, resent.group, resent.publication, 0)
    order = np.argsort(key)
    row = find_sorted(key[order], publication_keys(scribe, group, publication, 0))
    taken[row >= 0] = resent.taken[order[row[row >= 0]]]
    return taken
