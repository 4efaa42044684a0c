"""The groups of a world: their groupIds and their access lists (create, join, multicast).

References
----------
JSAC 2002, Sections III and III.A.1 (credentials).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import distinct, find_sorted, index_sorted
from scribe_spark.engine.ring import Keys, Ring

#: The source's node number takes the lower 32 bits of a publication's id; the round is above.
SOURCE_BITS = 32


def publication_ids(
    number: int | np.ndarray, source: np.ndarray, turn: np.ndarray | int = 0, nodes: int = 0
) -> np.ndarray:
    """Return the ids of publications of a round: round << 32 | turn * nodes + source.

    `source` are the node numbers of the sources, `nodes` is the number after the greatest one.
    Turns are those of `group_events.Publishing`; without a schedule, they are 0.
    """
    return (np.asarray(number, dtype=np.int64) << SOURCE_BITS) | (turn * nodes + source)


#: The operations that an access list can restrict.
OPERATIONS = ("create", "join", "multicast")


@dataclass(frozen=True)
class Groups:
    """G groups by ascending number; elsewhere a group is given by its index here.

    For an operation, `allowed` has two arrays: True for each group with an access list, and the
    nodes on the lists, as sorted keys ``group * K + position`` (K = `size`, the number of nodes).
    Operations without an entry are allowed to all nodes.
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
        """Build the table of groups that are given in any order.

        `lists` has for an operation the numbers of the groups that have a list, perhaps an empty
        one, and the groups and nodes on the lists, by number.
        """
        order = np.argsort(number)
        number, size = number[order], len(known)
        allowed = {}
        for operation, (listed, group, node) in (lists or {}).items():
            has_list = np.isin(number, listed)
            pairs = index_sorted(number, group) * size + known.positions(node)
            allowed[operation] = has_list, distinct(pairs)
        return cls(number, keys.take(order), size, allowed)

    def allows(self, operation: str, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return whether the access lists allow an operation to each (group, node): bool."""
        if operation not in self.allowed:
            return np.ones(len(group), dtype=bool)
        has_list, pairs = self.allowed[operation]
        return ~has_list[group] | (find_sorted(pairs, group * self.size + node) >= 0)
