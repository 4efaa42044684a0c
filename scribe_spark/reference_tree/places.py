"""Places of all hosts in the reference tree: topmost keys, parents, and what finding them takes.

References
----------
Costa and Frey, Sections 3.3 and 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
    PLACE,
    answer_letters,
    first_answers,
)
from scribe_spark.reference_tree.buckets import Buckets, bucket_bits, find_ends, in_buckets
from scribe_spark.reference_tree.packing import unpack, unpack_rings
from scribe_spark.reference_tree.rings import check_assignment
from scribe_spark.reference_tree.rows import COUNTS, PLACES, SEARCH_ROWS
from scribe_spark.reference_tree.search import Branches, Climbs
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import describe_jobs, materialise, read_partition, release
from scribe_spark.superstep import Round, Step, Table

__all__ = ["places"]

_ARROW = to_arrow_schema(SEARCH_ROWS)


def places(
    nodes: DataFrame,
    *,
    bits: int = 128,
    children: int = 2,
    assignment: str = "chord",
    buckets: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """The place of every host in the reference tree, found by look-ups of keys.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``: hosts, and their ids below 2**bits.
    bits : int
        Bits m of a key, 4 to 128.
    children : int
        The most children c of a key, from 2.
    assignment : str
        Which keys a host has: ``chord`` or ``pastry``.
    buckets : int, optional
        Into how many buckets of keys the ring is cut, about; places do not depend on it.
    progress : Progress, optional

    Returns
    -------
    DataFrame
        :data:`PLACES`, materialised; to be freed with
        :func:`scribe_spark.runtime.blocks.release`.

    Raises
    ------
    InputError
        A parameter out of range, no hosts, more hosts than keys, ids that are equal or too large.
    """
    tree = ReferenceTree(bits, children)
    check_assignment(assignment)
    count = nodes.count()
    if not count:
        raise InputError("nodes", count, "a tree has at least one host")
    if count > 2**bits:
        raise InputError("nodes", count, f"keys of {bits} bits are {2**bits}; give more bits")
    first_bits = bucket_bits(tree, count, buckets)
    hosts = in_buckets(nodes, tree, first_bits)
    context = nodes.sparkSession.sparkContext
    with describe_jobs(context, "reference tree: keysets"):
        cut = Buckets(tree, assignment, first_bits, find_ends(hosts, tree))
        # 1. keysets, and the searches as far as they go in the bucket of their topmost key
        found, _ = materialise(_first(hosts, cut))
    what = F.col("what")
    keysets = found.where(what == KEYSETS).select("bucket", F.col("data").alias("keysets"))
    letters = found.where(_is_letter())
    # 2. they go on in other buckets, a superstep for each time that the bucket changes
    finished = superstep.run(
        "reference tree",
        letters,
        _Answers(cut, keysets),
        counts={"letters": _is_letter()},
        progress=progress,
    )
    # 3. hosts whose searches went to other buckets put their parts together
    first = found.where(what == PLACE)
    late = finished.outcomes()
    complete = first.where("ended").select(PLACES.names)
    if late is not None:
        pieces = first.where("NOT ended").select(PLACES.names)
        pieces = pieces.unionByName(late.select(PLACES.names))
        complete = complete.unionByName(_put_together(pieces))
    with describe_jobs(context, "reference tree: places"):
        result, _ = materialise(complete)
    finished.release()
    release(found)
    return result


def _is_letter() -> Column:
    return F.col("what").isin(PARENTS, CHILDREN)


def _first(hosts: DataFrame, buckets: Buckets) -> DataFrame:
    """:data:`SEARCH_ROWS` of all buckets that have hosts."""

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


class _Answers:
    """The step of the loop: letters meet the keysets of their buckets."""

    def __init__(self, buckets: Buckets, keysets: DataFrame) -> None:
        self._buckets = buckets
        self._keysets = keysets

    def __call__(self, state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
        answers = inbox.where(~_is_letter())
        if not round.counts["letters"]:
            return Step(outcomes=answers)
        letters = inbox.where(_is_letter()).select("what", "bucket", "data")
        both = letters.groupBy("bucket").cogroup(self._keysets.groupBy("bucket"))
        return Step(both.applyInArrow(_answer(self._buckets), SEARCH_ROWS), outcomes=answers)


def _answer(buckets: Buckets):
    """The kernel of a superstep: the letters to a bucket, and its keysets."""
    bits, none = buckets.tree.bits, np.zeros(0, dtype=np.int64)

    def run(letters: pa.Table, keysets: pa.Table) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        if letters.num_rows:
            bucket = letters.column("bucket")[0].as_py()
            if keysets.num_rows:
                data = keysets.column("keysets")[0].as_py()
                rings = unpack_rings(data, buckets.range(bucket), bits)
            else:  # a bucket without hosts: its keys are the next one's
                rings = buckets.rings(bucket, none.view(np.uint64), none.view(np.uint64), none)
            climbs, branches = [], []
            pairs = zip(letters.column("what").to_pylist(), letters.column("data"), strict=True)
            for what, data in pairs:
                if what == PARENTS:
                    climbs.append(unpack(Climbs, data.as_py(), bits))
                else:
                    branches.append(unpack(Branches, data.as_py(), bits))
            batches.extend(answer_letters(buckets, rings, climbs, branches))
        return pa.Table.from_batches(batches, schema=_ARROW)

    return run


def _put_together(pieces: DataFrame) -> DataFrame:
    """One row of `PLACES` for each host; of columns that are no counts one piece has a value."""
    one = [F.max(n).alias(n) for n in PLACES.names if n not in ("node", *COUNTS)]
    sums = [F.sum(name).alias(name) for name in COUNTS]
    return pieces.groupBy("node").agg(*one, *sums).select(PLACES.names)
