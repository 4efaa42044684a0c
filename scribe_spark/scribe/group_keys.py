"""Groups of a world: their groupIds, and who may create, join and multicast.

References
----------
JSAC 2002, Sections III and III.A.1 (credentials).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import distinct, find_sorted
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.closeness import Keys

#: What an access list is about.
OPERATIONS = ("create", "join", "multicast")


@dataclass(frozen=True)
class Groups:
    """G groups; everywhere else a group is its index here.

    Attributes
    ----------
    number : ndarray of int64, shape (G,)
        Numbers of the groups, ascending.
    keys : Keys
        The groupIds.
    allowed : mapping of str to (ndarray of bool, ndarray of int64)
        For an operation: which groups have a list, shape (G,); and who is on it, as ascending
        numbers ``group * K + position`` of K nodes.  Who is missing here is open to everybody.
    size : int
        K, how many nodes are known.
    """

    number: np.ndarray
    keys: Keys
    size: int
    allowed: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def of(
        cls,
        number: np.ndarray,
        keys: Keys,
        known: Ring,
        lists: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None,
    ) -> Groups:
        """Groups in any order.

        Parameters
        ----------
        known : Ring
            All nodes of the world in the order of nodeIds.
        lists : mapping of str to (ndarray, ndarray, ndarray), optional
            For an operation: numbers of the groups that have a list; and rows of group and node,
            by their numbers.  A list may be empty.
        """
        order = np.argsort(number)
        number, size = number[order], len(known)
        allowed = {}
        for operation, (listed, group, node) in (lists or {}).items():
            has_list = np.isin(number, listed)
            pairs = np.searchsorted(number, group) * size + known.positions(node)
            allowed[operation] = has_list, distinct(pairs)
        return cls(number, keys.take(order), size, allowed)

    def allows(self, operation: str, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return whether the credentials of nodes permit an operation: bool, one a pair."""
        if operation not in self.allowed:
            return np.ones(len(group), dtype=bool)
        has_list, pairs = self.allowed[operation]
        return ~has_list[group] | (find_sorted(pairs, group * self.size + node) >= 0)
