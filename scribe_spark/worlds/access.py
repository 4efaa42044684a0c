"""Access lists: the nodes that may create, join or multicast to a group; a user's table.

References
----------
NGC 2001, Section 3: creating a topic and subscribing take credentials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import SparkSession

from scribe_spark.core.arrays import NONE, codes, distinct, find_sorted, whole_numbers
from scribe_spark.errors import InputError, listed, meant, shown
from scribe_spark.inputs import Kind, is_local, read_table
from scribe_spark.remote_inputs import collect_remote

#: The names of rights in a table; the code of a right is its index here.
RIGHTS = ("create", "join", "multicast")
MAY_CREATE, MAY_JOIN, MAY_MULTICAST = range(len(RIGHTS))

_COLUMNS: dict[str, Kind] = {"group": "int", "node": "int", "right": "str"}


@dataclass(frozen=True, eq=False)
class AccessLists:
    """A rows of access lists, each once; `rights` are indices of :data:`RIGHTS`."""

    groups: np.ndarray
    nodes: np.ndarray
    rights: np.ndarray

    @classmethod
    def open(cls) -> AccessLists:
        """Return empty lists, which allow everything to all nodes."""
        return cls(whole_numbers(), whole_numbers(), codes())

    def listed(self, right: int) -> np.ndarray:
        """Return the groups that restrict a right to a list of nodes: int64, ascending."""
        return distinct(self.groups[self.rights == right])

    def permitted(self, right: int, group: int) -> np.ndarray:
        """Return the nodes on the list of a group for a right: int64, ascending."""
        return np.sort(self.nodes[(self.rights == right) & (self.groups == group)])

    def permits(self, right: int, groups: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return True for nodes that have a right to their group: bool, shape of `nodes`."""
        listed = self.listed(right)
        place = find_sorted(listed, groups)
        rows = self.rights == right
        named = find_sorted(listed, self.groups[rows]) * 2**31 + self.nodes[rows]
        return (place == NONE) | np.isin(place * 2**31 + nodes, named)


def read_access(
    path: str, groups: np.ndarray, nodes: int, spark: SparkSession | None = None
) -> AccessLists:
    """Read the user's access lists at `path`; refuse rows that name no known group, node or right.

    `groups` are the ascending numbers of the groups, `nodes` is the number of nodes.
    """
    if spark is None or is_local(path):
        frame = read_table(path, "access", _COLUMNS)
    else:
        frame = collect_remote(spark, path, "access", _COLUMNS)
    rights = np.full(len(frame), -1, dtype=np.int8)
    for code, right in enumerate(RIGHTS):
        rights[(frame["right"] == right).to_numpy()] = code
    no_group = ~np.isin(frame["group"].to_numpy(), groups)
    no_node = ((frame["node"] < 0) | (frame["node"] >= nodes)).to_numpy()
    bad = np.flatnonzero(no_group | no_node | (rights < 0))
    if len(bad):
        at = int(bad[0])
        group, node, right = (frame[name].iloc[at] for name in _COLUMNS)
        row = f"row group={group}, node={node}, right={shown(right)}"
        if no_group[at]:
            raise InputError("access", path, f"{row} names no group; {groups_are(groups)}")
        if no_node[at]:
            raise InputError("access", path, f"{row} names no node; nodes are 0 to {nodes - 1}")
        remedy = f"{row} has no known right; rights are {listed(RIGHTS)}{meant(right, RIGHTS)}"
        raise InputError("access", path, remedy)
    again = frame[frame.duplicated()]
    if len(again):
        group, node, right = again.iloc[0]
        remedy = f"group={group}, node={node}, right={shown(right)} occurs twice; keep one row"
        raise InputError("access", path, remedy)
    return AccessLists(frame["group"].to_numpy(), frame["node"].to_numpy(), rights)


def groups_are(groups: np.ndarray) -> str:
    """Describe the known groups, ascending numbers, for an error message."""
    first, last = int(groups[0]), int(groups[-1])
    if len(groups) == 1:
        return f"the only group is {first}"
    among = "groups are" if last - first + 1 == len(groups) else f"there are {len(groups)} from"
    return f"{among} {first} to {last}"
