"""Searches of all hosts as a program of the engine: they go from bucket to bucket of the ring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import typed
from scribe_spark.engine.on_spark import ROWS, BucketTables, Layout, pack_rows
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT, deliver
from scribe_spark.errors import InputError
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import (
    answer_searches,
    arrived,
    first_answers,
)
from scribe_spark.reference_tree.buckets import Buckets, bucket_bits, find_ends, in_buckets
from scribe_spark.reference_tree.packing import keysets_of_columns, to_keysets
from scribe_spark.reference_tree.rings import Rings, check_assignment
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.sessions import parallelism

HOSTS = "hosts"  # a kind of messages: ``node, id_hi, id_lo`` of a bucket's hosts
_KEYSETS = "keysets"  # a table of a bucket


def cut_ring(
    nodes: DataFrame, tree: ReferenceTree, assignment: str, buckets: int | None
) -> tuple[Buckets, DataFrame]:
    """The ring cut into buckets, and its hosts by bucket; ids are checked.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``.
    buckets : int, optional
        How many buckets, about.

    Raises
    ------
    InputError
        An unknown assignment, no hosts, more hosts than keys, ids that are equal or too large.
    """
    check_assignment(assignment)
    count = nodes.count()
    if not count:
        raise InputError("nodes", count, "a tree has at least one host")
    if count > 2**tree.bits:
        raise InputError("nodes", count, f"keys of {tree.bits} bits are {2**tree.bits}")
    bits = bucket_bits(tree, count, buckets)
    hosts = in_buckets(nodes, tree, bits)
    return Buckets(tree, assignment, bits, find_ends(hosts, tree)), hosts


@dataclass(frozen=True)
class Search:
    """Hosts look keys up, each as long as the keys are in the bucket where its search is.

    A message goes to a bucket, so that buckets are their own positions.
    """

    cut: Buckets

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return np.arange(2**self.cut.bits + 1)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Begin the searches of a bucket's hosts; answer those that have come."""
        found = []
        if HOSTS in inbox:
            hosts = inbox[HOSTS]
            hi, lo = (hosts[name].view(np.uint64) for name in ("id_hi", "id_lo"))
            rings = self.cut.rings(bucket, hi, lo, hosts["node"])
            tables[_KEYSETS] = to_keysets(rings)
            found += list(first_answers(self.cut, rings, hosts["node"]))
        climbs, branches = arrived(inbox, self.cut.tree.bits)
        if climbs is not None or branches is not None:
            rings = self._keysets(bucket, tables)
            found += list(answer_searches(self.cut, rings, climbs, branches))
        by_name: dict[str, list[Columns]] = {}
        for name, columns in found:
            by_name.setdefault(name, []).append(columns)
        whole = {name: concatenate(parts) for name, parts in by_name.items()}
        for name, columns in whole.items():
            if AT not in columns:  # a table for each superstep: nothing is written twice
                tables[f"{name} {superstep}"] = columns
        return {name: columns for name, columns in whole.items() if AT in columns}

    def _keysets(self, bucket: int, tables: Tables) -> Rings:
        """Return the keysets that have keys of a bucket."""
        if _KEYSETS in tables:
            bits = self.cut.tree.bits
            return keysets_of_columns(tables[_KEYSETS], self.cut.range(bucket), bits)
        # a bucket without hosts: its keys are those of hosts before and after it
        nobody = np.zeros(0, dtype=np.int64)
        return self.cut.rings(bucket, nobody.view(np.uint64), nobody.view(np.uint64), nobody)


@dataclass(frozen=True)
class Searched:
    """The results of all searches; to be freed by its ``release``."""

    _tables: BucketTables
    _supersteps: int

    def rows(self, schema: StructType, *names: str) -> DataFrame:
        """Return what was found by the names of `bucket_searches`; what a row has not is NULL."""
        wanted = to_arrow_schema(schema)

        def typed_rows(bucket: int, table: dict[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
            count, arrays = len(table["node"]), []
            for field in wanted:
                if field.name not in table:
                    arrays.append(pa.nulls(count, field.type))
                    continue
                column = table[field.name]
                mask = column == NONE if field.name == "parent" else None
                arrays.append(pa.array(column, mask=mask).cast(field.type))
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

        each = [f"{name} {number}" for name in names for number in range(self._supersteps)]
        return typed(self._tables.rows(*each), typed_rows, schema)

    def release(self) -> None:
        """Free memory and files."""
        self._tables.release()
        self._tables.layout.release()


def search(cut: Buckets, hosts: DataFrame, progress: Progress | None = None) -> Searched:
    """Play the searches of all hosts, a superstep for each time that they change the bucket.

    Parameters
    ----------
    hosts : DataFrame
        Of :func:`cut_ring`.
    """
    program, spark = Search(cut), hosts.sparkSession
    bounds = program.bounds

    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {name: batch.column(name).to_numpy() for name in ("node", "id_hi", "id_lo")}
            at = batch.column("bucket").to_numpy().astype(np.int64)
            for to, name, packed in deliver(bounds, {HOSTS: {AT: at, **columns}}):
                yield from pack_rows(to, 0, False, name, packed)

    partitions = min(2**cut.bits, 4 * parallelism(spark))
    layout = Layout(spark, 2**cut.bits, partitions)
    tables = BucketTables(layout, hosts.mapInArrow(send, ROWS))
    counts = tables.play(program, "reference tree", progress)
    return Searched(tables, len(counts))
