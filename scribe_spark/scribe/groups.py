"""The groups of a run and their members: groupIds, sizes, memberships and sources.

References
----------
JSAC 2002, Section III.A.1 (groupIds), Section IV.A (sizes, members).  NGC 2001 says topic for
group and subscriber for member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import draws, schemas
from scribe_spark.core import u128
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.errors import InputError
from scribe_spark.inputs import Kind, is_local, read_table
from scribe_spark.node_classes import NodeClasses
from scribe_spark.pastry.nodes import node_name
from scribe_spark.remote_inputs import read_remote, refuse_unreadable
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.sessions import local_frame

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import ExperimentConfig, RunConfig


def group_sizes(config: ExperimentConfig, nodes: int | None = None) -> np.ndarray:
    """Return the number of members of each group: int64, shape (G,).

    The size of the group with rank r is floor(N r**-1.25 + 0.5) by default; or it is the same for
    all groups, or the number of nodes that choose the group (custody).  N is `nodes`, by default
    all nodes of the overlay.
    """
    nodes = config.overlay.nodes if nodes is None else nodes
    if config.groups.custody is not None:
        return _Custody.of(config).sizes()
    count, exponent = config.groups.count or 0, config.groups.zipf_exponent or 0.0
    if config.groups.size is not None:
        return np.full(count, config.groups.size, dtype=np.int64)
    rank = np.arange(1, count + 1, dtype=float)
    return np.floor(nodes * rank**-exponent + 0.5).astype(np.int64)


def drawn_members(nodes: int, size: int, seed: int, group: int) -> np.ndarray:
    """Draw `size` distinct members of a group from the first `nodes` nodes: int64, (size,)."""
    return draws.distinct_below(nodes, size, seed, "members", group)


@dataclass(frozen=True)
class _Custody:
    """Each node is in the groups with the smallest values of draw(``custody``, node, group).

    `usual` is the number of groups of a node whose class does not set it.
    """

    classes: NodeClasses
    groups: int
    usual: int
    nodes: int
    at_once: int

    @classmethod
    def of(cls, config: Any) -> Self:
        """Return the custody of a config."""
        groups = config.groups.count or 0
        at_once = max(_DRAWS_AT_ONCE // max(groups, 1), 1)
        known = NodeClasses.of(config), groups, config.groups.custody
        return cls(*known, config.overlay.nodes, at_once)

    def starts(self) -> np.ndarray:
        """Return the first node of each chunk: int64."""
        return np.arange(0, self.nodes, self.at_once)

    def chunk(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups and nodes of the memberships in a chunk, sorted by node: int64."""
        node = np.arange(start, min(start + self.at_once, self.nodes))
        count = np.minimum(self.classes.values("custody", node, self.usual), self.groups)
        shared = draws.bits_np(self.classes.seed, "custody", node)
        bits = draws.more_bits(shared[:, None], np.arange(1, self.groups + 1))
        order = np.argsort(bits, axis=1, kind="stable")
        chosen = np.arange(self.groups) < count[:, None]
        return order[chosen] + 1, np.repeat(node, count)

    def sizes(self) -> np.ndarray:
        """Return the number of members of each group: int64, shape (G,)."""
        sizes = np.zeros(self.groups + 1, dtype=np.int64)
        for start in self.starts().tolist():
            sizes += np.bincount(self.chunk(start)[0], minlength=self.groups + 1)
        return sizes[1:]


_DRAWS_AT_ONCE = 2**21


def custody_members(config: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups and nodes of all memberships, sorted by group and node: int64."""
    custody = _Custody.of(config)
    chunks = [custody.chunk(start) for start in custody.starts().tolist()]
    group, node = (np.concatenate(columns) for columns in zip(*chunks, strict=True))
    order = np.lexsort((node, group))
    return group[order], node[order]


def draw_members(spark: SparkSession, config: RunConfig) -> Batches:
    """Draw distinct members of each group, uniformly and independently: `schemas.MEMBERS`; lazy."""
    if config.groups.custody is not None:
        custody = _Custody.of(config)
        return _drawn(spark, custody.chunk, {"start": custody.starts()})
    sizes = group_sizes(config)
    nodes, seed = config.overlay.nodes, config.seed

    def members(group: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        return np.full(size, group), drawn_members(nodes, size, seed, group)

    return _drawn(spark, members, {"group": np.arange(1, len(sizes) + 1), "size": sizes})


def _drawn(
    spark: SparkSession,
    members: Callable[..., tuple[np.ndarray, np.ndarray]],
    parts: dict[str, np.ndarray],
) -> Batches:
    """Return the members of each row of `parts`, made by ``members(*row)`` in tasks."""

    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                columns = [pa.array(column) for column in members(*row)]
                yield pa.RecordBatch.from_arrays(columns, names=["group", "node"])

    spread = local_frame(spark, pa.table(parts)).repartition(next(iter(parts)))
    return Batches.made(spread, draw, schemas.MEMBERS)


def read_members(spark: SparkSession, path: str, nodes: int) -> DataFrame:
    """Read and check the user's table of members at `path`: `schemas.MEMBERS`.

    Nodes have the numbers 0 to `nodes` - 1.

    Raises
    ------
    InputError
        A row names no node or no group, or a member occurs twice.
    """
    if is_local(path):
        frame = check_members(path, nodes)
        columns = {name: frame[name].to_numpy(dtype=np.int64) for name in ("group", "node")}
        return local_frame(spark, pa.table(columns))
    members = read_remote(spark, path, "members", _COLUMNS)
    valid = F.col("node").between(0, nodes - 1) & (F.col("group") > NO_GROUP)
    with refuse_unreadable("members", path):
        for row in members.where(~F.coalesce(valid, F.lit(False))).take(1):
            raise _bad_row(path, nodes, row["group"], row["node"])
        for row in members.groupBy("group", "node").count().where("count > 1").take(1):
            raise _twice(path, row["group"], row["node"])
    return members


_COLUMNS: dict[str, Kind] = {"group": "int", "node": "int"}


def check_members(path: str, nodes: int):
    """Read and check a local table of members without Spark: a pandas frame (group, node).

    Groups may have any number above `NO_GROUP`; nodes have the numbers 0 to `nodes` - 1.

    Raises
    ------
    InputError
    """
    frame = read_table(path, "members", _COLUMNS)
    valid = frame["node"].between(0, nodes - 1) & (frame["group"] > NO_GROUP)
    if not valid.all():
        raise _bad_row(path, nodes, *frame[~valid].iloc[0][["group", "node"]])
    again = frame[frame.duplicated(["group", "node"])]
    if len(again):
        raise _twice(path, *again.iloc[0][["group", "node"]])
    return frame


def _bad_row(path: str, nodes: int, group, node) -> InputError:
    row = f"row group={group}, node={node}"
    if group is None or group == NO_GROUP:
        remedy = f"{row} names no group; groups are whole numbers above {NO_GROUP}"
    else:
        remedy = f"{row} names no node; nodes are 0 to {nodes - 1}"
    return InputError("members", path, remedy)


def _twice(path: str, group, node) -> InputError:
    return InputError("members", path, f"group={group}, node={node} occurs twice; keep one row")


def make_groups(members: DataFrame, nodes: DataFrame, config: RunConfig) -> DataFrame:
    """Return the key, size and creator of each group of a run.

    The columns are those of `named_groups`.
    """
    return named_groups(_sizes(members, config), nodes, config, config.overlay.nodes)


def named_groups(
    groups: DataFrame, nodes: DataFrame, config: ExperimentConfig, among: int
) -> DataFrame:
    """Return each group's key and creator, one of the first `among` nodes, drawn uniformly.

    The columns are ``group, key_hi, key_lo, creator, creator_router``, and all other columns of
    `groups`.  The name of a group contains its rank.  The groupId is the first 128 bits of SHA-1 of
    the group's name and the creator's name.  With ``ids="creator"``, the groupId is the upper half
    of the creator's nodeId followed by 64 bits of SHA-1 of the name, so that the creator is the
    root.
    """
    name = F.concat(F.lit("group-"), F.col("group").cast("string"))
    creator = draws.below(among, config.seed, "creator", "group")
    drawn = groups.withColumn("creator", creator)
    by = nodes.select(F.col("node").alias("creator"), "id_hi", F.col("router"))
    named = F.broadcast(drawn).join(by, "creator", "inner")
    if config.groups.ids == "creator":
        key_hi, key_lo = F.col("id_hi"), u128.half_of_digest(F.sha1(name), 0)
    else:
        digest = F.sha1(F.concat(name, node_name(F.col("creator"))))
        key_hi, key_lo = u128.half_of_digest(digest, 0), u128.half_of_digest(digest, 1)
    return named.select(
        "group",
        key_hi.alias("key_hi"),
        key_lo.alias("key_lo"),
        *(column for column in groups.columns if column != "group"),
        "creator",
        F.col("router").alias("creator_router"),
    )


def _sizes(members: DataFrame, config: RunConfig) -> DataFrame:
    """Return ``group, size``; drawn groups may be empty, a user's groups have members."""
    if config.groups.members is not None:
        return members.groupBy("group").agg(F.count(F.lit(1)).alias("size"))
    sizes = group_sizes(config)
    table = pa.table({"group": np.arange(1, len(sizes) + 1), "size": sizes})
    return local_frame(members.sparkSession, table)


def senders(members: DataFrame, seed: int) -> DataFrame:
    """Draw one member of each group as its source: ``group, source, source_router``.

    Parameters
    ----------
    members : DataFrame
        ``group, node, router``.
    """
    draw = F.struct(draws.bits(seed, "source", "group", "node"), "node", "router")
    first = members.groupBy("group").agg(F.min(draw).alias("drawn"))
    return first.select(
        "group",
        F.col("drawn.node").alias("source"),
        F.col("drawn.router").alias("source_router"),
    )
