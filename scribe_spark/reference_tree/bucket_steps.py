"""The supersteps of searches: letters meet the keysets of the buckets that they are sent to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import superstep
from scribe_spark.errors import InputError
from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import (
    CHILDREN,
    KEYSETS,
    PARENTS,
    answer_letters,
    first_answers,
)
from scribe_spark.reference_tree.buckets import Buckets, bucket_bits, find_ends, in_buckets
from scribe_spark.reference_tree.packing import unpack, unpack_rings
from scribe_spark.reference_tree.rings import Rings, check_assignment
from scribe_spark.reference_tree.rows import SEARCH_ROWS
from scribe_spark.reference_tree.searches import Branches, Climbs
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.superstep import Finished, Round, Step, Table

__all__ = ["cut_ring", "each_bucket", "is_letter", "keysets_of", "search"]

_ARROW = to_arrow_schema(SEARCH_ROWS)


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


def each_bucket(hosts: DataFrame, buckets: Buckets) -> DataFrame:
    """Return the first answers of each bucket that has hosts: :data:`SEARCH_ROWS`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        bucket, node = (rows.column(name).to_numpy() for name in ("bucket", "node"))
        hi, lo = (rows.column(name).to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
        for one in np.unique(bucket):
            here = bucket == one
            yield from first_answers(buckets, int(one), hi[here], lo[here], node[here])

    return hosts.mapInArrow(run, SEARCH_ROWS)


def keysets_of(found: DataFrame) -> DataFrame:
    """``bucket, keysets`` among rows that :func:`each_bucket` made."""
    return found.where(F.col("what") == KEYSETS).select("bucket", F.col("data").alias("keysets"))


def is_letter() -> Column:
    """Whether a row is for a bucket that answers it."""
    return F.col("what").isin(PARENTS, CHILDREN)


def search(
    buckets: Buckets, keysets: DataFrame, letters: DataFrame, progress: Progress | None = None
) -> Finished:
    """Searches until all have ended, a superstep for each time that they change the bucket.

    Parameters
    ----------
    keysets : DataFrame
        Of :func:`keysets_of`.
    letters : DataFrame
        :data:`SEARCH_ROWS`: searches on their way.

    Returns
    -------
    Finished
        Its outcomes are what was found: :data:`SEARCH_ROWS`.
    """

    def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
        answers = inbox.where(~is_letter())
        if not round.counts["letters"]:
            return Step(outcomes=answers)
        sent = inbox.where(is_letter()).select("what", "bucket", "data")
        both = sent.groupBy("bucket").cogroup(keysets.groupBy("bucket"))
        return Step(both.applyInArrow(_answer(buckets), SEARCH_ROWS), outcomes=answers)

    counts = {"letters": is_letter()}
    return superstep.run("reference tree", letters, step, counts=counts, progress=progress)


def _answer(buckets: Buckets) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The kernel of a superstep: the letters to a bucket, and its keysets."""

    def run(letters: pa.Table, keysets: pa.Table) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        if letters.num_rows:
            rings = _bucket_rings(buckets, letters.column("bucket")[0].as_py(), keysets)
            what = letters.column("what").to_numpy()
            data = letters.column("data")
            bits = buckets.tree.bits
            up, down = (data.filter(pa.array(what == code)) for code in (PARENTS, CHILDREN))
            climbs = [unpack(Climbs, letter.as_py(), bits) for letter in up]
            branches = [unpack(Branches, letter.as_py(), bits) for letter in down]
            batches.extend(answer_letters(buckets, rings, climbs, branches))
        return pa.Table.from_batches(batches, schema=_ARROW)

    return run


def _bucket_rings(buckets: Buckets, bucket: int, keysets: pa.Table) -> Rings:
    """The keysets of a bucket, from its row of :func:`keysets_of`, if there is one."""
    if keysets.num_rows:
        data = keysets.column("keysets")[0].as_py()
        return unpack_rings(data, buckets.range(bucket), buckets.tree.bits)
    # a bucket without hosts: its keys are those of hosts before and after it
    nobody = np.zeros(0, dtype=np.int64)
    return buckets.rings(bucket, nobody.view(np.uint64), nobody.view(np.uint64), nobody)
