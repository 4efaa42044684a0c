"""The links between hosts.  Each link is stored twice, once for each end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, expand


@dataclass(frozen=True)
class Links:
    """Pairs of a host and one of its neighbours."""

    #: int64, shape (n,), ascending: ``host * hosts + neighbour``.
    pairs: np.ndarray
    #: The number of hosts on all rings; host numbers are less than this.
    hosts: int

    @classmethod
    def of(cls, host: np.ndarray, neighbour: np.ndarray, hosts: int) -> Links:
        """Return links from unsorted pairs without duplicates."""
        return cls(np.sort(host * hosts + neighbour), hosts)

    @classmethod
    def of_parents(cls, parent: np.ndarray) -> Links:
        """Return the links of trees from the parent of each host (`NONE` for a root)."""
        child = np.flatnonzero(parent != NONE)
        above = parent[child]
        return cls.of(np.r_[child, above], np.r_[above, child], len(parent))

    @property
    def host(self) -> np.ndarray:
        """The host of each pair."""
        return self.pairs // self.hosts

    @property
    def neighbour(self) -> np.ndarray:
        """The neighbour of each pair."""
        return self.pairs % self.hosts

    def around(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the neighbours of given hosts: each one's index in `some`, and the neighbour."""
        which, row = expand(*self._rows(some))
        return which, self.pairs[row] % self.hosts

    def of_hosts(self, some: np.ndarray) -> Links:
        """Return the pairs of given hosts, which are ascending."""
        _, row = expand(*self._rows(some))
        return Links(self.pairs[row], self.hosts)

    def with_others(self, some: np.ndarray, links: Links) -> Links:
        """Return these links, in which the pairs of given hosts (ascending) are replaced."""
        _, row = expand(*self._rows(some))
        kept = np.ones(len(self.pairs), dtype=bool)
        kept[row] = False
        return Links(np.sort(np.concatenate([self.pairs[kept], links.pairs])), self.hosts)

    def _rows(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows at which the pairs of given hosts begin and end."""
        first, last = (np.searchsorted(self.pairs, host * self.hosts) for host in (some, some + 1))
        return first, last
