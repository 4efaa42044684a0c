"""The part of the tree over all hosts that each group uses, as numpy arrays.

A subscription climbs from each member, and from the source, towards the root.  A host takes part in
a group at most once: it forwards only the first subscription, as a Scribe node sends one JOIN. Each
step handles one level of the tree, from the deepest: its hosts are the subscribers at this level
and the parents of the hosts one level below.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Sections 2.1 (subscription
forwarding over a single tree), 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import numbered


@dataclass(frozen=True)
class Subscribers:
    """Members and sources, each with its path up the tree."""

    #: int64, shape (M,): the group, the host and its router.  A host has at most one row as a
    #: member and one as the source of a group.
    group: np.ndarray
    node: np.ndarray
    router: np.ndarray
    #: bool, shape (M,): true for the source of the group, false for a member.
    is_source: np.ndarray
    #: int64, shape (M + 1,): the ancestors of row i are from ``offsets[i]`` up to
    #: ``offsets[i + 1] - 1``.
    offsets: np.ndarray
    #: int64: the ancestors of all rows, each from its parent to the root, and their routers.
    ancestors: np.ndarray
    routers: np.ndarray

    @property
    def depth(self) -> np.ndarray:
        """Return the number of ancestors of each row."""
        return np.diff(self.offsets)

    def at_level(self, rows: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Return node and router of the ancestor (or the row itself) at a level; the root has 0."""
        steps = self.depth[rows] - level
        node, router = self.node[rows].copy(), self.router[rows].copy()
        above = np.flatnonzero(steps > 0)
        place = self.offsets[rows[above]] + steps[above] - 1
        node[above], router[above] = self.ancestors[place], self.routers[place]
        return node, router


@dataclass(frozen=True)
class PrunedTrees:
    """The tree of each group: the hosts on the paths between its source and its members.

    Each pair (group, host) has an index.
    """

    group: np.ndarray
    node: np.ndarray
    router: np.ndarray
    above: np.ndarray
    is_member: np.ndarray
    to_source: np.ndarray
    levels: np.ndarray

    @classmethod
    def of(cls, subscribers: Subscribers) -> PrunedTrees:
        """Let subscriptions climb until all subscriptions of a group have met in one host."""
        names, group = np.unique(subscribers.group, return_inverse=True)
        depth = subscribers.depth
        highest = np.full(len(names), depth.max(initial=0))
        np.minimum.at(highest, group, depth)
        rows_by_depth = np.argsort(depth, kind="stable")
        begins = np.searchsorted(depth[rows_by_depth], np.arange(depth.max(initial=0) + 2))
        found: list[_Level] = []
        climbing = np.zeros(0, dtype=np.int64)  # indices of the level below that climb further
        count = 0
        for level in range(depth.max(initial=-1), -1, -1):
            here = rows_by_depth[begins[level] : begins[level + 1]]
            now = _Level.of(subscribers, group, level, here, found, climbing, count)
            found.append(now)
            hosts = np.bincount(now.group, minlength=len(names))
            met = (hosts == 1) & (highest >= level)
            climbing = np.flatnonzero(~met[now.group])
            count += len(now.node)
        levels = np.cumsum([0, *(len(one.node) for one in found)])

        def joined(name: str) -> np.ndarray:
            parts = [getattr(one, name) for one in found]
            return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

        return cls(
            names[joined("group")],
            joined("node"),
            joined("router"),
            joined("above"),
            joined("is_member").astype(bool),
            joined("to_source").astype(bool),
            levels,
        )

    @property
    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of sender and receiver of every copy of the message."""
        lower = np.flatnonzero(self.above >= 0)
        upper = self.above[lower]
        upwards = self.to_source[lower]
        return np.where(upwards, lower, upper), np.where(upwards, upper, lower)

    def from_source(self, leg: np.ndarray) -> np.ndarray:
        """Return for each host the sum over the path from the group's source to it.

        `leg` has the summand of the edge between each host and its parent; it is ignored for hosts
        without a parent.
        """
        total = np.zeros(len(self.node), dtype=np.int64)
        spans = [np.arange(*ends) for ends in zip(self.levels[:-1], self.levels[1:], strict=True)]
        # upwards from the source: at most one child of a host has the source in its subtree
        for level in spans:
            up = level[self.to_source[level] & (self.above[level] >= 0)]
            total[self.above[up]] = total[up] + leg[up]
        for level in reversed(spans):
            down = level[~self.to_source[level]]
            total[down] = total[self.above[down]] + leg[down]
        return total


@dataclass
class _Level:
    """The hosts of one level.

    `row` is a subscriber that is the host itself or is in its subtree.
    """

    group: np.ndarray
    node: np.ndarray
    router: np.ndarray
    row: np.ndarray
    is_member: np.ndarray
    to_source: np.ndarray
    above: np.ndarray

    @classmethod
    def of(
        cls,
        subscribers: Subscribers,
        group: np.ndarray,
        level: int,
        here: np.ndarray,
        found: list[_Level],
        climbing: np.ndarray,
        count: int,
    ) -> _Level:
        """Combine the subscribers `here` with the parents of the hosts `climbing` from below."""
        below = found[-1] if found else None
        source = subscribers.is_source[here]
        row, to_source, is_member = here, source, ~source
        if below is not None:
            row = np.concatenate([below.row[climbing], row])
            to_source = np.concatenate([below.to_source[climbing], to_source])
            is_member = np.concatenate([np.zeros(len(climbing), dtype=bool), is_member])
        node, router = subscribers.at_level(row, level)
        number = numbered(group[row], node)
        hosts = int(number.max(initial=-1)) + 1
        chosen = np.empty(hosts, dtype=np.int64)
        chosen[number[::-1]] = np.arange(len(number))[::-1]  # the first row of each host
        if below is not None:
            below.above[climbing] = count + number[: len(climbing)]
        return cls(
            group[row][chosen],
            node[chosen],
            router[chosen],
            row[chosen],
            np.bincount(number[is_member], minlength=hosts) > 0,
            np.bincount(number[to_source], minlength=hosts) > 0,
            np.full(hosts, -1),
        )
