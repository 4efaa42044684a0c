"""The paper's experiment as a Spark job, with one task for each size and block of repetitions.

References
----------
Costa and Frey, Section 4: 256 keys, 10 to 120 hosts, a connection and then a disconnection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType

from scribe_spark.errors import InputError
from scribe_spark.reference_tree.repetitions import repeat_events
from scribe_spark.reference_tree.rings import CHORD, check_assignment
from scribe_spark.reference_tree.rows import schema
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.schemas import local_table

#: The number of times that a measure had a value, over all events of a kind at a size.  `degree`
#: and `depth` count every host after every event.
MEASURED = schema(
    hosts=IntegerType(),
    event=StringType(),
    measure=StringType(),
    value=LongType(),
    count=LongType(),
)

_TASK = schema(hosts=IntegerType(), first=LongType(), rings=LongType())

#: The approximate number of hosts on all rings of a task; their columns fit into the processor's
#: cache.
_HOSTS_AT_ONCE = 2**14


@dataclass(frozen=True)
class Experiment:
    """An experiment that is repeated on independent rings.

    Attributes
    ----------
    sizes : tuple of int
        The numbers of hosts before a connection.
    events : int
        The number of connections at each size; there are as many disconnections.
    pairs : int
        The number of connections on one ring; there are ``events / pairs`` rings, rounded up.
    bits, children : int
        Parameters of the reference tree.  A key has at most ``children + 1`` neighbours (the
        paper's node degree).
    assignment : str
        ``chord`` or ``pastry``.
    seed : int

    Raises
    ------
    InputError
        A size is not less than the number of keys, or another value is out of range.
    """

    sizes: tuple[int, ...] = tuple(range(10, 130, 10))
    events: int = 2000
    pairs: int = 8
    bits: int = 8
    children: int = 2
    assignment: str = CHORD
    seed: int = 1

    def __post_init__(self) -> None:
        ReferenceTree(self.bits, self.children)
        check_assignment(self.assignment)
        for field in ("events", "pairs"):
            if getattr(self, field) < 1:
                raise InputError(field, getattr(self, field), "must be at least 1")
        for size in self.sizes:
            if not 1 <= size < 2**self.bits:
                remedy = f"must be from 1 to {2**self.bits - 1}, less than the number of keys"
                raise InputError("sizes", size, remedy)

    @property
    def rings(self) -> int:
        """Return the number of independent repetitions of each size."""
        return -(-self.events // self.pairs)


def event_measures(spark: SparkSession, experiment: Experiment) -> DataFrame:
    """Return :data:`MEASURED`, lazily: see :func:`.repetitions.repeat_events`.

    The tasks are blocks of repetitions, the largest networks first.  Random draws depend only on
    the size and the number of the repetition, so that the blocks do not affect the results.
    """
    tree = ReferenceTree(experiment.bits, experiment.children)
    blocks = []
    for size in sorted(experiment.sizes, reverse=True):
        step = max(1, _HOSTS_AT_ONCE // (size + 1))
        for first in range(0, experiment.rings, step):
            blocks.append((size, first, min(step, experiment.rings - first)))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        for block in [] if rows is None else rows.to_pylist():
            yield _measured(tree, experiment, **block)

    tasks = local_table(spark, blocks, _TASK).repartitionByRange(
        min(len(blocks), 16 * parallelism(spark)), F.desc("hosts"), "first"
    )
    found = tasks.mapInArrow(run, MEASURED)
    keys = ["hosts", "event", "measure", "value"]
    return found.groupBy(keys).agg(F.sum("count").alias("count")).select(MEASURED.names)


def _measured(
    tree: ReferenceTree, experiment: Experiment, hosts: int, first: int, rings: int
) -> pa.RecordBatch:
    numbers = np.arange(first, first + rings)
    found = repeat_events(
        tree, experiment.assignment, hosts, experiment.pairs, numbers, experiment.seed
    )
    rows = [(hosts, *key, count) for key, count in found.items()]
    names = MEASURED.names
    types = [pa.int32(), pa.string(), pa.string(), pa.int64(), pa.int64()]
    columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names)
