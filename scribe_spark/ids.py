"""128-bit ring arithmetic on nodeIds and keys, as Columns and as numpy.

An id is the two halves of an unsigned 128-bit number, each held in a BIGINT (``hi``, ``lo``), so
bit patterns are kept and signed order is *not* ring order: comparisons flip the sign bit.  Digits
are base 2**b, most significant first.

References
----------
JSAC 2002, Section II: nodeIds and keys as sequences of digits with base 2**b.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = [
    "BITS",
    "digit",
    "digit_np",
    "distance",
    "half_of_digest",
    "is_closer",
    "le",
    "lt",
    "prefix_digits",
    "prefix_digits_np",
    "unsigned",
]

BITS = 128
_SIGN = -(2**63)
_LOW32 = 0xFFFFFFFF


def unsigned(half: Column) -> Column:
    """A BIGINT whose signed order is the unsigned order of `half`."""
    return half.bitwiseXOR(F.lit(_SIGN).cast("bigint"))


def lt(a_hi: Column, a_lo: Column, b_hi: Column, b_lo: Column) -> Column:
    """a < b as unsigned 128-bit numbers (BOOLEAN)."""
    return (unsigned(a_hi) < unsigned(b_hi)) | ((a_hi == b_hi) & (unsigned(a_lo) < unsigned(b_lo)))


def le(a_hi: Column, a_lo: Column, b_hi: Column, b_lo: Column) -> Column:
    """a <= b as unsigned 128-bit numbers (BOOLEAN)."""
    return (unsigned(a_hi) < unsigned(b_hi)) | ((a_hi == b_hi) & (unsigned(a_lo) <= unsigned(b_lo)))


def half_of_digest(digest_hex: Column, half: int) -> Column:
    """Half 0 (high) or 1 (low) of the first 128 bits of a hex digest, as BIGINT."""
    piece = F.substring(digest_hex, 1 + 16 * half, 16)
    return F.conv(piece, 16, -10).cast("bigint")


def digit(hi: Column, lo: Column, position: Column, b: int) -> Column:
    """The digit (INT, base 2**b) at `position` (INT, 0 = most significant)."""
    per_half = 64 // b
    in_low = position >= per_half
    half = F.when(in_low, lo).otherwise(hi)
    shift = F.lit(64 - b) - (position - F.when(in_low, per_half).otherwise(0)) * b
    shifted = F.call_function("shiftrightunsigned", half, shift.cast("int"))
    return shifted.bitwiseAND(F.lit(2**b - 1).cast("bigint")).cast("int")


def prefix_digits(a_hi: Column, a_lo: Column, b_hi: Column, b_lo: Column, b: int) -> Column:
    """How many leading digits a and b share (INT; 128 / b when they are equal)."""
    high, low = a_hi.bitwiseXOR(b_hi), a_lo.bitwiseXOR(b_lo)
    zeros = F.when(high == 0, F.lit(64) + _leading_zeros(low)).otherwise(_leading_zeros(high))
    return F.floor(zeros / b).cast("int")


def _leading_zeros(x: Column) -> Column:
    """Leading zero bits of a BIGINT (64 for 0): Spark has no clz.

    ``bin`` prints a BIGINT as unsigned binary without leading zeros.
    """
    return F.when(x == 0, 64).otherwise(F.lit(64) - F.length(F.bin(x)))


def distance(a_hi: Column, a_lo: Column, b_hi: Column, b_lo: Column) -> Column:
    """Least distance on the ring of 2**128, as STRUCT<hi, lo> whose order is the distance's order.

    Subtraction runs in four 32-bit limbs: under ANSI a BIGINT difference that overflows raises.
    """
    forth = _subtract(_limbs(a_hi, a_lo), _limbs(b_hi, b_lo))
    back = _subtract(_limbs(b_hi, b_lo), _limbs(a_hi, a_lo))
    return F.least(_pack(forth), _pack(back))


def is_closer(a: tuple[Column, Column], b: tuple[Column, Column], key: tuple[Column, Column]):
    """a is numerically closer to key than b: less ring distance, ties to the smaller id."""
    d_a, d_b = distance(*a, *key), distance(*b, *key)
    return (d_a < d_b) | ((d_a == d_b) & lt(*a, *b))


def _limbs(hi: Column, lo: Column) -> list[Column]:
    mask = F.lit(_LOW32).cast("bigint")
    high = [F.call_function("shiftrightunsigned", h, F.lit(32)) for h in (lo, hi)]
    return [lo.bitwiseAND(mask), high[0], hi.bitwiseAND(mask), high[1]]


def _subtract(a: list[Column], b: list[Column]) -> list[Column]:
    out, borrow = [], F.lit(0).cast("bigint")
    for x, y in zip(a, b, strict=True):
        d = x - y - borrow
        out.append(d.bitwiseAND(F.lit(_LOW32).cast("bigint")))
        borrow = F.call_function("shiftrightunsigned", d, F.lit(63))
    return out


def _pack(limbs: list[Column]) -> Column:
    hi = F.shiftleft(limbs[3], 32).bitwiseOR(limbs[2])
    lo = F.shiftleft(limbs[1], 32).bitwiseOR(limbs[0])
    return F.struct(unsigned(hi).alias("hi"), unsigned(lo).alias("lo"))


def digit_np(hi: np.ndarray, lo: np.ndarray, position: int, b: int) -> np.ndarray:
    """The digit at `position` of uint64 halves: int64, same shape."""
    per_half = 64 // b
    half, place = (hi, position) if position < per_half else (lo, position - per_half)
    shift = np.uint64(64 - b * (place + 1))
    return ((half >> shift) & np.uint64(2**b - 1)).astype(np.int64)


def prefix_digits_np(hi: np.ndarray, lo: np.ndarray, b: int) -> np.ndarray:
    """Digits shared by each id and the next, for sorted ids (uint64 halves): int64, length n - 1."""
    high, low = hi[1:] ^ hi[:-1], lo[1:] ^ lo[:-1]
    zeros = np.where(high != 0, _leading_zeros_np(high), 64 + _leading_zeros_np(low))
    return zeros // b


def _leading_zeros_np(x: np.ndarray) -> np.ndarray:
    n = np.zeros(x.shape, dtype=np.int64)
    rest = x.copy()
    for step in (32, 16, 8, 4, 2, 1):
        small = rest < (np.uint64(1) << np.uint64(64 - step))
        n += np.where(small, step, 0)
        rest = np.where(small, rest << np.uint64(step), rest)
    return np.where(x == 0, 64, n)
