"""Sources: they route to the root once, and keep its address.

Where an application acknowledges, they keep their publications, too, until a root has taken them
and at least one of its replicas has them.

References
----------
JSAC 2002, Sections III.A.3 and III.B.2; NGC 2001, Section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.scribe.duplicates import SOURCE, SOURCE_BITS, publication_ids
from scribe_spark.scribe.replicas import has_replica, replicate_changed
from scribe_spark.scribe.root import become_root
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import Kept

__all__ = ["FATES", "Sent", "acknowledge", "find_roots", "keep", "with_lost_sources"]

#: What becomes of a publication at the root; ``kept``: its source sends it again in the next round;
#: ``source died``: while it kept it.
FATES = ("sent", "refused", "no root", "kept", "source died")

_SENT, _REFUSED, _NO_ROOT, _KEPT, _SOURCE_DIED = range(len(FATES))


@dataclass(frozen=True)
class Sent:
    """The publications that were sent in a round: arrays of shape (p,).

    They are in the order in which roots take them: by group, round, and nodeId of the source.

    Attributes
    ----------
    group, source : ndarray of int64
    publication : ndarray of int64
        Their names, see `duplicates`; those of earlier rounds were kept.
    root : ndarray of int64
        The root that takes it, if any.
    fate : ndarray of int8
        An index of :data:`FATES`.
    hops, delay_us : ndarray of int64
        Of the way to the root, or to where a message without root has ended; the delay only where
        `Scribe.timed`.
    """

    group: np.ndarray
    source: np.ndarray
    publication: np.ndarray
    root: np.ndarray
    fate: np.ndarray
    hops: np.ndarray
    delay_us: np.ndarray

    def take(self, index: np.ndarray) -> Sent:
        """Some of them."""
        return Sent(*[getattr(self, one.name)[index] for one in fields(self)])

    def taken(self) -> Sent:
        """Return the messages that roots have taken."""
        return self.take(self.fate == _SENT)


def find_roots(scribe: Scribe, group: np.ndarray, source: np.ndarray) -> Sent:
    """MULTICASTs go to the roots: those of this round, and those that were kept.

    First all go to the addresses that their sources keep; then all that are not at a root yet are
    routed, from the source where the address did not answer, else from the node that was no root.
    """
    group, source, publication = _under_way(scribe, group, source)
    at = _send_to_addresses(scribe, group, source)
    hops, delay_us = _of_way(scribe, source, at)
    root = np.where(scribe.is_root(group, at), at, NONE)
    lost = np.flatnonzero(root < 0)
    root[lost], more, more_us = _route(scribe, group[lost], source[lost], at[lost])
    hops[lost] += more
    delay_us[lost] += more_us
    # the root checks credentials
    refused = (root >= 0) & ~scribe.groups.allows("multicast", group, source)
    scribe.refused["MULTICAST"] += int(refused.sum())
    fate = np.where(root < 0, _NO_ROOT, np.where(refused, _REFUSED, _SENT)).astype(np.int8)
    # those of one source and group have all come to the same
    place, first = np.unique(scribe.key(group, source), return_index=True)
    addresses = scribe.state.addresses
    forgotten = addresses.find(place[fate[first] == _NO_ROOT])
    addresses.drop(forgotten[forgotten >= 0])
    found = fate[first] == _SENT
    if scribe.rules.source != "routed":
        addresses.put(place[found], root=root[first[found]])
    return Sent(group, source, publication, root, fate, hops, delay_us)


def _under_way(
    scribe: Scribe, group: np.ndarray, source: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group, source and name of a round's publications and of those that were kept, in order."""
    kept, known = scribe.state.kept, scribe.overlay.states.known
    names = publication_ids(scribe.number, known.node[source])
    group, publication = np.r_[kept.group, group], np.r_[kept.publication, names]
    source = np.r_[known.positions(kept.publication & SOURCE), source]
    order = np.lexsort((source, publication >> SOURCE_BITS, group))
    return group[order], source[order], publication[order]


def _send_to_addresses(scribe: Scribe, group: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Try addresses of roots; return where messages are then: at the sources of dead ones."""
    addresses = scribe.state.addresses
    row = addresses.find(scribe.key(group, source))
    at = source.copy()
    at[row >= 0] = addresses.root[row[row >= 0]]
    at[scribe.is_root(group, source)] = source[scribe.is_root(group, source)]
    away = np.flatnonzero(at != source)
    dead = away[~scribe.send("MULTICAST", source[away], at[away])]
    at[dead] = source[dead]
    return at


def _of_way(scribe: Scribe, sender: np.ndarray, to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hops and delay of messages that were sent, none of those that stay where they are."""
    away = sender != to
    hops, delay_us = away.astype(np.int64), np.zeros(len(to), dtype=np.int64)
    if scribe.timed:
        delay_us[away] = scribe.delay(sender[away], to[away])
    return hops, delay_us


def _route(
    scribe: Scribe, group: np.ndarray, source: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Route to the groupIds; roots tell the sources their addresses.

    Returns
    -------
    root, hops, delay_us : ndarray of int64
        The root, or NONE.
    """
    if not len(group):
        return source, source, source
    routes = scribe.route("MULTICAST", start, group)
    place = scribe.key(group, routes.at)
    found = routes.delivered & scribe.state.copies.has(place)
    become_root(scribe, np.unique(place[found]))
    if scribe.rules.source != "routed":
        told = found & (routes.at != source)
        scribe.send("address", routes.at[told], source[told])
    delay_us = np.zeros(len(group), dtype=np.int64)
    for sender, to in zip(routes.path, routes.path[1:], strict=False):
        went = np.flatnonzero(to >= 0)
        delay_us[went] += _of_way(scribe, sender[went], to[went])[1]
    return np.where(found, routes.at, NONE), routes.hops, delay_us


# ---- what sources keep


def keep(scribe: Scribe, sent: Sent) -> Sent:
    """What no root takes in this round is kept; up to its deadline, when it is given up.

    A root takes a publication only if one of its replicas is there to take it, too.
    """
    if not scribe.acknowledged:
        return sent
    replicate_changed(scribe)  # roots that are new know only then who of their leaves answers
    fate = sent.fate.copy()
    taken = np.flatnonzero(fate == _SENT)
    fate[taken[~has_replica(scribe, sent.group[taken], sent.root[taken])]] = _NO_ROOT
    young = (sent.publication >> SOURCE_BITS) + scribe.rules.deadline > scribe.number
    fate[young & (fate == _NO_ROOT)] = _KEPT
    kept = fate == _KEPT
    scribe.state.kept = Kept(sent.group[kept], sent.publication[kept])
    return replace(sent, fate=fate)


def acknowledge(scribe: Scribe, sent: Sent) -> None:
    """Roots answer what they have taken, once the replicas have it, and what they refuse."""
    if not scribe.acknowledged:
        return
    answered = (sent.fate == _SENT) | (sent.fate == _REFUSED)
    answered &= sent.root != sent.source
    scribe.send("acknowledgement", sent.root[answered], sent.source[answered])


def with_lost_sources(scribe: Scribe, sent: Sent) -> Sent:
    """The publications of a round, and those whose sources died in it while they kept them."""
    died = scribe.died_with_source
    source = scribe.overlay.states.known.positions(died.publication & SOURCE)
    n = len(source)
    nowhere, fate = np.full(n, NONE), np.full(n, _SOURCE_DIED, dtype=np.int8)
    none = np.zeros(n, dtype=np.int64)
    of_dead = Sent(died.group, source, died.publication, nowhere, fate, none, none)
    parts = [[getattr(one, f.name) for one in (sent, of_dead)] for f in fields(Sent)]
    return Sent(*map(np.concatenate, parts))
