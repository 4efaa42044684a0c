"""Trees of a run in the buckets of the ring, as the programs of its variants begin with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.packing import concatenate
from scribe_spark.runtime.blocks import materialise, union_tables
from scribe_spark.scribe.rules import RemoverRules
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.trees import CHILDREN, Run, RunProgram, Trees
from scribe_spark.scribe.variants.context import VariantContext

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import TreesConfig

__all__ = [
    "Limited",
    "LimitedProgram",
    "add_children",
    "append",
    "begin",
    "grown",
    "limited_rules",
    "run_of",
    "write_children",
]

LIMIT = "limit"  # a kind of messages, and a table of a bucket


@dataclass(frozen=True)
class Limited(RemoverRules):
    """The rules of nodes that have limits of their own.

    Attributes
    ----------
    own : Columns, optional
        ``number, limit`` of the nodes of a bucket.
    """

    own: Columns | None = None

    def limits(self, number: np.ndarray) -> np.ndarray:
        """See `RemoverRules`."""
        if self.own is None:
            return super().limits(number)
        order = np.argsort(self.own["number"])
        return self.own["limit"][order[np.searchsorted(self.own["number"][order], number)]]


def limited_rules(config: TreesConfig) -> Limited:
    """Return the rules as executors know them, without the config's library.

    Nodes' own limits are in their buckets.
    """
    return Limited(config.limit, config.shed_group, config.shed_child, config.shed_table)


def run_of(context: VariantContext) -> Run:
    """Return what the programs of a variant share."""
    listed = context.groups.select("group", "key_hi", "key_lo").toArrow().sort_by("group")
    return Run.of(context.overlay, listed)


def begin(context: VariantContext, more: Iterable[DataFrame]) -> BucketTables:
    """Return the buckets with nodes' own limits, and more messages.

    Parameters
    ----------
    more : iterable of DataFrame
        Messages of superstep 0, packed.
    """
    ring, first = context.overlay.ring, list(more)
    if context.capacities is not None:

        def limit(facts: Facts, batch: pa.RecordBatch) -> Columns:
            return {name: batch.column(name).to_numpy() for name in ("number", "limit")}

        own = context.capacities.withColumn("number", F.col("node"))
        first.append(ring.messages(own, LIMIT, "node", limit))
    return BucketTables(ring.layout, union_tables(first), context.overlay.known)


@dataclass(frozen=True)
class LimitedProgram(RunProgram):
    """A program whose nodes have limits.

    Attributes
    ----------
    rules : Limited
    seed : int
    """

    rules: Limited
    seed: int

    def scribe(self, bucket: int, tables: Tables, inbox: Inbox) -> Scribe:
        """Return the Scribe software of a bucket's nodes, which know their limits."""
        if LIMIT in inbox:
            tables[LIMIT] = {name: inbox[LIMIT][name] for name in ("number", "limit")}
        scribe = self.run.scribe(bucket, tables)
        own = tables.get(LIMIT)
        scribe.rules = replace(scribe.rules, remover=replace(self.rules, own=own))
        scribe.seed = self.seed
        return scribe


def append(tables: Tables, name: str, rows: Columns) -> None:
    """Add rows to a table of a bucket."""
    tables[name] = concatenate([tables[name], rows]) if name in tables else rows


def write_children(scribe: Scribe, tables: Tables) -> None:
    """Write the children tables."""
    tables[CHILDREN] = {"key": scribe.state.children.key}


def add_children(scribe: Scribe, group: np.ndarray, parent: np.ndarray, child: np.ndarray) -> None:
    """Add children to tables; those that are there already stay."""
    key = np.unique(scribe.key(scribe.key(group, parent), child))
    scribe.state.children.insert(
        key[~scribe.state.children.has(key)], number=0, refreshed=0, paid=False
    )


def grown(context: VariantContext, run: Run, tables: BucketTables) -> DataFrame:
    """Return the edges of all trees as they are in the buckets, materialised."""
    return materialise(Trees(context.overlay, tables, run).edges())[0]
