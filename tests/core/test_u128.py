"""Ring arithmetic against Python's integers: drawn pairs, all in one DataFrame."""

from __future__ import annotations

import hashlib
from random import Random

import numpy as np
import pytest
from identifiers import halves, parts
from oracle.pastry import RING, digits, shared_prefix
from pyspark.sql import functions as F

from scribe_spark.core import u128

BS = (1, 2, 4, 8)
EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**127 - 1, 2**127, RING - 1]


def pairs(count: int) -> list[tuple[int, int]]:
    """Draw pairs of ids: any, equal, near one another, or with a long common prefix."""
    rng = Random(1)

    def any_id() -> int:
        return rng.choice([rng.randrange(RING), rng.choice(EDGES), 1 << rng.randrange(128)])

    def beside(a: int) -> int:
        low = rng.randrange(128)
        kin = a ^ (1 << low | any_id() % (1 << low))
        return rng.choice([any_id(), (a + rng.randint(-3, 3)) % RING, kin])

    return [(a, beside(a)) for a in (any_id() for _ in range(count))]


PAIRS = [*((a, b) for a in EDGES for b in EDGES), *pairs(500)]
A, B = ([pair[side] for pair in PAIRS] for side in (0, 1))


def test_halves_of_digests(spark):
    texts = [f"group-{n}" for n in range(300)]
    digests = [hashlib.sha1(text.encode()).hexdigest() for text in texts]
    digests += ["f" * 40, "0" * 40, "7" + "f" * 39, "8" + "0" * 39, "0" * 16 + "8" + "0" * 23]
    rows = spark.createDataFrame(list(enumerate(digests)), "n int, hex string")
    columns = [u128.half_of_digest(F.col("hex"), half) for half in (0, 1)]
    found = rows.select("n", *columns).orderBy("n").collect()
    assert [tuple(row)[1:] for row in found] == [halves(int(d[:32], 16)) for d in digests]


# --- numpy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("b", BS)
def test_digits_in_numpy(b):
    hi, lo = parts(A)
    expected = np.array([digits(a, b) for a in A])
    for position in range(128 // b):
        assert np.array_equal(u128.digit_np(hi, lo, position, b), expected[:, position])
    position = np.arange(len(A)) % (128 // b)
    found = u128.digit_at_np(hi, lo, position, b)
    assert np.array_equal(found, expected[np.arange(len(A)), position])


@pytest.mark.parametrize("b", BS)
def test_shared_prefix_in_numpy(b):
    found = u128.shared_digits_np(*parts(A), *parts(B), b)
    assert found.tolist() == [shared_prefix(a, c, b) for a, c in PAIRS]


def test_less_than_in_numpy():
    assert u128.lt_np(*parts(A), *parts(B)).tolist() == [a < b for a, b in PAIRS]
