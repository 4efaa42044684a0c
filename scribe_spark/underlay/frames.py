"""Bulk questions to an underlay as steps over DataFrames; a kernel answers a batch of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from scribe_spark.underlay.protocol import Underlay

__all__ = ["add_delay", "add_path_delay"]


def add_delay(frame: DataFrame, underlay: Underlay, a: str, b: str, into: str) -> DataFrame:
    """See :meth:`Underlay.delay`."""
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            present = batch.column(a).is_valid().to_numpy(zero_copy_only=False)
            present &= batch.column(b).is_valid().to_numpy(zero_copy_only=False)
            source = kernel.index(batch.column(a).fill_null(0).to_numpy())
            target = kernel.index(batch.column(b).fill_null(0).to_numpy())
            delay_us = np.zeros(len(present), dtype=np.int64)
            delay_us[present] = kernel.delays(source[present], target[present]) + 2 * lan_us
            yield batch.append_column(into, pa.array(delay_us))

    schema = StructType([*frame.schema.fields, StructField(into, LongType(), True)])
    return frame.mapInArrow(add, schema)


def add_path_delay(frame: DataFrame, underlay: Underlay, path: str) -> DataFrame:
    """See :meth:`Underlay.path_delay`."""
    kernel, lan_us = underlay.kernel, underlay.lan_us

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            column = batch.schema.get_field_index(path)
            paths = batch.column(column)
            router = kernel.index(paths.flatten().to_numpy())
            ends = np.cumsum(paths.value_lengths().to_numpy())
            starts = np.r_[0, ends][:-1]
            # hop_us[i]: delay of the hop from router[i - 1] to router[i]
            hop_us = np.zeros(len(router) + 1, dtype=np.int64)
            hop_us[1:-1] = kernel.delays(router[:-1], router[1:]) + 2 * lan_us
            hop_us[starts] = 0  # no hop leads from one row's last router to the next row's first
            sums = np.cumsum(hop_us)
            hops = ends - starts - 1
            direct_us = kernel.delays(router[starts], router[ends - 1]) + 2 * lan_us
            out = batch.remove_column(column)
            out = out.append_column("hops", pa.array(hops.astype(np.int32)))
            out = out.append_column("delay_us", pa.array(sums[ends - 1] - sums[starts]))
            yield out.append_column("direct_us", pa.array(np.where(hops > 0, direct_us, 0)))

    rest = [field for field in frame.schema.fields if field.name != path]
    added = [StructField("hops", IntegerType()), StructField("delay_us", LongType())]
    schema = StructType([*rest, *added, StructField("direct_us", LongType())])
    return frame.mapInArrow(add, schema)
