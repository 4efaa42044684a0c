"""Measures of a run by the class and by the region of nodes, see `parts`.

Kernels add these to the rows of any table with a column of nodes, without a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.core.histogram import histogram_of_rows
from scribe_spark.measures.latency import THOUSANDTHS
from scribe_spark.measures.measure import RunTables
from scribe_spark.measures.message_bytes import NODE_BYTES
from scribe_spark.measures.parts import NodeParts, numbers_of_values
from scribe_spark.runtime.batches import Batches, Table, by_text

#: The measures that are split by parts: name -> table, column of nodes, column of values.
SPLIT = {
    "delay_ms": ("deliveries", "node", "delay_ms"),
    "hops": ("deliveries", "node", "hops"),
    "children_tables": ("node_stress", "node", "children_tables"),
    "children_entries": ("node_stress", "node", "children_entries"),
}

#: More such measures, for runs whose publications have a size.
_SPLIT_BYTES = {f"bytes.{name}": ("bytes", "node", name) for name in NODE_BYTES}

_COUNTED = "by string, part string, system string, measure string, value double, count bigint"
_KEYS = ["by", "part", "system", "measure"]


def with_parts(nodes: Table, parts: tuple[NodeParts, ...]) -> Table:
    """Add a column with the class or region to a table of nodes (column `node`)."""
    if not parts:
        return nodes
    table = Batches.of(nodes)
    more = [StructField(one.by, StringType(), True) for one in parts]

    def add(batch: pa.RecordBatch) -> dict[str, Any]:
        columns = {name: batch.column(name) for name in batch.schema.names}
        node = batch.column("node").to_numpy()
        return columns | {one.by: _name_of(one, one.of_nodes(node)) for one in parts}

    return table.each(add, StructType([*table.schema.fields, *more]))


def _name_of(parts: NodeParts, index: np.ndarray) -> pa.Array:
    return pa.array(parts.names).take(pa.array(index))


def count_by_part(run: RunTables, parts: tuple[NodeParts, ...]) -> pd.DataFrame:
    """Count values by part: ``by, part, system, measure, value, count``."""
    counted = []
    split = SPLIT | (_SPLIT_BYTES if "bytes" in run else {})
    for measure, (name, node, value) in split.items():
        rows = run.batches(name, ["system", node, value])
        counted += [rows.then(_count(one, measure, node, value), _COUNTED) for one in parts]
    return Batches.union(counted).frame.toArrow().to_pandas()


def measures_by_part(counted: pd.DataFrame) -> pa.Table:
    """Return statistics of :data:`SPLIT` by system and part, from :func:`count_by_part`."""
    found = [
        dict(zip(_KEYS, key, strict=True)) | numbers_of_values(histogram_of_rows(rows))
        for key, rows in counted.groupby(_KEYS, sort=True)
    ]
    return schemas.arrow_table(pd.DataFrame(found, columns=schemas.BY_PART.names), schemas.BY_PART)


def latencies_by_part(counted: pd.DataFrame) -> pa.Table:
    """Count deliveries to each part by latency in whole ms, from :func:`count_by_part`."""
    delays = counted[counted["measure"] == "delay_ms"]
    # round to thousandths first: a sum of floats may give 5.000000001 ms instead of 5 ms
    whole = np.ceil(np.rint(delays["value"] * THOUSANDTHS) / THOUSANDTHS)
    keys = ["by", "part", "system", "value"]
    added = delays.assign(value=whole).groupby(keys, as_index=False, sort=True)["count"].sum()
    return schemas.arrow_table(added[schemas.PART_LATENCIES.names], schemas.PART_LATENCIES)


def _count(parts: NodeParts, measure: str, node: str, value: str) -> Any:
    """Return the kernel that counts each value of a measure in each part."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            rows = pd.DataFrame(
                {
                    "part": parts.of_nodes(batch.column(node).to_numpy()),
                    "value": batch.column(value).to_numpy().astype(np.float64),
                }
            )
            found = rows.value_counts(sort=False)
            part = found.index.get_level_values("part").to_numpy()
            texts = [pa.repeat(pa.scalar(text), len(found)) for text in (system, measure)]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.repeat(pa.scalar(parts.by), len(found)),
                    _name_of(parts, part),
                    *texts,
                    pa.array(found.index.get_level_values("value").to_numpy()),
                    pa.array(found.to_numpy()),
                ],
                names=[*_KEYS, "value", "count"],
            )

    return run
