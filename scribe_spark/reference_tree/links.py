"""Links between hosts, as each of their ends knows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, expand


@dataclass(frozen=True)
class Links:
    """Pairs of a host and a neighbour that it knows.

    Attributes
    ----------
    pairs : ndarray of int64, shape (n,), ascending
        ``host * hosts + neighbour``.
    hosts : int
        Hosts are numbered below this, over all rings.
    """

    pairs: np.ndarray
    hosts: int

    @classmethod
    def of(cls, host: np.ndarray, neighbour: np.ndarray, hosts: int) -> Links:
        """Links that are given in any order, each once."""
        return cls(np.sort(host * hosts + neighbour), hosts)

    @classmethod
    def of_parents(cls, parent: np.ndarray) -> Links:
        """The links of trees, given the parent of each host (`NONE`: none)."""
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
        """The neighbours of some hosts.

        Returns
        -------
        which : ndarray of int64
            Whose neighbour: an index in `some`.
        neighbour : ndarray of int64
        """
        which, row = expand(*self._rows(some))
        return which, self.pairs[row] % self.hosts

    def of_hosts(self, some: np.ndarray) -> Links:
        """Return the knowledge of some hosts, which are ascending."""
        _, row = expand(*self._rows(some))
        return Links(self.pairs[row], self.hosts)

    def with_others(self, some: np.ndarray, links: Links) -> Links:
        """These links, where some hosts know others instead; the hosts are ascending."""
        _, row = expand(*self._rows(some))
        kept = np.ones(len(self.pairs), dtype=bool)
        kept[row] = False
        return Links(np.sort(np.concatenate([self.pairs[kept], links.pairs])), self.hosts)

    def _rows(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where the pairs of some hosts begin and end."""
        first, last = (np.searchsorted(self.pairs, host * self.hosts) for host in (some, some + 1))
        return first, last
