"""The groups of a world: members at the start, access lists and groupIds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.config import RunConfig
from scribe_spark.core.arrays import distinct
from scribe_spark.errors import InputError
from scribe_spark.inputs import is_local
from scribe_spark.scribe.groups import (
    check_members,
    custody_members,
    drawn_members,
    group_sizes,
    make_groups,
    read_members,
)
from scribe_spark.worlds.access import AccessLists, groups_are, read_access
from scribe_spark.worlds.rows import Extent

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import WorldConfig


class MembersAtStart(Protocol):
    """The M memberships at the start."""

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Groups and nodes of the memberships: int64, shape (M,) each.

        They are sorted by group and node, without repetitions.  A node that is not alive at the
        start becomes a member when it arrives.
        """
        ...

    def sizes(self, numbers: np.ndarray, initial: int) -> np.ndarray:
        """Return the number of live members of each group at the start: int64, shape (G,)."""
        ...


@dataclass(frozen=True, eq=False)
class GivenMembers:
    """Members from a table.

    Attributes
    ----------
    pairs : (ndarray of int64, ndarray of int64)
        See `MembersAtStart`.
    """

    pairs: tuple[np.ndarray, np.ndarray]

    def sizes(self, numbers: np.ndarray, initial: int) -> np.ndarray:
        """See `MembersAtStart`."""
        groups, nodes = self.pairs
        there = np.searchsorted(numbers, groups[nodes < initial])
        return np.bincount(there, minlength=len(numbers))


@dataclass(frozen=True, eq=False)
class DrawnMembers:
    """Members drawn among the nodes that are alive at the start, as in a run; computed on use.

    Attributes
    ----------
    drawn_sizes : ndarray of int64, shape (G,)
        The sizes of the groups 1 to G.
    initial : int
        The number of nodes that are alive at the start.
    seed : int
        The seed of random draws.
    """

    drawn_sizes: np.ndarray
    initial: int
    seed: int

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """See `MembersAtStart`."""
        drawn = [
            drawn_members(self.initial, size, self.seed, group)
            for group, size in enumerate(self.drawn_sizes.tolist(), start=1)
        ]
        nodes = np.concatenate([np.empty(0, dtype=np.int64), *drawn])
        return np.repeat(np.arange(1, len(drawn) + 1), self.drawn_sizes), nodes

    def sizes(self, numbers: np.ndarray, initial: int) -> np.ndarray:
        """See `MembersAtStart`."""
        return self.drawn_sizes


@dataclass(frozen=True, eq=False)
class WorldGroups:
    """The G groups of a world with their members at the start.

    Attributes
    ----------
    numbers : ndarray of int64, shape (G,)
        The numbers of the groups, ascending.
    members : MembersAtStart
    access : AccessLists
    """

    numbers: np.ndarray
    members: MembersAtStart
    access: AccessLists

    def sizes(self, initial: int) -> np.ndarray:
        """Return the number of live members of each group at the start: int64, shape (G,)."""
        return self.members.sizes(self.numbers, initial)

    def largest(self, initial: int) -> np.ndarray:
        """Return groups by size at the start, the largest first; ties by number.

        Returns
        -------
        ndarray of int64, shape (G,)
            Indices of `numbers`.
        """
        return np.argsort(-self.sizes(initial), kind="stable")

    def has(self, groups: np.ndarray) -> np.ndarray:
        """Return True for numbers of existing groups."""
        return np.isin(groups, self.numbers)

    def named(self) -> str:
        """Describe the known groups for an error message."""
        return groups_are(self.numbers)


def world_groups(
    config: WorldConfig, extent: Extent, spark: SparkSession | None = None
) -> WorldGroups | None:
    """Return the groups of a world, checked; None if it has none.

    Parameters
    ----------
    spark : SparkSession, optional
        Without a session, the result is None as well if a user's table is not on this machine.

    Raises
    ------
    InputError
        A member or a row of an access list is invalid, or a group is larger than the overlay.
    """
    scribe = config.scribe
    tables = [path for path in (scribe.members, scribe.access) if path is not None]
    if not scribe.has_groups or (spark is None and not all(map(is_local, tables))):
        return None
    members: MembersAtStart
    if scribe.members is not None:
        members = _read(scribe.members, config, extent, spark)
        numbers = distinct(members.pairs[0])
        config.refuse_groups(len(numbers), scribe.members)
    elif scribe.custody is not None:
        members = _by_custody(config, extent)
        numbers = np.arange(1, (scribe.count or 0) + 1)
    else:
        members = _drawn(config, extent)
        numbers = np.arange(1, (scribe.count or 0) + 1)
    access = AccessLists.open()
    if scribe.access is not None:
        access = read_access(scribe.access, numbers, extent.nodes, spark)
    return WorldGroups(numbers, members, access)


def rejoins(config: WorldConfig) -> bool:
    """Return True if returning nodes join their groups again automatically."""
    made = config.world.generators
    return bool(made) and config.scribe.rejoin and "group-churn" not in made


def _read(
    path: str, config: WorldConfig, extent: Extent, spark: SparkSession | None
) -> GivenMembers:
    if spark is None or is_local(path):
        frame = check_members(path, extent.nodes)
    else:
        frame = read_members(spark, path, extent.nodes).toPandas()
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
    return GivenMembers((groups, nodes))


def _by_custody(config: WorldConfig, extent: Extent) -> GivenMembers:
    """Return the members that are alive at the start, and those that join on arrival."""
    groups, nodes = custody_members(config, config.scribe)
    there = np.ones(len(nodes), dtype=bool) if rejoins(config) else nodes < extent.initial
    return GivenMembers((groups[there], nodes[there]))


def _drawn(config: WorldConfig, extent: Extent) -> DrawnMembers:
    scribe, count = config.scribe, config.scribe.count or 0
    if scribe.size is not None:
        if scribe.size > extent.initial:
            remedy = f"a group cannot have more members than the {extent.initial} nodes alive then"
            raise InputError("group_size", scribe.size, remedy)
        sizes = np.full(count, scribe.size, dtype=np.int64)
    else:
        exponent = scribe.zipf_exponent
        sizes = group_sizes(RunConfig(nodes=extent.initial, groups=count, zipf_exponent=exponent))
    return DrawnMembers(sizes, extent.initial, config.seed)


def group_keys(
    nodes: DataFrame, groups: WorldGroups, config: WorldConfig, extent: Extent
) -> DataFrame:
    """Return the groupIds, as in runs: ``group, key_hi, key_lo, creator, ...``.

    A groupId is made of the names of the group and of the creator that is drawn for it; another
    node may create the group in the end.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    """
    spark = nodes.sparkSession
    frame = pd.DataFrame({"group": groups.numbers, "node": np.zeros(len(groups.numbers), "int64")})
    numbered = schemas.local_table(spark, frame, schemas.MEMBERS)
    # as for a user's table of members, the groups are those of the given table
    run = RunConfig(
        nodes=extent.initial, members="given", group_ids=config.scribe.ids, seed=config.seed
    )
    return make_groups(numbered, nodes, run)
