"""The groups of runs and worlds: groupIds, sizes, memberships, sources; capacities of nodes.

JSAC 2002, Section III.A.1 (groupIds), Section IV.A (sizes, members), Section IV.E ("some nodes may
have less computational power or bandwidth"). NGC 2001 says topic for group and subscriber for
member.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.core import draws
from scribe_spark.core.arrays import NO_GROUP, whole_numbers
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import Kind, check_each_node
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.remote_inputs import read_input
from scribe_spark.runtime.sessions import local_frame

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import RunConfig


#: Groups and nodes of M memberships: int64, shape (M,) each.
Memberships = tuple[np.ndarray, np.ndarray]

_DRAWS_AT_ONCE = 2**21


@dataclass(frozen=True)
class GroupDraws:
    """The groups 1 to G whose members are drawn among the first `nodes` nodes, part by part.

    A part is one group or, with `custody`, some nodes: each node is in the groups with the smallest
    values of draw(``custody``, node, group).  Parts do not depend on each other.  Without custody,
    all groups have `size` members, or the group with rank r has floor(N r**-`exponent` + 0.5).  The
    object is for executors: its values are plain.
    """

    nodes: int
    seed: int
    count: int
    size: int | None
    exponent: float
    custody: int | None
    classes: NodeClasses

    @classmethod
    def of(cls, config: Any, nodes: int | None = None) -> Self:
        """Return the groups of a run or a world, by default with members among all nodes."""
        section = config.groups
        return cls(
            config.overlay.nodes if nodes is None else nodes,
            config.seed,
            section.count or 0,
            section.size,
            section.zipf_exponent or 0.0,
            section.custody,
            NodeClasses.of(config),
        )

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the groups: int64, shape (G,)."""
        return np.arange(1, self.count + 1)

    def sizes(self) -> np.ndarray:
        """Return the number of members of each group: int64, shape (G,)."""
        if self.custody is not None:
            counts = np.zeros(self.count + 1, dtype=np.int64)
            for part in self._parts():
                counts += np.bincount(self.members_of(*part)[0], minlength=self.count + 1)
            return counts[1:]
        if self.size is not None:
            return np.full(self.count, self.size, dtype=np.int64)
        rank = self.numbers.astype(float)
        return np.floor(self.nodes * rank**-self.exponent + 0.5).astype(np.int64)

    def parts(self) -> dict[str, np.ndarray]:
        """Return for each part the arguments of :meth:`members_of`: columns ``first, size``."""
        if self.custody is None:
            return {"first": self.numbers, "size": self.sizes()}
        at_once = max(_DRAWS_AT_ONCE // max(self.count, 1), 1)
        first = np.arange(0, self.nodes, at_once)
        return {"first": first, "size": np.minimum(self.nodes - first, at_once)}

    def members_of(self, first: int, size: int) -> Memberships:
        """Return the memberships of a part (a row of :meth:`parts`), sorted by node."""
        if self.custody is None:
            drawn = draws.distinct_below(self.nodes, size, self.seed, "members", first)
            return np.full(size, first), drawn
        node = np.arange(first, first + size)
        count = np.minimum(self.classes.values("custody", node, self.custody), self.count)
        shared = draws.bits_np(self.seed, "custody", node)
        bits = draws.more_bits(shared[:, None], np.arange(1, self.count + 1))
        order = np.argsort(bits, axis=1, kind="stable")
        chosen = np.arange(self.count) < count[:, None]
        return order[chosen] + 1, np.repeat(node, count)

    def members(self) -> Memberships:
        """Return all memberships, sorted by group and node."""
        drawn = [self.members_of(*part) for part in self._parts()]
        none = whole_numbers(), whole_numbers()
        group, node = (np.concatenate(columns) for columns in zip(none, *drawn, strict=True))
        if self.custody is None:
            return group, node
        order = np.lexsort((node, group))
        return group[order], node[order]

    def _parts(self) -> Iterator[tuple[int, int]]:
        first, size = (column.tolist() for column in self.parts().values())
        return zip(first, size, strict=True)


def group_sizes(config: RunConfig) -> np.ndarray:
    """Return the number of members of each drawn group of a config: int64, shape (G,)."""
    return GroupDraws.of(config).sizes()


def draw_members(spark: SparkSession, config: RunConfig) -> Batches:
    """Draw the members of each group in tasks: `schemas.MEMBERS`; lazy."""
    drawn = GroupDraws.of(config)

    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                columns = [pa.array(column) for column in drawn.members_of(*part)]
                yield pa.RecordBatch.from_arrays(columns, names=["group", "node"])

    parts = drawn.parts()
    # the first groups are the largest, and tasks draw neighbours
    spread = pa.table(parts).take(np.argsort(np.arange(len(parts["first"])) % 2, kind="stable"))
    count = int(parts["size"].sum())
    return Batches.known(spark, spread, count, _PARTS).then(draw, schemas.MEMBERS)


_PARTS = "first bigint, size bigint"


def read_members(spark: SparkSession, path: str, nodes: int) -> DataFrame:
    """Read and check the user's table of members at `path`: `schemas.MEMBERS`."""
    return _rows_of_frame(spark, check_members(path, nodes, spark), ("group", "node"))


def _rows_of_frame(spark: SparkSession, frame: pd.DataFrame, names: tuple[str, ...]) -> DataFrame:
    columns = {name: frame[name].to_numpy(dtype=np.int64) for name in names}
    return local_frame(spark, pa.table(columns))


_COLUMNS: dict[str, Kind] = {"group": "int", "node": "int"}


def check_members(path: str, nodes: int, spark: SparkSession | None = None) -> pd.DataFrame:
    """Read and check a table of members, with `spark` also a remote one: a frame (group, node)."""
    frame = read_input(spark, path, "members", _COLUMNS)
    valid = frame["node"].between(0, nodes - 1) & (frame["group"] > NO_GROUP)
    if not valid.all():
        group, node = frame[~valid].iloc[0][["group", "node"]]
        row = f"row group={group}, node={node}"
        if group == NO_GROUP:
            remedy = f"{row} names no group; groups are whole numbers above {NO_GROUP}"
        else:
            remedy = f"{row} names no node; nodes are 0 to {nodes - 1}"
        raise InputError("members", path, remedy)
    again = frame[frame.duplicated(["group", "node"])]
    if len(again):
        group, node = again.iloc[0][["group", "node"]]
        remedy = f"group={group}, node={node} occurs twice; keep one row"
        raise InputError("members", path, remedy)
    return frame


#: A function from the numbers of some nodes to their columns, at least ``id_hi, router``.
RowsOfNodes = Callable[[np.ndarray], Mapping[str, np.ndarray]]


def make_groups(members: Table, rows: RowsOfNodes, config: RunConfig) -> pa.Table:
    """Return each group's key and creator on the driver, with the columns of `keyed_groups`."""
    if config.groups.members is not None:
        counted = Batches.of(members).frame.groupBy("group").count().toArrow()
        numbers, sizes = (counted.column(name).to_numpy() for name in ("group", "count"))
    else:
        drawn = GroupDraws.of(config)
        numbers, sizes = drawn.numbers, drawn.sizes()
    return keyed_groups(numbers, sizes, rows, config.overlay.nodes, config.seed, config.groups.ids)


def keyed_groups(
    numbers: np.ndarray, sizes: np.ndarray, rows: RowsOfNodes, among: int, seed: int, ids: str
) -> pa.Table:
    """Return the key and the creator of groups ``numbers, sizes``, on the driver.

    The creator is drawn among the first `among` nodes; ``rows(node)`` has ``id_hi, router`` of
    nodes. The groupId is the first 128 bits of SHA-1 of the names of group and creator. With
    ``ids="creator"``, it is the upper half of the creator's nodeId, then 64 bits of SHA-1 of
    the group's name, so that the creator is the root.
    """
    creators = np.mod(draws.bits_np(seed, "creator", numbers).view(np.int64), among)
    of_creators = rows(creators)
    names = [f"group-{number}" for number in numbers.tolist()]
    if ids != "creator":
        names = [f"{name}node-{n}" for name, n in zip(names, creators.tolist(), strict=True)]
    digests = b"".join(hashlib.sha1(name.encode()).digest()[:16] for name in names)
    hi, lo = np.frombuffer(digests, ">i8").astype(np.int64).reshape(-1, 2).T
    if ids == "creator":
        hi, lo = of_creators["id_hi"], hi
    columns = {"group": numbers, "key_hi": hi, "key_lo": lo, "size": sizes, "creator": creators}
    return pa.table({**columns, "creator_router": of_creators["router"]})


def senders(members: DataFrame, seed: int) -> DataFrame:
    """Draw one of each group's members, which have routers: ``group, source, source_router``."""
    draw = F.struct(draws.bits(seed, "source", "group", "node"), "node", "router")
    first = members.groupBy("group").agg(F.min(draw).alias("drawn"))
    return first.select(
        "group", F.col("drawn.node").alias("source"), F.col("drawn.router").alias("source_router")
    )


_OF_LIMITS: dict[str, Kind] = {"node": "int", "limit": "int"}


def check_capacities(path: str, nodes: int, spark: SparkSession | None = None) -> pd.DataFrame:
    """Read and check a table ``node, limit`` of all nodes, with `spark` also a remote one."""
    frame = read_input(spark, path, "capacities", _OF_LIMITS)
    node, limit = frame["node"].to_numpy(np.int64), frame["limit"].to_numpy(np.int64)
    check_each_node(node, nodes, "capacities", path)
    if (limit < 1).any():
        row = int(np.argmax(limit < 1))
        raise InputError("capacities", path, f"limit={limit[row]} of node={node[row]} is below 1")
    return frame


def limits_by_number(capacities: DataFrame) -> np.ndarray:
    """Return the limits of :func:`read_capacities` by node number: int64, shape (N,)."""
    rows = capacities.select("node", "limit").toArrow()
    node, limit = (rows.column(name).to_numpy() for name in rows.column_names)
    by_number = np.zeros(node.max() + 1, dtype=np.int64)
    by_number[node] = limit
    return by_number


def read_capacities(spark: SparkSession, path: str, nodes: int) -> DataFrame:
    """Read and check the user's table ``node, limit`` (BIGINT) at `path`, for all nodes."""
    return _rows_of_frame(spark, check_capacities(path, nodes, spark), ("node", "limit"))
