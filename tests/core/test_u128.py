"""Ring arithmetic against Python's integers: drawn pairs, all in one DataFrame."""

from __future__ import annotations

import hashlib
from random import Random

import numpy as np
import pytest
from identifiers import halves, parts
from oracle.pastry import RING, digits, shared_prefix
from pyspark.sql import Column
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


@pytest.fixture(scope="module")
def frame(spark):
    """n, and both ids of pair n."""
    rows = [(n, *halves(a), *halves(b)) for n, (a, b) in enumerate(PAIRS)]
    schema = "n int, a_hi bigint, a_lo bigint, b_hi bigint, b_lo bigint"
    return spark.createDataFrame(rows, schema).persist()


def answers(frame, **columns) -> list:
    """Values of columns, in the order of the pairs."""
    return [tuple(row)[1:] for row in frame.select("n", *columns.values()).orderBy("n").collect()]


def side(name: str) -> tuple[Column, Column]:
    return F.col(f"{name}_hi"), F.col(f"{name}_lo")


def test_comparisons_as_columns(frame):
    found = answers(frame, lt=u128.lt(*side("a"), *side("b")), le=u128.le(*side("a"), *side("b")))
    assert found == [(a < b, a <= b) for a, b in PAIRS]


def test_unsigned_keeps_the_order_of_halves(frame):
    found = answers(frame, u=u128.unsigned(F.col("a_lo")), v=u128.unsigned(F.col("b_lo")))
    assert [u < v for u, v in found] == [a % 2**64 < b % 2**64 for a, b in PAIRS]
    assert [u for u, _ in found] == [a % 2**64 - 2**63 for a in A]


@pytest.mark.parametrize("b", BS)
def test_digits_as_columns(frame, b):
    places = (0, 1, 64 // b - 1, 64 // b, 128 // b - 1)
    columns = {str(p): u128.digit(*side("a"), F.lit(p), b) for p in places}
    moving = u128.digit(*side("a"), F.col("n") % (128 // b), b)
    found = answers(frame, **columns, moving=moving)
    for n, (a, row) in enumerate(zip(A, found, strict=True)):
        expected = digits(a, b)
        assert row == (*(expected[p] for p in places), expected[n % (128 // b)])


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
