"""Bulk queries of an underlay as steps over DataFrames; a kernel answers a batch of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark.underlay.protocol import Underlay


def add_delay(frame: DataFrame, underlay: Underlay, a: str, b: str, into: str) -> DataFrame:
    """Add a column with delays, as :meth:`Underlay.delay` does."""
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
