"""Sources: they route to the root once, and keep its address.

References
----------
JSAC 2002, Section III.A.3; NGC 2001, Section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.scribe.living.roots import become_root
from scribe_spark.scribe.living.scribe import Scribe

__all__ = ["FATES", "Sent", "find_roots"]

#: What becomes of a publication at the root.
FATES = ("sent", "refused", "no root")

_SENT, _REFUSED, _NO_ROOT = range(3)


@dataclass(frozen=True)
class Sent:
    """The publications of a round, by group and nodeId of the source: arrays of shape (p,).

    Attributes
    ----------
    group, source : ndarray of int64
    root : ndarray of int64
        The root that takes it, if any.
    fate : ndarray of int8
        An index of :data:`FATES`.
    """

    group: np.ndarray
    source: np.ndarray
    root: np.ndarray
    fate: np.ndarray


def find_roots(scribe: Scribe, group: np.ndarray, source: np.ndarray) -> Sent:
    """MULTICASTs go to the roots.

    First all go to the addresses that their sources keep; then all that are not at a root yet are
    routed, from the source where the address did not answer, else from the node that was no root.
    """
    order = np.lexsort((source, group))
    group, source = group[order], source[order]
    at = _send_to_addresses(scribe, group, source)
    root = np.where(scribe.is_root(group, at), at, -1)
    lost = np.flatnonzero(root < 0)
    root[lost] = _route(scribe, group[lost], source[lost], at[lost])
    # the root checks credentials, and tells nothing to whom it refuses
    refused = (root >= 0) & ~scribe.groups.allows("multicast", group, source)
    scribe.refused["MULTICAST"] += int(refused.sum())
    fate = np.where(root < 0, _NO_ROOT, np.where(refused, _REFUSED, _SENT)).astype(np.int8)
    addresses, place = scribe.state.addresses, scribe.key(group, source)
    forgotten = addresses.find(place[fate == _NO_ROOT])
    addresses.drop(forgotten[forgotten >= 0])
    addresses.put(place[fate == _SENT], root=root[fate == _SENT])
    return Sent(group, source, root, fate)


def _send_to_addresses(scribe: Scribe, group: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Where the messages are after the addresses were tried: at the sources if these are dead."""
    addresses = scribe.state.addresses
    row = addresses.find(scribe.key(group, source))
    at = source.copy()
    at[row >= 0] = addresses.root[row[row >= 0]]
    at[scribe.is_root(group, source)] = source[scribe.is_root(group, source)]
    away = np.flatnonzero(at != source)
    dead = away[~scribe.send("MULTICAST", source[away], at[away])]
    at[dead] = source[dead]
    return at


def _route(scribe: Scribe, group: np.ndarray, source: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Route to the groupIds; the roots, which tell the sources their addresses, or NONE."""
    if not len(group):
        return source
    routes = scribe.route("MULTICAST", start, group)
    place = scribe.key(group, routes.at)
    found = routes.delivered & scribe.state.copies.has(place)
    become_root(scribe, np.unique(place[found]))
    told = found & (routes.at != source)
    scribe.send("address", routes.at[told], source[told])
    return np.where(found, routes.at, -1)
