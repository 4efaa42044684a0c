"""The links on routes, found by walks from each target back to its source.

A :data:`LastLink` describes routes: it gives the predecessor of a route's target, and the link
between the two.  Matrices contain it; breadth-first search computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from scribe_spark.core.arrays import distinct

#: A function of routes (sources, targets, which differ): it returns the router before each target,
#: and the number of the link between the two.
LastLink = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

#: Routes from this number of routers are followed together, so that their data fits into a cache.
SOURCES = 32


def last_links(pred: np.ndarray) -> LastLink:
    """Return the LastLink of a matrix of predecessors; links are numbered src * R + dst."""

    def last(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = pred[source, target].astype(np.int64)
        return before, before * pred.shape[1] + target

    return last


def path_links(
    last: LastLink, source: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return every link of the routes from ``source[i]`` to ``target[i]``: i and link's number."""
    row, here = np.flatnonzero(source != target), target[source != target].astype(np.int64)
    rows, links = [], []
    while len(row):
        before, link = last(source[row], here)
        rows.append(row)
        links.append(link)
        on = before != source[row]
        row, here = row[on], before[on]
    return _concatenate(rows), _concatenate(links)


def packets_on_links(
    pred: np.ndarray, source: np.ndarray, target: np.ndarray, packets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of links with packets (src * R + dst), ascending, and their packets.

    Route i goes from ``source[i]`` to ``target[i]`` and has ``packets[i]``.  All packets from a
    source that pass a router take the same link to it, so they are added up along the routes.
    """
    r = len(pred)
    links, sums = [], []
    order = np.argsort(source, kind="stable")
    source, target, packets = source[order], target[order], packets[order]
    for first in range(0, r, SOURCES):
        some = slice(*np.searchsorted(source, [first, first + SOURCES]))
        if some.start == some.stop:
            continue
        block = pred[first : first + SOURCES].astype(np.int64)
        # positions in the block: row * R + router
        row = np.arange(len(block))
        before = (block + row[:, None] * r).ravel()
        at_source = np.zeros(len(before), dtype=bool)
        at_source[row * r + first + row] = True
        through = np.zeros(len(before), dtype=np.int64)
        here, number = (source[some] - first) * r + target[some], packets[some]
        while (on := ~at_source[here]).any():
            here, number = here[on], number[on]
            np.add.at(through, here, number)
            here = before[here]
        used = np.flatnonzero(through)
        links.append(before[used] % r * r + used % r)
        sums.append(through[used])
    link, of = np.unique(_concatenate(links), return_inverse=True)
    totals = np.zeros(len(link), dtype=np.int64)
    np.add.at(totals, of, _concatenate(sums))
    return link, totals


def merged_links(
    last: LastLink, routers: int, tree: np.ndarray, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Return the number of every link of each tree's merged routes, once per tree (IP multicast).

    All routes of a tree have the same source; there are `routers` routers.
    """
    order = np.argsort(tree, kind="stable")
    names, first = np.unique(tree[order], return_index=True)
    root = source[order[first]].astype(np.int64)
    ends = np.append(first, len(order))
    at_once = max(1, _MARKS // routers)
    links: list[np.ndarray] = []
    for start in range(0, len(names), at_once):
        end = min(start + at_once, len(names))
        rows = order[ends[start] : ends[end]]
        of = np.repeat(np.arange(end - start), np.diff(ends[start : end + 1]))
        links += _merged(last, routers, root[start:end], of, target[rows])
    return _concatenate(links)


_MARKS = 2**25  # bytes


def _merged(
    last: LastLink, routers: int, root: np.ndarray, tree: np.ndarray, target: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the links of some trees of routes, level by level, from their ends to the roots."""
    # tree * R + router: each router once per tree
    reached = np.zeros(len(root) * routers, dtype=bool)
    frontier = distinct((tree * routers + target)[target != root[tree]])
    while len(frontier):
        reached[frontier] = True
        of, here = np.divmod(frontier, routers)
        before, link = last(root[of], here)
        yield link
        inner = (of * routers + before)[before != root[of]]
        frontier = distinct(inner[~reached[inner]])


def _concatenate(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces) if pieces else _EMPTY


_EMPTY = np.empty(0, dtype=np.int64)
