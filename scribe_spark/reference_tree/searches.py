"""Searches in progress, one per row, with all data that the next bucket needs to continue them.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (look-ups).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import Rows
from scribe_spark.core.u128 import Numbers
from scribe_spark.reference_tree.tree import Subtrees


@dataclass(frozen=True)
class Climbs(Rows):
    """Searches for parents, which climb from a topmost key towards the root."""

    #: int64, shape (n,): the host that searches, and its ring.
    asker: np.ndarray
    ring: np.ndarray
    #: The topmost key of this host.
    topmost: Numbers
    #: int64: the depth of the next ancestor to look up; -1 for the search of the root, which has
    #: none.
    level: np.ndarray
    #: int64: the owner of the last looked-up ancestor that is greater than the topmost key, and of
    #: the last that is smaller; `NONE` before there is one.  If the keyset of an earlier answer has
    #: the next ancestor, its owner is one of these two, and no look-up is needed.
    above: np.ndarray
    below: np.ndarray
    lookups: np.ndarray


@dataclass(frozen=True)
class Parents(Rows):
    """Results of searches for parents; `parent` is `NONE` for the root.

    All fields are ndarray of int64, shape (n,).
    """

    asker: np.ndarray
    ring: np.ndarray
    parent: np.ndarray
    lookups: np.ndarray


@dataclass(frozen=True)
class Asked(Rows):
    """Look-ups: the host that asked, the key, and the owner of the key."""

    asker: np.ndarray
    key: Numbers
    owner: np.ndarray


@dataclass(frozen=True)
class Branches(Rows):
    """Searches for children, one row for each subtree that has to be visited."""

    #: int64, shape (n,): the host that searches, and its ring.
    asker: np.ndarray
    ring: np.ndarray
    #: The keyset of this host.
    own_first: Numbers
    own_last: Numbers
    subtree: Subtrees
    #: The interval of the subtree's keys whose owners are not known.  The keys before and after it
    #: are in the keysets of ancestors of the subtree that were looked up before.  If the interval
    #: is empty, `unknown_first` is ``unknown_last + 1``.
    unknown_first: Numbers
    unknown_last: Numbers
