"""Look-ups on the way down between two keys whose owners are known: they find nothing.

By the rule of ``docs/reference_tree.md`` a subtree is skipped if it lies in *one* keyset that is
known.  One that lies in two, which meet between keys z and z + 1, is visited; and so are all the
subtrees below it that have both keys.  With keys of 128 bits that is most of all look-ups, a
hundred levels for each end of a keyset; here they are counted without searching.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.reference_tree.tree import ReferenceTree, Subtrees
from scribe_spark.reference_tree.wide import Numbers, halves, number, where

__all__ = ["lookups_between"]


def lookups_between(
    tree: ReferenceTree,
    subtree: Subtrees,
    key: Numbers,
    asks_below: np.ndarray,
    asks_above: np.ndarray,
) -> np.ndarray:
    """How many nodes are asked for, from the node of each subtree down.

    Parameters
    ----------
    subtree : Subtrees, shape (n,)
        They have `key` and the key after it.
    key : Numbers, shape (n,)
        The last key of the keyset below, z.
    asks_below, asks_above : ndarray of bool, shape (n,)
        Whether keys up to z, and those after it, are asked for: they are not the asker's own.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    count = _binary if tree.children == 2 else _any
    below, above = count(tree, subtree, key)
    return below * asks_below + above * asks_above


def _any(tree: ReferenceTree, subtree: Subtrees, key: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Nodes up to `key` and nodes after it, level by level."""
    below, above = np.zeros((2, len(subtree)), dtype=np.int64)
    rows, one = np.arange(len(subtree)), tree.number(1)
    while len(rows):
        node = tree.node(subtree)
        up_to = node <= key
        below[rows] += up_to
        above[rows] += ~up_to
        on = (node != key) & (node != key + one)
        rows, subtree, node, key, up_to = rows[on], subtree[on], node[on], key[on], up_to[on]
        if not len(rows):
            break
        part = tree.part(subtree, node, ~up_to)
        subtree = part.subtree(part.index(key))
        on = subtree.last > key  # else the two keys are in subtrees side by side
        rows, subtree, key = rows[on], subtree[on], key[on]
    return below, above


def _binary(tree: ReferenceTree, subtree: Subtrees, key: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """The same with two children, where the bits of a key are its ancestors.

    Of z and z + 1 the even one is an ancestor of the other (of 0 and 1 it is 1).  Its ancestor with
    k zeros at the end is greater where its own bit k is 0, and less where that is 1.
    """
    one = number(np.ones(len(subtree)), key)
    node, following = tree.node(subtree), key + one
    upper = _is_odd(key) | (key < one)
    end = where(upper, following, key)
    # bits from the zeros at the end of `end` (without its lowest 1) to those of `node`
    levels = [
        (a ^ b) & ~(c ^ d)
        for a, b, c, d in zip(
            halves(node), halves(node - one), halves(end), halves(end - one), strict=True
        )
    ]
    ones = _bits([level & half for level, half in zip(levels, halves(end), strict=True)])
    return ones + ~upper, _bits(levels) - ones + upper


def _is_odd(numbers: Numbers) -> np.ndarray:
    return (halves(numbers)[1] & np.uint64(1)).astype(bool)


def _bits(parts: list[np.ndarray]) -> np.ndarray:
    """How many bits are 1 in both halves together."""
    return sum(np.bitwise_count(part).astype(np.int64) for part in parts)
