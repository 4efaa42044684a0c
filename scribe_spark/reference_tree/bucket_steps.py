"""The searches of all hosts as a program of the engine: they move between buckets of the ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables, Layout
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT
from scribe_spark.engine.views import Names, read_view
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import (
    Found,
    answer_searches,
    arrived,
    first_answers,
)
from scribe_spark.reference_tree.hash_table import HashTable, table_of_hosts
from scribe_spark.reference_tree.packing import keysets_of_columns, to_keysets
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.sessions import describe_jobs, parallelism

_KEYSETS = "keysets"  # the name of a bucket's table


@dataclass(frozen=True)
class Search:
    """A program: all hosts search for their parents and children."""

    hosts: HashTable
    name_lookups: bool = False

    @property
    def bounds(self) -> np.ndarray:
        return self.hosts.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Start the searches of a bucket's hosts, and answer searches from other buckets."""
        hosts, found = self.hosts, list[Found]()
        own = np.arange(*self.bounds[bucket : bucket + 2])
        if not superstep and len(own):
            rings = hosts.rings(bucket)
            tables[_KEYSETS] = to_keysets(rings)
            found += first_answers(hosts, rings, own, self.name_lookups)
        climbs, branches = arrived(inbox, hosts.tree.bits)
        if climbs is not None or branches is not None:
            rings = keysets_of_columns(tables[_KEYSETS], hosts.range(bucket), hosts.tree.bits)
            found += answer_searches(hosts, rings, climbs, branches, self.name_lookups)
        by_name: dict[str, list[Columns]] = {}
        for name, columns in found:
            by_name.setdefault(name, []).append(columns)
        whole = {name: concatenate(parts) for name, parts in by_name.items()}
        for name, columns in whole.items():
            if AT not in columns:  # one table per superstep: no table is written twice
                tables[f"{name} {superstep}"] = columns
        return {name: columns for name, columns in whole.items() if AT in columns}


@dataclass(frozen=True)
class Searched:
    """The results of all searches; free them with ``release``."""

    _facts: Facts
    _tables: BucketTables
    _supersteps: int

    def rows(self, schema: StructType, *names: str) -> DataFrame:
        """Return the rows of result tables by name; columns that a table does not have are NULL."""

        def with_all_columns(columns: Columns) -> dict[str, Any]:
            return {**dict.fromkeys(schema.names, pa.nulls(len(columns["node"]))), **columns}

        each = [f"{name} {number}" for name in names for number in range(self._supersteps)]
        hosts = Names(self._facts, None, whole_numbers())
        return read_view(self._tables.rows(*each), hosts, schema, with_all_columns).frame

    def release(self) -> None:
        """Free memory and files."""
        self._tables.release()
        self._tables.layout.release()
        self._facts.release()


def search(
    nodes: DataFrame,
    tree: ReferenceTree,
    assignment: str,
    buckets: int | None = None,
    name_lookups: bool = False,
    progress: Progress | None = None,
) -> Searched:
    """Play the searches of all hosts.

    The number of supersteps is the largest number of buckets that a search visits.
    """
    spark = nodes.sparkSession
    with describe_jobs(spark, "reference tree: hosts"):
        facts, hosts = table_of_hosts(nodes, tree, assignment, buckets)
    count = len(hosts.bounds) - 1
    ring = BucketRing(facts, hosts.bounds, Layout(spark, count, 4 * parallelism(spark)))
    tables = BucketTables(ring.layout, ring.starts())
    counts = tables.play(Search(hosts, name_lookups), "reference tree", progress)
    return Searched(facts, tables, len(counts))
