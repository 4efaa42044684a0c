"""The links on routes, by walking from each target back to its source.

Routes are given by a :data:`LastLink`: the predecessor of the target on a route, and the link
between the two.  Matrices look it up; breadth-first search computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

__all__ = ["LastLink", "last_links", "merged_links", "packets_on_links", "path_links"]

#: Of routes (sources, targets; row by row, never the same): the router before the target, and the
#: number of the link between the two.
LastLink = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def last_links(pred: np.ndarray) -> LastLink:
    """The routes of a matrix of predecessors (R, R); links are numbered src * R + dst."""

    def last(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = pred[source, target].astype(np.int64)
        return before, before * pred.shape[1] + target

    return last


def path_links(
    last: LastLink, source: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Every link of every route.

    Parameters
    ----------
    last : callable
        From :func:`last_links`, for example.
    source, target : ndarray of int, shape (M,)
        One route per row, router indices.

    Returns
    -------
    row, link : ndarray of int64, shape (H,)
        Row of the route; number of the link.
    """
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
    last: LastLink, links: int, source: np.ndarray, target: np.ndarray, packets: np.ndarray
) -> np.ndarray:
    """Packets on each link when routes carry some.

    Parameters
    ----------
    last : callable
        From :func:`last_links`, for example.
    links : int
        More than the number of any link.
    source, target : ndarray of int, shape (M,)
        One route per row, router indices; fastest where rows of a source are together.
    packets : ndarray of int64, shape (M,)

    Returns
    -------
    ndarray of int64, shape (links,)
    """
    totals = np.zeros(links, dtype=np.int64)
    for start in range(0, len(source), _ROUTES):
        some = slice(start, start + _ROUTES)
        row, link = path_links(last, source[some], target[some])
        np.add.at(totals, link, packets[some][row])
    return totals


_ROUTES = 2**17  # routes that are followed together


def merged_links(
    last: LastLink, routers: int, tree: np.ndarray, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Every link of the merge of each tree's routes, once per tree (IP multicast).

    Parameters
    ----------
    last : callable
        From :func:`last_links`, for example.
    routers : int
        R.
    tree, source, target : ndarray of int, shape (M,)
        Routes; all rows of a tree have the same source.

    Returns
    -------
    ndarray of int64, shape (H,)
        Numbers of links, one per tree and link.
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
    """The links of trees 0, 1, ..., from the ends of the routes inwards."""
    # tree * R + router: a router is entered once per tree
    reached = np.zeros(len(root) * routers, dtype=bool)
    frontier = np.unique((tree * routers + target)[target != root[tree]])
    while len(frontier):
        reached[frontier] = True
        of, here = np.divmod(frontier, routers)
        before, link = last(root[of], here)
        yield link
        inner = (of * routers + before)[before != root[of]]
        frontier = np.unique(inner[~reached[inner]])


def _concatenate(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces) if pieces else _EMPTY


_EMPTY = np.empty(0, dtype=np.int64)
