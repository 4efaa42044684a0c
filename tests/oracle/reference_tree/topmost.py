"""The topmost key of a keyset (Definition 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tree import ExplicitTree, ReferenceTree

if TYPE_CHECKING:
    from .dht import Keyset


def topmost_key(reference: ReferenceTree, keyset: Keyset) -> int:
    """The key of ``keyset`` with the least depth, and of those the least key.

    Level by level, of each level only the subtrees that have keys of the keyset. At most four are
    ever looked at: a subtree all of whose keys are in the keyset ends the search, and the others
    have an end of the keyset, of which there are two, or four where it wraps around 0.
    """
    level = [reference.root]
    while True:
        found = [tree.node for tree in level if tree.node in keyset]
        if found:
            return min(found)
        level = [
            inner
            for tree in level
            for inner in reference.subtrees(tree)
            if keyset.overlaps(inner.low, inner.high)
        ]


def topmost_by_definition(explicit: ExplicitTree, keyset: Keyset) -> int:
    """The first key of ``keyset`` in a breadth first traversal of the tree written out."""
    return next(key for key in explicit.order if key in keyset)
