"""The ring cut into buckets of keys, so that no task needs all hosts.

A bucket has the hosts whose ids begin with the same bits.  Of the others it needs the two before
and the two after it: who owns its first and its last keys, and what these hosts' keysets are.

References
----------
Costa and Frey, Section 3: the hash table that every host can ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import run_starts
from scribe_spark.core.u128 import Numbers, Wide, from_halves, halves
from scribe_spark.errors import InputError
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.runtime.sessions import parallelism

#: Hosts of a bucket, about, and buckets at the most.
_HOSTS, _MOST_BITS = 2**15, 12
#: Hosts of each end of a bucket that others need: a keyset's ends are made of two ids each.
_EACH_END = 2

_ENDS = "node bigint, id_hi bigint, id_lo bigint, wrong boolean, again boolean"


def bucket_bits(tree: ReferenceTree, hosts: int, buckets: int | None) -> int:
    """Return how many first bits of an id say which bucket it is in."""
    wanted = hosts // _HOSTS if buckets is None else buckets - 1
    return min(max(wanted, 0).bit_length(), _MOST_BITS, tree.bits)


def bucket_column(tree: ReferenceTree, bits: int, name: str) -> Column:
    """The bucket (INT) of ``NAME_hi, NAME_lo``: its first `bits` of the tree's bits."""
    hi, lo = halves(name)
    if bits == 0:
        return F.lit(0).cast("int")
    high = tree.bits - 64
    if high >= bits:
        return F.call_function("shiftrightunsigned", hi, F.lit(high - bits)).cast("int")
    from_low = bits - max(high, 0)
    width = 64 if high > 0 else tree.bits
    low = F.call_function("shiftrightunsigned", lo, F.lit(width - from_low))
    if high > 0:
        low = F.call_function("shiftleft", hi, F.lit(from_low)).bitwiseOR(low)
    # (ids that are too large are refused; until then they are in some bucket)
    return F.pmod(low, F.lit(2**bits).cast("bigint")).cast("int")


def bucket_of_key(tree: ReferenceTree, bits: int, key: Numbers) -> np.ndarray:
    """Return the bucket of each key: int64."""
    if bits == 0:
        return np.zeros(len(key), dtype=np.int64)
    shift = tree.bits - bits
    if isinstance(key, Wide):
        return (key >> shift).lo.astype(np.int64)
    return (key >> np.uint64(shift)).astype(np.int64)


def in_buckets(nodes: DataFrame, tree: ReferenceTree, bits: int) -> DataFrame:
    """``bucket, node, id_hi, id_lo``, partitioned by bucket."""
    rows = nodes.select(bucket_column(tree, bits, "id").alias("bucket"), "node", "id_hi", "id_lo")
    tasks = min(2**bits, max(64, 4 * parallelism(nodes.sparkSession)))
    return rows.repartitionById(tasks, F.pmod("bucket", F.lit(tasks)).cast("int"))


@dataclass(frozen=True)
class Ends:
    """The first and last hosts of all buckets, in the order of ids.

    Attributes
    ----------
    hi, lo : ndarray of uint64
    node : ndarray of int64
    """

    hi: np.ndarray
    lo: np.ndarray
    node: np.ndarray


@dataclass(frozen=True)
class Buckets:
    """The ring, cut into buckets: makes the keysets of a bucket's hosts.

    Attributes
    ----------
    tree : ReferenceTree
    assignment : str
    bits : int
        First bits of a key that say which bucket it is in.
    ends : Ends
    name_lookups : bool
        Whether searches tell what they ask for.
    """

    tree: ReferenceTree
    assignment: str
    bits: int
    ends: Ends
    name_lookups: bool = False

    def range(self, bucket: int) -> tuple[Numbers, Numbers]:
        """The first and the last key of a bucket."""
        size = 2 ** (self.tree.bits - self.bits)
        return self.tree.number(bucket * size), self.tree.number((bucket + 1) * size - 1)

    def at(self, key: Numbers) -> np.ndarray:
        """Return the bucket that a message about each key goes to: int64."""
        return bucket_of_key(self.tree, self.bits, key)

    def rings(self, bucket: int, hi: np.ndarray, lo: np.ndarray, node: np.ndarray) -> Rings:
        """The keysets that have keys of a bucket, given its hosts (halves uint64) in any order."""
        # 1. the hosts, with those before and after
        others = ~np.isin(self.ends.node, node)
        all_hi, all_lo = (
            np.concatenate([own, end[others]])
            for own, end in ((hi, self.ends.hi), (lo, self.ends.lo))
        )
        numbers = np.concatenate([node, self.ends.node[others]])
        ids = from_halves(all_hi, all_lo, self.tree.bits)
        full = Rings.of(
            self.tree, self.assignment, ids, np.zeros(len(node) + others.sum(), int), numbers, 1
        )
        # 2. those whose keysets meet the bucket
        return full.within(*self.range(bucket))


def find_ends(hosts: DataFrame, tree: ReferenceTree) -> Ends:
    """The ends of all buckets; ids are checked on the way.

    Parameters
    ----------
    hosts : DataFrame
        Of :func:`in_buckets`.

    Raises
    ------
    InputError
        An id has too many bits, or two hosts have the same.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            yield _ends_of_partition(rows, tree.bits)

    found = hosts.mapInArrow(run, _ENDS).toArrow()
    hi, lo = (found.column(name).to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
    node = found.column("node").to_numpy()
    for problem, remedy in (
        ("wrong", f"is not below 2**{tree.bits}, the number of keys"),
        ("again", "is the id of two hosts; ids are unique"),
    ):
        at = np.flatnonzero(found.column(problem).to_numpy(zero_copy_only=False))
        if len(at):
            first = min(int(hi[row]) << 64 | int(lo[row]) for row in at)
            raise InputError("id", first, remedy)
    order = np.lexsort((lo, hi))
    return Ends(hi[order], lo[order], node[order])


def _ends_of_partition(rows: pa.Table, bits: int) -> pa.RecordBatch:
    """The first and last hosts of each bucket, and one host of each kind of wrong id."""
    hi, lo = (rows.column(name).to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
    bucket, node = (rows.column(name).to_numpy() for name in ("bucket", "node"))
    order = np.lexsort((lo, hi, bucket))
    hi, lo, bucket, node = hi[order], lo[order], bucket[order], node[order]
    place = np.arange(len(node))
    # places from the beginning and from the end of each bucket
    starts = run_starts(bucket)
    stops = np.append(starts[1:], len(node))
    sizes = stops - starts
    chosen = (place - np.repeat(starts, sizes) < _EACH_END) | (
        np.repeat(stops, sizes) - place <= _EACH_END
    )
    high = (
        hi >> np.uint64(bits - 64) if 64 < bits < 128 else hi if bits <= 64 else np.zeros_like(hi)
    )
    low = lo >> np.uint64(bits) if bits < 64 else np.zeros_like(lo)
    wrong = (high != 0) | (low != 0)
    again = np.append(False, (hi[1:] == hi[:-1]) & (lo[1:] == lo[:-1]))
    rows_out = np.flatnonzero(chosen | wrong | again)
    columns = {
        "node": node[rows_out],
        "id_hi": hi[rows_out].view(np.int64),
        "id_lo": lo[rows_out].view(np.int64),
        "wrong": wrong[rows_out],
        "again": again[rows_out],
    }
    return pa.RecordBatch.from_pydict({name: pa.array(c) for name, c in columns.items()})
