"""The groups of a world: members, access lists (NGC 2001, Section 3), groupIds, and the events of
the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE, codes, distinct, find_sorted, index_sorted, whole_numbers
from scribe_spark.core.errors import InputError, listed, meant, shown
from scribe_spark.core.inputs import Kind, is_local
from scribe_spark.rounds.event_rows import CREATE, JOIN, EventRows, Extent, Lifetimes, groups_are
from scribe_spark.runtime.remote_inputs import read_input
from scribe_spark.systems.scribe.groups import (
    GroupDraws,
    Memberships,
    RowsOfNodes,
    check_members,
    keyed_groups,
)

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig

#: The names of rights in a table; the code of a right is its index here.
RIGHTS = ("create", "join", "multicast")
MAY_CREATE, MAY_JOIN, MAY_MULTICAST = range(len(RIGHTS))

_COLUMNS: dict[str, Kind] = {"group": "int", "node": "int", "right": "str"}


@dataclass(frozen=True, eq=False)
class AccessLists:
    """The A rows of access lists, each once; `rights` are indices of :data:`RIGHTS`.

    A row says that a node has a right to a group; groups and nodes are numbers.
    """

    groups: np.ndarray
    nodes: np.ndarray
    rights: np.ndarray

    @classmethod
    def open(cls) -> AccessLists:
        """Return empty lists, which allow everything to all nodes."""
        return cls(whole_numbers(), whole_numbers(), codes())

    def listed(self, right: int) -> np.ndarray:
        """Return the groups, ascending, to which only listed nodes have a right."""
        return distinct(self.groups[self.rights == right])

    def permitted(self, right: int, group: int) -> np.ndarray:
        """Return the nodes on the list of a group for a right: int64, ascending."""
        return np.sort(self.nodes[(self.rights == right) & (self.groups == group)])

    def permits(self, right: int, groups: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return True for nodes that have the right `right` to the group in the same row: bool."""
        listed = self.listed(right)
        place = find_sorted(listed, groups)
        rows = self.rights == right
        named = find_sorted(listed, self.groups[rows]) * 2**31 + self.nodes[rows]
        return (place == NONE) | np.isin(place * 2**31 + nodes, named)

    def may_join(self, groups: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return True for nodes that may join the group in the same row: bool."""
        return self.permits(MAY_JOIN, groups, nodes)


def read_access(
    path: str, groups: np.ndarray, nodes: int, spark: SparkSession | None = None
) -> AccessLists:
    """Read the user's access lists; refuse rows that name no known group, node or right."""
    frame = read_input(spark, path, "access", _COLUMNS)
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


# --- groups


@dataclass(frozen=True, eq=False)
class WorldGroups:
    """The G groups of a world, by ascending `numbers` (int64), with their members at the start.

    `make_members` returns the memberships at the start, sorted by group and node, without
    repetitions; it is called at the first use. `drawn_sizes` (G,) are the numbers of members, if
    all are drawn among the nodes that are alive at the start; else it is None.
    """

    numbers: np.ndarray
    make_members: Callable[[], Memberships]
    access: AccessLists
    drawn_sizes: np.ndarray | None = None

    @cached_property
    def members(self) -> Memberships:
        """The memberships at the start; nodes that are not alive then join when they arrive."""
        return self.make_members()

    def sizes(self, initial: int) -> np.ndarray:
        """Return the number of live members of each group at the start: int64, shape (G,)."""
        if self.drawn_sizes is not None:
            return self.drawn_sizes
        groups, nodes = self.members
        there = index_sorted(self.numbers, groups[nodes < initial])
        return np.bincount(there, minlength=len(self.numbers))

    def largest(self, initial: int) -> np.ndarray:
        """Return the indices of groups by size at the start, the largest first; ties by number."""
        return np.argsort(-self.sizes(initial), kind="stable")


def world_groups(
    config: WorldConfig, extent: Extent, spark: SparkSession | None = None
) -> WorldGroups | None:
    """Return the groups of a world, checked; None if it has none.

    Without a session, the result is None as well if a user's table is not on this machine.
    """
    described, rights = config.groups, config.scribe.access
    tables = [path for path in (described.members, rights) if path is not None]
    if not described.has_groups or (spark is None and not all(map(is_local, tables))):
        return None
    make: Callable[[], Memberships]
    sizes = None
    if described.members is not None:
        members = _read(described.members, config, extent, spark)
        make, numbers = (lambda: members), distinct(members[0])
        config.refuse_groups(len(numbers), len(members[0]), described.members)
    elif described.custody is not None:  # nodes that arrive later may join when they arrive
        drawn = GroupDraws.of(config, extent.nodes if rejoins(config) else extent.initial)
        make, numbers = drawn.members, drawn.numbers
    else:
        if described.size is not None and described.size > extent.initial:
            remedy = f"a group cannot have more members than the {extent.initial} nodes alive then"
            raise InputError("group_size", described.size, remedy)
        drawn = GroupDraws.of(config, extent.initial)
        make, numbers, sizes = drawn.members, drawn.numbers, drawn.sizes()
    access = AccessLists.open()
    if rights is not None:
        access = read_access(rights, numbers, extent.nodes, spark)
    return WorldGroups(numbers, make, access, sizes)


def rejoins(config: WorldConfig) -> bool:
    """Return True if returning nodes join their groups again automatically."""
    made = config.world.generators
    return bool(made) and config.scribe.rejoin and "group-churn" not in made


def _read(
    path: str, config: WorldConfig, extent: Extent, spark: SparkSession | None
) -> Memberships:
    frame = check_members(path, extent.nodes, spark)
    groups, nodes = (frame[name].to_numpy(np.int64) for name in ("group", "node"))
    order = np.lexsort((nodes, groups))
    groups, nodes = groups[order], nodes[order]
    absent = np.flatnonzero(nodes >= extent.initial)
    if len(absent) and not rejoins(config):
        remedy = (
            f"row group={groups[absent[0]]}, node={nodes[absent[0]]} names a node that is not "
            f"alive at the start (nodes 0 to {extent.initial - 1} are); let it join by an event"
        )
        raise InputError("members", path, remedy)
    return groups, nodes


def group_keys(
    rows: RowsOfNodes, groups: WorldGroups, config: WorldConfig, extent: Extent
) -> pa.Table:
    """Return the groupIds, as in runs: ``group, key_hi, key_lo, creator, ...``.

    A groupId is made of the names of the group and of the creator that is drawn for it; another
    node may create the group in the end.
    """
    numbers, among, ids = groups.numbers, extent.initial, config.groups.ids
    return keyed_groups(numbers, np.zeros_like(numbers), rows, among, config.seed, ids)


# --- the start: a world has no other start than its events


def start_rows(
    config: WorldConfig, extent: Extent, groups: WorldGroups, of_nodes: EventRows
) -> EventRows:
    """Return the creations and joins of round 0, after its node events."""
    lifetimes = Lifetimes(of_nodes, extent)
    of_start, nodes = groups.members
    alive, _ = lifetimes.at(nodes, 0)
    joins = EventRows.of_groups(0, nodes[alive], JOIN, of_start[alive])
    return EventRows.join(_creations(config, extent, groups, lifetimes), joins)


def _creations(
    config: WorldConfig, extent: Extent, groups: WorldGroups, lifetimes: Lifetimes
) -> EventRows:
    # A node creates each group that a run would draw, whose name is in the groupId.  If that node
    # is dead after the events of the round, or the access list refuses it, another one is drawn
    # (see `scribe.groups.keyed_groups` for the first draw).
    numbers, access = groups.numbers, groups.access
    signed = draws.bits_np(config.seed, "creator", numbers).view(np.int64)
    creators = np.mod(signed, extent.initial)
    alive, _ = lifetimes.at(creators, 0)
    may, live = access.permits(MAY_CREATE, numbers, creators), lifetimes.live(0)
    listed = access.listed(MAY_CREATE)
    # a round after which no node is alive is refused later
    for place in np.flatnonzero(~(alive & may) & (len(live) > 0)):
        group, among = numbers[place], live
        if group in listed:
            among = np.intersect1d(live, access.permitted(MAY_CREATE, group))
        if not len(among):
            remedy = f"allows no node that is alive in round 0 to create group {group}"
            raise InputError("access", config.scribe.access, remedy)
        drawn = draws.bits_np(config.seed, "creator instead", numbers[place : place + 1])
        creators[place] = among[int(drawn[0] % np.uint64(len(among)))]
    return EventRows.of_groups(0, creators, CREATE, numbers)
