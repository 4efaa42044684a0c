"""Searches on their way, as rows: what a host needs, besides the hash table, to go on with one.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (look-ups).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, Rows
from scribe_spark.core.u128 import Numbers
from scribe_spark.reference_tree.tree import Subtrees


@dataclass(frozen=True)
class Climbs(Rows):
    """Searches for parents, on their way from a topmost key to the root.

    Attributes
    ----------
    asker, ring : ndarray of int64, shape (n,)
        Who asks, and on which ring.
    topmost : Numbers
        Its topmost key.
    level : ndarray of int64
        The depth of the ancestor that is next; -1 for the root's search.
    above, below : ndarray of int64
        The owners last found of ancestors above and below the topmost key; `NONE` at first.  A
        key in any keyset that was named before is in one of these two.
    lookups : ndarray of int64
    """

    asker: np.ndarray
    ring: np.ndarray
    topmost: Numbers
    level: np.ndarray
    above: np.ndarray
    below: np.ndarray
    lookups: np.ndarray

    @classmethod
    def of(cls, asker: np.ndarray, ring: np.ndarray, topmost: Numbers, depth: np.ndarray) -> Climbs:
        """Searches that begin."""
        nobody = np.full(len(asker), NONE, dtype=np.int64)
        return cls(asker, ring, topmost, depth - 1, nobody, nobody, np.zeros_like(nobody))


@dataclass(frozen=True)
class Parents(Rows):
    """Parents that were found; `parent` is `NONE` for the root.

    All are ndarray of int64, shape (n,).
    """

    asker: np.ndarray
    ring: np.ndarray
    parent: np.ndarray
    lookups: np.ndarray


@dataclass(frozen=True)
class Asked(Rows):
    """Look-ups: who asked, for which key, and who owns it."""

    asker: np.ndarray
    key: Numbers
    owner: np.ndarray


@dataclass(frozen=True)
class Branches(Rows):
    """Searches for children, each at a subtree that has to be visited.

    Attributes
    ----------
    asker, ring : ndarray of int64, shape (n,)
    own_first, own_last : Numbers
        The keyset of who asks.
    subtree : Subtrees
    unknown_first, unknown_last : Numbers
        The keys of the subtree before and after these lie in keysets that are known from the
        subtree's ancestors: those of the nearest ancestors on both sides.  Where the first is one
        more than the last, both together have all keys of the subtree.
    """

    asker: np.ndarray
    ring: np.ndarray
    own_first: Numbers
    own_last: Numbers
    subtree: Subtrees
    unknown_first: Numbers
    unknown_last: Numbers

    @classmethod
    def of(
        cls, asker: np.ndarray, ring: np.ndarray, first: Numbers, last: Numbers, subtree: Subtrees
    ) -> Branches:
        """Searches that begin: each at the subtree of a topmost key, with the host's keyset."""
        return cls(asker, ring, first, last, subtree, subtree.first, subtree.last)
