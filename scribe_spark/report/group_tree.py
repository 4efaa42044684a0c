"""The tree of a group, and a layout of its nodes in layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class GroupTree:
    """A group's tree; arrays of shape (n,)."""

    group: int
    size: int  # the number of members
    node: np.ndarray
    parent: np.ndarray  # the index of the parent in `node`, -1 at a root
    depth: np.ndarray  # 0 at a root
    member: np.ndarray
    router: np.ndarray

    def __len__(self) -> int:
        return len(self.node)

    @property
    def children(self) -> np.ndarray:
        """Return the number of children of each node."""
        return np.bincount(self.parent[self.parent >= 0], minlength=len(self))

    @property
    def below(self) -> np.ndarray:
        """Return the indices of the nodes with a parent: one for each edge."""
        return np.flatnonzero(self.parent >= 0)

    def path(self, index: int) -> list[int]:
        """Return the indices from a node up to its root, with both ends."""
        path = [index]
        while self.parent[path[-1]] >= 0:
            path.append(int(self.parent[path[-1]]))
        return path


def subtree_sizes(tree: GroupTree) -> np.ndarray:
    """Return the number of nodes in each node's subtree, including the node."""
    size = np.ones(len(tree), dtype=np.int64)
    for depth in range(int(tree.depth.max(initial=0)), 0, -1):
        at = np.flatnonzero(tree.depth == depth)
        np.add.at(size, tree.parent[at], size[at])
    return size


def layers(parent: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return horizontal positions of the nodes of a forest: leaves side by side, others above them.

    Examples
    --------
    >>> layers(np.array([-1, 0, 0, 2, 2]), np.arange(5)).tolist()
    [0.75, 0.0, 1.5, 1.0, 2.0]
    """
    across, leaves = np.zeros(len(parent)), 0
    children: dict[int, list[int]] = {}
    for index in np.argsort(order, kind="stable").tolist():
        children.setdefault(int(parent[index]), []).append(index)
    stack = [(root, False) for root in reversed(children.get(-1, []))]
    while stack:
        index, done = stack.pop()
        below = children.get(index, [])
        if not below:
            across[index], leaves = leaves, leaves + 1
        elif done:
            across[index] = (across[below[0]] + across[below[-1]]) / 2
        else:
            stack.append((index, True))
            stack += [(child, False) for child in reversed(below)]
    return across
