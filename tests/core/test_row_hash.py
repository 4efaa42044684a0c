"""The hash of rows is Spark's."""

import random

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Observation

from scribe_spark.core import draws as row_hash
from scribe_spark.core.draws import hash_rows
from scribe_spark.experiments.digests import watch_content

TEXTS = [
    "",
    "a",
    "system",
    "12345678",
    "1234567890123",
    *("xyzé"[n % 4] * n for n in range(27, 80)),
]


def drawn(seed: int, nulls: float) -> pa.Table:
    rng, n = random.Random(seed), 2000

    def column(kind: pa.DataType, draw) -> pa.Array:
        return pa.array([None if rng.random() < nulls else draw() for _ in range(n)], kind)

    numbers = [0.0, -0.0, float("nan"), 1.5, -2e300]
    return pa.table(
        {
            "long": column(pa.int64(), lambda: rng.randint(-(2**63), 2**63 - 1)),
            "int": column(pa.int32(), lambda: rng.randint(-(2**31), 2**31 - 1)),
            "text": column(pa.string(), lambda: rng.choice(TEXTS)),
            "double": column(pa.float64(), lambda: rng.choice([*numbers, rng.random()])),
            "flag": column(pa.bool_(), lambda: rng.random() < 0.5),
            "bytes": column(pa.binary(), lambda: rng.randbytes(rng.randint(0, 40))),
            "last": column(pa.string(), lambda: rng.choice(TEXTS)),
        }
    )


def test_sums_are_those_that_spark_sees(spark):
    for seed, nulls in ((1, 0.0), (2, 0.2)):
        table, seen = drawn(seed, nulls), Observation()
        watch_content(spark.createDataFrame(table), seen).collect()
        found = hash_rows([column.combine_chunks() for column in table.columns])
        sums = [
            int((half).sum()) for half in (found >> np.uint64(32), found & np.uint64(2**32 - 1))
        ]
        assert [seen.get["high"], seen.get["low"]] == sums


@pytest.mark.parametrize(
    "seed", [np.uint64(7), np.arange(100_000, dtype=np.uint64)], ids=["one", "each"]
)
def test_many_numbers_have_the_hashes_that_they_have_alone(seed):
    value = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    with np.errstate(over="ignore"):
        hashed = row_hash.hash_longs(value, seed)
        for some in (slice(0, 9), slice(2**15 - 2, 2**15 + 2), slice(99_990, None)):
            seeds = seed if seed.ndim == 0 else seed[some]
            assert (hashed[some] == row_hash.hash_longs(value[some], seeds)).all()
