"""Which keys every host has.

References
----------
Costa and Frey, Section 3, Definition 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.u128 import halves_of
from scribe_spark.reference_tree.bucket_searches import places_of
from scribe_spark.reference_tree.bucket_steps import cut_ring, each_bucket
from scribe_spark.reference_tree.buckets import Buckets
from scribe_spark.reference_tree.rings import CHORD
from scribe_spark.reference_tree.rows import KEYSETS
from scribe_spark.reference_tree.tree import ReferenceTree

__all__ = ["keysets"]


def keysets(
    nodes: DataFrame, *, bits: int = 128, assignment: str = CHORD, buckets: int | None = None
) -> DataFrame:
    """The keyset of every host: `rows.KEYSETS`, lazily.

    Parameters
    ----------
    nodes, bits, assignment, buckets
        As of :func:`.places.places`.

    Raises
    ------
    InputError
        As :func:`.places.places`.
    """
    cut, hosts = cut_ring(nodes, ReferenceTree(bits), assignment, buckets)
    return each_bucket(hosts, cut, _keysets, KEYSETS)


def _keysets(
    buckets: Buckets, bucket: int, hi: np.ndarray, lo: np.ndarray, node: np.ndarray
) -> Iterator[pa.RecordBatch]:
    rings = buckets.rings(bucket, hi, lo, node)
    rows = places_of(rings, node)
    columns = [
        half[rows].view(np.int64) for key in (rings.first, rings.last) for half in halves_of(key)
    ]
    yield pa.RecordBatch.from_arrays(
        [pa.array(column) for column in (rings.node[rows], *columns)], KEYSETS.names
    )
